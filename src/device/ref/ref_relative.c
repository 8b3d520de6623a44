/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>
#include <stdlib.h>

#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* Disentangled attention: what device/device.h says, for one head of one sample after the other. */
struct head {
    const struct tr_tensor *qkv, *rel;
    const int32_t *bucket;
    struct tr_relative_sizes s;
    int64_t row, part; /* the first row of the sample, and where the head's query begins in one */
    int64_t length;
    double scale;
    const struct tr_dropout *drop;
    struct tr_rng rng;
    uint64_t draws;
};

enum { QUERY, KEY, VALUE };

static struct head head_of(const struct tr_tensor *qkv, const struct tr_relative *to,
                           struct tr_relative_sizes s, int64_t b, int64_t h,
                           struct tr_attention_how how, const struct tr_dropout *drop)
{
    struct head a = {.qkv = qkv,
                     .rel = to->rel,
                     .bucket = tr_i32(to->bucket),
                     .s = s,
                     .row = b * s.t,
                     .part = 3 * h * s.d,
                     .length = to->lengths ? tr_i32(to->lengths)[b] : s.t,
                     .scale = (double)how.scale,
                     .drop = drop,
                     .draws = (uint64_t)((how.first_head + h) * s.t * s.t)};

    TR_ASSERT(a.length >= 0 && a.length <= s.t);
    if (drop->p > 0.0)
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
    return a;
}

/* Where number 0 of a part of row `row` is: of tokens, and of relative positions. */
static int64_t of_token(const struct head *a, int64_t row, int what)
{
    return (a->row + row) * 3 * a->s.heads * a->s.d + a->part + what * a->s.d;
}

static int64_t of_place(const struct head *a, int64_t row, int what)
{
    return row * 3 * a->s.heads * a->s.d + a->part + what * a->s.d;
}

static int64_t of_result(const struct head *a, int64_t row)
{
    return (a->row + row) * a->s.heads * a->s.d + a->part / 3;
}

static int64_t bucket_of(const struct head *a, int64_t i, int64_t j)
{
    const int64_t c = a->bucket[a->s.t - 1 + i - j];

    TR_ASSERT(c >= 0 && c < a->s.rows);
    return c;
}

static double dot(const struct tr_tensor *x, int64_t at, const struct tr_tensor *y, int64_t from,
                  int64_t n)
{
    double sum = 0.0;

    for (int64_t d = 0; d < n; d++)
        sum += get(x, at + d) * get(y, from + d);
    return sum;
}

static double score(const struct head *a, int64_t i, int64_t j)
{
    const int64_t c = bucket_of(a, i, j), q = of_token(a, i, QUERY), k = of_token(a, j, KEY);

    return a->scale * (dot(a->qkv, q, a->qkv, k, a->s.d) +
                       dot(a->qkv, q, a->rel, of_place(a, c, KEY), a->s.d) +
                       dot(a->rel, of_place(a, c, QUERY), a->qkv, k, a->s.d));
}

static double keep(const struct head *a, int64_t i, int64_t j)
{
    if (a->drop->p == 0.0)
        return 1.0;
    if (tr_rng_u32(a->rng, a->draws + (uint64_t)(i * a->s.t + j)) < tr_rng_threshold(a->drop->p))
        return 0.0;
    return 1.0 / (1.0 - a->drop->p);
}

static void attend(const struct head *a, const struct tr_tensor *ctx, const struct tr_tensor *lse,
                   int64_t first, int64_t i)
{
    double acc[TR_MAX_HEAD_DIM] = {0.0}, max = -INFINITY, sum = 0.0;

    for (int64_t j = 0; j < a->length; j++)
        max = fmax(max, score(a, i, j));
    for (int64_t j = 0; j < a->length; j++) {
        const double p = exp(score(a, i, j) - max), kept = p * keep(a, i, j);

        sum += p;
        for (int64_t d = 0; d < a->s.d; d++)
            acc[d] += kept * get(a->qkv, of_token(a, j, VALUE) + d);
    }
    for (int64_t d = 0; d < a->s.d; d++)
        set(ctx, of_result(a, i) + d, acc[d] / sum);
    set(lse, first + i, max + log(sum));
}

void tr_ref_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_relative *to, struct tr_attention_how how,
                               struct tr_dropout drop)
{
    const struct tr_relative_sizes s = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);

    (void)q;
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        const struct head a = head_of(qkv, to, s, bh / s.heads, bh % s.heads, how, &drop);

        for (int64_t i = 0; i < a.length; i++)
            attend(&a, ctx, lse, bh * s.t, i);
        for (int64_t i = a.length; i < s.t; i++) {
            for (int64_t d = 0; d < s.d; d++)
                set(ctx, of_result(&a, i) + d, 0.0);
            set(lse, bh * s.t + i, 0.0);
        }
    }
}

/* What is summed up, in double: gradients laid out as qkv and as rel. */
struct sums {
    double *tokens, *places;
};

static void add(double *to, int64_t at, double factor, const struct tr_tensor *x, int64_t from,
                int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        to[at + d] += factor * get(x, from + d);
}

/* With p the probability and m what dropout multiplies it by, ds = scale p (m dctx_i . v_j - dctx_i . ctx_i). */
static void pair_bwd(const struct head *a, struct sums g, const struct tr_tensor *dctx, int64_t i,
                     int64_t j, double lse, double delta)
{
    const int64_t n = a->s.d, c = bucket_of(a, i, j), row = of_result(a, i);
    const int64_t q = of_token(a, i, QUERY), k = of_token(a, j, KEY), v = of_token(a, j, VALUE);
    const int64_t rq = of_place(a, c, QUERY), rk = of_place(a, c, KEY);
    const double p = exp(score(a, i, j) - lse), m = keep(a, i, j);
    const double ds = a->scale * p * (m * dot(dctx, row, a->qkv, v, n) - delta);

    add(g.tokens, v, p * m, dctx, row, n);
    add(g.tokens, q, ds, a->qkv, k, n);
    add(g.tokens, q, ds, a->rel, rk, n);
    add(g.tokens, k, ds, a->qkv, q, n);
    add(g.tokens, k, ds, a->rel, rq, n);
    add(g.places, rk, ds, a->qkv, q, n);
    add(g.places, rq, ds, a->qkv, k, n);
}

static double *zeros(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the gradients of attention");
    return x;
}

static void store(const struct tr_tensor *to, double *from)
{
    for (int64_t i = 0; i < tr_tensor_elems(to); i++)
        set(to, i, from[i]);
    free(from);
}

void tr_ref_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                   const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                   const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                   const struct tr_tensor *qkv, const struct tr_relative *to,
                                   struct tr_attention_how how, struct tr_dropout drop)
{
    const struct tr_relative_sizes s = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);
    const struct sums g = {zeros(tr_tensor_elems(dqkv)), zeros(tr_tensor_elems(drel))};
    const struct tr_relative other = {drel, to->bucket, to->lengths};

    (void)q;
    tr_sizes_relative(dctx, lse, dqkv, &other, how, &drop);
    for (int64_t bh = 0; bh < s.b * s.heads; bh++) {
        const struct head a = head_of(qkv, to, s, bh / s.heads, bh % s.heads, how, &drop);

        for (int64_t i = 0; i < a.length; i++) {
            const int64_t row = of_result(&a, i);
            const double delta = dot(dctx, row, ctx, row, s.d), of = get(lse, bh * s.t + i);

            for (int64_t j = 0; j < a.length; j++)
                pair_bwd(&a, g, dctx, i, j, of, delta);
        }
    }
    store(dqkv, g.tokens);
    store(drel, g.places);
}
