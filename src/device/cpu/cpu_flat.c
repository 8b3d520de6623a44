/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/* Operations on flat spans.  They are memory-bound: PIECE numbers at a time, fp16 and bf16 pass
   through the L1 cache as floats. */
enum { PIECE = 2048 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void fill_span(float *to, int64_t n, float value, bool past_caches)
{
    int64_t i = 0;

    if (past_caches) {
        for (; i < n && (uintptr_t)(to + i) % sizeof(vec) != 0; i++)
            to[i] = value;
        for (; i + LANES <= n; i += LANES)
            vec_stream(to + i, vec_all(value));
        vec_flush();
    }
    for (; i < n; i++)
        to[i] = value;
}

static void fill_half(int threads, const struct tr_tensor *y, float value)
{
    int64_t n = tr_tensor_elems(y);
    uint16_t *to = tr_half(y), half;

    tr_cpu_narrow(y->dtype, &value, 1, &half);
#pragma omp parallel for simd num_threads(threads) if (parallel : tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i++)
        to[i] = half;
}

void tr_cpu_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    int64_t n = tr_tensor_elems(y);
    int threads = q->device->threads;

    TR_ASSERT(tr_dtype_is_float(y->dtype) || y->dtype == TR_F64);
    if (y->dtype == TR_F16 || y->dtype == TR_BF16) {
        fill_half(threads, y, value);
        return;
    }
    if (y->dtype == TR_F64) {
        for (int64_t i = 0; i < n; i++)
            tr_f64(y)[i] = (double)value;
        return;
    }
#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += TR_CPU_PIECE)
        fill_span(tr_f32(y) + i, smaller(n - i, TR_CPU_PIECE), value, n > TR_CPU_LONG);
}

/* By all threads of the queue: one alone does not reach the rate of the memory. */
static void copy_bytes(const struct tr_queue *q, void *to, const void *from, int64_t bytes)
{
    const int64_t piece = TR_CPU_PIECE * (int64_t)sizeof(float);
    const int threads = q->device->threads;

#pragma omp parallel for num_threads( \
    threads) if (tr_cpu_worth(threads, bytes / (int64_t)sizeof(float)))
    for (int64_t i = 0; i < bytes; i += piece)
        memcpy((char *)to + i, (const char *)from + i, (size_t)smaller(bytes - i, piece));
}

void tr_cpu_copy(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_copy(y, x);
    int threads = q->device->threads;

    if (y->dtype == x->dtype) {
        copy_bytes(q, y->data, x->data, tr_tensor_bytes(x));
        return;
    }
#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += TR_CPU_PIECE)
        tr_cpu_convert(y, i, x, i, smaller(n - i, TR_CPU_PIECE));
}

void tr_cpu_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from)
{
    copy_bytes(q, to->data, from, tr_tensor_bytes(to));
}

void tr_cpu_download(struct tr_queue *q, void *to, const struct tr_tensor *from)
{
    copy_bytes(q, to, from->data, tr_tensor_bytes(from));
}

void tr_cpu_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(y, x, x, x);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE);
        float buffer[2][PIECE];
        float *to = tr_cpu_in(y, i, count, buffer[0]);
        const float *from = tr_cpu_in(x, i, count, buffer[1]);

#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            to[k] += from[k];
        tr_cpu_put(y, i, count, to);
    }
}

void tr_cpu_scale(struct tr_queue *q, const struct tr_tensor *y, float factor)
{
    int64_t n = tr_sizes_flat(y, y, y, y);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE);
        float buffer[PIECE], *to = tr_cpu_in(y, i, count, buffer);

#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            to[k] *= factor;
        tr_cpu_put(y, i, count, to);
    }
}

void tr_cpu_sumsq(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    tr_cpu_weighted_sum(q, out, x, x);
}

/* Many sums side by side, so that none waits for its last addition, and memory asked for 4 KiB
   before it is needed: the processor does not look ahead beyond a page, and one stream alone is
   slow. */
