/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/cpu/cpu_blocks.h"
#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_math.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Disentangled attention, in blocks of queries that see all keys of their sample.  Distances between a block of
 * queries and one of keys have at most BAND buckets, which follow each other: their products with the queries, and
 * with the keys, are made for all of them and picked by bucket.  So are, backward, sums over those of one bucket.
 */
enum {
    BLOCK = 64,
    BAND = 2 * BLOCK,
    WIDEST = (TR_MAX_HEAD_DIM + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS,
    PACKED = TR_MAX_HEAD_DIM * BAND > BAND *WIDEST ? TR_MAX_HEAD_DIM *BAND : BAND *WIDEST,
};

/* What one head of one sample has of an operand: row i begins at element first + i * stride. */
struct slice {
    const struct tr_tensor *of;
    int64_t first, stride;
};

struct head {
    struct slice q, k, v;  /* of tokens */
    struct slice rq, rk;   /* of relative positions */
    const int32_t *bucket; /* of distance 0 */
    int64_t t, length, d;
    float scale;
    struct tr_rng rng;
    uint64_t draws;
    uint32_t threshold; /* 0 without dropout */
    float kept;
};

struct scratch {
    float packed[PACKED];
    float tiles[STRIP_TILES * TILE_FLOATS];
    float at_queries[BLOCK * BAND], at_keys[BLOCK * BAND];
    float sum[BLOCK * WIDEST];
    float max[BLOCK], total[BLOCK];
};
_Static_assert(sizeof(struct scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

enum { QUERY, KEY, VALUE };

/* Part `what` of what head h has of rows of 3 heads d, from row `row` on. */
static struct slice part_of(const struct tr_tensor *x, struct tr_relative_sizes s, int64_t row,
                            int64_t h, int what)
{
    const int64_t stride = 3 * s.heads * s.d;

    return (struct slice){x, row * stride + (3 * h + what) * s.d, stride};
}

static struct slice result_of(const struct tr_tensor *x, struct tr_relative_sizes s, int64_t row,
                              int64_t h)
{
    return (struct slice){x, (row * s.heads + h) * s.d, s.heads * s.d};
}

static struct head head_of(const struct tr_tensor *qkv, const struct tr_relative *to,
                           struct tr_relative_sizes s, int64_t b, int64_t h,
                           struct tr_attention_how how, const struct tr_dropout *drop)
{
    struct head a = {.q = part_of(qkv, s, b * s.t, h, QUERY),
                     .k = part_of(qkv, s, b * s.t, h, KEY),
                     .v = part_of(qkv, s, b * s.t, h, VALUE),
                     .rq = part_of(to->rel, s, 0, h, QUERY),
                     .rk = part_of(to->rel, s, 0, h, KEY),
                     .bucket = tr_i32(to->bucket) + s.t - 1,
                     .t = s.t,
                     .length = to->lengths ? tr_i32(to->lengths)[b] : s.t,
                     .d = s.d,
                     .scale = how.scale,
                     .draws = (uint64_t)((how.first_head + h) * s.t * s.t)};

    TR_ASSERT(a.length >= 0 && a.length <= s.t);
    if (drop->p > 0.0) {
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
        a.threshold = tr_rng_threshold(drop->p);
        a.kept = (float)(1.0 / (1.0 - drop->p));
    }
    return a;
}

static struct tr_view view_of(struct slice x, int64_t row)
{
    return (struct tr_view){
        .p = tr_cpu_at(x.of, x.first + row * x.stride), .stride = x.stride, .type = x.of->dtype};
}

static struct tr_view floats_of(const float *p, int64_t stride)
{
    return (struct tr_view){.p = p, .stride = stride, .type = TR_F32};
}

static void put_row(struct slice x, int64_t row, int64_t d, const float *from)
{
    const int64_t first = x.first + row * x.stride;

    if (x.of->dtype == TR_F32)
        memcpy(tr_f32(x.of) + first, from, (size_t)d * sizeof *from);
    else
        tr_cpu_put(x.of, first, d, from);
}

static void put_zeros(struct slice x, int64_t row, int64_t d)
{
    static const float zeros[TR_MAX_HEAD_DIM];

    put_row(x, row, d, zeros);
}

/* c[rows,columns] (+)= a b, with b[depth,columns]; all that follows packs b anew. */
static void product(struct scratch *w, struct tr_view a, struct tr_view b, int64_t rows,
                    int64_t depth, int64_t columns, float *c, int64_t c_stride, bool add)
{
    pack(&b, depth, columns, w->packed);
    multiply(a, 0, rows, depth, w->packed, columns, c, c_stride, add, w->tiles);
}

/* A block of queries with one of keys, and the buckets of their distances: `low` .. low + band - 1. */
struct pair {
    int64_t i, queries, j, keys, low, band;
};

static struct pair pair_of(const struct head *a, int64_t i, int64_t j)
{
    struct pair p = {.i = i,
                     .queries = smaller(a->length - i, BLOCK),
                     .j = j,
                     .keys = smaller(a->length - j, BLOCK)};

    p.low = a->bucket[i - (j + p.keys - 1)];
    p.band = a->bucket[i + p.queries - 1 - j] - p.low + 1;
    TR_ASSERT(p.band > 0 && p.band <= BAND);
    return p;
}

/* Where the bucket of (query r, key 0) of the pair stands from `low` on; that of key c is c before it. */
static const int32_t *buckets_of(const struct head *a, const struct pair *p, int64_t r)
{
    return a->bucket + p->i + r - p->j;
}

/* score[queries,.], rows of `stride`, from column p->j on: not scaled yet. */
static void make_scores(const struct head *a, const struct pair *p, float *score, int64_t stride,
                        struct scratch *w)
{
    const struct tr_view q = view_of(a->q, p->i), k = view_of(a->k, p->j);

    product(w, q, turned(k), p->queries, a->d, p->keys, score + p->j, stride, false);
    product(w, q, turned(view_of(a->rk, p->low)), p->queries, a->d, p->band, w->at_queries, BAND,
            false);
    product(w, k, turned(view_of(a->rq, p->low)), p->keys, a->d, p->band, w->at_keys, BAND, false);
    for (int64_t r = 0; r < p->queries; r++) {
        const int32_t *bucket = buckets_of(a, p, r);
        float *x = score + r * stride + p->j;

        for (int64_t c = 0; c < p->keys; c++) {
            const int64_t at = bucket[-c] - p->low;

            x[c] += w->at_queries[r * BAND + at] + w->at_keys[c * BAND + at];
        }
    }
}

static void make_all_scores(const struct head *a, int64_t i, float *score, struct scratch *w)
{
    for (int64_t j = 0; j < a->length; j += BLOCK) {
        const struct pair p = pair_of(a, i, j);

        make_scores(a, &p, score, a->t, w);
    }
}

/* x[length] *= what dropout multiplies the probabilities of `query` by. */
static void drop_row(const struct head *a, int64_t query, float *x)
{
    float keep[BLOCK];

    for (int64_t j = 0; a->threshold > 0 && j < a->length; j += BLOCK) {
        const int64_t count = smaller(a->length - j, BLOCK);

        tr_cpu_mask(a->rng, a->draws + (uint64_t)(query * a->t + j), count, a->threshold, a->kept,
                    keep);
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            x[j + c] *= keep[c];
    }
}

/* Scores become what weighs values, but for the sum of the row: returned, with the maximum. */
static float weigh(const struct head *a, int64_t query, float *x, float *largest)
{
    float total = 0.0f, max = -INFINITY;

#pragma omp simd
    for (int64_t j = 0; j < a->length; j++)
        x[j] *= a->scale;
    max = largest_of(x, a->length, max);
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < a->length; j++) {
        x[j] = exp_fast(x[j] - max);
        total += x[j];
    }
    drop_row(a, query, x);
    *largest = max;
    return total;
}

/* Queries from i on, a block. */
static void attend(const struct head *a, int64_t i, struct slice ctx, float *lse, float *score,
                   struct scratch *w)
{
    const int64_t n = smaller(a->length - i, BLOCK);

    make_all_scores(a, i, score, w);
    for (int64_t r = 0; r < n; r++)
        w->total[r] = weigh(a, i + r, score + r * a->t, &w->max[r]);
    for (int64_t j = 0; j < a->length; j += BLOCK)
        product(w, floats_of(score + j, a->t), view_of(a->v, j), n, smaller(a->length - j, BLOCK),
                a->d, w->sum, WIDEST, j > 0);
    for (int64_t r = 0; r < n; r++) {
        float *sum = w->sum + r * WIDEST;
        const float total = w->total[r];

#pragma omp simd
        for (int64_t d = 0; d < a->d; d++)
            sum[d] /= total;
        put_row(ctx, i + r, a->d, sum);
        lse[i + r] = w->max[r] + logf(total);
    }
}

static bool worth(int threads, struct tr_relative_sizes s)
{
    return tr_cpu_worth_product(threads, s.b * s.heads * s.t * s.t * s.d);
}

void tr_cpu_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_relative *to, struct tr_attention_how how,
                               struct tr_dropout drop)
{
    const struct tr_relative_sizes s = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);
    const int64_t blocks = (s.t + BLOCK - 1) / BLOCK, each = BLOCK * s.t;
    const int threads = q->device->threads;
    float *room = tr_cpu_room(q, threads * each);

#pragma omp parallel for schedule(dynamic) num_threads(threads) if (worth(threads, s))
    for (int64_t task = 0; task < s.b * s.heads * blocks; task++) {
        const int64_t bh = task / blocks, i = task % blocks * BLOCK, b = bh / s.heads;
        const struct head a = head_of(qkv, to, s, b, bh % s.heads, how, &drop);
        const struct slice out = result_of(ctx, s, b * s.t, bh % s.heads);
        float *of = tr_f32(lse) + bh * s.t;

        if (i < a.length)
            attend(&a, i, out, of, room + tr_cpu_thread() * each, (void *)tr_cpu_scratch(q));
        for (int64_t r = i > a.length ? i : a.length; r < smaller(s.t, i + BLOCK); r++) {
            put_zeros(out, r, s.d);
            of[r] = 0.0f;
        }
    }
}

