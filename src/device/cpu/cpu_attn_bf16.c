/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_attn.h"

#include "device/cpu/cpu_half.h"
#include "device/host.h"

/*
 * Attention of bf16 numbers by the processor's bf16 instructions.  Weights of the values and
 * gradients of scores are rounded to bf16 before they are multiplied, as GPUs do; sums, maxima and
 * logarithms are floats.
 */

enum { WIDE = (TR_MAX_HEAD_DIM + TR_BF16_DEPTH - 1) / TR_BF16_DEPTH * TR_BF16_DEPTH };

/* Columns of products are those of a head, which are whole vectors; sums lie there without gaps. */
const struct tr_bf16 *tr_cpu_attends_bf16(const struct tr_device *d, const struct tr_tensor *qkv,
                                          const struct tr_tensor *ctx, int64_t width)
{
    const bool fits =
        qkv->dtype == TR_BF16 && ctx->dtype == TR_BF16 && width % TR_BF16_COLUMNS == 0;

    return fits ? d->bf16 : NULL;
}

/* Rows of bf16 numbers, `stride` apart. */
struct lines {
    const uint16_t *p;
    int64_t stride;
};

/* Rows row .. row + n - 1 of x in to[rows,columns], with zeros.  Rows that are multiplied several
   times are copied: those of a tensor share few sets of a cache. */
static void copy_rows(struct slice x, int64_t row, int64_t n, int64_t d, int64_t rows,
                      int64_t columns, uint16_t *to)
{
    tr_bf16_copy(tr_cpu_at(x.of, x.first + row * x.stride), x.stride, n, d, rows, columns, to);
}

/* The same as [rows,columns] to be read once: where they lie, or, where zeros have to fill them up,
   in `room`. */
static struct lines get_rows(struct slice x, int64_t row, int64_t n, int64_t d, int64_t rows,
                             int64_t columns, uint16_t *room)
{
    const struct lines here = {tr_cpu_at(x.of, x.first + row * x.stride), x.stride};

    if (n == rows && d == columns)
        return here;
    copy_rows(x, row, n, d, rows, columns, room);
    return (struct lines){room, columns};
}

/* Rows of a block of scores in bf16.  What is behind the last of `count` keys becomes zeros. */
static void round_rows(float *score, int64_t n, int64_t count, uint16_t *half)
{
    for (int64_t r = 0; count < KEYS && r < n; r++)
        memset(score + r * KEYS + count, 0, (size_t)(KEYS - count) * sizeof *score);
    tr_cpu_narrow(TR_BF16, score, n * KEYS, half);
}

/* Rows row .. row + n - 1 of x, filled up to KEYS, packed as columns of scores. */
static void pack_turned(struct slice x, int64_t row, int64_t n, int64_t d, uint16_t *room,
                        uint16_t *packed)
{
    const int64_t depth = up_to(d, TR_BF16_DEPTH);
    const struct lines x_rows = get_rows(x, row, n, d, KEYS, depth, room);

    tr_bf16_pack_turned(x_rows.p, x_rows.stride, KEYS, depth, packed);
}

/* The same, filled up to `rows`, packed as what weights multiply. */
static void pack_straight(struct slice x, int64_t row, int64_t n, int64_t d, int64_t rows,
                          uint16_t *room, uint16_t *packed)
{
    const struct lines x_rows = get_rows(x, row, n, d, rows, d, room);

    tr_bf16_pack(x_rows.p, x_rows.stride, rows, d, packed);
}

/* ---- forward ---- */

struct forward_scratch {
    _Alignas(64) uint16_t queries[SUM_FLOATS], rows[KEYS * WIDE], keys[KEYS * WIDE],
        values[KEYS * WIDE], weights[QUERIES * KEYS];
    _Alignas(64) float score[QUERIES * KEYS], sum[SUM_FLOATS];
    float max[SHARE * QUERIES], total[SHARE * QUERIES];
};

