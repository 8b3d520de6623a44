/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Operations that treat each row of an activation alone, and sums over rows.  The kernels take
 * floats only; rows in fp16 and bf16 pass through the scratch of their thread.
 */

enum { COLUMNS = 64, WIDE = 1024, ROWS = 7 };

_Static_assert(ROWS *(TR_MAX_WIDTH + 32) <= SCRATCH_FLOATS, "scratch");

static bool worth(int threads, struct tr_rows_sizes s)
{
    return tr_cpu_worth(threads, 4 * s.n * s.h);
}

/* Scratch for ROWS rows of h floats, which are not a power of two apart. */
struct rows {
    float *row[ROWS];
};

static struct rows rows_of(const struct tr_queue *q, int64_t h)
{
    struct rows w;

    for (int i = 0; i < ROWS; i++)
        w.row[i] = tr_cpu_scratch(q) + i * ((h + 31) / 16 * 16);
    return w;
}

/* Columns from .. from + count - 1, at most WIDE of them: long stretches of each row, which the
   processor fetches ahead, and sums that stay in the L1 cache. */
static void sum_columns(const struct tr_tensor *to, const struct tr_tensor *x, bool add, int64_t h,
                        int64_t from, int64_t count)
{
    const int64_t n = tr_tensor_elems(x) / h;
    double sum[WIDE] = {0.0};
    float buffer[WIDE], *all;

    for (int64_t i = 0; i < n; i++) {
        const float *row = tr_cpu_in(x, i * h + from, count, buffer);

#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            sum[c] += (double)row[c];
    }
    all = tr_cpu_in(to, from, count, buffer);
    for (int64_t c = 0; c < count; c++)
        all[c] = (float)((add ? (double)all[c] : 0.0) + sum[c]);
    tr_cpu_put(to, from, count, all);
}

/* Each column is a sum of its own, so what a thread has of them changes no bit. */
void tr_cpu_column_sums(int threads, const struct tr_tensor *to, const struct tr_tensor *x,
                        bool add)
{
    const int64_t h = tr_tensor_elems(to), share = (h + threads - 1) / threads;
    const int64_t most = (share + COLUMNS - 1) / COLUMNS * COLUMNS,
                  each = most < WIDE ? most : WIDE;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, tr_tensor_elems(x)))
    for (int64_t from = 0; from < h; from += each)
        sum_columns(to, x, add, h, from, h - from < each ? h - from : each);
}

/* ---- norm ---- */

/* The gain of a norm, where it lies or in scratch[h]. */
static const float *gain_row(const struct tr_tensor *gain, int64_t h, struct tr_norm_how how,
                             float *scratch)
{
    if (!how.one)
        return tr_cpu_in(gain, 0, h, scratch);
    tr_cpu_widen(gain->dtype, gain->data, h, scratch);
#pragma omp simd
    for (int64_t i = 0; i < h; i++)
        scratch[i] += 1.0f;
    return scratch;
}

static void rms_row(float *y, float *rstd, const float *x, const float *gain, int64_t h, float eps)
{
    double squares = 0.0;
    float r;

#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < h; i++)
        squares += (double)x[i] * (double)x[i];
    r = (float)(1.0 / sqrt(squares / (double)h + (double)eps));
#pragma omp simd
    for (int64_t i = 0; i < h; i++)
        y[i] = x[i] * r * gain[i];
    *rstd = r;
}

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

/* Row n of either norm; of `mean` and `bias` both or none are given. */
static void norm_of(float *y, const struct tr_tensor *mean, const struct tr_tensor *rstd, int64_t n,
                    const float *x, const float *gain, const float *bias, int64_t h,
                    struct tr_norm_how how)
{
    if (how.rms)
        rms_row(y, tr_f32(rstd) + n, x, gain, h, how.eps);
    else
        norm_row(y, tr_f32(mean) + n, tr_f32(rstd) + n, x, gain, bias, h, how.eps);
}

void tr_cpu_norm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *mean,
                 const struct tr_tensor *rstd, const struct tr_tensor *x,
                 const struct tr_tensor *gain, const struct tr_tensor *bias, struct tr_norm_how how)
{
    struct tr_rows_sizes s = tr_sizes_norm(y, mean, rstd, x, gain, bias, how);
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
        struct rows w = rows_of(q, s.h);
        const float *by = gain_row(gain, s.h, how, w.row[0]);
        const float *plus = how.rms ? NULL : tr_cpu_in(bias, 0, s.h, w.row[1]);

#pragma omp for
        for (int64_t n = 0; n < s.n; n++) {
            const float *from = tr_cpu_in(x, n * s.h, s.h, w.row[2]);
            float *to = tr_cpu_out(y, n * s.h, w.row[3]);

            norm_of(to, mean, rstd, n, from, by, plus, s.h, how);
            tr_cpu_put(y, n * s.h, s.h, to);
        }
    }
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

