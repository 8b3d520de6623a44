/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"
#include "config/relative.h"

/*
 * Disentangled attention (He et al., "DeBERTa", 2021): scores also have products of tokens with relative positions.
 * Those have a table, normed and dropped as hidden states are, which each layer's own product makes into queries and
 * keys, for this rank's heads as those of tokens.  The table and its norm are frozen: the gradient ends at the
 * weights of that product.  Of the table only rows of distances are used that there are in T tokens.
 */

bool tr_relative_is(const struct tr_model *m)
{
    return m->dims->family.positions == TR_POSITIONS_DISENTANGLED;
}

static int64_t rows_of(const struct tr_model *m)
{
    return tr_relative_rows(m->dims, m->tokens);
}

void tr_relative_plan(struct tr_model *m, struct tr_arena *a, struct tr_attention_kept *k)
{
    k->rel = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows_of(m), tr_model_qkv_width(m));
}

void tr_relative_plan_scratch(struct tr_model *m, struct tr_arena *a)
{
    const int64_t rows = rows_of(m);

    m->normed = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, m->dims->hidden);
    for (int i = 0; i < 2; i++)
        m->normed_stats[i] = tr_f32_1(tr_arena_floats(a, TR_LABEL_SCRATCH, rows), rows);
    if (!m->forward_only)
        m->drel = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, tr_model_qkv_width(m));
}

/* The rows of the table that are used become m->normed. */
static void make_normed(struct tr_model *m, int layer, const int64_t *sample)
{
    const int64_t rows = m->normed.dim[0], hidden = m->dims->hidden;
    const int64_t first = tr_relative_first(m->dims, m->tokens);
    struct tr_tensor table = tr_model_value(m, TR_PARAM_RELATIVE_TABLE, -1);
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_RELATIVE_GAIN, -1);
    struct tr_tensor shift = tr_model_value(m, TR_PARAM_RELATIVE_BIAS, -1);
    struct tr_dropout drop = tr_model_dropout(m, TR_STREAM_RELATIVE_DROPOUT, layer, sample);

    drop.tokens = 2 * m->dims->family.position_buckets;
    drop.first_row = first;
    table = tr_tensor_span(&table, first * hidden, rows * hidden);
    table = tr_tensor_2(table.data, table.dtype, rows, hidden);
    m->q->on->norm(m->q, &m->normed, &m->normed_stats[0], &m->normed_stats[1], &table, &gain,
                   &shift, m->norm);
    if (drop.p > 0.0)
        m->q->on->dropout(m->q, &m->normed, drop);
}

static struct tr_relative operands(const struct tr_model *m, const struct tr_attention_kept *k)
{
    return (struct tr_relative){
        .rel = &k->rel,
        .bucket = &m->bucket,
        .lengths = m->mask->lengths.data ? &m->mask->lengths : NULL,
    };
}

void tr_relative_forward(struct tr_model *m, struct tr_attention_kept *k, int layer,
                         const int64_t *sample, struct tr_attention_how how)
{
    struct tr_tensor w = tr_model_value(m, TR_PARAM_QKV_WEIGHT, layer), bias;
    const struct tr_relative to = operands(m, k);

    make_normed(m, layer, sample);
    m->q->on->linear(m->q, &k->rel, NULL, &m->normed, &w,
                     tr_model_bias(m, &bias, TR_PARAM_QKV_BIAS, layer), TR_ACT_NONE);
    m->q->on->attention_relative(m->q, &k->ctx, &k->lse, &k->qkv, &to, how,
                                 tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
}

void tr_relative_dgrad(struct tr_model *m, struct tr_attention_kept *k, int layer,
                       const int64_t *sample, struct tr_attention_how how)
{
    const struct tr_relative to = operands(m, k);

    m->q->on->attention_relative_bwd(m->q, &m->dqkv, &m->drel, &m->dctx, &k->ctx, &k->lse, &k->qkv,
                                     &to, how,
                                     tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
    make_normed(m, layer, sample);
}

void tr_relative_wgrad(struct tr_model *m, int layer)
{
    struct tr_tensor dw = tr_model_grad(m, TR_PARAM_QKV_WEIGHT, layer), dbias;

    m->q->on->linear_wgrad(m->q, &dw, tr_model_dbias(m, &dbias, TR_PARAM_QKV_BIAS, layer), &m->drel,
                           &m->normed, true);
}
