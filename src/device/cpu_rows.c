/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include <math.h>
#include <string.h>

#include "device/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/* Operations that treat each row of an activation alone, and sums over rows. */

enum { CHUNK = 256, COLUMNS = 64 };

static bool worth(int threads, struct tr_rows_sizes s)
{
    return threads > 1 && s.n * s.h > TR_CPU_SMALL / 4;
}

void tr_cpu_column_sums(int threads, const struct tr_tensor *to, const struct tr_tensor *x,
                        bool add)
{
    int64_t h = tr_tensor_elems(to), n = tr_tensor_elems(x) / h;

#pragma omp parallel for num_threads(threads) if (threads > 1 && n * h > TR_CPU_SMALL)
    for (int64_t from = 0; from < h; from += COLUMNS) {
        int64_t count = h - from < COLUMNS ? h - from : COLUMNS;
        double sum[COLUMNS] = {0.0};

        for (int64_t i = 0; i < n; i++) {
            const float *row = tr_f32(x) + i * h + from;

#pragma omp simd
            for (int64_t c = 0; c < count; c++)
                sum[c] += (double)row[c];
        }
        for (int64_t c = 0; c < count; c++)
            tr_f32(to)[from + c] = (float)((add ? (double)tr_f32(to)[from + c] : 0.0) + sum[c]);
    }
}

/* ---- layernorm ---- */

static void norm_row(float *y, float *mean, float *rstd, const float *x, const float *gain,
                     const float *bias, int64_t h, float eps)
{
    double sum = 0.0, squares = 0.0, centre;
    float m, r;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < h; i++)
        sum += (double)x[i];
    centre = sum / (double)h;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < h; i++)
        squares += ((double)x[i] - centre) * ((double)x[i] - centre);
    m = (float)centre;
    r = (float)(1.0 / sqrt(squares / (double)h + (double)eps));
#pragma omp simd
    for (int64_t i = 0; i < h; i++)
        y[i] = mul_add((x[i] - m) * r, gain[i], bias[i]);
    *mean = m;
    *rstd = r;
}

void tr_cpu_layernorm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *mean,
                      const struct tr_tensor *rstd, const struct tr_tensor *x,
                      const struct tr_tensor *gain, const struct tr_tensor *bias, float eps)
{
    struct tr_rows_sizes s = tr_sizes_layernorm(y, mean, rstd, x, gain, bias);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (worth(threads, s))
    for (int64_t n = 0; n < s.n; n++)
        norm_row(tr_f32(y) + n * s.h, tr_f32(mean) + n, tr_f32(rstd) + n, tr_f32(x) + n * s.h,
                 tr_f32(gain), tr_f32(bias), s.h, eps);
}

/* With g = dy * gain and u = (x - mean) * rstd: dx = rstd (g - mean(g) - u mean(g u)). */
static void norm_row_bwd(float *dx, const float *dy, const float *skip, const float *x,
                         const float *gain, int64_t h, float mean, float rstd)
{
    float g_sum = 0.0f, gu_sum = 0.0f;

#pragma omp simd reduction(+ : g_sum, gu_sum)
    for (int64_t i = 0; i < h; i++) {
        float g = dy[i] * gain[i];

        g_sum += g;
        gu_sum += g * ((x[i] - mean) * rstd);
    }
    g_sum /= (float)h;
    gu_sum /= (float)h;
    if (skip) {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            dx[i] = skip[i] + rstd * (dy[i] * gain[i] - g_sum - (x[i] - mean) * rstd * gu_sum);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            dx[i] = rstd * (dy[i] * gain[i] - g_sum - (x[i] - mean) * rstd * gu_sum);
    }
}

/* Sums over rows for columns from .. from + count - 1, which one thread does alone. */
static void norm_sums(float *dgain, float *dbias, const float *dy, const float *x,
                      const float *mean, const float *rstd, struct tr_rows_sizes s, int64_t from)
{
    int64_t count = s.h - from < COLUMNS ? s.h - from : COLUMNS;
    double to_gain[COLUMNS] = {0.0}, to_bias[COLUMNS] = {0.0};

    for (int64_t n = 0; n < s.n; n++) {
        const float *dyn = dy + n * s.h + from, *xn = x + n * s.h + from;

#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            to_gain[c] += (double)(dyn[c] * ((xn[c] - mean[n]) * rstd[n]));
            to_bias[c] += (double)dyn[c];
        }
    }
    for (int64_t c = 0; c < count; c++) {
        dgain[from + c] = (float)((double)dgain[from + c] + to_gain[c]);
        dbias[from + c] = (float)((double)dbias[from + c] + to_bias[c]);
    }
}

