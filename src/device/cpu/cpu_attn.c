/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_attn.h"

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/* Part `part` of what sample b has of x, whose rows have `parts` of d numbers. */
static struct slice slice_of(const struct tr_tensor *x, struct tr_attention_sizes s, int64_t b,
                             int64_t parts, int64_t part)
{
    return (struct slice){x, (b * s.t * parts + part) * s.d, parts * s.d};
}

/* What head h has of a row of queries, keys and values: the key and the value are its group's. */
enum { QUERY, KEY, VALUE };

static struct slice part_of(const struct tr_tensor *x, struct tr_attention_sizes s, int64_t b,
                            int64_t h, int what)
{
    int64_t each = s.heads / s.groups, first = h / each * (each + 2);

    return slice_of(x, s, b, s.heads + 2 * s.groups,
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
                     .scale = how.scale,
                     .slope = how.slopes ? tr_f32(how.slopes)[h] : 0.0f,
                     .draws = (uint64_t)((how.first_head + h) * s.t * s.t)};

    if (from)
        a.from = tr_i32(from) + b * s.t;
    if (drop->p > 0.0) {
        a.rng = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[b]);
        a.threshold = tr_rng_threshold(drop->p);
        a.kept = (float)(1.0 / (1.0 - drop->p));
    }
    return a;
}

/* The slice from `row` on; fp16 and bf16 become floats in the GEMMs. */
static struct tr_view view_of(struct slice x, int64_t row)
{
    return (struct tr_view){
        .p = tr_cpu_at(x.of, x.first + row * x.stride), .stride = x.stride, .type = x.of->dtype};
}

/* One row as floats, where it lies or in scratch[d]. */
static const float *get_row(struct slice x, int64_t row, int64_t d, float *scratch)
{
    return tr_cpu_in(x.of, x.first + row * x.stride, d, scratch);
}

/* Where to sum rows from `row` on: in place, or, for fp16 and bf16, in scratch[..,d] until tr_cpu_put_row(). */
static struct sums sums_of(struct slice x, int64_t row, int64_t d, float *scratch)
{
    return x.of->dtype == TR_F32 ? (struct sums){tr_f32(x.of) + x.first + row * x.stride, x.stride}
                                 : (struct sums){scratch, d};
}

void tr_cpu_put_row(struct slice x, int64_t row, int64_t d, const float *from)
{
    int64_t first = x.first + row * x.stride;

    if (x.of->dtype == TR_F32)
        memcpy(tr_f32(x.of) + first, from, (size_t)d * sizeof *from);
    else
        tr_cpu_put(x.of, first, d, from);
}

/* Which of the keys key .. key + count - 1 a query sees: first .. end - 1 of them, or none. */
struct sight {
    int64_t first, end;
};

static int64_t first_key(const struct head *a, int64_t query)
{
    int64_t key = a->from ? a->from[query] : 0;

    TR_ASSERT(key >= 0 && key <= query);
    return a->window > 0 && key <= query - a->window ? query - a->window + 1 : key;
}

static struct sight sight_of(const struct head *a, int64_t query, int64_t key, int64_t count)
{
    int64_t first = first_key(a, query);

    return (struct sight){first > key ? first - key : 0, smaller(count, query - key + 1)};
}

int64_t tr_cpu_first_block(const struct head *a, int64_t query, int64_t n)
{
    int64_t least = first_key(a, query);

    for (int64_t i = 1; a->from && i < n; i++)
        least = smaller(least, first_key(a, query + i));
    return least / KEYS * KEYS;
}

/* Dot products of `query` with keys key .. key + count - 1 become scores. */
static void score_row(const struct head *a, int64_t query, int64_t key, int64_t count, float *x)
{
    const int behind = (int)(query - key);

    if (a->slope == 0.0f) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            x[i] *= a->scale;
    } else {
#pragma omp simd
        for (int i = 0; i < (int)count; i++)
            x[i] = mul_add(x[i], a->scale, a->slope * (float)(i - behind));
    }
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

/* ---- forward ---- */

struct forward_scratch {
    float keys[TR_MAX_HEAD_DIM * KEYS], values[KEYS * WIDEST];
    float score[QUERIES * KEYS], sum[SUM_FLOATS];
    float tiles[STRIP_TILES * TILE_FLOATS];
    float max[SHARE * QUERIES], total[SHARE * QUERIES];
};