/* The same for the norm by the root mean square, which takes no mean away. */
static void rms_row_bwd(float *dx, const float *dy, const float *skip, const float *x,
                        const float *gain, int64_t h, float rstd)
{
    float gu_sum = 0.0f;

#pragma omp simd reduction(+ : gu_sum)
    for (int64_t i = 0; i < h; i++)
        gu_sum += dy[i] * gain[i] * (x[i] * rstd);
    gu_sum /= (float)h;
    if (skip) {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            dx[i] = skip[i] + rstd * (dy[i] * gain[i] - x[i] * rstd * gu_sum);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            dx[i] = rstd * (dy[i] * gain[i] - x[i] * rstd * gu_sum);
    }
}

/* to[c] += sums[c]. */
static void put_sums(const struct tr_tensor *to, int64_t from, int64_t count, const double *sums)
{
    float buffer[COLUMNS], *all = tr_cpu_in(to, from, count, buffer);

    for (int64_t c = 0; c < count; c++)
        all[c] = (float)((double)all[c] + sums[c]);
    tr_cpu_put(to, from, count, all);
}

/* Sums over rows for columns from .. from + count - 1, which one thread does alone.  mean and dbias are NULL for
   the norm by the root mean square. */
static void norm_sums(const struct tr_tensor *dgain, const struct tr_tensor *dbias,
                      const struct tr_tensor *dy, const struct tr_tensor *x,
                      const struct tr_tensor *mean, const float *rstd, struct tr_rows_sizes s,
                      int64_t from)
{
    int64_t count = s.h - from < COLUMNS ? s.h - from : COLUMNS;
    double to_gain[COLUMNS] = {0.0}, to_bias[COLUMNS] = {0.0};
    float buffer[2][COLUMNS];

    for (int64_t n = 0; n < s.n; n++) {
        const float *dyn = tr_cpu_in(dy, n * s.h + from, count, buffer[0]);
        const float *xn = tr_cpu_in(x, n * s.h + from, count, buffer[1]);

        if (mean) {
            const float m = tr_f32(mean)[n];

#pragma omp simd
            for (int64_t c = 0; c < count; c++) {
                to_gain[c] += (double)(dyn[c] * ((xn[c] - m) * rstd[n]));
                to_bias[c] += (double)dyn[c];
            }
        } else {
#pragma omp simd
            for (int64_t c = 0; c < count; c++)
                to_gain[c] += (double)(dyn[c] * (xn[c] * rstd[n]));
        }
    }
    put_sums(dgain, from, count, to_gain);
    if (dbias)
        put_sums(dbias, from, count, to_bias);
}

void tr_cpu_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dgain,
                     const struct tr_tensor *dbias, const struct tr_tensor *dy,
                     const struct tr_tensor *dskip, const struct tr_tensor *x,
                     const struct tr_tensor *gain, const struct tr_tensor *mean,
                     const struct tr_tensor *rstd, struct tr_norm_how how)
{
    struct tr_rows_sizes s =
        tr_sizes_norm_bwd(dx, dgain, dbias, dy, dskip, x, gain, mean, rstd, how);
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
        struct rows w = rows_of(q, s.h);
        const float *by = gain_row(gain, s.h, how, w.row[0]);

#pragma omp for nowait
        for (int64_t from = 0; from < s.h; from += COLUMNS)
            norm_sums(dgain, dbias, dy, x, mean, tr_f32(rstd), s, from);
#pragma omp for
        for (int64_t n = 0; n < s.n; n++) {
            const float *dyn = tr_cpu_in(dy, n * s.h, s.h, w.row[2]);
            const float *skip = dskip ? tr_cpu_in(dskip, n * s.h, s.h, w.row[3]) : NULL;
            const float *xn = tr_cpu_in(x, n * s.h, s.h, w.row[4]);
            float *to = tr_cpu_out(dx, n * s.h, w.row[1]);

            if (how.rms)
                rms_row_bwd(to, dyn, skip, xn, by, s.h, tr_f32(rstd)[n]);
            else
                norm_row_bwd(to, dyn, skip, xn, by, s.h, tr_f32(mean)[n], tr_f32(rstd)[n]);
            tr_cpu_put(dx, n * s.h, s.h, to);
        }
    }
}

/* ---- residual, dropout ---- */