void tr_cpu_layernorm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dgain, const struct tr_tensor *dbias,
                          const struct tr_tensor *dy, const struct tr_tensor *dskip,
                          const struct tr_tensor *x, const struct tr_tensor *gain,
                          const struct tr_tensor *mean, const struct tr_tensor *rstd)
{
    struct tr_rows_sizes s =
        tr_sizes_layernorm_bwd(dx, dgain, dbias, dy, dskip, x, gain, mean, rstd);
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
#pragma omp for nowait
        for (int64_t from = 0; from < s.h; from += COLUMNS)
            norm_sums(tr_f32(dgain), tr_f32(dbias), tr_f32(dy), tr_f32(x), tr_f32(mean),
                      tr_f32(rstd), s, from);
#pragma omp for
        for (int64_t n = 0; n < s.n; n++)
            norm_row_bwd(tr_f32(dx) + n * s.h, tr_f32(dy) + n * s.h,
                         dskip ? tr_f32(dskip) + n * s.h : NULL, tr_f32(x) + n * s.h, tr_f32(gain),
                         s.h, tr_f32(mean)[n], tr_f32(rstd)[n]);
    }
}

/* ---- residual, dropout ---- */

static void residual_row(float *y, const float *x, const float *a, const float *bias, int64_t n,
                         int64_t h, const struct tr_dropout *drop)
{
    float keep[CHUNK];

    if (drop->p == 0.0) {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            y[i] = x[i] + (a[i] + bias[i]);
        return;
    }
    for (int64_t from = 0; from < h; from += CHUNK) {
        int64_t count = h - from < CHUNK ? h - from : CHUNK;

        tr_cpu_mask_row(drop, n, h, from, count, keep);
#pragma omp simd
        for (int64_t i = from; i < from + count; i++)
            y[i] = mul_add(a[i] + bias[i], keep[i - from], x[i]);
    }
}

void tr_cpu_residual(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     const struct tr_tensor *a, const struct tr_tensor *bias,
                     struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (worth(threads, s))
    for (int64_t n = 0; n < s.n; n++)
        residual_row(tr_f32(y) + n * s.h, tr_f32(x) + n * s.h, tr_f32(a) + n * s.h, tr_f32(bias), n,
                     s.h, &drop);
}

/* y = dropout(x) for one row; y may be x. */
static void drop_row(float *y, const float *x, int64_t n, int64_t h, const struct tr_dropout *drop)
{
    float keep[CHUNK];

    for (int64_t from = 0; from < h; from += CHUNK) {
        int64_t count = h - from < CHUNK ? h - from : CHUNK;

        tr_cpu_mask_row(drop, n, h, from, count, keep);
#pragma omp simd
        for (int64_t i = from; i < from + count; i++)
            y[i] = x[i] * keep[i - from];
    }
}

static void drop_rows(int threads, const struct tr_tensor *y, const struct tr_tensor *x,
                      struct tr_rows_sizes s, const struct tr_dropout *drop)
{
#pragma omp parallel for num_threads(threads) if (worth(threads, s))
    for (int64_t n = 0; n < s.n; n++)
        drop_row(tr_f32(y) + n * s.h, tr_f32(x) + n * s.h, n, s.h, drop);
}

void tr_cpu_residual_bwd(struct tr_queue *q, const struct tr_tensor *da,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual_bwd(da, dbias, dy, &drop);

    if (drop.p > 0.0)
        drop_rows(q->device->threads, da, dy, s, &drop);
    else
        tr_cpu_copy(q, da, dy);
    tr_cpu_column_sums(q->device->threads, dbias, da, true);
}

void tr_cpu_dropout(struct tr_queue *q, const struct tr_tensor *y, struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_dropout(y, &drop);

    if (drop.p > 0.0)
        drop_rows(q->device->threads, y, y, s, &drop);
}

/* ---- embedding ---- */

void tr_cpu_embed(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                  const struct tr_tensor *table, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);
    int threads = q->device->threads;
    size_t bytes = (size_t)s.h * sizeof(float);

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * s.h > TR_CPU_SMALL)
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n] - first;

        if (row >= 0 && row < s.r)
            memcpy(tr_f32(y) + n * s.h, tr_f32(table) + row * s.h, bytes);
        else
            memset(tr_f32(y) + n * s.h, 0, bytes);
    }
}

/* A thread owns columns, so the rows of one id are added in their order. */
void tr_cpu_embed_bwd(struct tr_queue *q, const struct tr_tensor *dtable,
                      const struct tr_tensor *dy, const struct tr_tensor *ids, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(dy, ids, dtable);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * s.h > TR_CPU_SMALL)
    for (int64_t from = 0; from < s.h; from += CHUNK) {
        int64_t to = from + CHUNK < s.h ? from + CHUNK : s.h;

        for (int64_t n = 0; n < s.n; n++) {
            int64_t row = tr_i32(ids)[n] - first;
            const float *x = tr_f32(dy) + n * s.h;
            float *sum;

            if (row < 0 || row >= s.r)
                continue;
            sum = tr_f32(dtable) + row * s.h;
#pragma omp simd
            for (int64_t h = from; h < to; h++)
                sum[h] += x[h];
        }
    }
}

void tr_cpu_add_rows(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                     const struct tr_tensor *table)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && s.n * s.h > TR_CPU_SMALL)
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n];
        float *sum = tr_f32(y) + n * s.h;
        const float *x;

        TR_ASSERT(row >= 0 && row < s.r);
        x = tr_f32(table) + row * s.h;
#pragma omp simd
        for (int64_t h = 0; h < s.h; h++)
            sum[h] += x[h];
    }
}
