/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

/* What is done to flat operands, element by element: bound by memory, so a thread moves 16 bytes at
   once where operands lie on such a boundary. */
enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };

/* ---- fill ---- */

template <class T, int N> __global__ void fill_kernel(T *y, int64_t n, T value)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS * N;
    pack<T, N> values;

    for (int k = 0; k < N; k++)
        values.x[k] = value;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N; i < n; i += stride) {
        if (i + N <= n)
            store(y + i, values);
        else
            for (int64_t k = i; k < n; k++)
                y[k] = value;
    }
}

template <class T> static void fill(struct tr_queue *q, T *y, int64_t n, T value)
{
    const int N = wide<T>::N;

    if (on_16_bytes(y))
        TR_LAUNCH(q, (fill_kernel<T, N>), blocks_for(n, THREADS * N, MOST_BLOCKS), THREADS, 0, y, n,
                  value);
    else
        TR_LAUNCH(q, (fill_kernel<T, 1>), blocks_for(n, THREADS, MOST_BLOCKS), THREADS, 0, y, n,
                  value);
}

extern "C" void tr_cuda_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    const int64_t n = tr_tensor_elems(y);

    if (y->dtype == TR_F64)
        fill(q, elements<double>(y), n, (double)value);
    else if (y->dtype == TR_F32)
        fill(q, elements<float>(y), n, value);
    else
        fill(q, elements<uint16_t>(y), n,
             y->dtype == TR_F16 ? tr_f16_from_float(value) : tr_bf16_from_float(value));
}
