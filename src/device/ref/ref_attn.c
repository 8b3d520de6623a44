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
    int64_t t, d, window;
    double scale, slope;
    const struct tr_dropout *drop;
    struct tr_rng rng;
    uint64_t draws; /* draw of (query 0, key 0) */
};

/* Part `part` of what sample b has of an operand whose rows have `parts` of d numbers. */
static struct slice slice_of(const struct tr_tensor *x, struct tr_attention_sizes s, int64_t b,
                             int64_t parts, int64_t part)
{
    return (struct slice){x, (b * s.t * parts + part) * s.d, parts * s.d};
}

/* What head h has of a row: its query, or its group's key or value. */
enum { QUERY, KEY, VALUE };

static struct slice part_of(const struct tr_tensor *qkv, struct tr_attention_sizes s, int64_t b,
                            int64_t h, int what)
{
    int64_t each = s.heads / s.groups, first = h / each * (each + 2);

    return slice_of(qkv, s, b, s.heads + 2 * s.groups,
                    first + (what == QUERY ? h % each : each + what - KEY));
}

static struct head head_of(const struct tr_tensor *qkv, const struct tr_tensor *from,
                           struct tr_attention_sizes s, int64_t b, int64_t h,
                           struct tr_attention_how how, const struct tr_dropout *drop)
{
    struct head a = {.q = part_of(qkv, s, b, h, QUERY),
                     .k = part_of(qkv, s, b, h, KEY),
                     .v = part_of(qkv, s, b, h, VALUE),
                     .t = s.t,
                     .d = s.d,
                     .window = how.window,
                     .scale = (double)how.scale,
                     .slope = how.slopes ? get(how.slopes, h) : 0.0,
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
    return a->window > 0 && key < query - a->window + 1 ? query - a->window + 1 : key;
}

static double score(const struct head *a, int64_t query, int64_t key)
{
    return a->scale * dot(a->q, query, a->k, key, a->d) + a->slope * (double)(key - query);
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
        struct slice out = slice_of(ctx, s, b, s.heads, h);

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

/* With p the probability and m what dropout multiplies it by, ds = p (m dctx_i . v_j - dctx_i . ctx_i);
   dq_i = scale sum_j ds k_j. */
static void query_bwd(const struct head *a, const struct gradients *g, int64_t i)
{
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

/* What one head adds: dv_j = sum_i p m dctx_i; dk_j / scale = sum_i ds q_i. */
static void add_key_bwd(const struct head *a, const struct gradients *g, int64_t j, double *to_k,
                        double *to_v)
{
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
}

/* The operands of one call. */
struct operands {
    const struct tr_tensor *dqkv, *dctx, *ctx, *lse, *qkv, *from;
    struct tr_attention_sizes s;
    struct tr_attention_how how;
    const struct tr_dropout *drop;
};

static struct head head_at(const struct operands *o, int64_t b, int64_t h)
{
    return head_of(o->qkv, o->from, o->s, b, h, o->how, o->drop);
}

static struct gradients gradients_at(const struct operands *o, int64_t b, int64_t h)
{
    return (struct gradients){.dq = part_of(o->dqkv, o->s, b, h, QUERY),
                              .dk = part_of(o->dqkv, o->s, b, h, KEY),
                              .dv = part_of(o->dqkv, o->s, b, h, VALUE),
                              .dctx = slice_of(o->dctx, o->s, b, o->s.heads, h),
                              .ctx = slice_of(o->ctx, o->s, b, o->s.heads, h),
                              .lse = tr_f32(o->lse) + (b * o->s.heads + h) * o->s.t};
}

/* Heads first .. first + heads - 1, which are a group: they have one key and one value, whose gradients are
   sums over the heads. */
static void group_bwd(const struct operands *o, int64_t b, int64_t first, int64_t heads)
{
    for (int64_t h = first; h < first + heads; h++) {
        struct head a = head_at(o, b, h);
        struct gradients g = gradients_at(o, b, h);

        for (int64_t i = 0; i < o->s.t; i++)
            query_bwd(&a, &g, i);
    }
    for (int64_t j = 0; j < o->s.t; j++) {
        double to_k[TR_MAX_HEAD_DIM] = {0.0}, to_v[TR_MAX_HEAD_DIM] = {0.0};
        struct gradients g = gradients_at(o, b, first);

        for (int64_t h = first; h < first + heads; h++) {
            struct head a = head_at(o, b, h);

            g = gradients_at(o, b, h);
            add_key_bwd(&a, &g, j, to_k, to_v);
        }
        for (int64_t d = 0; d < o->s.d; d++) {
            put(g.dk, j, d, (double)o->how.scale * to_k[d]);
            put(g.dv, j, d, to_v[d]);
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
    const struct operands o = {dqkv, dctx, ctx, lse, qkv, from, s, how, &drop};
    int64_t each = s.heads / s.groups;

    (void)q;
    tr_sizes_attention(dctx, lse, dqkv, from, how, &drop);
    for (int64_t b = 0; b < s.b; b++)
        for (int64_t h = 0; h < s.heads; h += each)
            group_bwd(&o, b, h, each);
}
