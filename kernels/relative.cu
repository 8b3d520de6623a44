/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_tiles.cuh"

/*
 * Disentangled attention: attention_relative of device/device.h.
 *
 * The distances of 64 queries to 64 keys have at most 127 buckets, which follow each other.  The products of the
 * queries with those keys of the table, and of the keys with those queries of the table, are made for 64 buckets at
 * a time and left in shared memory, where each pair takes the one of its bucket.
 *
 * Backward the gradients of scores are summed by row and bucket: by[64,R] for 64 queries, or keys, in memory
 * that belongs to their block alone.  With the table that makes the rest of the gradient of the rows; with the
 * rows, summed over all tiles of a head in their order, the gradient of the table.
 */
namespace
{

enum { QUERY, KEY, VALUE };

/* What all kernels know.  Tiles of rows are numbered by head, then sample, then place. */
struct relative_shape {
    int64_t samples, heads, t, d, rows;
    int64_t tiles; /* of the rows of one sample */
    int first_head;
    float scale;
    const int32_t *bucket;  /* of distance 0 */
    const int32_t *lengths; /* or NULL */
    dropping drop;
};

/* 64 rows of one head of one sample, of which those before `length` are tokens. */
struct tile_of_head {
    int begin, length;
    int others;   /* tokens that these rows meet: all, or none where all rows are padding */
    int64_t pair; /* sample * heads + head */
    int64_t qkv, place, ctx; /* where row 0 of the head begins in qkv, the table and ctx */
    int64_t item;            /* names the draws of the sample, */
    uint64_t draws;          /*   of which this is that of (query 0, key 0) */
};

TR_INLINE tile_of_head tile_of(const relative_shape &a, int64_t number)
{
    const int64_t b = number / a.tiles % a.samples, h = number / a.tiles / a.samples;
    tile_of_head x;

    x.begin = (int)(number % a.tiles) * TILE;
    x.length = a.lengths ? a.lengths[b] : (int)a.t;
    TR_NEVER(x.length < 0 || x.length > a.t);
    x.others = x.begin < x.length ? x.length : 0;
    x.pair = b * a.heads + h;
    x.place = 3 * h * a.d;
    x.qkv = b * a.t * 3 * a.heads * a.d + x.place;
    x.ctx = (b * a.t * a.heads + h) * a.d;
    x.item = a.drop.threshold ? a.drop.sample[b] : 0;
    x.draws = (uint64_t)(a.first_head + h) * (uint64_t)a.t * (uint64_t)a.t;
    return x;
}

/* Part `what` of the rows from `row` on of qkv, as far as they are tokens; of the table; and the rows of ctx. */
template <class X>
TR_INLINE rows<X> tokens_of(X qkv, const relative_shape &a, const tile_of_head &h, int what,
                            int64_t row)
{
    return rows<X>{qkv, h.qkv + what * a.d, 3 * a.heads * a.d, row, h.length, (int)a.d};
}

template <class X>
TR_INLINE rows<X> places_of(X rel, const relative_shape &a, const tile_of_head &h, int what,
                            int64_t row)
{
    return rows<X>{rel, h.place + what * a.d, 3 * a.heads * a.d, row, a.rows, (int)a.d};
}

template <class X>
TR_INLINE rows<X> results_of(X ctx, const relative_shape &a, const tile_of_head &h, int64_t row)
{
    return rows<X>{ctx, h.ctx, a.heads * a.d, row, h.length, (int)a.d};
}

/* To be written, which padding is too. */
template <class X> TR_INLINE rows<X> with_padding(rows<X> x, const relative_shape &a)
{
    x.t = a.t;
    return x;
}

TR_INLINE marks marks_of(const relative_shape &a, const tile_of_head &h, int64_t query, int64_t key)
{
    marks m = {0, 0};

    TR_UNROLL_BY(1)
    for (int i = 0; i < EACH && query + i < h.length; i++) {
        unsigned row = 0;

        for (int j = 0; j < EACH; j++)
            row |= (unsigned)(key + j < h.length) << j;
        m.seen |= row << EACH * i;
        if (a.drop.threshold && row)
            row &= kept_of_four(a.drop, h.item, h.draws + (uint64_t)((query + i) * a.t + key));
        m.kept |= row << EACH * i;
    }
    return m;
}

/*
 * The distances of a tile of rows with one of columns are row - column, or with BY_KEY the negative; `least` and
 * `most` are theirs, and their buckets are low .. low + count - 1.
 */
template <bool BY_KEY> struct distances {
    const int32_t *bucket;
    int row, column, least, most, low, count;

    TR_INLINE distances(const relative_shape &a, const tile_of_head &h, int first_row,
                        int first_column)
    {
        const int last_row = min(first_row + TILE, h.length) - 1;
        const int last_column = min(first_column + TILE, h.length) - 1;

        bucket = a.bucket;
        row = first_row;
        column = first_column;
        least = BY_KEY ? column - last_row : row - last_column;
        most = BY_KEY ? last_column - row : last_row - column;
        low = bucket[least];
        count = bucket[most] - low + 1;
        TR_NEVER(low < 0 || low + count > a.rows || count > 2 * TILE);
    }

    /* Of this thread's pairs: at[i - j + 3] is the bucket of row 4 y + i and column 4 x + j, less low. */
    TR_INLINE void of_thread(int (&at)[2 * EACH - 1]) const
    {
        const place_of_thread me = place();

        TR_UNROLL
        for (int k = 0; k < 2 * EACH - 1; k++) {
            const int ahead = row - column + (me.y - me.x) * EACH + k - (EACH - 1);

            at[k] = bucket[min(max(BY_KEY ? -ahead : ahead, least), most)] - low;
        }
    }
};

/* s += the products of x with the rows of the table that the pairs' buckets have.  x has the rows of the tile or,
   ACROSS, the columns.  The weights are free again behind the next barrier. */
template <bool ACROSS, class X, class D>
TR_INLINE void add_by_bucket(float (&s)[EACH][EACH], const rows<X> &x, rows<X> table,
                             const D &apart, float *weights, float *room)
{
    const place_of_thread me = place();

    TR_UNROLL_BY(1)
    for (int c = 0; c < apart.count; c += TILE) {
        float product[EACH][EACH];
        int at[2 * EACH - 1];

        table.token = apart.low + c;
        scores(product, x, table, room);
        apart.of_thread(at);
        TR_UNROLL
        for (int i = 0; i < EACH; i++)
            put_weights(weights, i, product[i]);
        __syncthreads();
        TR_UNROLL
        for (int i = 0; i < EACH; i++)
            for (int j = 0; j < EACH; j++) {
                const int row = ACROSS ? me.x * EACH + j : me.y * EACH + i;
                const int here = at[i - j + EACH - 1] - c;

                if (here >= 0 && here < TILE)
                    s[i][j] += weights[row * WEIGHTS + here];
            }
    }
}

/* Of rows with columns, before they are scaled, by the tables of each.  The weights are free when it returns. */
template <class X, class D>
TR_INLINE void all_scores(float (&s)[EACH][EACH], const rows<X> &x, const rows<X> &x_table,
                          const rows<X> &y, const rows<X> &y_table, const D &apart, float *weights,
                          float *room)
{
    float product[EACH][EACH];

    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            s[i][j] = 0.0f;
    add_by_bucket<false>(s, x, x_table, apart, weights, room);
    add_by_bucket<true>(s, y, y_table, apart, weights, room);
    scores(product, x, y, room);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            s[i][j] += product[i][j];
}

/* ---- forward ---- */

template <int CHUNKS, class X>
__global__ void __launch_bounds__(THREADS, CHUNKS == 1 ? 2 : 1)
    relative_kernel(X ctx, float *lse, X qkv, X rel, relative_shape a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const tile_of_head h = tile_of(a, blockIdx.x);
    const float kept = a.drop.threshold ? a.drop.kept : 1.0f;
    sums<CHUNKS> sum;
    running of[EACH];

    sum.clear();
    TR_UNROLL
    for (int i = 0; i < EACH; i++)
        of[i] = running{-INFINITY, 0.0f};
    for (int key0 = 0; key0 < h.others; key0 += TILE) {
        float s[EACH][EACH];

        all_scores(s, tokens_of(qkv, a, h, QUERY, h.begin), places_of(rel, a, h, KEY, 0),
                   tokens_of(qkv, a, h, KEY, key0), places_of(rel, a, h, QUERY, 0),
                   distances<false>(a, h, h.begin, key0), weights, room);
        const marks m = marks_of(a, h, h.begin + me.y * EACH, key0 + me.x * EACH);
        TR_UNROLL
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++)
                s[i][j] = m.sees(i, j) ? s[i][j] * a.scale : -INFINITY;
            sum.scale_row(i, of[i].take(s[i]));
            for (int j = 0; j < EACH; j++)
                s[i][j] = m.keeps(i, j) ? s[i][j] : 0.0f;
            put_weights(weights, i, s[i]);
        }
        gather(sum, weights, tokens_of(qkv, a, h, VALUE, key0), room);
    }
    TR_UNROLL
    for (int i = 0; i < EACH; i++) {
        const int query = h.begin + me.y * EACH + i;
        const bool is = query < h.length;
        const float total = over_row(of[i].total, add_up());

        put_row(with_padding(results_of(ctx, a, h, h.begin), a), sum, i, is ? kept / total : 0.0f);
        if (me.x == 0 && query < a.t)
            lse[h.pair * a.t + query] = is ? of[i].max + logf(total) : 0.0f;
    }
}

