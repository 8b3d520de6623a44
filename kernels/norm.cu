/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.cuh"

#include <type_traits>

/*
 * Norms.  The fast kernels keep a row in registers, so that it is read once; a warp takes a narrow
 * row alone.  Operands that do not lie well, and rows of fp32 wider than 16384, take kernels that
 * read a row again from the caches.
 */
namespace
{

/* Groups of a row that one thread keeps, and threads of a block that takes one row of any width. */
enum { GROUPS = 4, MOST_THREADS = 1024, THREADS = 256 };

/* With more threads residual_norm would lack registers. */
enum { MOST_THREADS_JOINED = 512 };

/* ---- layernorm, residual_norm ---- */

/* LAYER in the kernels stands for a layer norm with all its parameters, whose gain is the parameter: a choice
   when they are compiled, so that it costs nothing.  The others ask this. */
struct norm_outputs {
    float *mean, *rstd; /* mean NULL: by the root mean square */
    float eps;
    bool one;
};

/* What threads have is added up in double: numbers around zero nearly cancel in their mean. */
TR_INLINE float mean_of(double sum, int h)
{
    return (float)(sum / (double)h);
}

TR_INLINE float rstd_of(double squares, int h, float eps)
{
    return 1.0f / sqrtf((float)(squares / (double)h) + eps);
}

TR_INLINE float normed(float x, float mean, float rstd, float gain, float bias)
{
    return fmaf((x - mean) * rstd, gain, bias);
}

/* A grid for kernels that keep rows in registers; 0 blocks if they cannot. */
struct row_blocks {
    unsigned blocks;
    dim3 block;
};

row_blocks blocks_of_rows(int64_t n, int64_t groups, int most_threads)
{
    const int64_t warps = (groups + GROUPS * WARP - 1) / (GROUPS * WARP), rows = warps == 1 ? 4 : 1;

    if (warps * WARP > most_threads)
        return row_blocks{0, dim3()};
    return row_blocks{blocks_for(n, rows, INT32_MAX),
                      dim3((unsigned)(warps * WARP), (unsigned)rows)};
}

/* The gains or, where they are there, the biases from column i on. */
template <bool LAYER, int N, class A>
TR_INLINE void parameters(A gain, A bias, int i, const norm_outputs &out, float (&by)[N],
                          float (&plus)[N])
{
    gain.get(i, by);
    if (LAYER || bias.here())
        bias.get(i, plus);
    TR_UNROLL
    for (int k = 0; k < N && !LAYER; k++) {
        by[k] += out.one ? 1.0f : 0.0f;
        plus[k] = bias.here() ? plus[k] : 0.0f;
    }
}

/* The norm of a row whose groups threadIdx.x, + blockDim.x, ... are x. */
template <bool LAYER, int N, class A>
TR_INLINE void norm_row(A y, const float (&x)[GROUPS][N], A gain, A bias, int64_t row, int h,
                        const norm_outputs &out, double (&room)[2][WARP])
{
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;

    if (LAYER || out.mean) {
        TR_UNROLL
        for (int g = 0; g < GROUPS; g++)
            if (((int)threadIdx.x + g * (int)blockDim.x) * N < h) {
                TR_UNROLL
                for (int k = 0; k < N; k++)
                    sum += x[g][k];
            }
        mean = mean_of(over_row((double)sum, add_up(), room[0]), h);
    }

    TR_UNROLL
    for (int g = 0; g < GROUPS; g++)
        if (((int)threadIdx.x + g * (int)blockDim.x) * N < h) {
            TR_UNROLL
            for (int k = 0; k < N; k++)
                squares = fmaf(x[g][k] - mean, x[g][k] - mean, squares);
        }
    const float rstd = rstd_of(over_row((double)squares, add_up(), room[1]), h, out.eps);

    TR_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        const int i = ((int)threadIdx.x + g * (int)blockDim.x) * N;
        float by[N], plus[N];

        if (i >= h)
            continue;
        parameters<LAYER>(gain, bias, i, out, by, plus);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            by[k] = normed(x[g][k], mean, rstd, by[k], plus[k]);
        y.set(row * h + i, by);
    }
    if (threadIdx.x == 0) {
        if (LAYER || out.mean)
            out.mean[row] = mean;
        out.rstd[row] = rstd;
    }
}

