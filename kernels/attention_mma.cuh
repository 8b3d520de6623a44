/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_ATTENTION_MMA_CUH
#define TR_KERNELS_ATTENTION_MMA_CUH

#include "attention.cuh"
#include "mma.cuh"

/*
 * Attention on tensor cores, after Dao, "FlashAttention-2" (2023): each warp has some rows of a
 * tile for itself, scores stay in its registers, and what becomes of them is a left operand of the
 * next product without a detour.  The gradient runs over scores twice, once by queries and once by
 * keys, so that neither part adds to what another block has.
 *
 * A tile in shared memory has 8 elements more per row than D, so that 8 rows lie in different
 * banks: D is a multiple of 16, and a row takes an odd multiple of 16 bytes.
 */
template <int D> struct tile_of {
    enum { STRIDE = D + 8 };
};

/*
 * What a block may have: of a GPU with little shared memory, which is that of sm_75, so that code for
 * sm_70 runs there too; and of one with much, the least of which is sm_80.  With heads of up to 128 two
 * blocks are to find room on a multiprocessor of sm_70 (96 KiB), and of sm_86 and sm_89 (100 KiB, of
 * which a block loses one).
 */
template <int D, bool SMALL> constexpr size_t most_shared()
{
    return (size_t)(!SMALL ? 163 : D > 128 ? 64 : 48) << 10;
}

static const float LOG2_E = 1.44269504088896341f, LN_2 = 0.693147180559945309f;

/* Begin to copy `rows` rows of D elements, `stride` apart, of which the first `valid` rows and the first
   d elements are there, d being a multiple of 8; the others become 0.  All threads of the block take part. */
template <int D, int THREADS, class T>
TR_INLINE void copy_tile(T *to, const T *from, int stride, int rows, int valid, int d)
{
    enum { PIECE = 8, PIECES = D / PIECE };

    /* Places of several turns at once would take registers all the time. */
    TR_UNROLL_BY(1)
    for (int i = (int)threadIdx.x; i < rows * PIECES; i += THREADS) {
        const int row = i / PIECES, column = i % PIECES * PIECE;
        const bool there = row < valid && column < d;

        copy_async<16>(to + row * tile_of<D>::STRIDE + column,
                       there ? from + row * stride + column : from, !there);
    }
}

template <class M, int TILES, int COLUMNS>
using accumulators = typename M::accumulator[TILES][COLUMNS / 8];

template <class A, int TILES, int N> TR_INLINE void clear(A (&c)[TILES][N])
{
    TR_UNROLL
    for (int m = 0; m < TILES; m++)
        TR_UNROLL
    for (int n = 0; n < N; n++)
        TR_UNROLL
    for (int i = 0; i < (int)(sizeof(A) / sizeof(float)); i++)
        c[m][n].x[i] = 0.0f;
}

/* c += a b^T: TILES * ROWS rows of a tile by COLUMNS rows of another one. */
template <class M, int TILES, int COLUMNS, int D>
TR_INLINE void multiply_rows(accumulators<M, TILES, COLUMNS> &c, const typename M::element *a,
                             const typename M::element *b)
{
    const int stride = tile_of<D>::STRIDE;
    /* Wide heads leave few registers, and ptxas spills none with this (tests/cuda/t_resources.sh). */
    enum { AHEAD = D > 128 ? 1 : TILES == 2 && D == 96 ? 2 : D / 16 };

    TR_UNROLL_BY(AHEAD)
    for (int k = 0; k < D; k += 16) {
        typename M::left_operand l[TILES];

        TR_UNROLL
        for (int m = 0; m < TILES; m++)
            M::left(l[m], a + m * M::ROWS * stride + k, stride);
        TR_UNROLL
        for (int n = 0; n < COLUMNS / 16; n++) {
            typename M::right_operand r;

            M::template right<false>(r, b + n * 16 * stride + k, stride);
            TR_UNROLL
            for (int m = 0; m < TILES; m++)
                M::template multiply<false>(c[m][2 * n], c[m][2 * n + 1], l[m], r);
        }
    }
}

