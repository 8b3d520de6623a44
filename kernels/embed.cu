/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.cuh"

/* Rows of tables. */
namespace
{

enum { THREADS = 256, AHEAD = 4 };

/* ---- embed, add_rows ---- */

/* y[row] = or += table[ids[row] - first]; a row that is not there is zeros, or with ADD a bug. */
template <bool ADD, int N, class Y, class T>
__global__ void __launch_bounds__(THREADS)
    rows_kernel(Y y, const int32_t *ids, T table, int64_t n, int64_t h, int64_t r, int64_t first)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;

    if (row >= n)
        return;
    const int64_t from = ids[row] - first;
    const bool here = from >= 0 && from < r;

    TR_NEVER(ADD && !here);
    for (int64_t i = (int64_t)threadIdx.x * N; i < h; i += (int64_t)blockDim.x * N) {
        float ys[N] = {}, ts[N] = {};

        if (here)
            table.get(from * h + i, ts);
        if (ADD)
            y.get(row * h + i, ys);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            ys[k] = ADD ? ys[k] + ts[k] : ts[k];
        y.set(row * h + i, ys);
    }
}

struct embed_operands {
    const struct tr_tensor *y, *ids, *table;
    struct tr_embed_sizes s;
    int64_t first;
};

template <bool ADD, int N, class Y, class T>
void rows_launch(struct tr_queue *q, const embed_operands &o, Y y, T table)
{
    const dim3 block = block_of_rows(o.s.h / N, THREADS);

    TR_LAUNCH(q, (rows_kernel<ADD, N, Y, T>), blocks_for(o.s.n, block.y, INT32_MAX), block, 0, y,
              elements<const int32_t>(o.ids), table, o.s.n, o.s.h, o.s.r, o.first);
}

template <bool ADD> void take_rows(struct tr_queue *q, const embed_operands &o)
{
    if (lie_well(o.s.h, o.y, o.table) &&
        with_pair(o.y->dtype, o.table->dtype, [&](auto to, auto from) {
            using Y = decltype(to);
            using T = decltype(from);

            rows_launch<ADD, both<Y, T>::N>(q, o, typed_of<Y>(o.y), typed_of<T>(o.table));
        }))
        return;
    rows_launch<ADD, 1>(q, o, mixed_of(o.y), mixed_of(o.table));
}

} // namespace

extern "C" void tr_cuda_embed(struct tr_queue *q, const struct tr_tensor *y,
                              const struct tr_tensor *ids, const struct tr_tensor *table,
                              int64_t first)
{
    take_rows<false>(q, embed_operands{y, ids, table, tr_sizes_embed(y, ids, table), first});
}

extern "C" void tr_cuda_add_rows(struct tr_queue *q, const struct tr_tensor *y,
                                 const struct tr_tensor *ids, const struct tr_tensor *table)
{
    take_rows<true>(q, embed_operands{y, ids, table, tr_sizes_embed(y, ids, table), 0});
}

/* ---- the gradient ---- */