/* ---- backward ---- */

/* What one head reads and writes besides, and where it sums: [t,d] of keys and values of a sample, [rows,d] of
   relative positions of all samples; [BLOCK,t] twice. */
struct gradients {
    struct slice dq, dk, dv, dctx, ctx;
    const float *lse;
    float *k_sum, *v_sum, *rq_sum, *rk_sum;
    float *p, *ds;
};

/* Scores in p and dctx . v in ds become m p and scale p (m dctx . v - dctx . ctx), m what dropout multiplies by. */
static void weigh_bwd(const struct head *a, const struct gradients *g, int64_t r, int64_t query)
{
    float *p = g->p + r * a->t, *ds = g->ds + r * a->t, delta = 0.0f, rows[2][TR_MAX_HEAD_DIM];
    const float *dctx =
        tr_cpu_in(g->dctx.of, g->dctx.first + query * g->dctx.stride, a->d, rows[0]);
    const float *ctx = tr_cpu_in(g->ctx.of, g->ctx.first + query * g->ctx.stride, a->d, rows[1]);
    const float lse = g->lse[query];

#pragma omp simd reduction(+ : delta)
    for (int64_t d = 0; d < a->d; d++)
        delta += dctx[d] * ctx[d];
    drop_row(a, query, ds);
#pragma omp simd
    for (int64_t j = 0; j < a->length; j++) {
        p[j] = exp_fast(p[j] * a->scale - lse);
        ds[j] = a->scale * p[j] * (ds[j] - delta);
    }
    drop_row(a, query, p);
}