/* c += w b: weights in registers, rounded here, by as many rows of a tile. */
template <class M, int TILES, int COLUMNS, int D>
TR_INLINE void multiply_weights(accumulators<M, TILES, D> &c,
                                const accumulators<M, TILES, COLUMNS> &w,
                                const typename M::element *b)
{
    const int stride = tile_of<D>::STRIDE;

    TR_UNROLL
    for (int k = 0; k < COLUMNS / 16; k++) {
        typename M::left_operand l[TILES];

        TR_UNROLL
        for (int m = 0; m < TILES; m++)
            M::left_of(l[m], w[m][2 * k], w[m][2 * k + 1]);
        TR_UNROLL
        for (int n = 0; n < D / 16; n++) {
            typename M::right_operand r;

            M::template right<true>(r, b + k * 16 * stride + n * 16, stride);
            TR_UNROLL
            for (int m = 0; m < TILES; m++)
                M::template multiply<true>(c[m][2 * n], c[m][2 * n + 1], l[m], r);
        }
    }
}

/*
 * The accumulators times factor[m][which] per row become rows of d elements of a tensor, the first
 * `valid` of them; `room` is shared memory for as many rows of a tile, and this warp's alone, which may have
 * read it before.
 */
template <class M, int TILES, int D>
TR_INLINE void store_rows(typename M::element *to, int stride, int valid, int d,
                          const accumulators<M, TILES, D> &c, const float (&factor)[TILES][2],
                          typename M::element *room)
{
    typedef typename M::element T;
    enum { PIECE = 8, PIECES = D / PIECE };

    __syncwarp();
    TR_UNROLL
    for (int m = 0; m < TILES; m++)
        TR_UNROLL
    for (int n = 0; n < D / 8; n++)
        TR_UNROLL
    for (int i = 0; i < M::EACH; i += 2) {
        const int which = i / 2 % 2;
        const uint32_t two =
            two_halves<T>(c[m][n].x[i] * factor[m][which], c[m][n].x[i + 1] * factor[m][which]);

        memcpy(room + (m * M::ROWS + M::row(which)) * tile_of<D>::STRIDE + n * 8 + M::column(i),
               &two, sizeof two);
    }
    __syncwarp();
    for (int i = lane_of_thread(); i < TILES * M::ROWS * PIECES; i += WARP) {
        const int row = i / PIECES, column = i % PIECES * PIECE;

        if (row < valid && column < d)
            store(to + row * stride + column,
                  load<PIECE>(room + row * tile_of<D>::STRIDE + column));
    }
}

/*
 * Which probabilities of ROWS queries and KEYS keys stay, those of this thread: EACH bits per unit
 * of 8 keys, the first in the lowest.  One unit after another, for registers are few.
 */
template <class M, int KEYS>
TR_INLINE uint32_t kept_by_row(const attention_shape &a, const one_head &h, int64_t query,
                               int64_t key)
{
    uint32_t kept = 0;

    static_assert(KEYS / 8 * M::EACH <= 32, "as many bits");
    TR_UNROLL_BY(1)
    for (int n = 0; n < KEYS / 8; n++) {
        const uint64_t draw = h.draws + (uint64_t)(query * a.t + key + n * 8);

        kept |= (uint32_t)M::bits_by_row([&](int row, int column) {
                    return kept_of_four(a.drop, h.sample, draw + (uint64_t)(row * a.t + column));
                })
                << n * M::EACH;
    }
    return kept;
}

/* The same of ROWS keys and QUERIES queries, per unit of 8 queries. */
template <class M, int QUERIES>
TR_INLINE uint32_t kept_by_column(const attention_shape &a, const one_head &h, int64_t query,
                                  int64_t key)
{
    uint32_t kept = 0;

    static_assert(QUERIES / 8 * M::EACH <= 32, "as many bits");
    TR_UNROLL_BY(1)
    for (int n = 0; n < QUERIES / 8; n++) {
        const uint64_t draw = h.draws + (uint64_t)((query + n * 8) * a.t + key);

        kept |= (uint32_t)M::bits_by_column([&](int row, int column) {
                    return kept_of_four(a.drop, h.sample, draw + (uint64_t)(column * a.t + row));
                })
                << n * M::EACH;
    }
    return kept;
}

