/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref.h"

#include <math.h>

#include "device/sizes.h"

/* One head of one sample. */
struct head {
    const float *q, *k, *v; /* row t at + t * stride */
    const int32_t *from;    /* first key that each query sees, or NULL */
    int64_t stride, t, d;
    double scale;
    const struct tr_dropout *drop;
    struct tr_rng rng;
    uint64_t draws; /* draw of (query 0, key 0) */
};

static struct head head_of(const struct tr_tensor *qkv, const struct tr_tensor *from,
                           struct tr_attention_sizes s, int64_t b, int64_t h, int first_head,
                           float scale, const struct tr_dropout *drop)
{
    struct head a = {
        .stride = 3 * s.heads * s.d, .t = s.t, .d = s.d, .scale = (double)scale, .drop = drop};

    a.q = tr_f32(qkv) + b * s.t * a.stride + h * 3 * s.d;
    a.k = a.q + s.d;
    a.v = a.k + s.d;
    if (from)
        a.from = tr_i32(from) + b * s.t;
    a.draws = (uint64_t)((first_head + h) * s.t * s.t);
    if (drop->p > 0.0)
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
    return a;
}

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
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
    return a->scale * dot(a->q + query * a->stride, a->k + key * a->stride, a->d);
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
                      const struct tr_tensor *qkv, const struct tr_tensor *from, int first_head,
                      float scale, struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, &drop);

    (void)q;
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        int64_t b = bh / s.heads, h = bh % s.heads;
        struct head a = head_of(qkv, from, s, b, h, first_head, scale, &drop);

        for (int64_t i = 0; i < s.t; i++) {
            float *out = tr_f32(ctx) + (b * s.t + i) * s.heads * s.d + h * s.d;
            double acc[TR_MAX_HEAD_DIM] = {0.0}, max = -INFINITY, sum = 0.0;

            for (int64_t j = first_key(&a, i); j <= i; j++)
                max = fmax(max, score(&a, i, j));
            for (int64_t j = first_key(&a, i); j <= i; j++) {
                double p = exp(score(&a, i, j) - max), kept = p * keep(&a, i, j);

                sum += p;
                for (int64_t d = 0; d < s.d; d++)
                    acc[d] += kept * (double)a.v[j * a.stride + d];
            }
            for (int64_t d = 0; d < s.d; d++)
                out[d] = (float)(acc[d] / sum);
            tr_f32(lse)[bh * s.t + i] = (float)(max + log(sum));
        }
    }
}

/* The gradient of one head: with p the probability and m what dropout multiplies it by,
   dv_j = sum_i p m dctx_i; ds = p (m dctx_i . v_j - dctx_i . ctx_i); dq_i = scale sum_j ds k_j;
   dk_j = scale sum_i ds q_i. */
static void head_bwd(const struct head *a, float *dq, const float *dctx, const float *ctx,
                     int64_t row, const float *lse)
{
    for (int64_t i = 0; i < a->t; i++) {
        double acc[TR_MAX_HEAD_DIM] = {0.0}, delta = dot(dctx + i * row, ctx + i * row, a->d);

        for (int64_t j = first_key(a, i); j <= i; j++) {
            double p = exp(score(a, i, j) - (double)lse[i]);
            double dp = dot(dctx + i * row, a->v + j * a->stride, a->d) * keep(a, i, j);

            for (int64_t d = 0; d < a->d; d++)
                acc[d] += p * (dp - delta) * (double)a->k[j * a->stride + d];
        }
        for (int64_t d = 0; d < a->d; d++)
            dq[i * a->stride + d] = (float)(a->scale * acc[d]);
    }
    for (int64_t j = 0; j < a->t; j++) {
        double to_k[TR_MAX_HEAD_DIM] = {0.0}, to_v[TR_MAX_HEAD_DIM] = {0.0};

        for (int64_t i = j; i < a->t; i++) {
            double delta = dot(dctx + i * row, ctx + i * row, a->d), kept = keep(a, i, j);
            double p = first_key(a, i) <= j ? exp(score(a, i, j) - (double)lse[i]) : 0.0;
            double dp = dot(dctx + i * row, a->v + j * a->stride, a->d) * kept;

            for (int64_t d = 0; d < a->d; d++) {
                to_k[d] += p * (dp - delta) * (double)a->q[i * a->stride + d];
                to_v[d] += p * kept * (double)dctx[i * row + d];
            }
        }
        for (int64_t d = 0; d < a->d; d++) {
            dq[j * a->stride + a->d + d] = (float)(a->scale * to_k[d]);
            dq[j * a->stride + 2 * a->d + d] = (float)to_v[d];
        }
    }
}

void tr_ref_attention_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                          const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                          const struct tr_tensor *lse, const struct tr_tensor *qkv,
                          const struct tr_tensor *from, int first_head, float scale,
                          struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, &drop);

    (void)q;
    tr_sizes_attention(dctx, lse, dqkv, from, &drop);
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        int64_t b = bh / s.heads, h = bh % s.heads, row = s.heads * s.d;
        struct head a = head_of(qkv, from, s, b, h, first_head, scale, &drop);

        head_bwd(&a, tr_f32(dqkv) + (a.q - tr_f32(qkv)), tr_f32(dctx) + b * s.t * row + h * s.d,
                 tr_f32(ctx) + b * s.t * row + h * s.d, row, tr_f32(lse) + bh * s.t);
    }
}
