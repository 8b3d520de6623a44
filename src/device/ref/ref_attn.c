/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>

#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* What one head of one sample has of an operand: row i begins at element first + i * stride. */
struct slice {
    const struct tr_tensor *of;
    int64_t first, stride;
};

struct head {
    struct slice q, k, v;
    const int32_t *from; /* first key that each query sees, or NULL */
    int64_t t, d;
    double scale;
    const struct tr_dropout *drop;
    struct tr_rng rng;
    uint64_t draws; /* draw of (query 0, key 0) */
};

/* Part `part` of head h where every head has `parts` times d numbers in a row of `x`. */
static struct slice slice_of(const struct tr_tensor *x, struct tr_attention_sizes s, int64_t b,
                             int64_t h, int parts, int part)
{
    int64_t stride = parts * s.heads * s.d;

    return (struct slice){x, b * s.t * stride + (h * parts + part) * s.d, stride};
}

static struct head head_of(const struct tr_tensor *qkv, const struct tr_tensor *from,
                           struct tr_attention_sizes s, int64_t b, int64_t h,
                           struct tr_attention_how how, const struct tr_dropout *drop)
{
    struct head a = {.q = slice_of(qkv, s, b, h, 3, 0),
                     .k = slice_of(qkv, s, b, h, 3, 1),
                     .v = slice_of(qkv, s, b, h, 3, 2),
                     .t = s.t,
                     .d = s.d,
                     .scale = (double)how.scale,
                     .drop = drop,
                     .draws = (uint64_t)((how.first_head + h) * s.t * s.t)};

    if (from)
        a.from = tr_i32(from) + b * s.t;
    if (drop->p > 0.0)
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
    return a;
}

static double at(struct slice x, int64_t row, int64_t d)
{
    return get(x.of, x.first + row * x.stride + d);
}

static void put(struct slice x, int64_t row, int64_t d, double value)
{
    set(x.of, x.first + row * x.stride + d, value);
}

/* Row i of x times row j of y. */
static double dot(struct slice x, int64_t i, struct slice y, int64_t j, int64_t n)
{
    double sum = 0.0;

    for (int64_t d = 0; d < n; d++)
        sum += at(x, i, d) * at(y, j, d);
    return sum;
}

static int64_t first_key(const struct head *a, int64_t query)
{
    int64_t key = a->from ? a->from[query] : 0;

    TR_ASSERT(key >= 0 && key <= query);
    return key;
}

static double score(const struct head *a, int64_t query, int64_t key)
{
    return a->scale * dot(a->q, query, a->k, key, a->d);
}

/* What the probability of (query, key) is multiplied by. */
static double keep(const struct head *a, int64_t query, int64_t key)
{
    if (a->drop->p == 0.0)
        return 1.0;
    if (tr_rng_u32(a->rng, a->draws + (uint64_t)(query * a->t + key)) <
        tr_rng_threshold(a->drop->p))
        return 0.0;
    return 1.0 / (1.0 - a->drop->p);
}

void tr_ref_attention(struct tr_queue *q, const struct tr_tensor *ctx, const struct tr_tensor *lse,
                      const struct tr_tensor *qkv, const struct tr_tensor *from,
                      struct tr_attention_how how, struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);

    (void)q;
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        int64_t b = bh / s.heads, h = bh % s.heads;
        struct head a = head_of(qkv, from, s, b, h, how, &drop);
        struct slice out = slice_of(ctx, s, b, h, 1, 0);

        for (int64_t i = 0; i < s.t; i++) {
            double acc[TR_MAX_HEAD_DIM] = {0.0}, max = -INFINITY, sum = 0.0;

            for (int64_t j = first_key(&a, i); j <= i; j++)
                max = fmax(max, score(&a, i, j));
            for (int64_t j = first_key(&a, i); j <= i; j++) {
                double p = exp(score(&a, i, j) - max), kept = p * keep(&a, i, j);

                sum += p;
                for (int64_t d = 0; d < s.d; d++)
                    acc[d] += kept * at(a.v, j, d);
            }
            for (int64_t d = 0; d < s.d; d++)
                put(out, i, d, acc[d] / sum);
            set(lse, bh * s.t + i, max + log(sum));
        }
    }
}

struct gradients {
    struct slice dq, dk, dv, dctx, ctx;
    const float *lse;
};

/* The gradient of one head: with p the probability and m what dropout multiplies it by,
   dv_j = sum_i p m dctx_i; ds = p (m dctx_i . v_j - dctx_i . ctx_i); dq_i = scale sum_j ds k_j;
   dk_j = scale sum_i ds q_i. */
static void head_bwd(const struct head *a, const struct gradients *g)
{
    for (int64_t i = 0; i < a->t; i++) {
        double acc[TR_MAX_HEAD_DIM] = {0.0}, delta = dot(g->dctx, i, g->ctx, i, a->d);

        for (int64_t j = first_key(a, i); j <= i; j++) {
            double p = exp(score(a, i, j) - (double)g->lse[i]);
            double dp = dot(g->dctx, i, a->v, j, a->d) * keep(a, i, j);

            for (int64_t d = 0; d < a->d; d++)
                acc[d] += p * (dp - delta) * at(a->k, j, d);
        }
        for (int64_t d = 0; d < a->d; d++)
            put(g->dq, i, d, a->scale * acc[d]);
    }
    for (int64_t j = 0; j < a->t; j++) {
        double to_k[TR_MAX_HEAD_DIM] = {0.0}, to_v[TR_MAX_HEAD_DIM] = {0.0};

        for (int64_t i = j; i < a->t; i++) {
            double delta = dot(g->dctx, i, g->ctx, i, a->d), kept = keep(a, i, j);
            double dp = dot(g->dctx, i, a->v, j, a->d) * kept, p;

            if (first_key(a, i) > j)
                continue;
            p = exp(score(a, i, j) - (double)g->lse[i]);
            for (int64_t d = 0; d < a->d; d++) {
                to_k[d] += p * (dp - delta) * at(a->q, i, d);
                to_v[d] += p * kept * at(g->dctx, i, d);
            }
        }
        for (int64_t d = 0; d < a->d; d++) {
            put(g->dk, j, d, a->scale * to_k[d]);
            put(g->dv, j, d, to_v[d]);
        }
    }
}

void tr_ref_attention_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                          const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                          const struct tr_tensor *lse, const struct tr_tensor *qkv,
                          const struct tr_tensor *from, struct tr_attention_how how,
                          struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);

    (void)q;
    tr_sizes_attention(dctx, lse, dqkv, from, how, &drop);
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        int64_t b = bh / s.heads, h = bh % s.heads;
        struct head a = head_of(qkv, from, s, b, h, how, &drop);

        head_bwd(&a, &(struct gradients){.dq = slice_of(dqkv, s, b, h, 3, 0),
                                         .dk = slice_of(dqkv, s, b, h, 3, 1),
                                         .dv = slice_of(dqkv, s, b, h, 3, 2),
                                         .dctx = slice_of(dctx, s, b, h, 1, 0),
                                         .ctx = slice_of(ctx, s, b, h, 1, 0),
                                         .lse = tr_f32(lse) + bh * s.t});
    }
}