/* Whether a window hides one of some keys from key0 on from one of some queries from query0 on; and whether it
   leaves them any. */
template <bool PLAIN>
TR_INLINE bool window_cuts(const attention_shape &a, int query0, int queries, int key0)
{
    return !PLAIN && window_of<PLAIN>(a) > 0 && key0 < query0 + queries - window_of<PLAIN>(a);
}

template <bool PLAIN>
TR_INLINE bool window_has(const attention_shape &a, int query0, int key0, int keys)
{
    return PLAIN || window_of<PLAIN>(a) == 0 || key0 + keys > query0 - window_of<PLAIN>(a) + 1;
}

/* Whether the kernels may take a tensor: halves on 16 bytes. */
template <class T> static bool is_tile_of(const struct tr_tensor *x)
{
    return x->dtype == (is_bf16<T>::value ? TR_BF16 : TR_F16) && on_16_bytes(x->data);
}

/* With tiles of so many rows for each of `heads` heads. */
static inline unsigned blocks_of(const attention_shape &a, int64_t heads, int rows)
{
    const int64_t blocks = (a.t + rows - 1) / rows * heads;

    TR_ASSERT(blocks <= INT32_MAX);
    return (unsigned)blocks;
}

/*
 * f(classes): what is to be launched for these types, as a type with M, the class of products, and
 * SMALL where shared memory is little.  `arch` is what the loaded code was compiled for: it has no other
 * kernels; `shared` is what a block may have of it.  False if there is none.
 */
template <class C, bool LITTLE> struct machine {
    typedef C M;
    static const bool SMALL = LITTLE;
};

template <class M, class F> static bool with_size(int arch, size_t shared, F f)
{
    if (!M::runs_on(arch))
        return false;
    if (arch >= 80 && shared >= most_shared<0, false>())
        f(machine<M, false>());
    else
        f(machine<M, true>());
    return true;
}

template <class F> static bool with_machine(struct tr_queue *q, bool bf16s, F f)
{
    const int arch = tr_cuda_arch(q);
    const size_t shared = tr_cuda_shared(q);

    if (bf16s)
        return with_size<mma_turing<bf16>>(arch, shared, f);
    if (with_size<mma_turing<f16>>(arch, shared, f))
        return true;
    if (!mma_volta::runs_on(arch))
        return false;
    f(machine<mma_volta, true>());
    return true;
}

/*
 * f(width): the width of the tiles for heads of d, as width.value, and width.PLAIN: the next one, and what is beyond d
 * is 0.  False if there are no kernels for it: rows of a head lie on 16 bytes, and half of a tile would be
 * wasted for heads of up to 32.
 */
template <int N, bool P> struct width_of_head {
    static const bool PLAIN = P;
    static const int value = N;
};

template <bool PLAIN, class F> static bool with_plain_width(int64_t d, F f)
{
    if (d % 8 != 0 || d <= 32)
        return false;
    if (d <= 64)
        f(width_of_head<64, PLAIN>());
    else if (d <= 80)
        f(width_of_head<80, PLAIN>());
    else if (d <= 96)
        f(width_of_head<96, PLAIN>());
    else if (d <= 128)
        f(width_of_head<128, PLAIN>());
    else if (d <= 160)
        f(width_of_head<160, PLAIN>());
    else if (d <= 224)
        f(width_of_head<224, PLAIN>());
    else
        f(width_of_head<320, PLAIN>());
    static_assert(TR_MAX_HEAD_DIM <= 320, "the widest");
    return true;
}

/* The gradient in tiles of WIDTH: attention_mma_bwd_*.cu.  False if the loaded code has no kernels
   for the type. */
template <int WIDTH>
bool attention_mma_bwd_of(struct tr_queue *q, const attention_gradients &g, const attention_more &a,
                          bool bf16s);

template <class F> static bool with_width(const attention_more &a, F f)
{
    return is_plain(a) ? with_plain_width<true>(a.d, f) : with_plain_width<false>(a.d, f);
}

#endif
