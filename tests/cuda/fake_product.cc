/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_product.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "util/half.h"

namespace fake_lt
{
namespace
{

/* ---- elements ---- */

float get(const void *p, cudaDataType t, int64_t i)
{
    if (t == CUDA_R_32F)
        return static_cast<const float *>(p)[i];
    uint16_t h = static_cast<const uint16_t *>(p)[i];
    return t == CUDA_R_16F ? tr_f16_to_float(h) : tr_bf16_to_float(h);
}

void set(void *p, cudaDataType t, int64_t i, float x)
{
    if (t == CUDA_R_32F)
        static_cast<float *>(p)[i] = x;
    else
        static_cast<uint16_t *>(p)[i] =
            t == CUDA_R_16F ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

float rounded(cudaDataType t, float x)
{
    float room[1];

    set(room, t, 0, x);
    return get(room, t, 0);
}

double inner(double x)
{
    return 0.7978845608028654 * (x + 0.044715 * x * x * x);
}

float gelu(float x)
{
    return static_cast<float>(0.5 * x * (1.0 + std::tanh(inner(x))));
}

float gelu_slope(float z)
{
    double x = z, t = std::tanh(inner(x));
    double slope = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x);

    return static_cast<float>(0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope);
}

/* Element (i, l) of op(A), or (l, j) of op(B) with i for j, to to[l * rows + i]. */
std::vector<float> packed(const void *p, const layout &l, bool along_rows, int64_t rows, int64_t k)
{
    std::vector<float> to(static_cast<size_t>(rows * k));

    for (int64_t x = 0; x < k; x++)
        for (int64_t i = 0; i < rows; i++)
            to[static_cast<size_t>(x * rows + i)] =
                get(p, l.type, along_rows ? i + x * l.stride : x + i * l.stride);
    return to;
}

/* acc[i] += op(A)[i,l] op(B)[l,j] for l = from, from + step, ... */
void add_up(std::vector<float> &acc, const std::vector<float> &a, const float *b, int64_t from,
            int64_t count, int64_t step, int64_t columns)
{
    size_t rows = acc.size();

    for (int64_t n = 0, l = from; n < count; n++, l += step) {
        const float *al = &a[static_cast<size_t>(l) * rows];
        float bl = b[l * columns];

        for (size_t i = 0; i < rows; i++)
            acc[i] += al[i] * bl;
    }
}

/* Column j of the sums, added in the order of the algorithm. */
std::vector<float> sums(const work &w, const std::vector<float> &a, const std::vector<float> &b,
                        int64_t j)
{
    const layout &d = w.c.l[D];
    size_t rows = static_cast<size_t>(d.rows);
    std::vector<float> acc(rows, 0.0f), more(rows, 0.0f);
    int64_t k = w.c.k, middle = k / 2;
    const float *bj = &b[static_cast<size_t>(j)];
    bool backwards = w.how == BACKWARDS || (w.how == RACING && w.turn % 2 == 1);

    if (w.how == TWO_HALVES || w.how == ROUNDING) {
        add_up(acc, a, bj, 0, middle, 1, d.columns);
        add_up(more, a, bj, middle, k - middle, 1, d.columns);
        for (size_t i = 0; i < rows; i++)
            acc[i] = w.how == ROUNDING ? rounded(d.type, acc[i]) + rounded(d.type, more[i])
                                       : acc[i] + more[i];
    } else {
        add_up(acc, a, bj, backwards ? k - 1 : 0, k, backwards ? -1 : 1, d.columns);
    }
    return acc;
}

float finished(const work &w, int64_t i, int64_t j, float z)
{
    const what &h = w.c.w;
    cudaDataType t = w.c.l[D].type;
    int64_t at = i + j * h.aux_stride;

    if (has_bias(h.epilogue))
        z += get(h.bias, t, i);
    if (h.epilogue == CUBLASLT_EPILOGUE_DGELU)
        return z * gelu_slope(get(h.aux, t, at));
    if (has_aux(h.epilogue))
        set(h.aux, t, at, z);
    return (h.epilogue & CUBLASLT_EPILOGUE_GELU) != 0 ? gelu(z) : z;
}

} // namespace

int64_t bytes_of(cudaDataType t)
{
    return t == CUDA_R_32F ? 4 : 2;
}

void multiply(const work &w)
{
    const call &c = w.c;
    const layout &d = c.l[D], &old = c.l[C];
    std::vector<float> a = packed(w.a, c.l[A], c.w.turn_a == CUBLAS_OP_N, d.rows, c.k);
    std::vector<float> b = packed(w.b, c.l[B], c.w.turn_b != CUBLAS_OP_N, d.columns, c.k);

    if (w.workspace && w.how == TWO_HALVES)
        std::memset(w.workspace, 0xff, SPLIT_WORKSPACE);
    for (int64_t j = 0; sums_b(c.w.epilogue) && j < d.columns; j++) {
        float sum = 0.0f;

        for (int64_t l = 0; l < c.k; l++)
            sum += b[static_cast<size_t>(l * d.columns + j)];
        set(const_cast<void *>(c.w.bias), d.type, j, sum);
    }
    for (int64_t j = 0; j < d.columns; j++) {
        std::vector<float> acc = sums(w, a, b, j);

        for (int64_t i = 0; i < d.rows; i++) {
            float z = w.alpha * acc[static_cast<size_t>(i)];

            if (w.beta != 0.0f)
                z += w.beta * get(w.old, old.type, i + j * old.stride);
            set(w.d, d.type, i + j * d.stride, finished(w, i, j, z));
        }
    }
}

} // namespace fake_lt