/* From ds of a pair to the sums of ds by query and bucket, and by key and bucket. */
static void by_bucket(const struct head *a, const struct gradients *g, const struct pair *p,
                      struct scratch *w)
{
    memset(w->at_queries, 0, sizeof w->at_queries);
    memset(w->at_keys, 0, sizeof w->at_keys);
    for (int64_t r = 0; r < p->queries; r++) {
        const int32_t *bucket = buckets_of(a, p, r);
        const float *ds = g->ds + r * a->t + p->j;

        for (int64_t c = 0; c < p->keys; c++) {
            const int64_t at = bucket[-c] - p->low;

            w->at_queries[r * BAND + at] += ds[c];
            w->at_keys[c * BAND + at] += ds[c];
        }
    }
}

static void pair_bwd(const struct head *a, const struct gradients *g, const struct pair *p,
                     struct scratch *w)
{
    const struct tr_view q = view_of(a->q, p->i), k = view_of(a->k, p->j);
    const struct tr_view ds = floats_of(g->ds + p->j, a->t), m = floats_of(g->p + p->j, a->t);
    const struct tr_view dc = floats_of(w->at_queries, BAND), dp = floats_of(w->at_keys, BAND);
    const int64_t d = a->d;
    float *dk = g->k_sum + p->j * d, *dv = g->v_sum + p->j * d;

