/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "model/model_parts.h"
#include "model/positions.h"
#include "telemetry/timer.h"
#include "tp/tp.h"

/*
 * Attention, cut by heads: the product that makes queries, keys and values, their norms and rotary positions,
 * attention itself, and the output projection.
 *
 * Where there are more tensor ranks than key-value groups, a rank's heads need one group that other ranks need
 * too.  The rows of the first product's weight are cut evenly all the same, as Megatron-Core does it: its
 * columns are gathered, and each rank takes its queries and its group's key and value.
 */

static struct tr_heads_how heads_of(const struct tr_model *m)
{
    const struct tr_dims *d = m->dims;

    return (struct tr_heads_how){.heads = (int)(d->heads / m->layout->w),
                                 .groups = (int)tr_model_groups(m),
                                 .width = (int)d->head_dim};
}

static struct tr_attention_how how_of(const struct tr_model *m)
{
    const struct tr_family *f = &m->dims->family;
    /* Disentangled scores have three terms. */
    const double width = (double)m->dims->head_dim * (tr_relative_is(m) ? 3.0 : 1.0);
    const double divisor = f->score_divisor > 0.0 ? f->score_divisor : width;

    return (struct tr_attention_how){
        .first_head = (int)(m->dims->heads / m->layout->w) * m->tp.comm->rank,
        .scale = (float)(1.0 / sqrt(divisor)),
        .window = f->window,
        .slopes = m->slopes.data ? &m->slopes : NULL,
    };
}

static struct tr_rotary_how rotary_of(const struct tr_model *m, bool back)
{
    return (struct tr_rotary_how){.heads = heads_of(m),
                                  .rotary = (int)tr_rotary_width(m->dims),
                                  .pairs = m->dims->family.rotary_pairs,
                                  .back = back};
}

/* The first token that each token sees, or NULL when that is the first of the sample. */
static const struct tr_tensor *first_seen(const struct tr_model *m)
{
    return m->mask->from.data ? &m->mask->from : NULL;
}

static const struct tr_tensor *position_of(const struct tr_model *m)
{
    return m->mask->position.data ? &m->mask->position : &m->position;
}

void tr_attention_plan(struct tr_model *m, struct tr_arena *a, struct tr_attention_kept *k)
{
    const struct tr_heads_how h = heads_of(m);
    const int64_t rows = tr_model_rows(m), width = tr_model_qkv_width(m), t = m->tokens;

    if (m->dims->family.head_norm) {
        k->raw = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, width);
        k->head_rstd = tr_model_take(a, TR_LABEL_ACTIVATIONS, TR_F32, rows, h.heads + h.groups);
    }
    k->qkv = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, width);
    if (tr_relative_is(m))
        tr_relative_plan(m, a, k);
    k->lse = tr_f32_3(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, m->micro_batch * h.heads * t),
                      m->micro_batch, h.heads, t);
    k->ctx = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, (int64_t)h.heads * h.width);
}

/* ---- more tensor ranks than groups ---- */

/* Block r of m->gathered has column r C/W .. of all rows.  Columns from .. from + count - 1 of all, and this
   rank's columns from `to` on, are exchanged: into `mine`, or out of it. */
static void exchange(struct tr_model *m, const struct tr_tensor *mine, int64_t to, int64_t from,
                     int64_t count, bool out)
{
    const int64_t rows = tr_model_rows(m), width = m->gathered.dim[1];

    while (count > 0) {
        const int64_t block = from / width, at = from % width;
        const int64_t n = count < width - at ? count : width - at;
        struct tr_tensor there = tr_tensor_span(&m->gathered, block * rows * width, rows * width);

        there = tr_tensor_2(there.data, there.dtype, rows, width);
        if (out)
            m->q->on->columns(m->q, &there, mine, at, to, n);
        else
            m->q->on->columns(m->q, mine, &there, to, at, n);
        from += n;
        to += n;
        count -= n;
    }
}

