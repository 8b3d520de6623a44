/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_math.h"
#include "device/host.h"
#include "device/sizes.h"

/* Of a row at a time: for sums, and for what passes through the L1 cache as floats. */
enum { CHUNK = 512, PIECE = 4096 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void tr_cpu_xent_max(struct tr_queue *q, const struct tr_tensor *max,
                     const struct tr_tensor *logits, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, NULL, NULL, NULL, valid);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s.n * valid))
    for (int64_t n = 0; n < s.n; n++) {
        float buffer[PIECE], largest = -INFINITY;

        for (int64_t r = 0; r < valid; r += PIECE) {
            int64_t count = smaller(valid - r, PIECE);

            largest = largest_of(tr_cpu_in(logits, n * s.r + r, count, buffer), count, largest);
        }
        tr_f32(max)[n] = largest;
    }
}

/* Floats within a chunk, doubles from chunk to chunk: a vocabulary is long. */
static double sum_of_powers(const struct tr_tensor *x, int64_t first, int64_t n, float max)
{
    double total = 0.0;

    for (int64_t from = 0; from < n; from += CHUNK) {
        int64_t count = smaller(n - from, CHUNK);
        float buffer[CHUNK], sum = 0.0f;
        const float *chunk = tr_cpu_in(x, first + from, count, buffer);

#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < count; i++)
            sum += exp_fast(chunk[i] - max);
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

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s.n * valid))
    for (int64_t n = 0; n < s.n; n++) {
        int64_t label = tr_i32(labels)[n] - first;
        float m = tr_f32(max)[n], one;

        sum[n] = (float)sum_of_powers(logits, n * s.r, valid, m);
        of_label[n] =
            label >= 0 && label < s.r ? *tr_cpu_in(logits, n * s.r + label, 1, &one) - m : 0.0f;
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

/* Columns from .. of one row; `label` counts from there. */
static void slope_of_row(float *row, int64_t count, float max, float factor, int64_t label,
                         float weight)
{
#pragma omp simd
    for (int64_t r = 0; r < count; r++)
        row[r] = factor * exp_fast(row[r] - max);
    if (label >= 0 && label < count)
        row[label] -= weight;
}

void tr_cpu_xent_bwd(struct tr_queue *q, const struct tr_tensor *logits,
                     const struct tr_tensor *max, const struct tr_tensor *stats,
                     const struct tr_tensor *labels, const struct tr_tensor *weight, int64_t first,
                     int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, weight, valid);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s.n * s.r))
    for (int64_t n = 0; n < s.n; n++) {
        float m = tr_f32(max)[n], w = tr_f32(weight)[n], factor = w / tr_f32(stats)[n];
        int64_t label = tr_i32(labels)[n] - first;

        for (int64_t r = 0; r < valid; r += PIECE) {
            int64_t count = smaller(valid - r, PIECE);
            float buffer[PIECE], *row = tr_cpu_in(logits, n * s.r + r, count, buffer);

            slope_of_row(row, count, m, factor, label - r, w);
            tr_cpu_put(logits, n * s.r + r, count, row);
        }
        memset(tr_cpu_at(logits, n * s.r + valid), 0,
               (size_t)((s.r - valid) * tr_dtype_bytes(logits->dtype)));
    }
}
