/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_ATTENTION_MMA_BWD_CUH
#define TR_KERNELS_ATTENTION_MMA_BWD_CUH

#include "attention_mma.cuh"

/*
 * The gradient.  With p the probability and m what dropout multiplies it by: ds = p (m dctx_i . v_j
 * - delta_i); then dq_i = scale sum_j ds k_j, dk_j = scale sum_i ds q_i and dv_j = sum_i p m
 * dctx_i.
 *
 * A block has the queries of a tile and meets STEP keys at a time, or the other way round.  Where shared
 * memory is much and heads are not wide, there is room for two steps (ROOMS): the next one is on its way
 * meanwhile.  Otherwise other blocks of the multiprocessor compute while one waits.  dk and dv of wide heads
 * are more than the registers hold: then there is one launch for each (SPLIT).
 */
template <class C, int WIDTH, bool SMALL, bool IS_PLAIN> struct backward_sizes {
    typedef C M;
    static const bool PLAIN = IS_PLAIN;
    enum {
        D = WIDTH,
        STEP = D > 128 || (SMALL && D > 96) ? 16 : 32,
        ROOMS = SMALL || D > 128 ? 1 : 2,
        SLICE = 16, /* queries whose scores by keys are in registers */
        TILES = D == 64 && !SMALL ? 2 : 1,
        OF_WARP = TILES * M::ROWS,
        WARPS = SMALL && D > 128 ? 2 : 4,
        THREADS = WARPS * WARP,
        ROWS = WARPS * OF_WARP,
        SPLIT = D > 160,
        STRIDE = tile_of<D>::STRIDE
    };
    /* Two tiles that stay, and in each room two that come, and three numbers per query. */
    static constexpr size_t SHARED =
        (size_t)(2 * ROWS + ROOMS * 2 * STEP) * STRIDE * sizeof(typename M::element) +
        ROOMS * 3 * STEP * sizeof(float);
    static_assert(SHARED <= most_shared<D, SMALL>(), "of every GPU that runs this");
    static_assert(STEP / 8 * C::EACH <= 32, "a bit for each probability of a step");
};

/* Probabilities are at most 1 and many are far less: as fp16, they would lose bits below 2^-14. */
template <class T> TR_INLINE constexpr float lift()
{
    return is_bf16<T>::value ? 1.0f : 1024.0f;
}

/* What one tile of one of the two products is made of. */
template <class S, int COLUMNS> struct scores_of {
    typedef typename S::M M;
    typedef typename M::element T;
    accumulators<M, S::TILES, COLUMNS> x;

    TR_INLINE void make(const T *a, const T *b)
    {
        clear(x);
        multiply_rows<M, S::TILES, COLUMNS, S::D>(x, a, b);
    }
};

/* ---- dq ---- */