/* The queries of this rank's heads, and the key and value of their group. */
static void exchange_heads(struct tr_model *m, const struct tr_tensor *mine, bool out)
{
    const struct tr_heads_how h = heads_of(m);
    const int64_t d = h.width, each = m->dims->heads / m->dims->groups;
    const int64_t sharing = m->layout->w / m->dims->groups, rank = m->tp.comm->rank;
    const int64_t group = rank / sharing * (each + 2) * d, mine_width = h.heads * d;

    exchange(m, mine, 0, group + rank % sharing * mine_width, mine_width, out);
    exchange(m, mine, mine_width, group + each * d, 2 * d, out);
}

/* This rank's columns of the product. */
static struct tr_tensor own_columns(struct tr_model *m)
{
    const int64_t rows = tr_model_rows(m), width = m->gathered.dim[1];
    struct tr_tensor x =
        tr_tensor_span(&m->gathered, m->tp.comm->rank * rows * width, rows * width);

    return tr_tensor_2(x.data, x.dtype, rows, width);
}

/* to = input w^T + bias, for this rank's heads. */
static void make_qkv(struct tr_model *m, const struct tr_tensor *to, const struct tr_tensor *in,
                     int layer)
{
    struct tr_tensor w = tr_model_value(m, TR_PARAM_QKV_WEIGHT, layer), bias;
    struct tr_tensor product = m->gathered.data ? own_columns(m) : *to;
    struct tr_queue *q = m->q;

    q->on->linear(q, &product, NULL, in, &w, tr_model_bias(m, &bias, TR_PARAM_QKV_BIAS, layer),
                  TR_ACT_NONE);
    if (!m->gathered.data)
        return;
    tr_timers_own_pause();
    m->tp.comm->via->allgather(m->tp.comm, q, &m->gathered);
    tr_timers_own_resume();
    exchange_heads(m, to, false);
}

/* The gradient of what make_qkv() made of m->dqkv: m->dqkv itself, or this rank's columns of the sum over the
   ranks. */
static struct tr_tensor gradient_of_product(struct tr_model *m)
{
    if (!m->gathered.data)
        return m->dqkv;
    m->q->on->fill(m->q, &m->gathered, 0.0F);
    exchange_heads(m, &m->dqkv, true);
    tr_timers_own_pause();
    m->tp.comm->via->reduce_scatter(m->tp.comm, m->q, &m->dproduct, &m->gathered, TR_SUM);
    tr_timers_own_resume();
    return m->dproduct;
}

/* ---- forward ---- */

/* Norms of queries and keys, where the family has them, and rotary positions. */
static void finish_heads(struct tr_model *m, struct tr_attention_kept *k, int layer)
{
    struct tr_queue *q = m->q;

    if (m->dims->family.head_norm) {
        struct tr_tensor q_gain = tr_model_value(m, TR_PARAM_Q_GAIN, layer);
        struct tr_tensor k_gain = tr_model_value(m, TR_PARAM_K_GAIN, layer);

        q->on->head_norm(q, &k->qkv, &k->head_rstd, &k->raw, &q_gain, &k_gain, heads_of(m),
                         m->norm);
    }
    if (m->angles.data)
        q->on->rotary(q, &k->qkv, &k->qkv, &m->angles, position_of(m), rotary_of(m, false));
}