_Static_assert(sizeof(struct forward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* x[n] become e^(x - max); their sum. */
static inline __attribute__((always_inline)) float powers_of(float *x, int64_t n, float max)
{
    float total = 0.0f;

#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        x[i] = exp_fast(x[i] - max);
        total += x[i];
    }
    return total;
}

void tr_cpu_weigh(const struct head *a, float *score, struct online so_far, int64_t query,
                  int64_t key, int64_t count)
{
    struct sight s = sight_of(a, query, key, count);
    const int64_t seen = s.end - s.first;
    float *sum = so_far.sum, total, max, shrink;

    if (seen <= 0) {
        memset(score, 0, (size_t)count * sizeof *score);
        return;
    }
    score_row(a, query, key + s.first, seen, score + s.first);
    max = largest_of(score + s.first, seen, *so_far.max);
    /* Most rows of a long sequence see whole blocks, and a loop of constant length is faster. */
    total = seen == KEYS ? powers_of(score, KEYS, max) : powers_of(score + s.first, seen, max);
    for (int64_t i = 0; i < s.first; i++)
        score[i] = 0.0f;
    for (int64_t i = s.end; i < count; i++)
        score[i] = 0.0f;
    if (a->threshold > 0)
        drop_row(a, query, key + s.first, seen, score + s.first);
    shrink = exp_fast(*so_far.max - max);
    *so_far.total = *so_far.total * shrink + total;
    *so_far.max = max;
#pragma omp simd
    for (int64_t d = 0; d < a->d; d++)
        sum[d] *= shrink;
}

void tr_cpu_begin_queries(struct online x, int64_t stride, int64_t n)
{
    memset(x.sum, 0, (size_t)(n * stride) * sizeof *x.sum);
    for (int64_t r = 0; r < n; r++) {
        x.max[r] = -INFINITY;
        x.total[r] = 0.0f;
    }
}

void tr_cpu_end_queries(const struct head *a, int64_t i0, int64_t n, struct online x,
                        int64_t stride, struct slice ctx, float *lse)
{
    for (int64_t r = 0; r < n; r++) {
        float row[TR_MAX_HEAD_DIM];

#pragma omp simd
        for (int64_t d = 0; d < a->d; d++)
            row[d] = x.sum[r * stride + d] / x.total[r];
        tr_cpu_put_row(ctx, i0 + r, a->d, row);
        lse[i0 + r] = x.max[r] + logf(x.total[r]);
    }
}

/* Queries i0 .. i0 + n - 1 and keys j0 .. j0 + count - 1, whose blocks are packed. */
static void attend_block(const struct head *a, int64_t i0, int64_t n, int64_t j0, int64_t count,
                         struct online so_far, struct forward_scratch *w)
{
    const struct tr_view q = view_of(a->q, i0), p = {.p = w->score, .stride = KEYS};
    /* Queries before the first key of the block see none of it. */
    const int64_t stride = packed_row(a->d), skip = j0 > i0 ? j0 - i0 : 0;

    multiply(q, skip, n - skip, a->d, w->keys, count, w->score + skip * KEYS, KEYS, false,
             w->tiles);
    for (int64_t r = skip; r < n; r++)
        tr_cpu_weigh(a, w->score + r * KEYS, online_at(so_far, stride, r), i0 + r, j0, count);
    multiply(p, skip, n - skip, count, w->values, a->d, so_far.sum + skip * stride, stride, true,
             w->tiles);
}

/* Blocks of queries of one head, begin .. end - 1. */
static void attend(const struct head *a, int64_t begin, int64_t end, struct slice ctx, float *lse,
                   struct forward_scratch *w)
{
    const int64_t stride = packed_row(a->d);
    const struct online all = {w->sum, w->max, w->total};

    tr_cpu_begin_queries(all, stride, end - begin);
    for (int64_t j0 = tr_cpu_first_block(a, begin, end - begin); j0 < end; j0 += KEYS) {
        int64_t count = smaller(end - j0, KEYS);
        struct tr_view k = turned(view_of(a->k, j0)), v = view_of(a->v, j0);

        pack(&k, a->d, count, w->keys);
        pack(&v, count, a->d, w->values);
        for (int64_t i0 = first_queries(begin, j0); i0 < end; i0 += QUERIES) {
            int64_t n = smaller(end - i0, QUERIES);

            if (j0 >= tr_cpu_first_block(a, i0, n))
                attend_block(a, i0, n, j0, count, online_at(all, stride, i0 - begin), w);
        }
    }
    tr_cpu_end_queries(a, begin, end - begin, all, stride, ctx, lse);
}

static bool worth(int threads, struct tr_attention_sizes s)
{
    return tr_cpu_worth_product(threads, s.b * s.heads * s.t * s.t * s.d);
}

/* Queries of a head that one task has: blocks that share packed keys, as many as there is room for
   and as leaves each thread several tasks.  A query's sums are the same however many they are. */
static int64_t queries_of_task(int threads, struct tr_attention_sizes s)
{
    const int64_t blocks = (s.t + QUERIES - 1) / QUERIES;
    const int64_t room = smaller(SHARE, SUM_FLOATS / (QUERIES * up_to(s.d, TR_BF16_DEPTH)));
    const int64_t most = smaller(room, s.b * s.heads * blocks / (4 * threads));
    const int64_t tasks = most > 1 ? (blocks + most - 1) / most : blocks;

    return (blocks + tasks - 1) / tasks * QUERIES;
}

void tr_cpu_attention(struct tr_queue *q, const struct tr_tensor *ctx, const struct tr_tensor *lse,
                      const struct tr_tensor *qkv, const struct tr_tensor *from,
                      struct tr_attention_how how, struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    const struct tr_bf16 *by = tr_cpu_attends_bf16(q->device, qkv, ctx, s.d);
    int threads = q->device->threads;
    int64_t each = queries_of_task(threads, s), per_head = (s.t + each - 1) / each;
    int64_t tasks = s.b * s.heads * per_head;

#pragma omp parallel for schedule(dynamic) num_threads(threads) if (worth(threads, s))
    for (int64_t i = 0; i < tasks; i++) {
        /* The longest first: the last queries. */
        int64_t bh = i % (s.b * s.heads), begin = (per_head - 1 - i / (s.b * s.heads)) * each;
        int64_t b = bh / s.heads, h = bh % s.heads, end = smaller(s.t, begin + each);
        struct head a = head_of(qkv, from, s, b, h, how, &drop);
        struct slice to = slice_of(ctx, s, b, s.heads, h);
        float *lse_of = tr_f32(lse) + bh * s.t;

        if (by)
            tr_cpu_attend_bf16(by, &a, begin, end, to, lse_of, tr_cpu_scratch(q));
        else
            attend(&a, begin, end, to, lse_of, (void *)tr_cpu_scratch(q));
    }
}

/* ---- backward ---- */

struct backward_scratch {
    float keys_turned[TR_MAX_HEAD_DIM * KEYS], values_turned[TR_MAX_HEAD_DIM * KEYS];
    float keys[KEYS * WIDEST];
    float packed[QUERIES_BWD * WIDEST]; /* queries or dctx */
    float p[QUERIES_BWD * KEYS], dp[QUERIES_BWD * KEYS];
    float tiles[STRIP_TILES * TILE_FLOATS];
    /* For those in fp16 or bf16. */
    float to_keys[2 * KEYS * TR_MAX_HEAD_DIM]; /* dk and dv of a block */
    float dq[QUERIES_BWD * TR_MAX_HEAD_DIM];
};

_Static_assert(sizeof(struct backward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* p[n] and dp[n] of one query and keys that it sees; keep[n] is NULL without dropout. */
static inline __attribute__((always_inline)) void slopes_of(const struct head *a, float delta,
                                                            float lse, const float *keep, float *p,
                                                            float *dp, int64_t n)
{
    const float factor = a->scale, scale = a->slope != 0.0f ? 1.0f : factor; /* of what is in p */

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float probability = exp_fast(p[i] * scale - lse), kept = keep ? keep[i] : 1.0f;

        dp[i] = factor * probability * (kept * dp[i] - delta);
        p[i] = probability * kept;
    }
}

void tr_cpu_weigh_bwd(const struct head *a, const struct gradients *g, float *p, float *dp,
                      int64_t query, int64_t key, int64_t count)
{
    struct sight s = sight_of(a, query, key, count);
    const int64_t seen = s.end - s.first, first = smaller(s.first, count);
    float delta = g->delta[query], lse = g->lse[query], keep[KEYS];

    for (int64_t i = 0; i < first; i++)
        p[i] = dp[i] = 0.0f;
    if (a->slope != 0.0f && seen > 0)
        score_row(a, query, key + s.first, seen, p + s.first);
    if (a->threshold > 0) {
        tr_cpu_mask(a->rng, a->draws + (uint64_t)(query * a->t + key), s.end, a->threshold, a->kept,
                    keep);
        slopes_of(a, delta, lse, keep + first, p + first, dp + first, seen);
    } else if (seen == KEYS) {
        slopes_of(a, delta, lse, NULL, p, dp, KEYS);
    } else {
        slopes_of(a, delta, lse, NULL, p + first, dp + first, seen);
    }
    for (int64_t i = s.end; i < count; i++)
        p[i] = dp[i] = 0.0f;
}

struct sums tr_cpu_key_sums(const struct head *a, const struct gradients *g, int which, int64_t j0,
                            float *to_keys)
{
    if (g->room)
        return (struct sums){g->room + (which * g->rows + j0) * a->d, a->d};
    return sums_of(which ? g->dv : g->dk, j0, a->d, to_keys + which * KEYS * a->d);
}

void tr_cpu_end_keys(const struct head *a, const struct gradients *g, int64_t j0, int64_t count,
                     struct sums dk, struct sums dv)
{
    if (g->dk.of->dtype == TR_F32 || !g->last)
        return;
    for (int64_t j = 0; j < count; j++) {
        tr_cpu_put_row(g->dk, j0 + j, a->d, dk.p + j * dk.stride);
        tr_cpu_put_row(g->dv, j0 + j, a->d, dv.p + j * dv.stride);
    }
}

/*
 * dq of rows row .. row + n - 1 is summed in floats over all blocks of keys.  With fp16 and bf16 and one run of
 * heads the sums are meanwhile where dk and dv of the same rows will be, which have just the room: the
 * last keys that a query sees are those of its own block, and dk and dv of a block are stored after
 * its loop.
 */
static void load_sums(const struct gradients *g, int64_t row, int64_t n, int64_t d, float *dq)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(dq + i * d, tr_cpu_at(g->dk.of, g->dk.first + (row + i) * g->dk.stride),
               (size_t)d * sizeof *dq);
}

static void store_sums(const struct gradients *g, int64_t row, int64_t n, int64_t d,
                       const float *dq)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(tr_cpu_at(g->dk.of, g->dk.first + (row + i) * g->dk.stride), dq + i * d,
               (size_t)d * sizeof *dq);
}

