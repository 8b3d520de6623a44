/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

/*
 * Vocabulary-parallel cross entropy.  A block takes a row of logits, which is long; where it does
 * not begin on 16 bytes, some elements at its ends are alone.
 */
namespace
{

enum { THREADS = 256, AHEAD = 4 };

/* ---- the logits of a row ---- */

/* Elements 0 .. head - 1 alone, `groups` of N, the rest alone. */
struct row_span {
    int64_t head, groups, n;
};

template <class T> TR_INLINE row_span span_of(const T *row, int64_t n)
{
    const int64_t N = wide<T>::N;
    const int64_t past = (int64_t)((uintptr_t)row % 16 / sizeof(T)), head = past ? N - past : 0;

    return head < n ? row_span{head, (n - head) / N, n} : row_span{n, 0, n};
}

/* f(column, floats) for each group of a thread, and for each of its elements alone; f may change
   them. */
template <bool STORE, class T, class F> TR_INLINE void over_columns(T *row, int64_t n, F f)
{
    const int N = wide<T>::N;
    const row_span s = span_of(row, n);
    const typed<T> x = {row};

    for (int64_t g = threadIdx.x; g < s.groups; g += AHEAD * THREADS) {
        float some[AHEAD][N];

        TR_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (g + u * THREADS < s.groups)
                x.get(s.head + (g + u * THREADS) * N, some[u]);
        TR_UNROLL
        for (int u = 0; u < AHEAD; u++) {
            const int64_t i = s.head + (g + u * THREADS) * N;

            if (g + u * THREADS >= s.groups)
                continue;
            TR_UNROLL
            for (int k = 0; k < N; k++)
                f(i + k, some[u][k], k);
            if (STORE)
                x.set(i, some[u]);
        }
    }
    for (int64_t k = threadIdx.x; k < n - s.groups * N; k += THREADS) {
        const int64_t i = k < s.head ? k : k + s.groups * N;
        float one = x.get(i);

        f(i, one, 0);
        if (STORE)
            x.set(i, one);
    }
}

/* What of row blockIdx.x the kernels of halves and floats share. */
struct loss_row {
    const float *max;
    const int32_t *labels;
    int64_t n, r, first, valid;
};

/* A number that is not one never is the largest. */
struct take_larger_number {
    TR_INLINE float operator()(float a, float b) const { return b > a ? b : a; }
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    max_kernel(float *max, T *logits, int64_t r, int64_t valid)
{
    TR_SHARED(float, room, [WARP]);
    const take_larger_number larger;
    float largest = -INFINITY;

    over_columns<false>(logits + blockIdx.x * r, valid,
                        [&](int64_t, float &x, int) { largest = larger(largest, x); });
    largest = over_row(largest, larger, room);
    if (threadIdx.x == 0)
        max[blockIdx.x] = largest;
}

/* Sums of a thread by the place of an element in its group: several that do not wait for one
   another. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_kernel(float *stats, T *logits, loss_row o)
{
    TR_SHARED(double, room, [WARP]);
    const int64_t row = blockIdx.x;
    const float max = o.max[row];
    float sum[wide<T>::N] = {};
    double all = 0.0;

    over_columns<false>(logits + row * o.r, o.valid,
                        [&](int64_t, float &x, int k) { sum[k] += expf(x - max); });
    TR_UNROLL
    for (int k = 0; k < wide<T>::N; k++)
        all += (double)sum[k];
    all = over_row(all, add_up(), room);
    if (threadIdx.x == 0) {
        const int64_t label = o.labels[row] - o.first;

        stats[row] = (float)all;
        stats[o.n + row] =
            label >= 0 && label < o.r ? widen(logits[row * o.r + label]) - max : 0.0f;
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    slope_kernel(T *logits, const float *stats, const float *weight, loss_row o)
{
    const int64_t row = blockIdx.x, label = o.labels[row] - o.first;
    const float max = o.max[row], w = weight[row], factor = w / stats[row];

    over_columns<true>(logits + row * o.r, o.r, [&](int64_t i, float &x, int) {
        const float p = factor * expf(x - max) - (i == label ? w : 0.0f);

        x = i < o.valid ? p : 0.0f;
    });
}

__global__ void __launch_bounds__(THREADS) loss_kernel(float *loss, const float *stats, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        loss[i] = (float)(log((double)stats[i]) - (double)stats[n + i]);
}

} // namespace

extern "C" void tr_cuda_xent_max(struct tr_queue *q, const struct tr_tensor *max,
                                 const struct tr_tensor *logits, int64_t valid)
{
    const struct tr_xent_sizes s = tr_sizes_xent(logits, max, NULL, NULL, NULL, valid);

    with_float(logits->dtype, [&](auto type) {
        using T = decltype(type);

        TR_LAUNCH(q, (max_kernel<T>), (unsigned)s.n, THREADS, 0, elements<float>(max),
                  elements<T>(logits), s.r, valid);
    });
}

extern "C" void tr_cuda_xent_sum(struct tr_queue *q, const struct tr_tensor *stats,
                                 const struct tr_tensor *logits, const struct tr_tensor *max,
                                 const struct tr_tensor *labels, int64_t first, int64_t valid)
{
    const struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, NULL, valid);
    const loss_row o = {elements<float>(max), elements<int32_t>(labels), s.n, s.r, first, valid};

    with_float(logits->dtype, [&](auto type) {
        using T = decltype(type);

        TR_LAUNCH(q, (sum_kernel<T>), (unsigned)s.n, THREADS, 0, elements<float>(stats),
                  elements<T>(logits), o);
    });
}

extern "C" void tr_cuda_xent_loss(struct tr_queue *q, const struct tr_tensor *loss,
                                  const struct tr_tensor *stats)
{
    const int64_t n = tr_sizes_xent_loss(loss, stats);

    TR_LAUNCH(q, loss_kernel, blocks_for(n, THREADS, INT32_MAX), THREADS, 0, elements<float>(loss),
              elements<float>(stats), n);
}

extern "C" void tr_cuda_xent_bwd(struct tr_queue *q, const struct tr_tensor *logits,
                                 const struct tr_tensor *max, const struct tr_tensor *stats,
                                 const struct tr_tensor *labels, const struct tr_tensor *weight,
                                 int64_t first, int64_t valid)
{
    const struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, weight, valid);
    const loss_row o = {elements<float>(max), elements<int32_t>(labels), s.n, s.r, first, valid};

    with_float(logits->dtype, [&](auto type) {
        using T = decltype(type);

        TR_LAUNCH(q, (slope_kernel<T>), (unsigned)s.n, THREADS, 0, elements<T>(logits),
                  elements<float>(stats), elements<float>(weight), o);
    });
}