void tr_attention_forward(struct tr_model *m, struct tr_block_kept *block, int layer,
                          const struct tr_tensor *in, const int64_t *sample, bool whole)
{
    struct tr_attention_kept *k = &block->attention;
    struct tr_tensor proj = tr_model_value(m, TR_PARAM_PROJ_WEIGHT, layer);
    struct tr_queue *q = m->q;

    make_qkv(m, m->dims->family.head_norm ? &k->raw : &k->qkv, in, layer);
    finish_heads(m, k, layer);
    if (tr_relative_is(m))
        tr_relative_forward(m, k, layer, sample, how_of(m));
    else if (m->cache)
        q->on->attention_cached(q, &k->ctx, m->cache, &k->qkv, &m->mask->place, how_of(m));
    else
        q->on->attention(q, &k->ctx, &k->lse, &k->qkv, first_seen(m), how_of(m),
                         tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
    if (whole)
        q->on->linear(q, &m->row, NULL, &k->ctx, &proj, NULL, TR_ACT_NONE);
}

/* ---- backward ---- */

static void finish_heads_bwd(struct tr_model *m, struct tr_attention_kept *k, int layer)
{
    struct tr_queue *q = m->q;

    if (m->angles.data)
        q->on->rotary(q, &m->dqkv, &m->dqkv, &m->angles, position_of(m), rotary_of(m, true));
    if (m->dims->family.head_norm) {
        struct tr_tensor q_gain = tr_model_value(m, TR_PARAM_Q_GAIN, layer);
        struct tr_tensor k_gain = tr_model_value(m, TR_PARAM_K_GAIN, layer);
        struct tr_tensor dq_gain = tr_model_grad(m, TR_PARAM_Q_GAIN, layer);
        struct tr_tensor dk_gain = tr_model_grad(m, TR_PARAM_K_GAIN, layer);

        q->on->head_norm_bwd(q, &m->dqkv, &dq_gain, &dk_gain, &m->dqkv, &k->raw, &q_gain, &k_gain,
                             &k->head_rstd, heads_of(m), m->norm);
    }
}

void tr_attention_dgrad(struct tr_model *m, struct tr_block_kept *block, int layer,
                        const struct tr_tensor *dy, const int64_t *sample)
{
    struct tr_attention_kept *k = &block->attention;
    struct tr_tensor qkv = tr_model_value(m, TR_PARAM_QKV_WEIGHT, layer);
    struct tr_tensor proj = tr_model_value(m, TR_PARAM_PROJ_WEIGHT, layer), dproduct;
    struct tr_queue *q = m->q;

    q->on->linear_dgrad(q, &m->dctx, dy, &proj, NULL, TR_ACT_NONE);
    if (tr_relative_is(m))
        tr_relative_dgrad(m, k, layer, sample, how_of(m));
    else
        q->on->attention_bwd(q, &m->dqkv, &m->dctx, &k->ctx, &k->lse, &k->qkv, first_seen(m),
                             how_of(m), tr_model_dropout(m, TR_STREAM_ATTN_DROPOUT, layer, sample));
    finish_heads_bwd(m, k, layer);
    dproduct = gradient_of_product(m);
    q->on->linear_dgrad(q, &m->row2, &dproduct, &qkv, NULL, TR_ACT_NONE);
}

struct tr_tensor tr_attention_dfirst(const struct tr_model *m)
{
    return m->gathered.data ? m->dproduct : m->dqkv;
}

/* The columns of a rank are no more than those of its heads. */
struct tr_tensor tr_attention_late(const struct tr_model *m, const struct tr_block_kept *k)
{
    return tr_model_as_wide(&k->attention.qkv, tr_attention_dfirst(m).dim[1]);
}

void tr_attention_wgrad(struct tr_model *m, struct tr_block_kept *block, int layer,
                        const struct tr_tensor *dfirst, const struct tr_tensor *dy,
                        const struct tr_tensor *in, bool bias)
{
    struct tr_tensor dqkv = tr_model_grad(m, TR_PARAM_QKV_WEIGHT, layer), dqkv_bias;
    struct tr_tensor dproj = tr_model_grad(m, TR_PARAM_PROJ_WEIGHT, layer), dproj_bias;
    struct tr_queue *q = m->q;

    q->on->linear_wgrad(q, &dqkv, tr_model_dbias(m, &dqkv_bias, TR_PARAM_QKV_BIAS, layer), dfirst,
                        in, m->adds);
    if (tr_relative_is(m))
        tr_relative_wgrad(m, layer);
    q->on->linear_wgrad(q, &dproj,
                        bias ? tr_model_dbias(m, &dproj_bias, TR_PARAM_PROJ_BIAS, layer) : NULL, dy,
                        &block->attention.ctx, m->adds);
}
