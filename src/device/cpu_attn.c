/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include "device/cpu_math.h"
#include "device/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Attention in blocks of queries and keys.  The scores of one pair of blocks, at most, exist at any
 * time, in the scratch of the thread.
 */
enum {
    KEYS = 64,
    QUERIES = 128, /* forward */
    QUERIES_BWD = 64,
    WIDEST = (TR_MAX_HEAD_DIM + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS,
};

/* One head of one sample.  Row t of q, k and v is at + t * stride, of ctx and dctx t * row. */
struct head {
    const float *q, *k, *v;
    const int32_t *from; /* first key that each query sees, or NULL */
    int64_t stride, row, t, d;
    float scale;
    struct tr_rng rng;
    uint64_t draws;     /* draw of (query 0, key 0) */
    uint32_t threshold; /* 0 without dropout */
    float kept;
};

static struct head head_of(const struct tr_tensor *qkv, const struct tr_tensor *from,
                           struct tr_attention_sizes s, int64_t bh, int first_head, float scale,
                           const struct tr_dropout *drop)
{
    int64_t b = bh / s.heads, h = bh % s.heads;
    struct head a = {
        .stride = 3 * s.heads * s.d, .row = s.heads * s.d, .t = s.t, .d = s.d, .scale = scale};

    a.q = tr_f32(qkv) + b * s.t * a.stride + h * 3 * s.d;
    a.k = a.q + s.d;
    a.v = a.k + s.d;
    if (from)
        a.from = tr_i32(from) + b * s.t;
    a.draws = (uint64_t)((first_head + h) * s.t * s.t);
    if (drop->p > 0.0) {
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
        a.threshold = tr_rng_threshold(drop->p);
        a.kept = (float)(1.0 / (1.0 - drop->p));
    }
    return a;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Which of the keys key .. key + count - 1 a query sees: first .. end - 1 of them, or none. */
struct sight {
    int64_t first, end;
};

static struct sight sight_of(const struct head *a, int64_t query, int64_t key, int64_t count)
{
    struct sight s = {0, smaller(count, query - key + 1)};

    if (a->from) {
        TR_ASSERT(a->from[query] >= 0 && a->from[query] <= query);
        s.first = a->from[query] > key ? a->from[query] - key : 0;
    }
    return s;
}

/* The block of keys, by its first one, before which none of these queries sees a key. */
static int64_t first_block(const struct head *a, int64_t query, int64_t n)
{
    int64_t least = a->from ? a->from[query] : 0;

    for (int64_t i = 1; a->from && i < n; i++)
        least = smaller(least, a->from[query + i]);
    return least / KEYS * KEYS;
}

/* x[i] *= what dropout multiplies the probability of (query, key + i) by. */
static void drop_row(const struct head *a, int64_t query, int64_t key, int64_t count, float *x)
{
    float keep[KEYS];

    tr_cpu_mask(a->rng, a->draws + (uint64_t)(query * a->t + key), count, a->threshold, a->kept,
                keep);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] *= keep[i];
}

/* c[rows,columns] (+)= rows i .. of a, times a packed block of the given depth. */
static void multiply(struct tr_view a, int64_t i, int64_t rows, int64_t depth, const float *packed,
                     int64_t columns, float *c, int64_t c_stride, bool add, float *tiles)
{
    for (int64_t r = 0; r < rows; r += STRIP_ROWS)
        tr_cpu_strip(&(struct tr_strip){.a = &a,
                                        .i = i + r,
                                        .rows = (int)smaller(rows - r, STRIP_ROWS),
                                        .depth = depth,
                                        .packed = packed,
                                        .columns = columns,
                                        .c = c + r * c_stride,
                                        .c_stride = c_stride,
                                        .add = add,
                                        .tiles = tiles});
}

/* ---- forward ---- */

struct forward_scratch {
    float keys[TR_MAX_HEAD_DIM * KEYS], values[KEYS * WIDEST];
    float score[QUERIES * KEYS], sum[QUERIES * WIDEST];
    float tiles[STRIP_TILES * TILE_FLOATS];
    float max[QUERIES], total[QUERIES];
};

_Static_assert(sizeof(struct forward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* The scores of one query become what weights the values; what was summed before is brought to the
   new maximum.  Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). */
static void weigh(const struct head *a, struct forward_scratch *w, int64_t r, int64_t query,
                  int64_t key, int64_t count)
{
    struct sight s = sight_of(a, query, key, count);
    float *score = w->score + r * KEYS, *sum = w->sum + r * WIDEST, total = 0.0f, max, shrink;

    if (s.first >= s.end) {
        memset(score, 0, (size_t)count * sizeof *score);
        return;
    }
#pragma omp simd
    for (int64_t i = s.first; i < s.end; i++)
        score[i] *= a->scale;
    max = largest_of(score + s.first, s.end - s.first, w->max[r]);
#pragma omp simd reduction(+ : total)
    for (int64_t i = s.first; i < s.end; i++) {
        score[i] = exp_fast(score[i] - max);
        total += score[i];
    }
    for (int64_t i = 0; i < s.first; i++)
        score[i] = 0.0f;
    for (int64_t i = s.end; i < count; i++)
        score[i] = 0.0f;
    if (a->threshold > 0)
        drop_row(a, query, key + s.first, s.end - s.first, score + s.first);
    shrink = exp_fast(w->max[r] - max);
    w->total[r] = w->total[r] * shrink + total;
    w->max[r] = max;
#pragma omp simd
    for (int64_t d = 0; d < a->d; d++)
        sum[d] *= shrink;
}

/* Queries i0 .. i0 + n - 1 of one head. */
static void attend(const struct head *a, int64_t i0, int64_t n, float *ctx, float *lse,
                   struct forward_scratch *w)
{
    const struct tr_view q = {a->q, a->stride, false, TR_F32}, k = {a->k, a->stride, true, TR_F32};
    const struct tr_view v = {a->v, a->stride, false, TR_F32}, p = {w->score, KEYS, false, TR_F32};

    for (int64_t r = 0; r < n; r++) {
        w->max[r] = -INFINITY;
        w->total[r] = 0.0f;
        memset(w->sum + r * WIDEST, 0, (size_t)a->d * sizeof(float));
    }
    for (int64_t j0 = first_block(a, i0, n); j0 < i0 + n; j0 += KEYS) {
        int64_t count = smaller(i0 + n - j0, KEYS), skip = j0 > i0 ? j0 - i0 : 0;

        /* Queries before the first key of the block see none of it. */
        tr_cpu_pack(&k, 0, a->d, j0, count, w->keys);
        tr_cpu_pack(&v, j0, count, 0, a->d, w->values);
        multiply(q, i0 + skip, n - skip, a->d, w->keys, count, w->score + skip * KEYS, KEYS, false,
                 w->tiles);
        for (int64_t r = skip; r < n; r++)
            weigh(a, w, r, i0 + r, j0, count);
        multiply(p, skip, n - skip, count, w->values, a->d, w->sum + skip * WIDEST, WIDEST, true,
                 w->tiles);
    }
    for (int64_t r = 0; r < n; r++) {
        float *out = ctx + (i0 + r) * a->row;
        const float *sum = w->sum + r * WIDEST, total = w->total[r];

#pragma omp simd
        for (int64_t d = 0; d < a->d; d++)
            out[d] = sum[d] / total;
        lse[i0 + r] = w->max[r] + logf(total);
    }
}

void tr_cpu_attention(struct tr_queue *q, const struct tr_tensor *ctx, const struct tr_tensor *lse,
                      const struct tr_tensor *qkv, const struct tr_tensor *from, int first_head,
                      float scale, struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, &drop);
    int64_t per_head = (s.t + QUERIES - 1) / QUERIES, tasks = s.b * s.heads * per_head;
    int threads = q->device->threads;

#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < tasks; i++) {
        /* The longest first: the last queries. */
        int64_t bh = i % (s.b * s.heads), i0 = (per_head - 1 - i / (s.b * s.heads)) * QUERIES;
        struct head a = head_of(qkv, from, s, bh, first_head, scale, &drop);
        float *scratch = q->device->scratch + (int64_t)tr_cpu_thread() * SCRATCH_FLOATS;

        attend(&a, i0, smaller(s.t - i0, QUERIES),
               tr_f32(ctx) + bh / s.heads * s.t * a.row + bh % s.heads * s.d,
               tr_f32(lse) + bh * s.t, (void *)scratch);
    }
}