_Static_assert(sizeof(struct forward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* Scores of queries skip .. n - 1 and `count` keys become weights in bf16; rows from `first` on are
   multiplied. */
static void weigh_rows(const struct head *a, struct forward_scratch *w, struct online so_far,
                       int64_t i0, int64_t first, int64_t skip, int64_t n, int64_t j0,
                       int64_t count)
{
    memset(w->weights + first * KEYS, 0, (size_t)(skip - first) * KEYS * sizeof *w->weights);
    for (int64_t r = skip; r < n; r++)
        tr_cpu_weigh(a, w->score + r * KEYS, online_at(so_far, a->d, r), i0 + r, j0, count);
    round_rows(w->score + skip * KEYS, n - skip, count, w->weights + skip * KEYS);
    memset(w->weights + n * KEYS, 0,
           (size_t)(up_to(n, TR_BF16_ROWS) - n) * KEYS * sizeof *w->weights);
}

/* Queries i0 .. i0 + n - 1 and keys j0 .. j0 + count - 1, whose blocks are packed. */
static void attend_block(const struct tr_bf16 *by, const struct head *a, struct forward_scratch *w,
                         const uint16_t *queries, struct online so_far, int64_t i0, int64_t n,
                         int64_t j0, int64_t count)
{
    const int64_t depth = up_to(a->d, TR_BF16_DEPTH), rows = up_to(n, TR_BF16_ROWS);
    /* Queries before the first key of the block see none of it. */
    const int64_t skip = j0 > i0 ? j0 - i0 : 0, first = skip / TR_BF16_ROWS * TR_BF16_ROWS;

    by->multiply(&(struct tr_bf16_block){.rows = rows - first,
                                         .columns = KEYS,
                                         .depth = depth,
                                         .a = queries + first * depth,
                                         .a_stride = depth,
                                         .packed = w->keys,
                                         .c = w->score + first * KEYS,
                                         .c_stride = KEYS});
    weigh_rows(a, w, so_far, i0, first, skip, n, j0, count);
    by->multiply(&(struct tr_bf16_block){.rows = rows - first,
                                         .columns = a->d,
                                         .depth = KEYS,
                                         .a = w->weights + first * KEYS,
                                         .a_stride = KEYS,
                                         .packed = w->values,
                                         .c = so_far.sum + first * a->d,
                                         .c_stride = a->d,
                                         .add = true});
}

void tr_cpu_attend_bf16(const struct tr_bf16 *by, const struct head *a, int64_t begin, int64_t end,
                        struct slice ctx, float *lse, void *scratch)
{
    const int64_t depth = up_to(a->d, TR_BF16_DEPTH), all = up_to(end - begin, TR_BF16_ROWS);
    struct forward_scratch *w = scratch;
    const struct online first = {w->sum, w->max, w->total};

    by->begin();
    copy_rows(a->q, begin, end - begin, a->d, all, depth, w->queries);
    tr_cpu_begin_queries(first, a->d, all);
    for (int64_t j0 = tr_cpu_first_block(a, begin, end - begin); j0 < end; j0 += KEYS) {
        int64_t count = smaller(end - j0, KEYS);

        pack_turned(a->k, j0, count, a->d, w->rows, w->keys);
        pack_straight(a->v, j0, count, a->d, KEYS, w->rows, w->values);
        for (int64_t i0 = first_queries(begin, j0); i0 < end; i0 += QUERIES) {
            int64_t n = smaller(end - i0, QUERIES), r = i0 - begin;

            if (j0 >= tr_cpu_first_block(a, i0, n))
                attend_block(by, a, w, w->queries + r * depth, online_at(first, a->d, r), i0, n, j0,
                             count);
        }
    }
    by->end();
    tr_cpu_end_queries(a, begin, end - begin, first, a->d, ctx, lse);
}

/* ---- backward ---- */

/*
 * A block of queries is copied and packed once for up to SHARE_BWD blocks of keys.  These have
 * KEY_FLOATS, 640 KiB of the scratch: each is packed three times and has the sums of two gradients.
 */
enum { SHARE_BWD = 4, KEY_FLOATS = 4 * KEYS * 640 };

static int64_t key_floats(int64_t d)
{
    return 4 * KEYS * up_to(d, TR_BF16_DEPTH);
}

static int64_t key_blocks(int64_t d)
{
    return smaller(SHARE_BWD, KEY_FLOATS / key_floats(d));
}

/* Queries and dctx as they are, for the left side of a product, and packed, for the right. */
struct backward_scratch {
    _Alignas(64) float keys[KEY_FLOATS];
    _Alignas(64) uint16_t rows[KEYS * WIDE], queries[QUERIES_BWD * WIDE], dctx[QUERIES_BWD * WIDE];
    _Alignas(64) uint16_t queries_packed[QUERIES_BWD * WIDE], dctx_packed[QUERIES_BWD * WIDE];
    _Alignas(64) uint16_t p_half[QUERIES_BWD * KEYS], dp_half[QUERIES_BWD * KEYS];
    _Alignas(64) uint16_t pairs[QUERIES_BWD * KEYS], turned[KEYS * QUERIES_BWD];
    _Alignas(64) float p[QUERIES_BWD * KEYS], dp[QUERIES_BWD * KEYS];
    _Alignas(64) float dq[QUERIES_BWD * TR_MAX_HEAD_DIM];
};

_Static_assert(sizeof(struct backward_scratch) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* Keys j0 .. j0 + count - 1, packed, and dk and dv of them. */
struct key_block {
    int64_t j0, count;
    uint16_t *turned, *values_turned, *straight;
    float *sums;
};

static struct key_block pack_keys(const struct head *a, int64_t j0, uint16_t *rows, float *room)
{
    const int64_t size = KEYS * up_to(a->d, TR_BF16_DEPTH);
    uint16_t *packed = (void *)(room + 2 * size);
    const struct key_block x = {.j0 = j0,
                                .count = smaller(a->t - j0, KEYS),
                                .turned = packed,
                                .values_turned = packed + size,
                                .straight = packed + 2 * size,
                                .sums = room};

    pack_turned(a->v, j0, x.count, a->d, rows, x.values_turned);
    pack_turned(a->k, j0, x.count, a->d, rows, x.turned);
    pack_straight(a->k, j0, x.count, a->d, KEYS, rows, x.straight);
    return x;
}

/* n rows of x from i0 on, as they are and packed. */
static void get_queries(const struct head *a, struct slice x, int64_t i0, int64_t n, uint16_t *rows,
                        uint16_t *packed)
{
    const int64_t depth = up_to(a->d, TR_BF16_DEPTH);

    copy_rows(x, i0, n, a->d, QUERIES_BWD, depth, rows);
    tr_bf16_pack(rows, depth, QUERIES_BWD, a->d, packed);
}

/* scores[QUERIES_BWD,KEYS] = n rows times packed[depth,KEYS]. */
static void score_rows(const struct tr_bf16 *by, const struct head *a, const uint16_t *rows,
                       int64_t n, const uint16_t *packed, float *scores)
{
    const int64_t depth = up_to(a->d, TR_BF16_DEPTH);

    by->multiply(&(struct tr_bf16_block){.rows = up_to(n, TR_BF16_ROWS),
                                         .columns = KEYS,
                                         .depth = depth,
                                         .a = rows,
                                         .a_stride = depth,
                                         .packed = packed,
                                         .c = scores,
                                         .c_stride = KEYS});
}

/* sums of keys (+)= the transpose of half[QUERIES_BWD,KEYS] times packed rows. */
static void add_to_keys(const struct tr_bf16 *by, const struct head *a, const uint16_t *packed,
                        const uint16_t *half, struct sums to, bool add, struct backward_scratch *w)
{
    tr_bf16_turn(half, QUERIES_BWD, KEYS, w->pairs, w->turned);
    by->multiply(&(struct tr_bf16_block){.rows = KEYS,
                                         .columns = a->d,
                                         .depth = QUERIES_BWD,
                                         .a = w->turned,
                                         .a_stride = QUERIES_BWD,
                                         .packed = packed,
                                         .c = to.p,
                                         .c_stride = to.stride,
                                         .add = add});
}

/* dq of n queries.  Rows of whole tiles may go past the last one, so they are summed in scratch. */
static void add_to_queries(const struct tr_bf16 *by, const struct head *a,
                           const struct key_block *k, int64_t n, struct sums dq, bool add,
                           struct backward_scratch *w)
{
    by->multiply(&(struct tr_bf16_block){.rows = up_to(n, TR_BF16_ROWS),
                                         .columns = a->d,
                                         .depth = KEYS,
                                         .a = w->dp_half,
                                         .a_stride = KEYS,
                                         .packed = k->straight,
                                         .c = dq.p,
                                         .c_stride = dq.stride,
                                         .add = add});
}

/* Queries i0 .. i0 + n - 1 and a block of keys. */
static void pair_bwd(const struct tr_bf16 *by, const struct head *a, const struct gradients *g,
                     const struct key_block *k, int64_t i0, int64_t n, struct sums dq, bool add_dq,
                     struct backward_scratch *w)
{
    const struct sums dk = tr_cpu_key_sums(a, g, 0, k->j0, k->sums);
    const struct sums dv = tr_cpu_key_sums(a, g, 1, k->j0, k->sums);
    const bool add = i0 > k->j0 || !g->first;
    const size_t rest = (size_t)(QUERIES_BWD - n) * KEYS * sizeof *w->p_half;

    score_rows(by, a, w->queries, n, k->turned, w->p);
    score_rows(by, a, w->dctx, n, k->values_turned, w->dp);
    for (int64_t r = 0; r < n; r++)
        tr_cpu_weigh_bwd(a, g, w->p + r * KEYS, w->dp + r * KEYS, i0 + r, k->j0, k->count);
    round_rows(w->p, n, k->count, w->p_half);
    round_rows(w->dp, n, k->count, w->dp_half);
    memset(w->p_half + n * KEYS, 0, rest);
    memset(w->dp_half + n * KEYS, 0, rest);
    add_to_keys(by, a, w->dctx_packed, w->p_half, dv, add, w);
    add_to_keys(by, a, w->queries_packed, w->dp_half, dk, add, w);
    add_to_queries(by, a, k, n, dq, add_dq, w);
}

/* Blocks of keys, j0 .. end - 1, with all queries that see any of them. */
static void attend_keys(const struct tr_bf16 *by, const struct head *a, const struct gradients *g,
                        int64_t j0, int64_t end, struct backward_scratch *w)
{
    struct key_block k[SHARE_BWD];
    int blocks = 0;

    for (int64_t j = j0; j < end; j += KEYS, blocks++)
        k[blocks] = pack_keys(a, j, w->rows, w->keys + blocks * key_floats(a->d));
    for (int64_t i0 = j0; i0 < end_of_window(a, end - 1); i0 += QUERIES_BWD) {
        const int64_t n = smaller(a->t - i0, QUERIES_BWD), from = tr_cpu_first_block(a, i0, n);
        struct sums dq;

        if (from >= end)
            continue;
        get_queries(a, a->q, i0, n, w->queries, w->queries_packed);
        get_queries(a, g->dctx, i0, n, w->dctx, w->dctx_packed);
        dq = tr_cpu_begin_dq(a, g, i0, n, j0 > from, w->dq);
        for (int b = 0; b < blocks && k[b].j0 <= i0; b++)
            if (k[b].j0 >= from)
                pair_bwd(by, a, g, &k[b], i0, n, dq, k[b].j0 > from, w);
        tr_cpu_end_dq(a, g, i0, n, i0 < end, dq);
    }
    for (int b = 0; b < blocks; b++)
        tr_cpu_end_keys(a, g, k[b].j0, k[b].count, tr_cpu_key_sums(a, g, 0, k[b].j0, k[b].sums),
                        tr_cpu_key_sums(a, g, 1, k[b].j0, k[b].sums));
}

void tr_cpu_attend_bwd_bf16(const struct tr_bf16 *by, const struct head *a,
                            const struct gradients *g, void *scratch)
{
    const int64_t each = KEYS * key_blocks(a->d);

    by->begin();
    for (int64_t j0 = 0; j0 < a->t; j0 += each)
        attend_keys(by, a, g, j0, smaller(a->t, j0 + each), scratch);
    by->end();
}
