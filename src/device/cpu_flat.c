/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include <math.h>
#include <string.h>

#include "device/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"
#include "util/half.h"

/* Operations on flat spans.  They wait for memory, not for arithmetic. */

/* Spans longer than this are gone from the caches before anything reads them. */
enum { LONG = 1 << 20 };

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

void tr_cpu_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    int64_t n = tr_tensor_elems(y);
    int threads = q->device->threads;

    TR_ASSERT(y->dtype == TR_F32 || y->dtype == TR_F64);
    if (y->dtype == TR_F64) {
        for (int64_t i = 0; i < n; i++)
            tr_f64(y)[i] = (double)value;
        return;
    }
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > TR_CPU_SMALL)
    for (int64_t i = 0; i < n; i += TR_CPU_SMALL)
        fill_span(tr_f32(y) + i, n - i < TR_CPU_SMALL ? n - i : TR_CPU_SMALL, value, n > LONG);
}

void tr_cpu_copy(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t bytes = tr_tensor_bytes(x), piece = TR_CPU_SMALL * sizeof(float);
    int threads = q->device->threads;

    TR_ASSERT(y->dtype == x->dtype && tr_tensor_elems(y) == tr_tensor_elems(x));
#pragma omp parallel for num_threads(threads) if (threads > 1 && bytes > piece)
    for (int64_t i = 0; i < bytes; i += piece)
        memcpy((char *)y->data + i, (const char *)x->data + i,
               (size_t)(bytes - i < piece ? bytes - i : piece));
}

void tr_cpu_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(y, x, x, x);
    int threads = q->device->threads;
    float *to = tr_f32(y);
    const float *from = tr_f32(x);

#pragma omp parallel for simd num_threads(threads) if (parallel : threads > 1 && n > TR_CPU_SMALL)
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

void tr_cpu_scale(struct tr_queue *q, const struct tr_tensor *y, float factor)
{
    int64_t n = tr_sizes_flat(y, y, y, y);
    int threads = q->device->threads;
    float *to = tr_f32(y);

#pragma omp parallel for simd num_threads(threads) if (parallel : threads > 1 && n > TR_CPU_SMALL)
    for (int64_t i = 0; i < n; i++)
        to[i] *= factor;
}

void tr_cpu_sumsq(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    tr_cpu_weighted_sum(q, out, x, x);
}

/* Many sums side by side, so that none waits for its last addition. */
static double dot(const float *x, const float *w, int64_t n)
{
    enum { SUMS = 32 };
    double sum[SUMS] = {0.0}, total = 0.0;
    int64_t i = 0;

    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++)
            sum[k] += (double)x[i + k] * (double)w[i + k];
    for (; i < n; i++)
        sum[0] += (double)x[i] * (double)w[i];
    for (int k = 0; k < SUMS; k++)
        total += sum[k];
    return total;
}

/* The vector is cut into parts by its length alone, whose sums are added in their order. */
void tr_cpu_weighted_sum(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x,
                         const struct tr_tensor *w)
{
    enum { PARTS = 256 };
    int64_t n = tr_sizes_flat(x, w, w, w), piece = (n + PARTS - 1) / PARTS;
    int threads = q->device->threads;
    double sum[PARTS] = {0.0}, total = 0.0;

    tr_sizes_scalar(out);
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > TR_CPU_SMALL)
    for (int part = 0; part < PARTS; part++) {
        int64_t from = part * piece, rest = n - from;

        if (rest > 0)
            sum[part] = dot(tr_f32(x) + from, tr_f32(w) + from, rest < piece ? rest : piece);
    }
    for (int part = 0; part < PARTS; part++)
        total += sum[part];
    tr_f64(out)[0] += total;
}

void tr_cpu_count_zeros(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(x, x, x, x), zeros = 0;
    int threads = q->device->threads;
    const float *from = tr_f32(x);

    tr_sizes_scalar(out);
#pragma omp parallel for simd reduction(+ : zeros) num_threads(threads) \
    if (parallel : threads > 1 && n > TR_CPU_SMALL)
    for (int64_t i = 0; i < n; i++)
        zeros += from[i] == 0.0f;
    tr_f64(out)[0] += (double)zeros;
}

void tr_cpu_adamw(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how)
{
    int64_t n = tr_sizes_adamw(half, p, m, v, g);
    int threads = q->device->threads;
    float *pp = tr_f32(p), *pm = tr_f32(m), *pv = tr_f32(v);
    const float *pg = tr_f32(g);
    const float to_m = (float)(1.0 - (double)how.beta1), to_v = (float)(1.0 - (double)how.beta2);
    const float rate = (float)((double)how.lr / (double)how.bias1);
    const float unbias = (float)(1.0 / (double)how.bias2);
    const float shrink = (float)(1.0 - (double)how.lr * (double)how.decay);

#pragma omp parallel for simd num_threads(threads) if (parallel : threads > 1 && n > TR_CPU_SMALL)
    for (int64_t i = 0; i < n; i++) {
        float grad = pg[i] * how.grad_scale;
        float mi = mul_add(to_m, grad, how.beta1 * pm[i]);
        float vi = mul_add(to_v * grad, grad, how.beta2 * pv[i]);

        pm[i] = mi;
        pv[i] = vi;
        pp[i] = mul_add(shrink, pp[i], -(rate * mi) / (sqrtf(vi * unbias) + how.eps));
    }
    for (int64_t i = 0; half && i < n; i++)
        tr_half(half)[i] =
            half->dtype == TR_F16 ? tr_f16_from_float(pp[i]) : tr_bf16_from_float(pp[i]);
}
