/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_mma.cuh"

/*
 * Forward: a block has WARPS * TILES * ROWS queries, whose q stay in shared memory, and meets KEYS
 * keys at a time.  The next k are on their way while the sums of v are made, v while scores are.
 */
template <class C, int WIDTH, bool SMALL, bool IS_PLAIN> struct forward_sizes {
    typedef C M;
    static const bool PLAIN = IS_PLAIN;
    enum {
        D = WIDTH,
        WARPS = 4,
        TILES = SMALL || D > 128 ? 1 : 2,
        OF_WARP = TILES * M::ROWS,
        /* The registers of a thread are few, and so is shared memory. */
        KEYS = D > 160                      ? 16
               : D > (TILES == 2 ? 64 : 96) ? 32
                                            : 64,
        THREADS = WARPS * WARP,
        QUERIES = WARPS * OF_WARP
    };
    static constexpr size_t SHARED =
        (size_t)(QUERIES + 2 * KEYS) * tile_of<D>::STRIDE * sizeof(typename M::element);
    static_assert(SHARED <= most_shared<D, SMALL>(), "of every GPU that runs this");
};

/* The rows of one warp: the running maximum of a query's scores, in units of log 2, and the sum of
   their exponentials, of this thread's columns only. */
template <class S> struct forward_rows {
    typedef typename S::M M;
    float max[S::TILES][2], total[S::TILES][2];

    TR_INLINE void clear_rows()
    {
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            TR_UNROLL
        for (int w = 0; w < 2; w++) {
            max[m][w] = -INFINITY;
            total[m][w] = 0.0f;
        }
    }

    /* Scores become exponentials, and what was summed before is brought to the new maximum. */
    TR_INLINE void take(accumulators<M, S::TILES, S::KEYS> &s, accumulators<M, S::TILES, S::D> &sum)
    {
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            TR_UNROLL
        for (int w = 0; w < 2; w++)
            take_row(s[m], sum[m], m, w);
    }

  private:
    TR_INLINE void take_row(typename M::accumulator (&s)[S::KEYS / 8],
                            typename M::accumulator (&sum)[S::D / 8], int m, int w)
    {
        float most = max[m][w], base, shrink;

        TR_UNROLL
        for (int n = 0; n < S::KEYS / 8; n++)
            TR_UNROLL
        for (int i = 0; i < M::EACH; i++)
            if (i / 2 % 2 == w)
                most = take_larger()(most, s[n].x[i]);
        most = M::over_row(most, take_larger());
        /* A query may not have seen any key yet. */
        base = most == -INFINITY ? 0.0f : most;
        shrink = exp2_quick(max[m][w] - base);
        max[m][w] = most;
        total[m][w] *= shrink;
        TR_UNROLL
        for (int n = 0; n < S::KEYS / 8; n++)
            TR_UNROLL
        for (int i = 0; i < M::EACH; i++)
            if (i / 2 % 2 == w) {
                s[n].x[i] = exp2_quick(s[n].x[i] - base);
                total[m][w] += s[n].x[i];
            }
        TR_UNROLL
        for (int n = 0; n < S::D / 8; n++)
            TR_UNROLL
        for (int i = 0; i < M::EACH; i++)
            if (i / 2 % 2 == w)
                sum[n].x[i] *= shrink;
    }
};

/* Scores times scale / log 2, with ALiBi what it adds, or minus infinity where a query does not see a key. */
template <class S>
TR_INLINE void mask_scores(accumulators<typename S::M, S::TILES, S::KEYS> &s, float factor,
                           float slope, const int (&from)[S::TILES][2], int query0, int key0,
                           bool masked)
{
    typedef typename S::M M;

    TR_UNROLL
    for (int m = 0; m < S::TILES; m++)
        TR_UNROLL
    for (int n = 0; n < S::KEYS / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++) {
        const int w = i / 2 % 2, key = n * 8 + M::column(i);

        s[m][n].x[i] *= factor;
        if (!S::PLAIN)
            s[m][n].x[i] += slope * (float)(key - (query0 - key0 + m * M::ROWS + M::row(w)));
        if (masked && (key > query0 - key0 + m * M::ROWS + M::row(w) || key < from[m][w] - key0))
            s[m][n].x[i] = -INFINITY;
    }
}

/* Probabilities that are dropped become 0; kept[m] is of the units of 8 keys, first to last. */
template <class S>
TR_INLINE void drop_scores(accumulators<typename S::M, S::TILES, S::KEYS> &s,
                           const uint32_t (&kept)[S::TILES])
{
    typedef typename S::M M;

    TR_UNROLL
    for (int m = 0; m < S::TILES; m++)
        TR_UNROLL
    for (int n = 0; n < S::KEYS / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i++)
        if (!(kept[m] >> (n * M::EACH + i) & 1))
            s[m][n].x[i] = 0.0f;
}