/* Of the queries of one warp: row m * ROWS + row(which). */
template <class S> struct query_rows {
    typedef typename S::M M;
    typedef typename M::element T;
    float log[S::TILES][2]; /* of the sum of exponentials, in units of log 2 */
    float delta[S::TILES][2];
    int from[S::TILES][2];

    /* delta is new: 32 / OF_WARP lanes have parts of a row, 16 bytes at a time. */
    TR_INLINE void make(const attention_shape &a, const one_head &h, int query0, const T *dctx,
                        const T *ctx, const float *lse, float *deltas)
    {
        enum { PARTS = WARP / S::OF_WARP, PIECE = 8 };
        const int lane = lane_of_thread(), t = (int)a.t, query = query0 + lane / PARTS;
        const int64_t row = h.ctx + (int64_t)min(query, t - 1) * h.width;
        float sum = 0.0f;

        TR_UNROLL
        for (int d = lane % PARTS * PIECE; d < S::D; d += PARTS * PIECE) {
            if (d >= (int)a.d)
                break;
            const pack<T, PIECE> x = load<PIECE>(dctx + row + d), y = load<PIECE>(ctx + row + d);

            TR_UNROLL
            for (int i = 0; i < PIECE; i++)
                sum += widen(x.x[i]) * widen(y.x[i]);
        }
        if (PARTS == 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        if (lane % PARTS == 0 && query < t)
            deltas[(h.pair - a.first) * a.t + query] = sum;
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            TR_UNROLL
        for (int w = 0; w < 2; w++) {
            const int r = m * M::ROWS + M::row(w), i = min(query0 + r, t - 1);

            delta[m][w] = __shfl_sync(ALL_LANES, sum, r * PARTS);
            log[m][w] = lse[h.pair * a.t + i] * LOG2_E;
            from[m][w] = (int)first_key<S::PLAIN>(a, h, i);
        }
    }
};

/* What is subtracted from a score, of a key that is `distance` tokens before the query. */
template <class S> TR_INLINE float with_slope(float log, float slope, int distance)
{
    return S::PLAIN ? log : log + slope * (float)distance;
}

/* Scores become probabilities. */
template <class S>
TR_INLINE void normalize_rows(scores_of<S, S::STEP> &s, const query_rows<S> &rows, float factor,
                              float slope, int query0, int key0, bool masked)
{
    typedef typename S::M M;

    TR_UNROLL
    for (int m = 0; m < S::TILES; m++)
        TR_UNROLL
    for (int n = 0; n < S::STEP / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++) {
        const int w = i / 2 % 2, key = n * 8 + M::column(i);

        const float log =
            with_slope<S>(rows.log[m][w], slope, query0 - key0 + m * M::ROWS + M::row(w) - key);

        s.x[m][n].x[i] = exp2_quick(s.x[m][n].x[i] * factor - log);
        if (masked &&
            (key > query0 - key0 + m * M::ROWS + M::row(w) || key < rows.from[m][w] - key0))
            s.x[m][n].x[i] = 0.0f;
    }
}

/* p becomes ds. */
template <class S>
TR_INLINE void differentiate_rows(scores_of<S, S::STEP> &p, const scores_of<S, S::STEP> &dp,
                                  const query_rows<S> &rows, const attention_shape &a,
                                  const uint32_t (&kept)[S::TILES])
{
    typedef typename S::M M;

    TR_UNROLL
    for (int m = 0; m < S::TILES; m++)
        TR_UNROLL
    for (int n = 0; n < S::STEP / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++) {
        float x = dp.x[m][n].x[i];

        if (a.drop.threshold)
            x = kept[m] >> (n * M::EACH + i) & 1 ? x * a.drop.kept : 0.0f;
        p.x[m][n].x[i] *= x - rows.delta[m][i / 2 % 2];
    }
}

/* Begin to copy the k and v of STEP keys. */
template <class S>
TR_INLINE void copy_keys(typename S::M::element *to, const typename S::M::element *k,
                         const typename S::M::element *v, int stride, int key0, int t, int d)
{
    const int64_t offset = (int64_t)key0 * stride;

    copy_tile<S::D, S::THREADS>(to, k + offset, stride, S::STEP, t - key0, d);
    copy_tile<S::D, S::THREADS>(to + S::STEP * S::STRIDE, v + offset, stride, S::STEP, t - key0, d);
}

template <class S>
__global__ void __launch_bounds__(S::THREADS, 2)
    queries_kernel(typename S::M::element *dqkv, float *deltas, const typename S::M::element *dctx,
                   const typename S::M::element *ctx, const float *lse,
                   const typename S::M::element *qkv, attention_of<S::PLAIN> a)
{
    typedef typename S::M M;
    typedef typename M::element T;

    must_be_here<M>();
    if constexpr (is_here<M>()) {
        TR_DYNAMIC_SHARED(T, q_tile);
        T *const d_tile = q_tile + S::ROWS * S::STRIDE;
        T *const steps = d_tile + S::ROWS * S::STRIDE;
        const one_head h = head_of<S::PLAIN>(a, a.first + blockIdx.x % a.n);
        const int t = (int)a.t, stride = S::PLAIN ? 3 * (int)h.width : (int)h.row;
        const int block0 = ((t - 1) / S::ROWS - (int)(blockIdx.x / a.n)) * S::ROWS;
        const int end = min(block0 + (int)S::ROWS, t);
        const int first = (int)threadIdx.x / WARP * S::OF_WARP, query0 = block0 + first;
        const T *const k = qkv + h.kv + a.d, *const v = k + a.d;
        const int begin =
            (int)least_first_key<S::PLAIN>(a, h, t, block0, S::ROWS) / S::STEP * S::STEP;
        accumulators<M, S::TILES, S::D> dq;
        query_rows<S> rows;
        float factor[S::TILES][2];
        uint32_t kept[S::TILES] = {};

        copy_tile<S::D, S::THREADS>(q_tile, qkv + h.q + (int64_t)block0 * stride, stride, S::ROWS,
                                    t - block0, (int)a.d);
        copy_tile<S::D, S::THREADS>(d_tile, dctx + h.ctx + block0 * h.width, (int)h.width, S::ROWS,
                                    t - block0, (int)a.d);
        copy_keys<S>(steps, k, v, stride, begin, t, (int)a.d);
        end_batch();
        rows.make(a, h, query0, dctx, ctx, lse, deltas);
        clear(dq);
        for (int key0 = begin; key0 < end; key0 += S::STEP) {
            const int turn = (key0 - begin) / S::STEP;
            T *const now = steps + turn % S::ROOMS * 2 * S::STEP * S::STRIDE;
            T *const next = steps + (turn + 1) % S::ROOMS * 2 * S::STEP * S::STRIDE;
            const bool seen = key0 < query0 + S::OF_WARP &&
                              window_has<S::PLAIN>(a, query0, key0, S::STEP),
                       more = key0 + S::STEP < end;

            if (a.drop.threshold && seen)
                for (int m = 0; m < S::TILES; m++)
                    kept[m] = kept_by_row<M, S::STEP>(a, h, query0 + m * M::ROWS, key0);
            wait_for_batches<0>();
            __syncthreads();
            if (S::ROOMS == 2 && more)
                copy_keys<S>(next, k, v, stride, key0 + S::STEP, t, (int)a.d);
            end_batch();
            if (seen) {
                scores_of<S, S::STEP> p, dp;

                p.make(q_tile + first * S::STRIDE, now);
                normalize_rows(p, rows, a.scale * LOG2_E, h.slope * LOG2_E, query0, key0,
                               h.from || key0 + S::STEP > query0 + 1 ||
                                   window_cuts<S::PLAIN>(a, query0, S::OF_WARP, key0));
                dp.make(d_tile + first * S::STRIDE, now + S::STEP * S::STRIDE);
                differentiate_rows(p, dp, rows, a, kept);
                multiply_weights<M, S::TILES, S::STEP, S::D>(dq, p.x, now);
            }
            if (S::ROOMS == 1 && more) {
                __syncthreads();
                copy_keys<S>(next, k, v, stride, key0 + S::STEP, t, (int)a.d);
                end_batch();
            }
        }
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            factor[m][0] = factor[m][1] = a.scale;
        store_rows<M, S::TILES, S::D>(dqkv + h.q + (int64_t)query0 * stride, stride, t - query0,
                                      (int)a.d, dq, factor, q_tile + first * S::STRIDE);
    }
}

/* ---- dk and dv ---- */

/* What comes with STEP queries: their q and dctx, and three numbers of each. */
template <class S> struct step_room {
    typedef typename S::M::element T;
    T *tiles; /* q, dctx */
    float *log, *delta;
    int *from;

    TR_INLINE step_room(T *all, float *numbers, int which)
    {
        tiles = all + which * 2 * S::STEP * S::STRIDE;
        log = numbers + which * 3 * S::STEP;
        delta = log + S::STEP;
        from = reinterpret_cast<int *>(delta + S::STEP);
    }

    TR_INLINE void copy(const attention_shape &a, const one_head &h, int query0, const T *qkv,
                        const T *dctx, const float *lse, const float *deltas) const
    {
        const int t = (int)a.t, stride = S::PLAIN ? 3 * (int)h.width : (int)h.row;

        copy_tile<S::D, S::THREADS>(tiles, qkv + h.q + (int64_t)query0 * stride, stride, S::STEP,
                                    t - query0, (int)a.d);
        copy_tile<S::D, S::THREADS>(tiles + S::STEP * S::STRIDE,
                                    dctx + h.ctx + (int64_t)query0 * h.width, (int)h.width, S::STEP,
                                    t - query0, (int)a.d);
        for (int i = (int)threadIdx.x; i < S::STEP; i += S::THREADS) {
            const int query = min(query0 + i, t - 1);

            copy_async<4>(log + i, lse + h.pair * t + query, false);
            copy_async<4>(delta + i, deltas + (h.pair - a.first) * t + query, false);
            if (h.from)
                copy_async<4>(from + i, h.from + query, false);
        }
    }
};

/* Scores become probabilities; `from` is NULL without documents. */
template <class S>
TR_INLINE void normalize_columns(scores_of<S, S::SLICE> &s, const float *log, const int *from,
                                 float factor, const attention_shape &a, float slope, int key0,
                                 int query0, bool masked)
{
    typedef typename S::M M;

    TR_UNROLL
    for (int n = 0; n < S::SLICE / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++) {
        const int query = n * 8 + M::column(i);
        const float of_query = log[query] * LOG2_E;
        int begin = from ? from[query] - key0 : 0;

        if (!S::PLAIN)
            begin = max(begin, (int)window_begin<S::PLAIN>(a, query0 + query) - key0);

        TR_UNROLL
        for (int m = 0; m < S::TILES; m++) {
            const int key = m * M::ROWS + M::row(i / 2 % 2);

            const float log = with_slope<S>(of_query, slope, query0 - key0 + query - key);

            s.x[m][n].x[i] = exp2_quick(s.x[m][n].x[i] * factor - log);
            if (masked && (key > query0 - key0 + query || key < begin))
                s.x[m][n].x[i] = 0.0f;
        }
    }
}

/* p becomes p m, lifted, and dp becomes ds. */
template <class S>
TR_INLINE void differentiate_columns(scores_of<S, S::SLICE> &p, scores_of<S, S::SLICE> &dp,
                                     const float *delta, const attention_shape &a,
                                     const uint32_t (&kept)[S::TILES], int bit)
{
    typedef typename S::M M;

    TR_UNROLL
    for (int n = 0; n < S::SLICE / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++) {
        const float of_query = delta[n * 8 + M::column(i)];

        TR_UNROLL
        for (int m = 0; m < S::TILES; m++) {
            const float x = p.x[m][n].x[i];
            float weight = x * lift<typename M::element>(), y = dp.x[m][n].x[i];

            if (a.drop.threshold) {
                const bool stays = kept[m] >> (bit + n * M::EACH + i) & 1;

                weight = stays ? weight : 0.0f;
                y = stays ? y * a.drop.kept : 0.0f;
            }
            p.x[m][n].x[i] = weight;
            dp.x[m][n].x[i] = x * (y - of_query);
        }
    }
}

/* The next step of queries from query0 on of which one sees a key before `end`. */
template <class S>
TR_INLINE int next_step(const attention_shape &a, const one_head &h, int last, int query0, int end)
{
    while (query0 < last && least_first_key<S::PLAIN>(a, h, last, query0, S::STEP) >= end)
        query0 += S::STEP;
    return query0;
}

template <class S, bool DK, bool DV>
__global__ void __launch_bounds__(S::THREADS, 2)
    keys_kernel(typename S::M::element *dqkv, const float *deltas,
                const typename S::M::element *dctx, const float *lse,
                const typename S::M::element *qkv, attention_of<S::PLAIN> a)
{
    typedef typename S::M M;
    typedef typename M::element T;

    must_be_here<M>();
    if constexpr (is_here<M>()) {
        TR_DYNAMIC_SHARED(T, k_tile);
        T *const v_tile = k_tile + S::ROWS * S::STRIDE, *const steps = v_tile + S::ROWS * S::STRIDE;
        float *const numbers =
            reinterpret_cast<float *>(steps + S::ROOMS * 2 * S::STEP * S::STRIDE);
        const one_head h = head_of_keys<S::PLAIN>(a, blockIdx.x);
        const int t = (int)a.t, stride = S::PLAIN ? 3 * (int)h.width : (int)h.row;
        const int block0 =
            (int)(blockIdx.x / (S::PLAIN ? a.n : a.n / sharing_of<S::PLAIN>(a))) * S::ROWS;
        const int first = (int)threadIdx.x / WARP * S::OF_WARP, key0 = block0 + first;
        const int last = (int)end_of_queries<S::PLAIN>(a, block0 + S::ROWS);
        const int64_t block_row = h.kv + (int64_t)block0 * stride;
        accumulators<M, S::TILES, DK ? S::D : 8> dk;
        accumulators<M, S::TILES, DV ? S::D : 8> dv;
        float factor[S::TILES][2];
        uint32_t kept[S::TILES] = {};
        const int query1 = next_step<S>(a, h, last, block0, block0 + S::ROWS);
        int query0 = query1, room = 0, of = 0;

        copy_tile<S::D, S::THREADS>(k_tile, qkv + block_row + a.d, stride, S::ROWS, t - block0,
                                    (int)a.d);
        if (DK)
            copy_tile<S::D, S::THREADS>(v_tile, qkv + block_row + 2 * a.d, stride, S::ROWS,
                                        t - block0, (int)a.d);
        step_room<S>(steps, numbers, room).copy(a, h, query0, qkv, dctx, lse, deltas);
        end_batch();
        clear(dk);
        clear(dv);
        while (query0 < last) {
            const one_head now_of = head_of_group<S::PLAIN>(a, h, of);
            const int next_room = (room + 1) % S::ROOMS;
            const step_room<S> now(steps, numbers, room), other(steps, numbers, next_room);
            int next = next_step<S>(a, h, last, query0 + S::STEP, block0 + S::ROWS);
            const bool seen =
                query0 + S::STEP > key0 && window_has<S::PLAIN>(a, query0, key0, S::OF_WARP);

            /* The next of the heads that share these keys. */
            if (!S::PLAIN && next >= last && of + 1 < sharing_of<S::PLAIN>(a)) {
                of++;
                next = query1;
            }
            const one_head next_of = head_of_group<S::PLAIN>(a, h, of);

            if (a.drop.threshold && seen)
                for (int m = 0; m < S::TILES; m++)
                    kept[m] = kept_by_column<M, S::STEP>(a, now_of, query0, key0 + m * M::ROWS);
            wait_for_batches<0>();
            __syncthreads();
            if (S::ROOMS == 2 && next < last)
                other.copy(a, next_of, next, qkv, dctx, lse, deltas);
            end_batch();
            TR_UNROLL_BY(1)
            for (int i = 0; i < S::STEP && seen; i += S::SLICE) {
                T *const q_slice = now.tiles + i * S::STRIDE;
                T *const d_slice = q_slice + S::STEP * S::STRIDE;
                scores_of<S, S::SLICE> p, dp;

                p.make(k_tile + first * S::STRIDE, q_slice);
                normalize_columns(p, now.log + i, h.from ? now.from + i : nullptr, a.scale * LOG2_E,
                                  a, now_of.slope * LOG2_E, key0, query0 + i,
                                  h.from || query0 + i + 1 < key0 + S::OF_WARP ||
                                      window_cuts<S::PLAIN>(a, query0 + i, S::SLICE, key0));
                if (DK)
                    dp.make(v_tile + first * S::STRIDE, d_slice);
                else
                    clear(dp.x);
                differentiate_columns(p, dp, now.delta + i, a, kept, i / 8 * M::EACH);
                if constexpr (DV)
                    multiply_weights<M, S::TILES, S::SLICE, S::D>(dv, p.x, d_slice);
                if constexpr (DK)
                    multiply_weights<M, S::TILES, S::SLICE, S::D>(dk, dp.x, q_slice);
            }
            if (S::ROOMS == 1 && next < last) {
                __syncthreads();
                other.copy(a, next_of, next, qkv, dctx, lse, deltas);
                end_batch();
            }
            query0 = next;
            room = next_room;
        }
        if constexpr (DK) {
            TR_UNROLL
            for (int m = 0; m < S::TILES; m++)
                factor[m][0] = factor[m][1] = a.scale;
            store_rows<M, S::TILES, S::D>(dqkv + h.kv + (int64_t)key0 * stride + a.d, stride,
                                          t - key0, (int)a.d, dk, factor,
                                          k_tile + first * S::STRIDE);
        }
        if constexpr (DV) {
            TR_UNROLL
            for (int m = 0; m < S::TILES; m++)
                factor[m][0] = factor[m][1] = (a.drop.threshold ? a.drop.kept : 1.0f) / lift<T>();
            store_rows<M, S::TILES, S::D>(dqkv + h.kv + (int64_t)key0 * stride + 2 * a.d, stride,
                                          t - key0, (int)a.d, dv, factor,
                                          v_tile + first * S::STRIDE);
        }
    }
}

/* ---- host ---- */

template <class S, bool DK, bool DV>
static void backward_of_keys(struct tr_queue *q, const attention_gradients &g,
                             const attention_more &a)
{
    typedef typename S::M::element T;

    allow_shared(q, keys_kernel<S, DK, DV>, S::SHARED);
    TR_LAUNCH(q, (keys_kernel<S, DK, DV>), blocks_of(a, a.n / a.sharing, S::ROWS), S::THREADS,
              S::SHARED, elements<T>(g.dqkv), g.delta, elements<T>(g.dctx), g.lse,
              elements<T>(g.qkv), a);
}

template <class S>
static void backward(struct tr_queue *q, const attention_gradients &g, const attention_more &a)
{
    typedef typename S::M::element T;

    allow_shared(q, queries_kernel<S>, S::SHARED);
    TR_LAUNCH(q, (queries_kernel<S>), blocks_of(a, a.n, S::ROWS), S::THREADS, S::SHARED,
              elements<T>(g.dqkv), g.delta, elements<T>(g.dctx), elements<T>(g.ctx), g.lse,
              elements<T>(g.qkv), a);
    if constexpr (S::SPLIT) {
        backward_of_keys<S, true, false>(q, g, a);
        backward_of_keys<S, false, true>(q, g, a);
    } else {
        backward_of_keys<S, true, true>(q, g, a);
    }
}

template <int WIDTH>
bool attention_mma_bwd_of(struct tr_queue *q, const attention_gradients &g, const attention_more &a,
                          bool bf16s)
{
    return with_machine(q, bf16s, [&](auto m) {
        typedef decltype(m) machine_type;
        typedef typename machine_type::M M;

        if (is_plain(a))
            backward<backward_sizes<M, WIDTH, machine_type::SMALL, true>>(q, g, a);
        else
            backward<backward_sizes<M, WIDTH, machine_type::SMALL, false>>(q, g, a);
    });
}

/* Each width in one file, so that they compile at the same time. */
#define TR_BACKWARD_OF(width)                                                                 \
    template bool attention_mma_bwd_of<width>(struct tr_queue *, const attention_gradients &, \
                                              const attention_more &, bool)

#endif