static bool lends(const struct gradients *g)
{
    return g->dq.of->dtype != TR_F32 && !g->dq_room;
}

struct sums tr_cpu_begin_dq(const struct head *a, const struct gradients *g, int64_t i0, int64_t n,
                            bool add, float *dq)
{
    if (g->dq_room)
        return (struct sums){g->dq_room + i0 * a->d, a->d};
    if (lends(g) && add)
        load_sums(g, i0, n, a->d, dq);
    return sums_of(g->dq, i0, a->d, dq);
}

void tr_cpu_end_dq(const struct head *a, const struct gradients *g, int64_t i0, int64_t n,
                   bool last, struct sums dq)
{
    if (lends(g) && !last)
        store_sums(g, i0, n, a->d, dq.p);
    for (int64_t i = 0; g->dq.of->dtype != TR_F32 && last && i < n; i++)
        tr_cpu_put_row(g->dq, i0 + i, a->d, dq.p + i * a->d);
}

/* Keys j0 .. j0 + count - 1 and queries i0 .. i0 + n - 1, with the keys' blocks packed. */
static void pair_bwd(const struct head *a, const struct gradients *g, int64_t j0, int64_t count,
                     int64_t i0, int64_t n, struct backward_scratch *w)
{
    const struct tr_view q = view_of(a->q, i0), dctx = view_of(g->dctx, i0);
    const struct tr_view p = {.p = w->p, .stride = KEYS}, ds = {.p = w->dp, .stride = KEYS};
    const struct sums dk = tr_cpu_key_sums(a, g, 0, j0, w->to_keys);
    const struct sums dv = tr_cpu_key_sums(a, g, 1, j0, w->to_keys);
    const bool add = i0 > j0 || !g->first;
    int64_t from = tr_cpu_first_block(a, i0, n);
    struct sums dq;

    if (j0 < from)
        return;
    multiply(q, 0, n, a->d, w->keys_turned, count, w->p, KEYS, false, w->tiles);
    multiply(dctx, 0, n, a->d, w->values_turned, count, w->dp, KEYS, false, w->tiles);
    for (int64_t r = 0; r < n; r++)
        tr_cpu_weigh_bwd(a, g, w->p + r * KEYS, w->dp + r * KEYS, i0 + r, j0, count);
    pack(&dctx, n, a->d, w->packed);
    multiply(turned(p), 0, count, n, w->packed, a->d, dv.p, dv.stride, add, w->tiles);
    pack(&q, n, a->d, w->packed);
    multiply(turned(ds), 0, count, n, w->packed, a->d, dk.p, dk.stride, add, w->tiles);
    dq = tr_cpu_begin_dq(a, g, i0, n, j0 > from, w->dq);
    multiply(ds, 0, n, count, w->keys, a->d, dq.p, dq.stride, j0 > from, w->tiles);
    tr_cpu_end_dq(a, g, i0, n, i0 == j0, dq);
}

