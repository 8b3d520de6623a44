/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/* Operations on single queries and keys in rows of qkv's layout, and on single columns. */

static bool worth(int threads, int64_t elements)
{
    return tr_cpu_worth(threads, 4 * elements);
}

static void copy_part(const struct tr_tensor *y, const struct tr_tensor *x, int64_t first,
                      int64_t count)
{
    if (y->data != x->data)
        tr_cpu_convert(y, first, x, first, count);
}

/* ---- rotary positions ---- */

/* x and y may be the same memory. */
static void rotate_halves(float *y, const float *x, const float *cosine, const float *sine,
                          float sign, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[half + i], s = sign * sine[i];

        y[i] = mul_add(a, cosine[i], -b * s);
        y[half + i] = mul_add(b, cosine[i], a * s);
    }
}

static void rotate_pairs(float *y, const float *x, const float *cosine, const float *sine,
                         float sign, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1], s = sign * sine[i];

        y[2 * i] = mul_add(a, cosine[i], -b * s);
        y[2 * i + 1] = mul_add(b, cosine[i], a * s);
    }
}

void tr_cpu_rotary(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                   const struct tr_tensor *table, const struct tr_tensor *position,
                   struct tr_rotary_how how)
{
    struct tr_heads_sizes s = tr_sizes_rotary(y, x, table, position, how);
    int64_t parts = how.heads.heads + 2 * how.heads.groups, each = parts / how.heads.groups;
    int64_t rows = tr_tensor_elems(table) / how.rotary;
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (worth(threads, s.n * parts * s.width))
    for (int64_t n = 0; n < s.n; n++) {
        const float *cosine = tr_f32(table) + tr_i32(position)[n] * how.rotary;
        float from[TR_MAX_HEAD_DIM], to[TR_MAX_HEAD_DIM];

        TR_ASSERT(tr_i32(position)[n] >= 0 && tr_i32(position)[n] < rows);
        for (int64_t i = 0; i < parts; i++) {
            int64_t first = (n * parts + i) * s.width,
                    turned = i % each < each - 1 ? how.rotary : 0;
            float *out = tr_cpu_out(y, first, to);

            if (turned > 0) {
                (how.pairs ? rotate_pairs : rotate_halves)(out, tr_cpu_in(x, first, turned, from),
                                                           cosine, cosine + turned / 2,
                                                           how.back ? -1.0f : 1.0f, turned / 2);
                tr_cpu_put(y, first, turned, out);
            }
            if (turned < s.width)
                copy_part(y, x, first + turned, s.width - turned);
        }
    }
}

/* ---- norms of heads ---- */

/* The gains of queries and of keys, in gains[2][TR_MAX_HEAD_DIM]. */
static void take_gains(float gains[2][TR_MAX_HEAD_DIM], const struct tr_tensor *q_gain,
                       const struct tr_tensor *k_gain, int64_t width, struct tr_norm_how how)
{
    tr_cpu_widen(q_gain->dtype, q_gain->data, width, gains[0]);
    tr_cpu_widen(k_gain->dtype, k_gain->data, width, gains[1]);
    for (int64_t i = 0; how.one && i < width; i++) {
        gains[0][i] += 1.0f;
        gains[1][i] += 1.0f;
    }
}

/* y = x * rstd * gain; returns rstd. */
static float head_row(float *y, const float *x, const float *gain, int64_t width, float eps)
{
    float squares = 0.0f, r;

#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++)
        squares += x[i] * x[i];
    r = 1.0f / sqrtf(squares / (float)width + eps);
#pragma omp simd
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * r * gain[i];
    return r;
}

/* Where the next rstd of row n is: of its queries and of its keys. */
struct cursors {
    float *of[2];
};

static struct cursors cursors_of(const struct tr_tensor *rstd, struct tr_heads_how h, int64_t n)
{
    float *row = tr_f32(rstd) + n * (h.heads + h.groups);

    return (struct cursors){{row, row + h.heads}};
}

void tr_cpu_head_norm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *rstd,
                      const struct tr_tensor *x, const struct tr_tensor *q_gain,
                      const struct tr_tensor *k_gain, struct tr_heads_how heads,
                      struct tr_norm_how how)
{
    struct tr_heads_sizes s = tr_sizes_head_norm(y, rstd, x, q_gain, k_gain, heads);
    int64_t parts = heads.heads + 2 * heads.groups, each = parts / heads.groups;
    float gains[2][TR_MAX_HEAD_DIM];
    int threads = q->device->threads;