/* The same without a bias. */
static void plain_residual_row(float *y, const float *x, const float *a, const float *keep,
                               int64_t h)
{
    if (keep) {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            y[i] = mul_add(a[i], keep[i], x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            y[i] = x[i] + a[i];
    }
}

/* keep[h] is NULL without dropout, bias[h] may be. */
static void residual_row(float *y, const float *x, const float *a, const float *bias,
                         const float *keep, int64_t h)
{
    if (!bias) {
        plain_residual_row(y, x, a, keep, h);
    } else if (keep) {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            y[i] = mul_add(a[i] + bias[i], keep[i], x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < h; i++)
            y[i] = x[i] + (a[i] + bias[i]);
    }
}

/* What dropout multiplies row n by, or NULL without. */
static const float *mask_row(const struct tr_dropout *drop, int64_t n, int64_t h, float *keep)
{
    if (drop->p == 0.0)
        return NULL;
    tr_cpu_mask_row(drop, n, h, keep);
    return keep;
}

void tr_cpu_residual(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     const struct tr_tensor *a, const struct tr_tensor *bias,
                     struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
        struct rows w = rows_of(q, s.h);
        const float *plus = bias ? tr_cpu_in(bias, 0, s.h, w.row[0]) : NULL;

#pragma omp for
        for (int64_t n = 0; n < s.n; n++) {
            float *to = tr_cpu_out(y, n * s.h, w.row[1]);

            residual_row(to, tr_cpu_in(x, n * s.h, s.h, w.row[2]),
                         tr_cpu_in(a, n * s.h, s.h, w.row[3]), plus,
                         mask_row(&drop, n, s.h, w.row[4]), s.h);
            tr_cpu_put(y, n * s.h, s.h, to);
        }
    }
}

/* The row is still in the L1 cache when it is normalized. */
void tr_cpu_residual_norm(struct tr_queue *q, const struct tr_tensor *y,
                          const struct tr_tensor *norm, const struct tr_tensor *mean,
                          const struct tr_tensor *rstd, const struct tr_tensor *x,
                          const struct tr_tensor *a, const struct tr_tensor *bias,
                          const struct tr_tensor *gain, const struct tr_tensor *shift,
                          struct tr_norm_how how, struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);
    int threads = q->device->threads;

    tr_sizes_norm(norm, mean, rstd, y, gain, shift, how);
#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
        struct rows w = rows_of(q, s.h);
        const float *plus = bias ? tr_cpu_in(bias, 0, s.h, w.row[0]) : NULL;
        const float *by = gain_row(gain, s.h, how, w.row[5]);
        const float *then = how.rms ? NULL : tr_cpu_in(shift, 0, s.h, w.row[6]);

#pragma omp for
        for (int64_t n = 0; n < s.n; n++) {
            float *to = tr_cpu_out(y, n * s.h, w.row[1]);

            residual_row(to, tr_cpu_in(x, n * s.h, s.h, w.row[2]),
                         tr_cpu_in(a, n * s.h, s.h, w.row[3]), plus,
                         mask_row(&drop, n, s.h, w.row[4]), s.h);
            tr_cpu_put(y, n * s.h, s.h, to);
            to = tr_cpu_out(norm, n * s.h, w.row[2]);
            norm_of(to, mean, rstd, n, tr_cpu_in(y, n * s.h, s.h, w.row[1]), by, then, s.h, how);
            tr_cpu_put(norm, n * s.h, s.h, to);
        }
    }
}

/* y = dropout(x), p > 0; y may be x. */
static void drop_rows(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                      struct tr_rows_sizes s, const struct tr_dropout *drop)
{
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, s))
    {
        struct rows w = rows_of(q, s.h);

#pragma omp for
        for (int64_t n = 0; n < s.n; n++) {
            const float *from = tr_cpu_in(x, n * s.h, s.h, w.row[0]);
            const float *keep = mask_row(drop, n, s.h, w.row[1]);
            float *to = tr_cpu_out(y, n * s.h, w.row[2]);

#pragma omp simd
            for (int64_t h = 0; h < s.h; h++)
                to[h] = from[h] * keep[h];
            tr_cpu_put(y, n * s.h, s.h, to);
        }
    }
}

void tr_cpu_residual_bwd(struct tr_queue *q, const struct tr_tensor *da,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual_bwd(da, dbias, dy, &drop);

    if (drop.p > 0.0)
        drop_rows(q, da, dy, s, &drop);
    else
        tr_cpu_copy(q, da, dy);
    if (dbias)
        tr_cpu_column_sums(q->device->threads, dbias, da, true);
}

void tr_cpu_dropout(struct tr_queue *q, const struct tr_tensor *y, struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_dropout(y, &drop);

    if (drop.p > 0.0)
        drop_rows(q, y, y, s, &drop);
}