static void attend_bwd(const struct head *a, const struct gradients *g, struct backward_scratch *w)
{
    for (int64_t j0 = 0; j0 < a->t; j0 += KEYS) {
        int64_t count = smaller(a->t - j0, KEYS), end = end_of_window(a, j0 + count - 1);
        struct tr_view k = view_of(a->k, j0), k_turned = turned(k), v = turned(view_of(a->v, j0));

        pack(&k_turned, a->d, count, w->keys_turned);
        pack(&k, count, a->d, w->keys);
        pack(&v, a->d, count, w->values_turned);
        for (int64_t i0 = j0; i0 < end; i0 += QUERIES_BWD)
            pair_bwd(a, g, j0, count, i0, smaller(a->t - i0, QUERIES_BWD), w);
        tr_cpu_end_keys(a, g, j0, count, tr_cpu_key_sums(a, g, 0, j0, w->to_keys),
                        tr_cpu_key_sums(a, g, 1, j0, w->to_keys));
    }
}

/* Room for `floats` floats.  It grows, and lives as long as the device. */
float *tr_cpu_room(struct tr_queue *q, int64_t floats)
{
    struct tr_device *d = q->device;
    void *room;

    if (d->room_floats < floats) {
        if (tr_host_reserve(d, (size_t)floats * sizeof(float), &room) != TR_OK)
            tr_die(TR_ERESOURCE, "no memory left for the gradients of attention: %s",
                   tr_last_error());
        d->room = room;
        d->room_floats = floats;
    }
    return d->room;
}