/* ---- backward ---- */

/* Scratch of the gradient: of the heads that are computed together, and of tiles first .. of all. */
struct relative_scratch {
    int32_t *starts; /* [R+1]: where in a.bucket - (T - 1) a bucket begins */
    float *deltas;   /* [heads,samples,T] from head `head` on: dctx . ctx */
    float *by;       /* [tiles,64,R] */
    float *table;    /* [R,d]: of a table's gradient what tiles of its head before `first` have */
    int64_t head, first;
};

/* A bucket between those of two distances that follow each other begins at the second; one that none has, too. */
__global__ void __launch_bounds__(THREADS) starts_kernel(int32_t *starts, relative_shape a)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x, end = 2 * a.t - 1;
    const int32_t *bucket = a.bucket - (a.t - 1);

    if (x > end)
        return;
    for (int64_t c = x == 0 ? 0 : bucket[x - 1] + 1; c <= (x == end ? a.rows : bucket[x]); c++)
        starts[c] = (int32_t)x;
}

/* A warp for each token of each of n pairs, from head s.head on. */
template <class X>
__global__ void __launch_bounds__(THREADS)
    deltas_kernel(relative_scratch s, X dctx, X ctx, relative_shape a, int64_t n)
{
    const int64_t row = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const int64_t token = row % a.t, b = row / a.t % a.samples, h = s.head + row / a.t / a.samples;
    const int64_t from = ((b * a.t + token) * a.heads + h) * a.d;
    float sum = 0.0f;

    if (row >= n * a.t)
        return;
    for (int64_t d = threadIdx.x % WARP; d < a.d; d += WARP)
        sum += dctx.get(from + d) * ctx.get(from + d);
    sum = over_warp(sum, add_up());
    if (threadIdx.x % WARP == 0)
        s.deltas[row] = sum;
}