namespace
{

/* Ids that a block looks at in one go: a bit of WORDS words each. */
enum { LOOKS = 4, CHUNK = LOOKS * THREADS, WORDS = CHUNK / WARP };

/* hits[w] has a bit for each of the ids start + 32 w .. that is `id`. */
TR_INLINE void find_id(const int32_t *ids, int64_t start, int64_t n, int32_t id, unsigned *hits)
{
    TR_UNROLL
    for (int j = 0; j < LOOKS; j++) {
        const int k = j * THREADS + (int)threadIdx.x;
        const unsigned votes = __ballot_sync(ALL_LANES, start + k < n && ids[start + k] == id);

        if (k % WARP == 0)
            hits[k / WARP] = votes;
    }
}

/* One warp: where the bits are, in their order, lane w having word w.  Returns how many. */
TR_INLINE int list_bits(unsigned word, uint16_t *list)
{
    const int lane = (int)threadIdx.x % WARP, own = __popc(word);
    int before = own;

    for (int d = 1; d < WARP; d *= 2) {
        const int lower = __shfl_up_sync(ALL_LANES, before, (unsigned)d);

        before += lane >= d ? lower : 0;
    }
    for (int at = before - own; word; word &= word - 1)
        list[at++] = (uint16_t)(lane * WARP + __ffs((int)word) - 1);
    return __shfl_sync(ALL_LANES, before, WARP - 1);
}

/* sum += rows start + list[0 .. count - 1] of dy in this order, the loads of some ahead of their
   sums. */
template <int N, class Y>
TR_INLINE void add_listed(float (&sum)[N], Y dy, int64_t start, int64_t h, int64_t i,
                          const uint16_t *list, int count)
{
    for (int c = 0; c < count; c += AHEAD) {
        float some[AHEAD][N] = {};

        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (c + u < count)
                dy.get((start + list[c + u]) * h + i, some[u]);
        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (c + u < count) {
                TR_UNROLL
                for (int k = 0; k < N; k++)
                    sum[k] += some[u][k];
            }
    }
}

/*
 * A block for each row of dy and THREADS groups of columns.  It goes through all ids: if its own
 * comes up before its row, the block of that row does the work; otherwise it adds up all rows with
 * this id, in their order, and rounds once.
 */
template <int N, class T, class Y>
__global__ void __launch_bounds__(THREADS)
    gather_kernel(T dtable, Y dy, const int32_t *ids, int64_t n, int64_t h, int64_t r,
                  int64_t first)
{
    TR_SHARED(unsigned, hits, [2][WORDS]);
    TR_SHARED(uint16_t, list, [CHUNK]);
    TR_SHARED(int, count, [1]);
    const int64_t i = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * N, own = blockIdx.x;
    const int32_t id = ids[own];
    const int64_t row = id - first;
    float sum[N] = {};
    int turn = 0;

    static_assert((int)WORDS == (int)WARP, "a lane for each word");
    if (row < 0 || row >= r)
        return;
    if (i < h)
        dtable.get(row * h + i, sum);
    for (int64_t start = 0; start < n; start += CHUNK, turn ^= 1) {
        /* In turn, so that nobody writes what another still reads. */
        find_id(ids, start, n, id, hits[turn]);
        __syncthreads();

        const unsigned word = hits[turn][threadIdx.x % WARP];
        const unsigned hit = __ballot_sync(ALL_LANES, word != 0);

        if (!hit)
            continue;
        if (start < own) {
            const unsigned lowest = __shfl_sync(ALL_LANES, word, __ffs((int)hit) - 1);

            if (start + (__ffs((int)hit) - 1) * WARP + __ffs((int)lowest) - 1 < own)
                return;
        }
        if (threadIdx.x < WARP) {
            const int found = list_bits(word, list);

            if (threadIdx.x == 0)
                count[0] = found;
        }
        __syncthreads();
        if (i < h)
            add_listed(sum, dy, start, h, i, list, count[0]);
    }
    if (i < h)
        dtable.set(row * h + i, sum);
}

template <int N, class T, class Y>
void gather_launch(struct tr_queue *q, T dtable, Y dy, const struct tr_tensor *ids,
                   struct tr_embed_sizes s, int64_t first)
{
    const dim3 grid((unsigned)s.n, blocks_for(s.h / N, THREADS, UINT16_MAX));

    TR_LAUNCH(q, (gather_kernel<N, T, Y>), grid, THREADS, 0, dtable, dy,
              elements<const int32_t>(ids), s.n, s.h, s.r, first);
}

} // namespace

extern "C" void tr_cuda_embed_bwd(struct tr_queue *q, const struct tr_tensor *dtable,
                                  const struct tr_tensor *dy, const struct tr_tensor *ids,
                                  int64_t first)
{
    const struct tr_embed_sizes s = tr_sizes_embed(dy, ids, dtable);

    if (lie_well(s.h, dtable, dy)) {
        /* fp32 sums of halves, halves of an fp32 stream, and one type throughout. */
        if (with_pair(dtable->dtype, dy->dtype, [&](auto to, auto from) {
                using T = decltype(to);
                using Y = decltype(from);

                gather_launch<both<T, Y>::N>(q, typed_of<T>(dtable), typed_of<Y>(dy), ids, s,
                                             first);
            }))
            return;
    }
    gather_launch<1>(q, mixed_of(dtable), mixed_of(dy), ids, s, first);
}