template <bool LAYER, int N, class R, class A>
__global__ void __launch_bounds__(MOST_THREADS)
    norm_kernel(A y, R x, A gain, A bias, int64_t n, int h, norm_outputs out)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    TR_SHARED(double, room, [2][WARP]);
    float xs[GROUPS][N];

    if (row >= n)
        return;
    TR_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        const int i = ((int)threadIdx.x + g * (int)blockDim.x) * N;

        if (i < h)
            x.get(row * h + i, xs[g]);
    }
    norm_row<LAYER, N>(y, xs, gain, bias, row, h, out, room);
}

/* The norm is that of y as stored. */
template <bool LAYER, int N, class R, class A>
__global__ void __launch_bounds__(MOST_THREADS_JOINED)
    residual_norm_kernel(R y, A norm, R x, A a, A bias, A gain, A shift, int64_t n, int h,
                         norm_outputs out, dropping drop)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    TR_SHARED(double, room, [2][WARP]);
    float xs[GROUPS][N], as[GROUPS][N];

    if (row >= n)
        return;
    /* All that comes from memory is asked for before the first store, which it could not pass. */
    TR_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        const int i = ((int)threadIdx.x + g * (int)blockDim.x) * N;

        if (i >= h)
            continue;
        x.get(row * h + i, xs[g]);
        a.get(row * h + i, as[g]);
    }
    TR_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        const int i = ((int)threadIdx.x + g * (int)blockDim.x) * N;
        float biases[N], keep[N];

        if (i >= h)
            continue;
        if (LAYER || bias.here())
            bias.get(i, biases);
        TR_UNROLL
        for (int k = 0; k < N && !LAYER; k++)
            biases[k] = bias.here() ? biases[k] : 0.0f;
        keep_of(drop, row, i, h, keep);
        TR_UNROLL
        for (int k = 0; k < N; k++)
            xs[g][k] = y.rounded(residual_of(xs[g][k], as[g][k], biases[k], keep[k]));
        y.set(row * h + i, xs[g]);
    }
    norm_row<LAYER, N>(norm, xs, gain, shift, row, h, out, room);
}

/* A block a row, which is read three times. */
__global__ void __launch_bounds__(THREADS)
    norm_any_kernel(mixed y, mixed x, mixed gain, mixed bias, int64_t h, norm_outputs out)
{
    const int64_t row = blockIdx.x;
    TR_SHARED(double, room, [2][WARP]);
    double sum = 0.0, squares = 0.0;
    float mean = 0.0f;

    if (out.mean) {
        for (int64_t i = threadIdx.x; i < h; i += THREADS)
            sum += (double)x.get(row * h + i);
        mean = mean_of(over_row(sum, add_up(), room[0]), (int)h);
    }

    for (int64_t i = threadIdx.x; i < h; i += THREADS) {
        const double off = (double)(x.get(row * h + i) - mean);

        squares += off * off;
    }
    const float rstd = rstd_of(over_row(squares, add_up(), room[1]), (int)h, out.eps);

    for (int64_t i = threadIdx.x; i < h; i += THREADS) {
        float by[1], plus[1];

        parameters<false>(gain, bias, (int)i, out, by, plus);
        y.set(row * h + i, normed(x.get(row * h + i), mean, rstd, by[0], plus[0]));
    }
    if (threadIdx.x == 0) {
        if (out.mean)
            out.mean[row] = mean;
        out.rstd[row] = rstd;
    }
}

/* f(LAYER as a type). */
template <class F> void with_layer(bool layer, F f)
{
    if (layer)
        f(std::true_type());
    else
        f(std::false_type());
}

