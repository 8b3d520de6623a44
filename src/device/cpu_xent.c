/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include "device/cpu_math.h"
#include "device/host.h"
#include "device/sizes.h"

enum { CHUNK = 512 };

void tr_cpu_xent_max(struct tr_queue *q, const struct tr_tensor *max,
                     const struct tr_tensor *logits, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, NULL, NULL, NULL, valid);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * valid > TR_CPU_SMALL)
    for (int64_t n = 0; n < s.n; n++)
        tr_f32(max)[n] = largest_of(tr_f32(logits) + n * s.r, valid, -INFINITY);
}

/* Floats within a chunk, doubles from chunk to chunk: a vocabulary is long. */
static double sum_of_powers(const float *x, int64_t n, float max)
{
    double total = 0.0;

    for (int64_t from = 0; from < n; from += CHUNK) {
        int64_t to = from + CHUNK < n ? from + CHUNK : n;
        float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
        for (int64_t i = from; i < to; i++)
            sum += exp_fast(x[i] - max);
        total += (double)sum;
    }
    return total;
}

void tr_cpu_xent_sum(struct tr_queue *q, const struct tr_tensor *stats,
                     const struct tr_tensor *logits, const struct tr_tensor *max,
                     const struct tr_tensor *labels, int64_t first, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, NULL, valid);
    int threads = q->device->threads;
    float *sum = tr_f32(stats), *of_label = sum + s.n;

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * valid > TR_CPU_SMALL)
    for (int64_t n = 0; n < s.n; n++) {
        const float *row = tr_f32(logits) + n * s.r;
        int64_t label = tr_i32(labels)[n] - first;

        sum[n] = (float)sum_of_powers(row, valid, tr_f32(max)[n]);
        of_label[n] = label >= 0 && label < s.r ? row[label] - tr_f32(max)[n] : 0.0f;
    }
}

void tr_cpu_xent_loss(struct tr_queue *q, const struct tr_tensor *loss,
                      const struct tr_tensor *stats)
{
    int64_t n = tr_sizes_xent_loss(loss, stats);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        tr_f32(loss)[i] = (float)(log((double)tr_f32(stats)[i]) - (double)tr_f32(stats)[n + i]);
}

void tr_cpu_xent_bwd(struct tr_queue *q, const struct tr_tensor *logits,
                     const struct tr_tensor *max, const struct tr_tensor *stats,
                     const struct tr_tensor *labels, const struct tr_tensor *weight, int64_t first,
                     int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, weight, valid);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * s.r > TR_CPU_SMALL)
    for (int64_t n = 0; n < s.n; n++) {
        float *row = tr_f32(logits) + n * s.r, m = tr_f32(max)[n], w = tr_f32(weight)[n];
        float factor = w / tr_f32(stats)[n];
        int64_t label = tr_i32(labels)[n] - first;

#pragma omp simd
        for (int64_t r = 0; r < valid; r++)
            row[r] = factor * exp_fast(row[r] - m);
        for (int64_t r = valid; r < s.r; r++)
            row[r] = 0.0f;
        if (label >= 0 && label < valid)
            row[label] -= w;
    }
}