TR_INLINE const float *deltas_of(const relative_scratch &s, const relative_shape &a,
                                 const tile_of_head &h)
{
    const int64_t b = h.pair / a.heads, head = h.pair % a.heads;

    return s.deltas + ((head - s.head) * a.samples + b) * a.t;
}

/* The block's part of `by`. */
TR_INLINE float *by_of(const relative_scratch &s, const relative_shape &a)
{
    return s.by + (int64_t)blockIdx.x * TILE * a.rows;
}

/* The buckets of a tile's rows with all tokens of the sample: low .. end - 1. */
struct reach {
    int low, end;
};

template <bool BY_KEY> TR_INLINE reach reach_of(const relative_shape &a, const tile_of_head &h)
{
    const int last_row = min(h.begin + TILE, h.length) - 1, last = h.length - 1;

    return BY_KEY ? reach{a.bucket[-last_row], a.bucket[last - h.begin] + 1}
                  : reach{a.bucket[h.begin - last], a.bucket[last_row] + 1};
}

TR_INLINE void clear_by(float *by, const relative_shape &a, const reach &r)
{
    const int count = r.end - r.low;

    for (int e = (int)threadIdx.x; e < TILE * count; e += THREADS)
        by[e / count * a.rows + r.low + e % count] = 0.0f;
}

