/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.cuh"

/*
 * Dropout and the end of a sublayer: each element alone, and the sums of columns that their
 * gradients need.  A block takes some rows whole; threads side by side take groups side by side.
 */
namespace
{

enum { THREADS = 256, SLAB_WARPS = 8, SLAB_ROWS = 32, FOLD_WARPS = 16 };

/* ---- residual, dropout ---- */

template <int N, class R, class A, class B>
__global__ void __launch_bounds__(THREADS)
    residual_kernel(R y, R x, A a, B bias, int64_t n, int64_t h, dropping drop)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;

    if (row >= n)
        return;
    for (int64_t i = (int64_t)threadIdx.x * N; i < h; i += (int64_t)blockDim.x * N) {
        float xs[N], as[N], biases[N], keep[N];

        x.get(row * h + i, xs);
        a.get(row * h + i, as);
        bias.get(i, biases);
        keep_of(drop, row, i, h, keep);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            xs[k] = residual_of(xs[k], as[k], biases[k], keep[k]);
        y.set(row * h + i, xs);
    }
}

template <int N, class R>
__global__ void __launch_bounds__(THREADS) dropout_kernel(R y, int64_t n, int64_t h, dropping drop)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;

    if (row >= n)
        return;
    for (int64_t i = (int64_t)threadIdx.x * N; i < h; i += (int64_t)blockDim.x * N) {
        float ys[N], keep[N];

        y.get(row * h + i, ys);
        keep_of(drop, row, i, h, keep);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            ys[k] *= keep[k];
        y.set(row * h + i, ys);
    }
}

template <int N, class R, class A>
void residual_launch(struct tr_queue *q, R y, R x, A a, A bias, struct tr_rows_sizes s,
                     const dropping &drop)
{
    const dim3 block = block_of_rows(s.h / N, THREADS);
    const unsigned blocks = blocks_for(s.n, block.y, INT32_MAX);

    if (bias.here())
        TR_LAUNCH(q, (residual_kernel<N, R, A, A>), blocks, block, 0, y, x, a, bias, s.n, s.h,
                  drop);
    else
        TR_LAUNCH(q, (residual_kernel<N, R, A, absent>), blocks, block, 0, y, x, a, absent(), s.n,
                  s.h, drop);
}

} // namespace

extern "C" void tr_cuda_residual(struct tr_queue *q, const struct tr_tensor *y,
                                 const struct tr_tensor *x, const struct tr_tensor *a,
                                 const struct tr_tensor *bias, struct tr_dropout drop)
{
    const struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);
    const dropping d = dropping_rows(&drop, s.n);

    if (same_type(y, x) && (!bias || same_type(a, bias)) && lie_well(s.h, y, x, a, bias) &&
        with_pair(y->dtype, a->dtype, [&](auto r, auto t) {
            using R = decltype(r);
            using A = decltype(t);

            residual_launch<both<R, A>::N>(q, typed_of<R>(y), typed_of<R>(x), typed_of<A>(a),
                                           typed_of<A>(bias), s, d);
        }))
        return;
    residual_launch<1>(q, mixed_of(y), mixed_of(x), mixed_of(a), mixed_of(bias), s, d);
}

extern "C" void tr_cuda_dropout(struct tr_queue *q, const struct tr_tensor *y,
                                struct tr_dropout drop)
{
    const struct tr_rows_sizes s = tr_sizes_dropout(y, &drop);
    const dropping d = dropping_rows(&drop, s.n);

    if (drop.p == 0.0)
        return;
    if (lie_well(s.h, y)) {
        with_float(y->dtype, [&](auto r) {
            using R = decltype(r);
            const int N = wide<R>::N;
            const dim3 block = block_of_rows(s.h / N, THREADS);

            TR_LAUNCH(q, (dropout_kernel<N, typed<R>>), blocks_for(s.n, block.y, INT32_MAX), block,
                      0, typed_of<R>(y), s.n, s.h, d);
        });
    } else {
        const dim3 block = block_of_rows(s.h, THREADS);

        TR_LAUNCH(q, (dropout_kernel<1, mixed>), blocks_for(s.n, block.y, INT32_MAX), block, 0,
                  mixed_of(y), s.n, s.h, d);
    }
}

/* ---- the gradient ---- */

