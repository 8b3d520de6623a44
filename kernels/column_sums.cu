/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

extern "C" {
#include "device/cuda/cuda_dense.h"
}

/*
 * Sums of columns in two stages: blocks sum slabs of rows, then the sums of the slabs are summed.  How
 * rows are grouped follows from the shape alone.
 */
enum {
    SLAB_ROWS = 256, /* at least */
    SLABS = 512,     /* at most */
    WARPS = 8,
    SUM_THREADS = WARPS * WARP
};

/* part[slab][h] = sums of rows slab * rows .. of x[n,h]; V neighbouring columns per lane. */
template <class T, int V>
__global__ void __launch_bounds__(SUM_THREADS)
    slab_sums(float *__restrict__ part, const T *__restrict__ x, int64_t n, int64_t h, int64_t rows)
{
    TR_SHARED(float, room, [WARPS][WARP * V]);
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t column = (int64_t)blockIdx.x * WARP * V, mine = column + lane * V;
    const int64_t first = (int64_t)blockIdx.y * rows, end = min(first + rows, n);
    float sum[V] = {};

    if (mine < h) {
        TR_UNROLL
        for (int64_t r = first + warp; r < end; r += WARPS) {
            pack<T, V> some = load<V>(x + r * h + mine);

            for (int v = 0; v < V; v++)
                sum[v] += widen(some.x[v]);
        }
    }
    for (int v = 0; v < V; v++)
        room[warp][lane * V + v] = sum[v];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < WARP * V && column + c < h; c += SUM_THREADS) {
        float all = room[0][c];

        for (int w = 1; w < WARPS; w++)
            all += room[w][c];
        part[(int64_t)blockIdx.y * h + column + c] = all;
    }
}

__global__ void __launch_bounds__(SUM_THREADS)
    sum_of_slabs(mixed to, const float *__restrict__ part, int64_t h, int slabs, bool add)
{
    TR_SHARED(float, room, [WARPS][WARP]);
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t column = (int64_t)blockIdx.x * WARP + lane;
    float sum = 0.0f;

    if (column < h) {
        TR_UNROLL
        for (int s = warp; s < slabs; s += WARPS)
            sum += part[s * h + column];
    }
    room[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= h)
        return;
    for (int w = 1; w < WARPS; w++)
        sum += room[w][lane];
    to.set(column, add ? to.get(column) + sum : sum);
}

template <class T, int V>
static void launch_slabs(struct tr_queue *q, float *part, const struct tr_tensor *x, int64_t n,
                         int64_t h, int64_t rows)
{
    dim3 grid(blocks_for(h, WARP * V, INT32_MAX), blocks_for(n, rows, SLABS));

    TR_LAUNCH(q, (slab_sums<T, V>), grid, SUM_THREADS, 0, part, elements<const T>(x), n, h, rows);
}

extern "C" void tr_cuda_column_sums(struct tr_queue *q, const struct tr_tensor *to,
                                    const struct tr_tensor *x, bool add)
{
    int64_t h = x->dim[x->ndim - 1], n = tr_tensor_elems(x) / h;
    int64_t most = TR_CUDA_SCRATCH_BYTES / (h * (int64_t)sizeof(float)), rows = SLAB_ROWS, slabs;
    float *part;

    TR_ASSERT(tr_tensor_elems(to) == h && most > 0);
    most = min(most, (int64_t)SLABS);
    if ((n + rows - 1) / rows > most)
        rows = (n + most - 1) / most;
    slabs = (n + rows - 1) / rows;
    part = static_cast<float *>(tr_cuda_scratch(q, (size_t)(slabs * h) * sizeof *part));
    with_float(x->dtype, [&](auto type) {
        using T = decltype(type);
        const int V = wide<T>::N;

        if (h % V == 0 && on_16_bytes(x->data))
            launch_slabs<T, V>(q, part, x, n, h, rows);
        else
            launch_slabs<T, 1>(q, part, x, n, h, rows);
    });
    TR_LAUNCH(q, sum_of_slabs, blocks_for(h, WARP, INT32_MAX), SUM_THREADS, 0, mixed_of(to), part,
              h, (int)slabs, add);
}