/* by[row,c] += what row has of the weights in columns whose bucket is c; those lie together. */
template <bool BY_KEY>
TR_INLINE void add_to_buckets(float *by, const float *weights, const int32_t *starts,
                              const relative_shape &a, const distances<BY_KEY> &apart)
{
    for (int e = (int)threadIdx.x; e < TILE * apart.count; e += THREADS) {
        const int row = e / apart.count, c = apart.low + e % apart.count;
        const int least = starts[c] - ((int)a.t - 1), most = starts[c + 1] - (int)a.t;
        const int zero = apart.row + row - apart.column; /* the column at distance 0 */
        const int from = max(BY_KEY ? zero + least : zero - most, 0);
        const int to = min(BY_KEY ? zero + most : zero - least, TILE - 1);
        float sum = 0.0f;

        for (int column = from; column <= to; column++)
            sum += weights[row * WEIGHTS + column];
        if (from <= to)
            by[row * a.rows + c] += sum;
    }
}

/* to += by times the rows of the table. */
template <int CHUNKS, class X>
TR_INLINE void gather_places(sums<CHUNKS> &to, const float *by, const reach &r, rows<X> table,
                             float *weights, float *room)
{
    for (int c0 = r.low; c0 < r.end; c0 += TILE) {
        __syncthreads();
        for (int e = (int)threadIdx.x; e < TILE * TILE; e += THREADS) {
            const int row = e / TILE, c = c0 + e % TILE;

            weights[row * WEIGHTS + e % TILE] = c < r.end ? by[row * table.t + c] : 0.0f;
        }
        table.token = c0;
        gather(to, weights, table, room);
    }
}

/* Of one pair: the probability as it weighs values, and the gradient of the score before it was scaled. */
struct pair_back {
    float p, ds;
};

TR_INLINE pair_back back_of(const relative_shape &a, const marks &m, int query, int key, float s,
                            float dp, float log, float delta)
{
    const float kept = !m.keeps(query, key) ? 0.0f : a.drop.threshold ? a.drop.kept : 1.0f;
    const float p = exp_quick(s * a.scale - log);

    return m.sees(query, key) ? pair_back{p * kept, a.scale * p * (dp * kept - delta)}
                              : pair_back{0.0f, 0.0f};
}

/* dq of 64 queries, and what their scores have by bucket. */
template <int CHUNKS, class X>
__global__ void __launch_bounds__(THREADS, CHUNKS == 1 ? 2 : 1)
    relative_queries_kernel(X dqkv, relative_scratch scratch, X dctx, const float *lse, X qkv,
                            X rel, relative_shape a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const tile_of_head h = tile_of(a, scratch.first + blockIdx.x);
    float *const by = by_of(scratch, a);
    sums<CHUNKS> dq;

    dq.clear();
    if (h.others > 0)
        clear_by(by, a, reach_of<false>(a, h));
    for (int key0 = 0; key0 < h.others; key0 += TILE) {
        const distances<false> apart(a, h, h.begin, key0);
        const rows<X> k_rows = tokens_of(qkv, a, h, KEY, key0);
        float s[EACH][EACH], dp[EACH][EACH];

        all_scores(s, tokens_of(qkv, a, h, QUERY, h.begin), places_of(rel, a, h, KEY, 0), k_rows,
                   places_of(rel, a, h, QUERY, 0), apart, weights, room);
        scores(dp, results_of(dctx, a, h, h.begin), tokens_of(qkv, a, h, VALUE, key0), room);
        const marks m = marks_of(a, h, h.begin + me.y * EACH, key0 + me.x * EACH);
        TR_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int query = min(h.begin + me.y * EACH + i, h.length - 1);
            const float log = lse[h.pair * a.t + query], delta = deltas_of(scratch, a, h)[query];

            for (int j = 0; j < EACH; j++)
                s[i][j] = back_of(a, m, i, j, s[i][j], dp[i][j], log, delta).ds;
            put_weights(weights, i, s[i]);
        }
        gather(dq, weights, k_rows, room);
        add_to_buckets(by, weights, scratch.starts, a, apart);
    }
    if (h.others > 0)
        gather_places(dq, by, reach_of<false>(a, h), places_of(rel, a, h, KEY, 0), weights, room);
    TR_UNROLL
    for (int i = 0; i < EACH; i++)
        put_row(with_padding(tokens_of(dqkv, a, h, QUERY, h.begin), a), dq, i, 1.0f);
}