bool same_type_if(const struct tr_tensor *a, const struct tr_tensor *b)
{
    return !b || same_type(a, b);
}

} // namespace

extern "C" void tr_cuda_norm(struct tr_queue *q, const struct tr_tensor *y,
                             const struct tr_tensor *mean, const struct tr_tensor *rstd,
                             const struct tr_tensor *x, const struct tr_tensor *gain,
                             const struct tr_tensor *bias, struct tr_norm_how how)
{
    const struct tr_rows_sizes s = tr_sizes_norm(y, mean, rstd, x, gain, bias, how);
    const norm_outputs out = {elements<float>(mean), elements<float>(rstd), how.eps, how.one};
    bool done = false;

    if (same_type(y, gain) && same_type_if(y, bias) && lie_well(s.h, y, x, gain, bias))
        with_pair(x->dtype, y->dtype, [&](auto r, auto a) {
            using R = decltype(r);
            using A = decltype(a);
            typedef both<R, A> at_once;
            const row_blocks b = blocks_of_rows(s.n, s.h / at_once::N, MOST_THREADS);

            done = b.blocks > 0;
            if (done)
                with_layer(!how.rms && !how.one, [&](auto layer) {
                    TR_LAUNCH(q,
                              (norm_kernel<decltype(layer)::value, at_once::N, typed<R>, typed<A>>),
                              b.blocks, b.block, 0, typed_of<A>(y), typed_of<R>(x),
                              typed_of<A>(gain), typed_of<A>(bias), s.n, (int)s.h, out);
                });
        });
    if (!done)
        TR_LAUNCH(q, norm_any_kernel, (unsigned)s.n, THREADS, 0, mixed_of(y), mixed_of(x),
                  mixed_of(gain), mixed_of(bias), s.h, out);
}

/* Where this takes the fast kernel, so would layernorm, in blocks of the same shape. */
extern "C" void tr_cuda_residual_norm(struct tr_queue *q, const struct tr_tensor *y,
                                      const struct tr_tensor *norm, const struct tr_tensor *mean,
                                      const struct tr_tensor *rstd, const struct tr_tensor *x,
                                      const struct tr_tensor *a, const struct tr_tensor *bias,
                                      const struct tr_tensor *gain, const struct tr_tensor *shift,
                                      struct tr_norm_how how, struct tr_dropout drop)
{
    const struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);
    const norm_outputs out = {elements<float>(mean), elements<float>(rstd), how.eps, how.one};
    const dropping d = dropping_rows(&drop, s.n);
    bool done = false;

    tr_sizes_norm(norm, mean, rstd, y, gain, shift, how);
    if (same_type(y, x) && same_type_if(a, bias) && same_type(a, gain) && same_type_if(a, shift) &&
        same_type(a, norm) && lie_well(s.h, y, norm, x, a, bias, gain, shift))
        with_pair(y->dtype, a->dtype, [&](auto r, auto t) {
            using R = decltype(r);
            using A = decltype(t);
            typedef both<R, A> at_once;
            const row_blocks b = blocks_of_rows(s.n, s.h / at_once::N, MOST_THREADS_JOINED);

            done = b.blocks > 0;
            if (done)
                with_layer(bias && !how.rms && !how.one, [&](auto layer) {
                    TR_LAUNCH(q,
                              (residual_norm_kernel<decltype(layer)::value, at_once::N, typed<R>,
                                                    typed<A>>),
                              b.blocks, b.block, 0, typed_of<R>(y), typed_of<A>(norm),
                              typed_of<R>(x), typed_of<A>(a), typed_of<A>(bias), typed_of<A>(gain),
                              typed_of<A>(shift), s.n, (int)s.h, out, d);
                });
        });
    if (!done) {
        tr_cuda_residual(q, y, x, a, bias, drop);
        tr_cuda_norm(q, norm, mean, rstd, y, gain, shift, how);
    }
}