/* How the heads of each group are divided among threads.  It depends on sizes alone, and so do the results. */
struct division {
    int64_t runs, tasks; /* of a group, and of all groups of all samples */
    int64_t rows;        /* of a part of the room: whole blocks of keys */
    int64_t floats; /* of the room of a task, or of a thread where a group is one run; 0: none */
    bool dq;        /* the room has dq, too */
    float *room, *delta; /* delta[b,heads,t]: dctx . ctx of each query */
};

enum { TASKS = 16 }; /* that a few cores share evenly */

static struct division divide(struct tr_queue *q, struct tr_attention_sizes s, bool half)
{
    int64_t groups = s.b * s.groups, each = s.heads / s.groups, queries = s.b * s.heads * s.t;
    int64_t rooms;
    struct division x = {.runs = smaller(each, (TASKS + groups - 1) / groups),
                         .rows = (s.t + KEYS - 1) / KEYS * KEYS};

    x.tasks = groups * x.runs;
    x.dq = half && x.runs > 1;
    if (x.runs > 1 || (half && each > 1))
        x.floats = (x.dq ? 3 : 2) * x.rows * s.d;
    rooms = x.runs > 1 ? x.tasks : q->device->threads;
    x.room = tr_cpu_room(q, x.floats * rooms + queries);
    x.delta = x.room + x.floats * rooms;
    return x;
}