/* dk and dv of 64 keys, which are the rows of a tile, and what their scores have by bucket. */
template <int CHUNKS, class X>
__global__ void __launch_bounds__(THREADS, CHUNKS == 1 ? 2 : 1)
    relative_keys_kernel(X dqkv, relative_scratch scratch, X dctx, const float *lse, X qkv, X rel,
                         relative_shape a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const tile_of_head h = tile_of(a, scratch.first + blockIdx.x);
    float *const by = by_of(scratch, a);
    sums<CHUNKS> dk, dv;

    dk.clear();
    dv.clear();
    if (h.others > 0)
        clear_by(by, a, reach_of<true>(a, h));
    for (int query0 = 0; query0 < h.others; query0 += TILE) {
        const distances<true> apart(a, h, h.begin, query0);
        const rows<X> q_rows = tokens_of(qkv, a, h, QUERY, query0);
        const rows<X> d_rows = results_of(dctx, a, h, query0);
        float p[EACH][EACH], ds[EACH][EACH];

        all_scores(p, tokens_of(qkv, a, h, KEY, h.begin), places_of(rel, a, h, QUERY, 0), q_rows,
                   places_of(rel, a, h, KEY, 0), apart, weights, room);
        scores(ds, tokens_of(qkv, a, h, VALUE, h.begin), d_rows, room);
        const marks m = marks_of(a, h, query0 + me.x * EACH, h.begin + me.y * EACH);
        TR_UNROLL
        for (int j = 0; j < EACH; j++) {
            const int query = min(query0 + me.x * EACH + j, h.length - 1);
            const float log = lse[h.pair * a.t + query], delta = deltas_of(scratch, a, h)[query];

            for (int i = 0; i < EACH; i++) {
                const pair_back back = back_of(a, m, j, i, p[i][j], ds[i][j], log, delta);

                p[i][j] = back.p;
                ds[i][j] = back.ds;
            }
        }
        TR_UNROLL
        for (int i = 0; i < EACH; i++)
            put_weights(weights, i, p[i]);
        gather(dv, weights, d_rows, room);
        __syncthreads();
        TR_UNROLL
        for (int i = 0; i < EACH; i++)
            put_weights(weights, i, ds[i]);
        gather(dk, weights, q_rows, room);
        add_to_buckets(by, weights, scratch.starts, a, apart);
    }
    if (h.others > 0)
        gather_places(dk, by, reach_of<true>(a, h), places_of(rel, a, h, QUERY, 0), weights, room);
    TR_UNROLL
    for (int i = 0; i < EACH; i++) {
        put_row(with_padding(tokens_of(dqkv, a, h, KEY, h.begin), a), dk, i, 1.0f);
        put_row(with_padding(tokens_of(dqkv, a, h, VALUE, h.begin), a), dv, i, 1.0f);
    }
}

/* Of which head, and which of its tiles, a block sums. */
struct part_of_tiles {
    int64_t n;        /* tiles from scratch.first on */
    bool begun, done; /* there were tiles of the head before, and none come behind */
};

/* to += by^T rows for buckets c0 .. c0 + 63, of tiles from .. end - 1, which are of one head: part `what` of tokens,
   columns from `column` on. */
template <class X>
TR_INLINE void gather_tiles(sums<1> &to, const relative_scratch &scratch, X qkv,
                            const relative_shape &a, int64_t from, int64_t end, int what, int c0,
                            int column, float *weights, float *room)
{
    for (int64_t number = from; number < end; number++) {
        const tile_of_head h = tile_of(a, number);
        const float *by = scratch.by + (number - scratch.first) * TILE * a.rows;
        rows<X> x = tokens_of(qkv, a, h, what, h.begin);

        if (h.others == 0)
            continue;
        const reach r = what == KEY ? reach_of<true>(a, h) : reach_of<false>(a, h);

        if (c0 >= r.end || c0 + TILE <= r.low)
            continue;
        x.first += column;
        x.d -= column;
        __syncthreads();
        for (int e = (int)threadIdx.x; e < TILE * TILE; e += THREADS) {
            const int row = e / TILE, c = c0 + e % TILE;

            weights[e % TILE * WEIGHTS + row] =
                c >= r.low && c < r.end ? by[row * a.rows + c] : 0.0f;
        }
        gather(to, weights, x, room);
    }
}

/*
 * The gradient of 64 rows of the table, 64 columns of one head: that of the keys with queries (what == QUERY), which
 * makes that of the values zero too, or that of the queries with keys.
 */