template <class S>
__global__ void __launch_bounds__(S::THREADS, 2)
    forward_kernel(typename S::M::element *ctx, float *lse, const typename S::M::element *qkv,
                   attention_of<S::PLAIN> a)
{
    typedef typename S::M M;
    typedef typename M::element T;

    must_be_here<M>();
    if constexpr (is_here<M>()) {
        TR_DYNAMIC_SHARED(T, q_tile);
        T *const k_tile = q_tile + S::QUERIES * tile_of<S::D>::STRIDE;
        T *const v_tile = k_tile + S::KEYS * tile_of<S::D>::STRIDE;
        const one_head h = head_of<S::PLAIN>(a, a.first + blockIdx.x % a.n);
        /* Tokens in 32 bits, as in `from`. */
        const int t = (int)a.t, stride = S::PLAIN ? 3 * (int)h.width : (int)h.row;
        const int block0 = ((t - 1) / S::QUERIES - (int)(blockIdx.x / a.n)) * S::QUERIES;
        const int end = min(block0 + (int)S::QUERIES, t);
        const int first = (int)threadIdx.x / WARP * S::OF_WARP, query0 = block0 + first;
        const T *const k = qkv + h.kv + a.d;
        T *const mine = q_tile + first * tile_of<S::D>::STRIDE;
        const int begin =
            (int)least_first_key<S::PLAIN>(a, h, t, block0, S::QUERIES) / S::KEYS * S::KEYS;
        accumulators<M, S::TILES, S::D> sum;
        forward_rows<S> rows;
        int from[S::TILES][2];
        uint32_t kept[S::TILES] = {};

        copy_tile<S::D, S::THREADS>(q_tile, qkv + h.q + (int64_t)block0 * stride, stride,
                                    S::QUERIES, t - block0, (int)a.d);
        copy_tile<S::D, S::THREADS>(k_tile, k + (int64_t)begin * stride, stride, S::KEYS, t - begin,
                                    (int)a.d);
        end_batch();
        clear(sum);
        rows.clear_rows();
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            TR_UNROLL
        for (int w = 0; w < 2; w++)
            from[m][w] =
                (int)first_key<S::PLAIN>(a, h, min(query0 + m * M::ROWS + M::row(w), t - 1));
        for (int key0 = begin; key0 < end; key0 += S::KEYS) {
            /* Keys that this warp's queries do not see are other warps' concern. */
            const bool seen =
                key0 < query0 + S::OF_WARP && window_has<S::PLAIN>(a, query0, key0, S::KEYS);
            const int64_t offset = (int64_t)key0 * stride;
            accumulators<M, S::TILES, S::KEYS> s;

            if (a.drop.threshold && seen)
                for (int m = 0; m < S::TILES; m++)
                    kept[m] = kept_by_row<M, S::KEYS>(a, h, query0 + m * M::ROWS, key0);
            wait_for_batches<0>();
            __syncthreads();
            copy_tile<S::D, S::THREADS>(v_tile, k + a.d + offset, stride, S::KEYS, t - key0,
                                        (int)a.d);
            end_batch();
            if (seen) {
                clear(s);
                multiply_rows<M, S::TILES, S::KEYS, S::D>(s, mine, k_tile);
                mask_scores<S>(s, a.scale * LOG2_E, h.slope * LOG2_E, from, query0, key0,
                               h.from || key0 + S::KEYS > query0 + 1 ||
                                   window_cuts<S::PLAIN>(a, query0, S::OF_WARP, key0));
                rows.take(s, sum);
                if (a.drop.threshold)
                    drop_scores<S>(s, kept);
            }
            wait_for_batches<0>();
            __syncthreads();
            if (key0 + S::KEYS < end)
                copy_tile<S::D, S::THREADS>(k_tile, k + offset + (int64_t)S::KEYS * stride, stride,
                                            S::KEYS, t - key0 - S::KEYS, (int)a.d);
            end_batch();
            if (seen)
                multiply_weights<M, S::TILES, S::KEYS, S::D>(sum, s, v_tile);
        }
        TR_UNROLL
        for (int m = 0; m < S::TILES; m++)
            TR_UNROLL
        for (int w = 0; w < 2; w++) {
            const int query = query0 + m * M::ROWS + M::row(w);
            const float total = M::over_row(rows.total[m][w], add_up());

            if (query < t && M::column(0) == 0)
                lse[h.pair * t + query] = rows.max[m][w] * LN_2 + logf(total);
            rows.total[m][w] = (a.drop.threshold ? a.drop.kept : 1.0f) / total;
        }
        store_rows<M, S::TILES, S::D>(ctx + h.ctx + query0 * h.width, (int)h.width, t - query0,
                                      (int)a.d, sum, rows.total, mine);
    }
}

template <class S>
static void forward(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                    const struct tr_tensor *qkv, const attention_more &a)
{
    typedef typename S::M::element T;

    allow_shared(q, forward_kernel<S>, S::SHARED);
    TR_LAUNCH(q, (forward_kernel<S>), blocks_of(a, a.n, S::QUERIES), S::THREADS, S::SHARED,
              elements<T>(ctx), lse, elements<T>(qkv), a);
}

bool attention_mma(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                   const struct tr_tensor *qkv, const attention_more &a)
{
    const bool f16s = is_tile_of<f16>(qkv) && is_tile_of<f16>(ctx);
    const bool bf16s = is_tile_of<bf16>(qkv) && is_tile_of<bf16>(ctx);

    if (!f16s && !bf16s)
        return false;
    return with_width(a, [&](auto) {}) && with_machine(q, bf16s, [&](auto m) {
               with_width(a, [&](auto width) {
                   typedef decltype(m) machine_type;

                   forward<forward_sizes<typename machine_type::M, decltype(width)::value,
                                         machine_type::SMALL, decltype(width)::PLAIN>>(q, ctx, lse,
                                                                                       qkv, a);
               });
           });
}