static double dot(const float *x, const float *w, int64_t n)
{
    enum { SUMS = 32, AHEAD = 1024, LINE = 16 };
    double sum[SUMS] = {0.0}, total = 0.0;
    int64_t i = 0;

    for (; i + SUMS <= n; i += SUMS) {
        for (int k = 0; k < SUMS; k += LINE)
            __builtin_prefetch(x + i + AHEAD + k);
        for (int k = 0; k < SUMS; k++)
            sum[k] += (double)x[i + k] * (double)w[i + k];
    }
    for (; i < n; i++)
        sum[0] += (double)x[i] * (double)w[i];
    for (int k = 0; k < SUMS; k++)
        total += sum[k];
    return total;
}

/* Elements from .. from + n - 1. */
static double dot_span(const struct tr_tensor *x, const struct tr_tensor *w, int64_t from,
                       int64_t n)
{
    double total = 0.0;

    for (int64_t i = from; i < from + n; i += PIECE) {
        int64_t count = smaller(from + n - i, PIECE);
        float buffer[2][PIECE];
        const float *px = tr_cpu_in(x, i, count, buffer[0]);

        total += dot(px, w == x ? px : tr_cpu_in(w, i, count, buffer[1]), count);
    }
    return total;
}

/* The vector is split into parts by its length alone, whose sums are added in their order. */
void tr_cpu_weighted_sum(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x,
                         const struct tr_tensor *w)
{
    enum { PARTS = 256 };
    int64_t n = tr_sizes_flat(x, w, w, w), part = (n + PARTS - 1) / PARTS;
    int threads = q->device->threads;
    double sum[PARTS] = {0.0}, total = 0.0;

    tr_sizes_scalar(out);
#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int i = 0; i < PARTS; i++)
        if (i * part < n)
            sum[i] = dot_span(x, w, i * part, smaller(n - i * part, part));
    for (int i = 0; i < PARTS; i++)
        total += sum[i];
    tr_f64(out)[0] += total;
}

void tr_cpu_count_zeros(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(x, x, x, x), zeros = 0;
    int threads = q->device->threads;

    tr_sizes_scalar(out);
#pragma omp parallel for reduction(+ : zeros) num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE);
        float buffer[PIECE];
        const float *from = tr_cpu_in(x, i, count, buffer);
        int32_t here = 0;

#pragma omp simd reduction(+ : here)
        for (int64_t k = 0; k < count; k++)
            here += from[k] == 0.0f;
        zeros += here;
    }
    tr_f64(out)[0] += (double)zeros;
}

static void adamw_span(float *p, float *m, float *v, const float *g, int64_t n,
                       const struct tr_adamw *how)
{
    const float to_m = (float)(1.0 - (double)how->beta1), to_v = (float)(1.0 - (double)how->beta2);
    const float rate = (float)((double)how->lr / (double)how->bias1);
    const float unbias = (float)(1.0 / (double)how->bias2);
    const float shrink = (float)(1.0 - (double)how->lr * (double)how->decay);
    const float beta1 = how->beta1, beta2 = how->beta2, eps = how->eps, factor = how->grad_scale;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float grad = g[i] * factor;
        float mi = mul_add(to_m, grad, beta1 * m[i]);
        float vi = mul_add(to_v * grad, grad, beta2 * v[i]);

        m[i] = mi;
        v[i] = vi;
        p[i] = mul_add(shrink, p[i], -(rate * mi) / (sqrtf(vi * unbias) + eps));
    }
}

void tr_cpu_adamw(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how)
{
    int64_t n = tr_sizes_adamw(half, p, m, v, g);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE);
        float buffer[PIECE];

        adamw_span(tr_f32(p) + i, tr_f32(m) + i, tr_f32(v) + i, tr_cpu_in(g, i, count, buffer),
                   count, &how);
        if (half)
            tr_cpu_put(half, i, count, tr_f32(p) + i);
    }
}