template <class X>
__global__ void __launch_bounds__(THREADS)
    relative_table_kernel(X drel, relative_scratch scratch, X qkv, relative_shape a, int what,
                          part_of_tiles part)
{
    TR_SHARED(float, room, [TILE * TILE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const int c0 = (int)blockIdx.x * TILE, column0 = (int)blockIdx.y * TILE;
    const int64_t head = scratch.head + blockIdx.z, each = a.tiles * a.samples;
    const int64_t end = min(scratch.first + part.n, (head + 1) * each);
    sums<1> sum;

    sum.clear();
    gather_tiles(sum, scratch, qkv, a, max(scratch.first, head * each), end, what, c0, column0,
                 weights, room);
    TR_UNROLL
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int64_t c = c0 + me.y * EACH + i, column = column0 + j * SIDE + me.x;
            const int64_t to = (c * 3 * a.heads + 3 * head) * a.d + column;
            float *const kept = scratch.table + c * a.d + column;

            if (c >= a.rows || column >= a.d)
                continue;
            const float all = part.begun ? *kept + sum.at[0][i][j] : sum.at[0][i][j];

            if (!part.done)
                *kept = all;
            else
                drel.set(to + (what == QUERY ? KEY : QUERY) * a.d, all);
            if (part.done && what == QUERY)
                drel.set(to + VALUE * a.d, 0.0f);
        }
}

/* ---- host ---- */

relative_shape shape_of(const struct tr_relative_sizes &s, const struct tr_relative *to,
                        struct tr_attention_how how, const struct tr_dropout *drop)
{
    relative_shape a = {};

    TR_ASSERT(s.t <= INT32_MAX / 4);
    a.samples = s.b;
    a.heads = s.heads;
    a.t = s.t;
    a.d = s.d;
    a.rows = s.rows;
    a.tiles = (s.t + TILE - 1) / TILE;
    a.first_head = how.first_head;
    a.scale = how.scale;
    a.bucket = elements<int32_t>(to->bucket) + s.t - 1;
    a.lengths = elements<int32_t>(to->lengths);
    a.drop = dropping_of(drop);
    return a;
}

unsigned blocks_of(int64_t n)
{
    TR_ASSERT(n > 0 && n <= INT32_MAX);
    return (unsigned)n;
}

/* f(accessor_of, chunks).  Models have one type for all operands; mixtures share kernels for the widest heads. */
template <class F, class... T>
void with_operands(int64_t d, F f, const struct tr_tensor *first, const T *...others)
{
    const int widest = (TR_MAX_HEAD_DIM + TILE - 1) / TILE;

    if (!(same_type(first, others) && ...)) {
        f([](const struct tr_tensor *x) { return mixed_of(x); }, constant<widest>());
        return;
    }
    with_float(first->dtype, [&](auto type) {
        const auto of = [](const struct tr_tensor *x) { return typed_of<decltype(type)>(x); };

        if (d <= TILE)
            f(of, constant<1>());
        else if (d <= 2 * TILE)
            f(of, constant<2>());
        else
            f(of, constant<widest>());
    });
}

/* How many heads, and how many tiles, have room in scratch together; whole heads, or a part of one. */
struct together {
    int64_t heads, tiles;
    size_t starts, table, deltas; /* bytes */
};

size_t whole_lines(int64_t elements)
{
    return ((size_t)elements * sizeof(float) + 255) / 256 * 256;
}

together together_of(const relative_shape &a)
{
    const int64_t each = a.tiles * a.samples;
    const size_t by = whole_lines(TILE * a.rows), delta = whole_lines(a.samples * a.t);
    together x = {};
    size_t left = tr_cuda_attention_scratch;

    x.starts = whole_lines(a.rows + 1);
    x.table = whole_lines(a.rows * a.d);
    TR_ASSERT(x.starts + 2 * x.table + delta + by <= left);
    left -= x.starts + 2 * x.table;
    x.heads = min(a.heads, (int64_t)(left / ((size_t)each * by + delta)));
    x.tiles = x.heads * each;
    if (x.heads == 0) {
        x.heads = 1;
        x.tiles = (int64_t)((left - delta) / by);
    }
    x.deltas = (size_t)x.heads * delta;
    return x;
}

} // namespace

extern "C" void tr_cuda_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                                           const struct tr_tensor *lse, const struct tr_tensor *qkv,
                                           const struct tr_relative *to,
                                           struct tr_attention_how how, struct tr_dropout drop)
{
    const struct tr_relative_sizes s = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);
    const relative_shape a = shape_of(s, to, how, &drop);
    const unsigned blocks = blocks_of(a.heads * a.samples * a.tiles);

    with_operands(
        a.d,
        [&](auto of, auto chunks) {
            using X = decltype(of(ctx));

            TR_LAUNCH(q, (relative_kernel<decltype(chunks)::value, X>), blocks, THREADS, 0, of(ctx),
                      tr_f32(lse), of(qkv), of(to->rel), a);
        },
        ctx, qkv, to->rel);
}

