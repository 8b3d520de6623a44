/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"

/* The MLP, cut by its inner width: two products with an activation between them, which may be gated
   (family/acts.def). */

void tr_mlp_plan(struct tr_model *m, struct tr_arena *a, struct tr_mlp_kept *k)
{
    const int64_t rows = tr_model_rows(m);

    k->pre = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, tr_model_mlp_width(m));
    k->act = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, m->dims->ffn / m->layout->w);
}

void tr_mlp_forward(struct tr_model *m, struct tr_block_kept *block, int layer,
                    const struct tr_tensor *in, const int64_t *sample, bool whole)
{
    struct tr_mlp_kept *k = &block->mlp;
    struct tr_tensor fc1 = tr_model_value(m, TR_PARAM_FC1_WEIGHT, layer), bias;
    struct tr_tensor fc2 = tr_model_value(m, TR_PARAM_FC2_WEIGHT, layer);
    struct tr_queue *q = m->q;

    (void)sample;
    q->on->linear(q, &k->act, &k->pre, in, &fc1, tr_model_bias(m, &bias, TR_PARAM_FC1_BIAS, layer),
                  m->dims->family.act);
    if (whole)
        q->on->linear(q, &m->row, NULL, &k->act, &fc2, NULL, TR_ACT_NONE);
}

void tr_mlp_dgrad(struct tr_model *m, struct tr_block_kept *block, int layer,
                  const struct tr_tensor *dy, const int64_t *sample)
{
    struct tr_tensor fc1 = tr_model_value(m, TR_PARAM_FC1_WEIGHT, layer);
    struct tr_tensor fc2 = tr_model_value(m, TR_PARAM_FC2_WEIGHT, layer);
    struct tr_queue *q = m->q;

    (void)sample;
    q->on->linear_dgrad(q, &m->wide, dy, &fc2, &block->mlp.pre, m->dims->family.act);
    q->on->linear_dgrad(q, &m->row2, &m->wide, &fc1, NULL, TR_ACT_NONE);
}

struct tr_tensor tr_mlp_dfirst(const struct tr_model *m)
{
    return m->wide;
}

struct tr_tensor tr_mlp_late(const struct tr_model *m, const struct tr_block_kept *k)
{
    (void)m;
    return k->mlp.pre;
}

void tr_mlp_wgrad(struct tr_model *m, struct tr_block_kept *block, int layer,
                  const struct tr_tensor *dfirst, const struct tr_tensor *dy,
                  const struct tr_tensor *in, bool bias)
{
    struct tr_tensor dfc1 = tr_model_grad(m, TR_PARAM_FC1_WEIGHT, layer), dfc1_bias;
    struct tr_tensor dfc2 = tr_model_grad(m, TR_PARAM_FC2_WEIGHT, layer), dfc2_bias;
    struct tr_queue *q = m->q;

    q->on->linear_wgrad(q, &dfc1, tr_model_dbias(m, &dfc1_bias, TR_PARAM_FC1_BIAS, layer), dfirst,
                        in, m->adds);
    q->on->linear_wgrad(q, &dfc2,
                        bias ? tr_model_dbias(m, &dfc2_bias, TR_PARAM_FC2_BIAS, layer) : NULL, dy,
                        &block->mlp.act, m->adds);
}