    take_gains(gains, q_gain, k_gain, s.width, how);
#pragma omp parallel for num_threads(threads) if (worth(threads, s.n * parts * s.width))
    for (int64_t n = 0; n < s.n; n++) {
        struct cursors at = cursors_of(rstd, heads, n);
        float from[TR_MAX_HEAD_DIM], to[TR_MAX_HEAD_DIM];

        for (int64_t i = 0, k = 0; i < parts; i++, k = k + 1 < each ? k + 1 : 0) {
            int64_t first = (n * parts + i) * s.width;
            float *out = tr_cpu_out(y, first, to);
            int which = k == each - 2;

            if (k == each - 1) {
                copy_part(y, x, first, s.width);
                continue;
            }
            *at.of[which]++ =
                head_row(out, tr_cpu_in(x, first, s.width, from), gains[which], s.width, how.eps);
            tr_cpu_put(y, first, s.width, out);
        }
    }
}

/* The gradients of the gains are sums over all rows: over PARTS runs of rows, which do not depend on threads,
   and then over those in their order. */
enum { PARTS = 64 };

struct gain_sums {
    double of[2][TR_MAX_HEAD_DIM]; /* queries, keys */
};

_Static_assert(PARTS * sizeof(struct gain_sums) <= SCRATCH_FLOATS * sizeof(float), "scratch");

/* With g = dy * gain and u = x * rstd: dx = rstd (g - u mean(g u)); to_gain += dy u.  dx may be dy. */
static void head_row_bwd(float *dx, double *to_gain, const float *dy, const float *x,
                         const float *gain, float rstd, int64_t width)
{
    float mean = 0.0f;

#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < width; i++)
        mean += dy[i] * gain[i] * (x[i] * rstd);
    mean /= (float)width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        float u = x[i] * rstd, d = dy[i];

        to_gain[i] += (double)(d * u);
        dx[i] = rstd * (d * gain[i] - u * mean);
    }
}

static void add_gain_sums(const struct tr_tensor *dgain, const struct gain_sums *part, int which,
                          int64_t width)
{
    float line[TR_MAX_HEAD_DIM], *to = tr_cpu_in(dgain, 0, width, line);

    for (int64_t i = 0; i < width; i++) {
        double sum = (double)to[i];

        for (int p = 0; p < PARTS; p++)
            sum += part[p].of[which][i];
        to[i] = (float)sum;
    }
    tr_cpu_put(dgain, 0, width, to);
}

void tr_cpu_head_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dq_gain, const struct tr_tensor *dk_gain,
                          const struct tr_tensor *dy, const struct tr_tensor *x,
                          const struct tr_tensor *q_gain, const struct tr_tensor *k_gain,
                          const struct tr_tensor *rstd, struct tr_heads_how heads,
                          struct tr_norm_how how)
{
    struct tr_heads_sizes s = tr_sizes_head_norm(dx, rstd, x, q_gain, k_gain, heads);
    int64_t parts = heads.heads + 2 * heads.groups, each = parts / heads.groups;
    float gains[2][TR_MAX_HEAD_DIM];
    struct gain_sums *sums = (void *)q->device->scratch;
    int threads = q->device->threads;

    tr_sizes_head_norm(dy, rstd, x, dq_gain, dk_gain, heads);
    take_gains(gains, q_gain, k_gain, s.width, how);
#pragma omp parallel for num_threads(threads) if (worth(threads, s.n * parts * s.width))
    for (int p = 0; p < PARTS; p++) {
        float from[2][TR_MAX_HEAD_DIM], to[TR_MAX_HEAD_DIM];

        memset(&sums[p], 0, sizeof sums[p]);
        for (int64_t n = s.n * p / PARTS; n < s.n * (p + 1) / PARTS; n++) {
            struct cursors at = cursors_of(rstd, heads, n);

            for (int64_t i = 0, k = 0; i < parts; i++, k = k + 1 < each ? k + 1 : 0) {
                int64_t first = (n * parts + i) * s.width;
                float *out = tr_cpu_out(dx, first, to);
                int which = k == each - 2;

                if (k == each - 1) {
                    copy_part(dx, dy, first, s.width);
                    continue;
                }
                head_row_bwd(out, sums[p].of[which], tr_cpu_in(dy, first, s.width, from[0]),
                             tr_cpu_in(x, first, s.width, from[1]), gains[which], *at.of[which]++,
                             s.width);
                tr_cpu_put(dx, first, s.width, out);
            }
        }
    }
    add_gain_sums(dq_gain, sums, 0, s.width);
    add_gain_sums(dk_gain, sums, 1, s.width);
}

/* ---- columns ---- */

void tr_cpu_columns(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                    int64_t to, int64_t from, int64_t count)
{
    int64_t rows = tr_sizes_columns(y, x, to, from, count);
    int64_t y_width = tr_tensor_elems(y) / rows, x_width = tr_tensor_elems(x) / rows;
    size_t bytes = (size_t)(count * tr_dtype_bytes(x->dtype));
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (worth(threads, rows * count))
    for (int64_t n = 0; n < rows; n++)
        memcpy(tr_cpu_at(y, n * y_width + to), tr_cpu_at(x, n * x_width + from), bytes);
}