    product(w, turned(m), view_of(g->dctx, p->i), p->keys, p->queries, d, dv, d, true);
    product(w, turned(ds), q, p->keys, p->queries, d, dk, d, true);
    product(w, ds, k, p->queries, p->keys, d, w->sum, WIDEST, p->j > 0);
    by_bucket(a, g, p, w);
    product(w, dc, view_of(a->rk, p->low), p->queries, p->band, d, w->sum, WIDEST, true);
    product(w, dp, view_of(a->rq, p->low), p->keys, p->band, d, dk, d, true);
    product(w, turned(dc), q, p->band, p->queries, d, g->rk_sum + p->low * d, d, true);
    product(w, turned(dp), k, p->band, p->keys, d, g->rq_sum + p->low * d, d, true);
}

/* One head of one sample. */
static void attend_bwd(const struct head *a, const struct gradients *g, struct scratch *w)
{
    memset(g->k_sum, 0, (size_t)(a->t * a->d) * sizeof(float));
    memset(g->v_sum, 0, (size_t)(a->t * a->d) * sizeof(float));
    for (int64_t i = 0; i < a->length; i += BLOCK) {
        const int64_t n = smaller(a->length - i, BLOCK);

        make_all_scores(a, i, g->p, w);
        for (int64_t j = 0; j < a->length; j += BLOCK)
            product(w, view_of(g->dctx, i), turned(view_of(a->v, j)), n, a->d,
                    smaller(a->length - j, BLOCK), g->ds + j, a->t, false);
        for (int64_t r = 0; r < n; r++)
            weigh_bwd(a, g, r, i + r);
        for (int64_t j = 0; j < a->length; j += BLOCK) {
            const struct pair p = pair_of(a, i, j);

            pair_bwd(a, g, &p, w);
        }
        for (int64_t r = 0; r < n; r++)
            put_row(g->dq, i + r, a->d, w->sum + r * WIDEST);
    }
    for (int64_t i = a->length; i < a->t; i++)
        put_zeros(g->dq, i, a->d);
    for (int64_t i = 0; i < a->t; i++) {
        put_row(g->dk, i, a->d, g->k_sum + i * a->d);
        put_row(g->dv, i, a->d, g->v_sum + i * a->d);
    }
}

void tr_cpu_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                   const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                   const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                   const struct tr_tensor *qkv, const struct tr_relative *to,
                                   struct tr_attention_how how, struct tr_dropout drop)
{
    const struct tr_relative_sizes s = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);
    const struct tr_relative other = {drel, to->bucket, to->lengths};
    const int64_t each = 2 * (s.t + s.rows) * s.d + 2 * BLOCK * s.t;
    const int threads = q->device->threads;
    float *room = tr_cpu_room(q, threads * each);

    tr_sizes_relative(dctx, lse, dqkv, &other, how, &drop);
    /* A head sums over samples, so heads are what threads share. */
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (worth(threads, s))
    for (int64_t h = 0; h < s.heads; h++) {
        float *mine = room + tr_cpu_thread() * each, *rows = mine + 2 * s.t * s.d;
        const struct slice to_q = part_of(drel, s, 0, h, QUERY), to_k = part_of(drel, s, 0, h, KEY),
                           to_v = part_of(drel, s, 0, h, VALUE);
        struct gradients g = {.k_sum = mine,
                              .v_sum = mine + s.t * s.d,
                              .rq_sum = rows,
                              .rk_sum = rows + s.rows * s.d,
                              .p = rows + 2 * s.rows * s.d};

        g.ds = g.p + BLOCK * s.t;
        memset(rows, 0, (size_t)(2 * s.rows * s.d) * sizeof *rows);
        for (int64_t b = 0; b < s.b; b++) {
            const struct head a = head_of(qkv, to, s, b, h, how, &drop);

            g.dq = part_of(dqkv, s, b * s.t, h, QUERY);
            g.dk = part_of(dqkv, s, b * s.t, h, KEY);
            g.dv = part_of(dqkv, s, b * s.t, h, VALUE);
            g.dctx = result_of(dctx, s, b * s.t, h);
            g.ctx = result_of(ctx, s, b * s.t, h);
            g.lse = tr_f32(lse) + (b * s.heads + h) * s.t;
            attend_bwd(&a, &g, (void *)tr_cpu_scratch(q));
        }
        for (int64_t r = 0; r < s.rows; r++) {
            put_row(to_q, r, s.d, g.rq_sum + r * s.d);
            put_row(to_k, r, s.d, g.rk_sum + r * s.d);
            put_zeros(to_v, r, s.d);
        }
    }
}
