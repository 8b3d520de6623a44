/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "model/model_parts.h"
#include "tp/tp.h"

static struct tr_tensor column(struct tr_arena *a, int64_t rows)
{
    return tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, rows), rows);
}

void tr_block_plan_input(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    k->x =
        tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, tr_model_part_rows(m), m->dims->hidden);
}

void tr_block_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    int64_t local = m->dims->hidden / m->layout->w, inner = m->dims->ffn / m->layout->w,
            heads = m->dims->heads / m->layout->w;
    int64_t rows = tr_model_rows(m), part = tr_model_part_rows(m);

    k->norm1 = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, m->dims->hidden);
    k->mean1 = column(a, part);
    k->rstd1 = column(a, part);
    k->qkv = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, 3 * local);
    k->lse =
        tr_f32_3(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, m->micro_batch * heads * m->dims->seq),
                 m->micro_batch, heads, m->dims->seq);
    k->ctx = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, local);
    k->s = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, part, m->dims->hidden);
    k->norm2 = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, m->dims->hidden);
    k->mean2 = column(a, part);
    k->rstd2 = column(a, part);
    k->pre = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, inner);
    k->act = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, inner);
}

static struct tr_attention_how how_of(const struct tr_model *m)
{
    return (struct tr_attention_how){.first_head =
                                         (int)(m->dims->heads / m->layout->w) * m->tp.comm->rank,
                                     .scale = (float)(1.0 / sqrt((double)m->dims->head_dim))};
}

/* The first token that each token sees, or NULL when that is the first of the sample. */
static const struct tr_tensor *first_seen(const struct tr_model *m)
{
    return m->mask->from.data ? &m->mask->from : NULL;
}

/* Ends with the norm of the MLP, which reads what the residual addition leaves in the cache. */
static void attention_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                              const int64_t *sample)
{
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_LN1_GAIN, layer);
    struct tr_tensor shift = tr_model_value(m, TR_PARAM_LN1_BIAS, layer);
    struct tr_tensor qkv = tr_model_value(m, TR_PARAM_QKV_WEIGHT, layer);
    struct tr_tensor qkv_bias = tr_model_value(m, TR_PARAM_QKV_BIAS, layer);
    struct tr_tensor proj = tr_model_value(m, TR_PARAM_PROJ_WEIGHT, layer);
    struct tr_tensor proj_bias = tr_model_value(m, TR_PARAM_PROJ_BIAS, layer);
    struct tr_tensor gain2 = tr_model_value(m, TR_PARAM_LN2_GAIN, layer);
    struct tr_tensor shift2 = tr_model_value(m, TR_PARAM_LN2_BIAS, layer);
    struct tr_queue *q = m->q;

    q->on->norm(q, &k->norm1, &k->mean1, &k->rstd1, &k->x, &gain, &shift, m->norm);
    q->on->linear(q, &k->qkv, NULL, tr_model_whole(m, &k->norm1), &qkv, &qkv_bias, TR_ACT_NONE);
    q->on->attention(q, &k->ctx, &k->lse, &k->qkv, first_seen(m), how_of(m),
                     tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
    q->on->linear(q, &m->row, NULL, &k->ctx, &proj, NULL, TR_ACT_NONE);
    tr_tp_leave_fwd(&m->tp, q, &m->row_part, &m->row);
    q->on->residual_norm(q, &k->s, &k->norm2, &k->mean2, &k->rstd2, &k->x, &m->row_part, &proj_bias,
                         &gain2, &shift2, m->norm,
                         tr_model_dropout(m, TR_STREAM_ATTN_OUT_DROPOUT, layer, sample));
}

/* From the normed s. */
static void mlp_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                        const struct tr_tensor *y, const int64_t *sample)
{
    struct tr_tensor fc1 = tr_model_value(m, TR_PARAM_FC1_WEIGHT, layer);
    struct tr_tensor fc1_bias = tr_model_value(m, TR_PARAM_FC1_BIAS, layer);
    struct tr_tensor fc2 = tr_model_value(m, TR_PARAM_FC2_WEIGHT, layer);
    struct tr_tensor fc2_bias = tr_model_value(m, TR_PARAM_FC2_BIAS, layer);
    struct tr_queue *q = m->q;

    q->on->linear(q, &k->act, &k->pre, tr_model_whole(m, &k->norm2), &fc1, &fc1_bias,
                  m->dims->family.act);
    if (!y)
        return;
    q->on->linear(q, &m->row, NULL, &k->act, &fc2, NULL, TR_ACT_NONE);
    tr_tp_leave_fwd(&m->tp, q, &m->row_part, &m->row);
    q->on->residual(q, y, &k->s, &m->row_part, &fc2_bias,
                    tr_model_dropout(m, TR_STREAM_MLP_OUT_DROPOUT, layer, sample));
}

void tr_block_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                      const struct tr_tensor *y, const int64_t *sample)
{
    attention_forward(m, k, layer, sample);
    mlp_forward(m, k, layer, y, sample);
}

/* Whether the gradient of the residual is that of the product before it: nothing is dropped, converted or
   gathered.  The bias is then summed beside the gradient of the weights. */
static bool passes_on(const struct tr_model *m, const struct tr_tensor *dy, struct tr_dropout drop)
{
    return drop.p == 0.0 && dy->dtype == m->type && !m->tp.sequence;
}

/* Else: in m->row, on every tensor rank whole, and the bias is done. */
static struct tr_tensor through_residual(struct tr_model *m, const struct tr_tensor *dbias,
                                         const struct tr_tensor *dy, struct tr_dropout drop)
{
    m->q->on->residual_bwd(m->q, &m->row_part, dbias, dy, drop);
    tr_tp_leave_bwd(&m->tp, m->q, &m->row, &m->row_part);
    return m->row;
}