/* ---- backward ---- */

struct backward_scratch {
    float keys_turned[TR_MAX_HEAD_DIM * KEYS], values_turned[TR_MAX_HEAD_DIM * KEYS];
    float keys[KEYS * WIDEST];
    float queries[QUERIES_BWD * WIDEST]; /* or dctx */
    float p[QUERIES_BWD * KEYS], dp[QUERIES_BWD * KEYS];
    float tiles[STRIP_TILES * TILE_FLOATS];
};

_Static_assert(sizeof(struct backward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* What one head reads and writes besides q, k and v; dq, dk and dv lie as those do. */
struct gradients {
    float *dq, *dk, *dv;
    const float *dctx, *ctx, *lse;
};

/* One query: scores in p and dctx . v in dp become m p and scale p (m dp - dctx . ctx), where m is
   what dropout multiplies by. */
static void weigh_bwd(const struct head *a, const struct gradients *g, float *p, float *dp,
                      int64_t query, int64_t key, int64_t count)
{
    struct sight s = sight_of(a, query, key, count);
    const float *dctx = g->dctx + query * a->row, *ctx = g->ctx + query * a->row;
    float delta = 0.0f, lse = g->lse[query], keep[KEYS];

#pragma omp simd reduction(+ : delta)
    for (int64_t d = 0; d < a->d; d++)
        delta += dctx[d] * ctx[d];
    if (a->threshold > 0)
        tr_cpu_mask(a->rng, a->draws + (uint64_t)(query * a->t + key), s.end, a->threshold, a->kept,
                    keep);
    else
        for (int64_t i = 0; i < s.end; i++)
            keep[i] = 1.0f;
    for (int64_t i = 0; i < smaller(s.first, count); i++)
        p[i] = dp[i] = 0.0f;
#pragma omp simd
    for (int64_t i = s.first; i < s.end; i++) {
        float probability = exp_fast(p[i] * a->scale - lse);

        dp[i] = a->scale * probability * (keep[i] * dp[i] - delta);
        p[i] = probability * keep[i];
    }
    for (int64_t i = s.end; i < count; i++)
        p[i] = dp[i] = 0.0f;
}

/* Keys j0 .. j0 + count - 1 and queries i0 .. i0 + n - 1, with the keys' blocks packed. */
static void pair_bwd(const struct head *a, const struct gradients *g, int64_t j0, int64_t count,
                     int64_t i0, int64_t n, bool first, struct backward_scratch *w)
{
    const struct tr_view q = {a->q, a->stride, false, TR_F32},
                         dctx = {g->dctx, a->row, false, TR_F32};
    const struct tr_view p_turned = {w->p, KEYS, true, TR_F32},
                         ds_turned = {w->dp, KEYS, true, TR_F32};
    const struct tr_view ds = {w->dp, KEYS, false, TR_F32};
    int64_t from = first_block(a, i0, n);

    if (j0 < from)
        return;
    multiply(q, i0, n, a->d, w->keys_turned, count, w->p, KEYS, false, w->tiles);
    multiply(dctx, i0, n, a->d, w->values_turned, count, w->dp, KEYS, false, w->tiles);
    for (int64_t r = 0; r < n; r++)
        weigh_bwd(a, g, w->p + r * KEYS, w->dp + r * KEYS, i0 + r, j0, count);
    tr_cpu_pack(&dctx, i0, n, 0, a->d, w->queries);
    multiply(p_turned, 0, count, n, w->queries, a->d, g->dv + j0 * a->stride, a->stride, !first,
             w->tiles);
    tr_cpu_pack(&q, i0, n, 0, a->d, w->queries);
    multiply(ds_turned, 0, count, n, w->queries, a->d, g->dk + j0 * a->stride, a->stride, !first,
             w->tiles);
    multiply(ds, 0, n, count, w->keys, a->d, g->dq + i0 * a->stride, a->stride, j0 > from,
             w->tiles);
}

static void attend_bwd(const struct head *a, const struct gradients *g, struct backward_scratch *w)
{
    const struct tr_view k = {a->k, a->stride, false, TR_F32},
                         k_turned = {a->k, a->stride, true, TR_F32};
    const struct tr_view v_turned = {a->v, a->stride, true, TR_F32};

    for (int64_t j0 = 0; j0 < a->t; j0 += KEYS) {
        int64_t count = smaller(a->t - j0, KEYS);

        tr_cpu_pack(&k_turned, 0, a->d, j0, count, w->keys_turned);
        tr_cpu_pack(&v_turned, 0, a->d, j0, count, w->values_turned);
        tr_cpu_pack(&k, j0, count, 0, a->d, w->keys);
        for (int64_t i0 = j0; i0 < a->t; i0 += QUERIES_BWD)
            pair_bwd(a, g, j0, count, i0, smaller(a->t - i0, QUERIES_BWD), i0 == j0, w);
    }
}

void tr_cpu_attention_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                          const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                          const struct tr_tensor *lse, const struct tr_tensor *qkv,
                          const struct tr_tensor *from, int first_head, float scale,
                          struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, &drop);
    int64_t tasks = s.b * s.heads;
    int threads = q->device->threads;

    tr_sizes_attention(dctx, lse, dqkv, from, &drop);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t bh = 0; bh < tasks; bh++) {
        struct head a = head_of(qkv, from, s, bh, first_head, scale, &drop);
        int64_t at = bh / s.heads * s.t * a.row + bh % s.heads * s.d;
        struct gradients g = {.dq = tr_f32(dqkv) + (a.q - tr_f32(qkv)),
                              .dctx = tr_f32(dctx) + at,
                              .ctx = tr_f32(ctx) + at,
                              .lse = tr_f32(lse) + bh * s.t};

        g.dk = g.dq + s.d;
        g.dv = g.dk + s.d;
        attend_bwd(&a, &g,
                   (void *)(q->device->scratch + (int64_t)tr_cpu_thread() * SCRATCH_FLOATS));
    }
}