namespace
{

/* A block takes WARP groups of columns of one slab of rows; its warps take its rows in turn, AHEAD
   at once. */
template <int N, class A, class R>
__global__ void __launch_bounds__(SLAB_WARPS *WARP)
    residual_bwd_kernel(A da, float *part, R dy, int64_t n, int64_t h, int64_t slab_rows,
                        dropping drop)
{
    const int AHEAD = 4;
    TR_SHARED(float, room, [SLAB_WARPS][WARP * 8]);
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    const int64_t column = (int64_t)blockIdx.x * WARP * N, i = column + lane * N;
    const int64_t first = (int64_t)blockIdx.y * slab_rows, end = min(first + slab_rows, n);
    float sum[N] = {};

    for (int64_t row = first + warp; i < h && row < end; row += AHEAD * SLAB_WARPS) {
        float g[AHEAD][N], keep[N];

        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (row + u * SLAB_WARPS < end)
                dy.get((row + u * SLAB_WARPS) * h + i, g[u]);
        TR_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            if (row + u * SLAB_WARPS >= end)
                continue;
            keep_of(drop, row + u * SLAB_WARPS, i, h, keep);
            TR_UNROLL
            for (int k = 0; k < N; k++) {
                g[u][k] *= keep[k];
                sum[k] += da.rounded(g[u][k]);
            }
            da.set((row + u * SLAB_WARPS) * h + i, g[u]);
        }
    }
    TR_UNROLL
    for (int k = 0; k < N; k++)
        room[warp][k * WARP + lane] = sum[k];
    __syncthreads();
    for (int c = warp; c < N; c += SLAB_WARPS) {
        float all = room[0][c * WARP + lane];

        for (int w = 1; w < SLAB_WARPS; w++)
            all += room[w][c * WARP + lane];
        if (i + c < h)
            part[(int64_t)blockIdx.y * h + i + c] = all;
    }
}

template <int N, class A, class R>
void residual_bwd_launch(struct tr_queue *q, A da, const struct tr_tensor *dbias, R dy,
                         struct tr_rows_sizes s, const dropping &drop)
{
    const slabs cut = slabs_of(s.n, SLAB_ROWS, s.h, TR_CUDA_SCRATCH_BYTES);
    float *part = static_cast<float *>(tr_cuda_scratch(q, cut.count * (size_t)s.h * sizeof(float)));
    const dim3 grid(blocks_for(s.h, WARP * N, INT32_MAX), cut.count), block(WARP, SLAB_WARPS);

    TR_LAUNCH(q, (residual_bwd_kernel<N, A, R>), grid, block, 0, da, part, dy, s.n, s.h, cut.rows,
              drop);
    if (dbias)
        trk_fold(q, dbias, part, cut.count, s.h);
}

/* to[c] += sum of part[.][c], in double: a column per lane, rows dealt out to warps. */
__global__ void __launch_bounds__(FOLD_WARPS *WARP)
    fold_kernel(mixed to, const float *part, int64_t h, int count, int64_t stride)
{
    TR_SHARED(double, room, [FOLD_WARPS][WARP]);
    const int lane = (int)threadIdx.x, warp = (int)threadIdx.y;
    const int64_t c = (int64_t)blockIdx.x * WARP + lane;
    double sum = 0.0;

#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int i = warp; i < count; i += FOLD_WARPS)
        if (c < h)
            sum += (double)part[i * stride + c];
    room[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= h)
        return;
    for (int w = 1; w < FOLD_WARPS; w++)
        sum += room[w][lane];
    to.set(c, (float)((double)to.get(c) + sum));
}

} // namespace

void trk_fold(struct tr_queue *q, const struct tr_tensor *to, const float *part, unsigned count,
              int64_t stride)
{
    const int64_t h = tr_tensor_elems(to);

    TR_LAUNCH(q, fold_kernel, blocks_for(h, WARP, INT32_MAX), dim3(WARP, FOLD_WARPS), 0,
              mixed_of(to), part, h, (int)count, stride);
}

extern "C" void tr_cuda_residual_bwd(struct tr_queue *q, const struct tr_tensor *da,
                                     const struct tr_tensor *dbias, const struct tr_tensor *dy,
                                     struct tr_dropout drop)
{
    const struct tr_rows_sizes s = tr_sizes_residual_bwd(da, dbias, dy, &drop);
    const dropping d = dropping_rows(&drop, s.n);

    if (lie_well(s.h, da, dy) && with_pair(dy->dtype, da->dtype, [&](auto r, auto a) {
            using R = decltype(r);
            using A = decltype(a);

            residual_bwd_launch<both<R, A>::N>(q, typed_of<A>(da), dbias, typed_of<R>(dy), s, d);
        }))
        return;
    residual_bwd_launch<1>(q, mixed_of(da), dbias, mixed_of(dy), s, d);
}