namespace
{

struct relative_gradients {
    const struct tr_tensor *dqkv, *drel, *dctx, *ctx, *lse, *qkv, *rel;
};

/* The heads from s.head on, as many as have room together, a part after the other. */
template <int CHUNKS, class Of>
void relative_bwd(struct tr_queue *q, const relative_gradients &g, const relative_shape &a,
                  relative_scratch s, float *const tables[2], int64_t heads, int64_t at_once, Of of)
{
    using X = decltype(of(g.qkv));
    const int64_t each = a.tiles * a.samples, begin = s.head * each, all = heads * each;
    const dim3 grid(blocks_of((a.rows + TILE - 1) / TILE), blocks_of((a.d + TILE - 1) / TILE),
                    blocks_of(heads));

    TR_LAUNCH(q, deltas_kernel<X>, blocks_for(heads * a.samples * a.t, THREADS / WARP, INT32_MAX),
              THREADS, 0, s, of(g.dctx), of(g.ctx), a, heads * a.samples);
    for (int64_t done = 0; done < all; done += at_once) {
        const part_of_tiles part = {min(at_once, all - done), done > 0, done + at_once >= all};

        s.first = begin + done;
        s.table = tables[0];
        TR_LAUNCH(q, (relative_queries_kernel<CHUNKS, X>), blocks_of(part.n), THREADS, 0,
                  of(g.dqkv), s, of(g.dctx), tr_f32(g.lse), of(g.qkv), of(g.rel), a);
        TR_LAUNCH(q, relative_table_kernel<X>, grid, THREADS, 0, of(g.drel), s, of(g.qkv), a,
                  (int)QUERY, part);
        s.table = tables[1];
        TR_LAUNCH(q, (relative_keys_kernel<CHUNKS, X>), blocks_of(part.n), THREADS, 0, of(g.dqkv),
                  s, of(g.dctx), tr_f32(g.lse), of(g.qkv), of(g.rel), a);
        TR_LAUNCH(q, relative_table_kernel<X>, grid, THREADS, 0, of(g.drel), s, of(g.qkv), a,
                  (int)KEY, part);
    }
}

} // namespace

extern "C" void
tr_cuda_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                               const struct tr_tensor *drel, const struct tr_tensor *dctx,
                               const struct tr_tensor *ctx, const struct tr_tensor *lse,
                               const struct tr_tensor *qkv, const struct tr_relative *to,
                               struct tr_attention_how how, struct tr_dropout drop)
{
    const struct tr_relative_sizes sizes = tr_sizes_relative(ctx, lse, qkv, to, how, &drop);
    const struct tr_relative other = {drel, to->bucket, to->lengths};
    const relative_gradients g = {dqkv, drel, dctx, ctx, lse, qkv, to->rel};
    const relative_shape a = shape_of(sizes, to, how, &drop);
    const together x = together_of(a);
    char *const room = static_cast<char *>(tr_cuda_scratch(
        q, x.starts + 2 * x.table + x.deltas + (size_t)x.tiles * whole_lines(TILE * a.rows)));
    float *const tables[2] = {reinterpret_cast<float *>(room + x.starts),
                              reinterpret_cast<float *>(room + x.starts + x.table)};
    relative_scratch s = {};

    tr_sizes_relative(dctx, lse, dqkv, &other, how, &drop);
    s.starts = reinterpret_cast<int32_t *>(room);
    s.deltas = reinterpret_cast<float *>(room + x.starts + 2 * x.table);
    s.by = reinterpret_cast<float *>(room + x.starts + 2 * x.table + x.deltas);
    TR_LAUNCH(q, starts_kernel, blocks_for(2 * a.t, THREADS, INT32_MAX), THREADS, 0, s.starts, a);
    with_operands(
        a.d,
        [&](auto of, auto chunks) {
            for (s.head = 0; s.head < a.heads; s.head += x.heads)
                relative_bwd<decltype(chunks)::value>(q, g, a, s, tables,
                                                      min(x.heads, a.heads - s.head), x.tiles, of);
        },
        dqkv, drel, dctx, ctx, qkv, to->rel);
}