static void dots_of_rows(struct slice dctx, struct slice ctx, int64_t t, int64_t d, float *delta)
{
    for (int64_t i = 0; i < t; i++) {
        float row[2][TR_MAX_HEAD_DIM], sum = 0.0f;
        const float *one = get_row(dctx, i, d, row[0]), *two = get_row(ctx, i, d, row[1]);

#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < d; k++)
            sum += one[k] * two[k];
        delta[i] = sum;
    }
}

/* dk and dv of group bg: the sums over its runs, in their order, for keys j .. end - 1. */
static void add_runs(const struct tr_tensor *dqkv, struct tr_attention_sizes s,
                     const struct division *x, int64_t bg, int64_t j, int64_t end)
{
    int64_t first_head = bg % s.groups * (s.heads / s.groups);
    float *sums = x->room + bg * x->runs * x->floats;

    for (int which = 0; which < 2; which++) {
        struct slice to = part_of(dqkv, s, bg / s.groups, first_head, which ? VALUE : KEY);

        for (int64_t row = j; row < end; row++) {
            float *sum = sums + (which * x->rows + row) * s.d;

            for (int64_t run = 1; run < x->runs; run++) {
                const float *plus = sum + run * x->floats;

#pragma omp simd
                for (int64_t d = 0; d < s.d; d++)
                    sum[d] += plus[d];
            }
            tr_cpu_put_row(to, row, s.d, sum);
        }
    }
}

void tr_cpu_attention_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                          const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                          const struct tr_tensor *lse, const struct tr_tensor *qkv,
                          const struct tr_tensor *from, struct tr_attention_how how,
                          struct tr_dropout drop)
{
    struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    int64_t each = s.heads / s.groups, blocks = (s.t + KEYS - 1) / KEYS;
    const struct division x = divide(q, s, dqkv->dtype != TR_F32);
    const bool halves = dqkv->dtype == TR_BF16 && dctx->dtype == TR_BF16;
    const struct tr_bf16 *by = halves ? tr_cpu_attends_bf16(q->device, qkv, ctx, s.d) : NULL;
    int threads = q->device->threads;

    tr_sizes_attention(dctx, lse, dqkv, from, how, &drop);
#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
#pragma omp for
        for (int64_t i = 0; i < s.b * s.heads; i++)
            dots_of_rows(slice_of(dctx, s, i / s.heads, s.heads, i % s.heads),
                         slice_of(ctx, s, i / s.heads, s.heads, i % s.heads), s.t, s.d,
                         x.delta + i * s.t);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < x.tasks; task++) {
            int64_t bg = task / x.runs, run = task % x.runs, b = bg / s.groups;
            int64_t begin = each * run / x.runs, end = each * (run + 1) / x.runs;
            float *room =
                x.floats > 0 ? x.room + (x.runs > 1 ? task : tr_cpu_thread()) * x.floats : NULL;

            for (int64_t i = begin; i < end; i++) {
                int64_t h = bg % s.groups * each + i;
                struct head a = head_of(qkv, from, s, b, h, how, &drop);
                struct gradients g = {.dq = part_of(dqkv, s, b, h, QUERY),
                                      .dk = part_of(dqkv, s, b, h, KEY),
                                      .dv = part_of(dqkv, s, b, h, VALUE),
                                      .dctx = slice_of(dctx, s, b, s.heads, h),
                                      .lse = tr_f32(lse) + (b * s.heads + h) * s.t,
                                      .delta = x.delta + (b * s.heads + h) * s.t,
                                      .room = room,
                                      .dq_room = x.dq ? room + 2 * x.rows * s.d : NULL,
                                      .rows = x.rows,
                                      .first = i == begin,
                                      .last = x.runs == 1 && i == end - 1};

                if (by)
                    tr_cpu_attend_bwd_bf16(by, &a, &g, tr_cpu_scratch(q));
                else
                    attend_bwd(&a, &g, (void *)tr_cpu_scratch(q));
            }
        }
        if (x.runs > 1) {
#pragma omp for
            for (int64_t i = 0; i < s.b * s.groups * blocks; i++)
                add_runs(dqkv, s, &x, i / blocks, i % blocks * KEYS,
                         smaller(s.t, (i % blocks + 1) * KEYS));
        }
    }
}