/* dx (the gradient at s) from dy; both may be the same memory. */
static void mlp_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                         const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const int64_t *sample)
{
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_LN2_GAIN, layer);
    struct tr_tensor dgain = tr_model_grad(m, TR_PARAM_LN2_GAIN, layer);
    struct tr_tensor dshift = tr_model_grad(m, TR_PARAM_LN2_BIAS, layer);
    struct tr_tensor fc1 = tr_model_value(m, TR_PARAM_FC1_WEIGHT, layer);
    struct tr_tensor dfc1 = tr_model_grad(m, TR_PARAM_FC1_WEIGHT, layer);
    struct tr_tensor dfc1_bias = tr_model_grad(m, TR_PARAM_FC1_BIAS, layer);
    struct tr_tensor fc2 = tr_model_value(m, TR_PARAM_FC2_WEIGHT, layer);
    struct tr_tensor dfc2 = tr_model_grad(m, TR_PARAM_FC2_WEIGHT, layer);
    struct tr_tensor dfc2_bias = tr_model_grad(m, TR_PARAM_FC2_BIAS, layer);
    const struct tr_dropout drop = tr_model_dropout(m, TR_STREAM_MLP_OUT_DROPOUT, layer, sample);
    const bool same = passes_on(m, dy, drop);
    const struct tr_tensor *normed;
    struct tr_pending gather, sum;
    struct tr_queue *q = m->q;
    struct tr_tensor row;

    row = same ? *dy : through_residual(m, &dfc2_bias, dy, drop);
    normed = tr_model_whole_start(m, &k->norm2, &gather);
    q->on->linear_dgrad(q, &m->wide, &row, &fc2, &k->pre, m->dims->family.act);
    q->on->linear_dgrad(q, &m->row2, &m->wide, &fc1, NULL, TR_ACT_NONE);
    tr_tp_finish(&m->tp, q, &gather);
    tr_tp_enter_bwd_start(&m->tp, q, &m->row2_part, &m->row2, &sum);
    q->on->linear_wgrad(q, &dfc1, &dfc1_bias, &m->wide, normed, m->adds);
    q->on->linear_wgrad(q, &dfc2, same ? &dfc2_bias : NULL, &row, &k->act, m->adds);
    tr_tp_finish(&m->tp, q, &sum);
    q->on->norm_bwd(q, dx, &dgain, &dshift, &m->row2_part, dy, &k->s, &gain, &k->mean2, &k->rstd2,
                    m->norm);
}

/* In place: dx holds the gradient at s and becomes the gradient at x. */
static void attention_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                               const struct tr_tensor *dx, const int64_t *sample)
{
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_LN1_GAIN, layer);
    struct tr_tensor dgain = tr_model_grad(m, TR_PARAM_LN1_GAIN, layer);
    struct tr_tensor dshift = tr_model_grad(m, TR_PARAM_LN1_BIAS, layer);
    struct tr_tensor qkv = tr_model_value(m, TR_PARAM_QKV_WEIGHT, layer);
    struct tr_tensor dqkv = tr_model_grad(m, TR_PARAM_QKV_WEIGHT, layer);
    struct tr_tensor dqkv_bias = tr_model_grad(m, TR_PARAM_QKV_BIAS, layer);
    struct tr_tensor proj = tr_model_value(m, TR_PARAM_PROJ_WEIGHT, layer);
    struct tr_tensor dproj = tr_model_grad(m, TR_PARAM_PROJ_WEIGHT, layer);
    struct tr_tensor dproj_bias = tr_model_grad(m, TR_PARAM_PROJ_BIAS, layer);
    const struct tr_dropout drop = tr_model_dropout(m, TR_STREAM_ATTN_OUT_DROPOUT, layer, sample);
    const bool same = passes_on(m, dx, drop);
    const struct tr_tensor *normed;
    struct tr_pending gather, sum;
    struct tr_queue *q = m->q;
    struct tr_tensor row;

    row = same ? *dx : through_residual(m, &dproj_bias, dx, drop);
    normed = tr_model_whole_start(m, &k->norm1, &gather);
    q->on->linear_dgrad(q, &m->dctx, &row, &proj, NULL, TR_ACT_NONE);
    q->on->attention_bwd(q, &m->dqkv, &m->dctx, &k->ctx, &k->lse, &k->qkv, first_seen(m), how_of(m),
                         tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
    q->on->linear_dgrad(q, &m->row2, &m->dqkv, &qkv, NULL, TR_ACT_NONE);
    tr_tp_finish(&m->tp, q, &gather);
    tr_tp_enter_bwd_start(&m->tp, q, &m->row2_part, &m->row2, &sum);
    q->on->linear_wgrad(q, &dqkv, &dqkv_bias, &m->dqkv, normed, m->adds);
    q->on->linear_wgrad(q, &dproj, same ? &dproj_bias : NULL, &row, &k->ctx, m->adds);
    tr_tp_finish(&m->tp, q, &sum);
    q->on->norm_bwd(q, dx, &dgain, &dshift, &m->row2_part, dx, &k->x, &gain, &k->mean1, &k->rstd1,
                    m->norm);
}

void tr_block_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                       const struct tr_tensor *dx, const struct tr_tensor *dy,
                       const int64_t *sample)
{
    mlp_backward(m, k, layer, dx, dy, sample);
    attention_backward(m, k, layer, dx, sample);
}
