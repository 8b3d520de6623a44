/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "device/codec_bits.h"
#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_product.h"
#include "device/cpu/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Quantization.  PIECE elements at a time become floats and one byte each in the L1 cache; eight
 * such bytes are one word, in which the codes move together in three steps, whatever their width.
 */
enum { PIECE = 512, WORDS = PIECE / 8, SLACK = 8 };

/* Elements that are looked at together for their scale. */
enum { SPAN = 2048 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- scales ---- */

/* Elements of one bucket, or of the buckets of neighbouring columns: rows[0] x rows[1] rows from
   `first` on, which are step[0] and step[1] elements apart. */
struct block {
    int64_t first, rows[2], step[2];
};

/* The buckets of x in groups, each with a block of its own as wide as x. */
static int64_t groups_of(const struct tr_fix_sizes *s, unsigned over)
{
    return (over & 1 ? 1 : s->d[0]) * (over & 2 ? 1 : s->d[1]);
}

static struct block block_of(const struct tr_fix_sizes *s, unsigned over, int64_t group)
{
    int64_t inner = over & 2 ? 1 : s->d[1];
    struct block b = {.first = (group / inner * s->d[1] + group % inner) * s->d[2],
                      .rows = {over & 1 ? s->d[0] : 1, over & 2 ? s->d[1] : 1},
                      .step = {s->d[1] * s->d[2], s->d[2]}};

    return b;
}

static int64_t row_of(const struct block *b, int64_t row)
{
    return b->first + row / b->rows[1] * b->step[0] + row % b->rows[1] * b->step[1];
}

/* A number without its sign is compared as a whole number, as it lies in memory. */
static void largest_of_columns(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t *wide,
                               uint16_t *half)
{
    if (x->dtype == TR_F32) {
        const uint32_t *from = (const uint32_t *)x->data + first;

#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            wide[k] = (from[k] & 0x7fffffff) > wide[k] ? from[k] & 0x7fffffff : wide[k];
    } else {
        const uint16_t *from = tr_half(x) + first;

#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            half[k] = (from[k] & 0x7fff) > half[k] ? from[k] & 0x7fff : half[k];
    }
}

static uint32_t largest_of_row(const struct tr_tensor *x, int64_t first, int64_t n)
{
    uint32_t wide = 0;
    uint16_t half = 0;

    if (x->dtype == TR_F32) {
        const uint32_t *from = (const uint32_t *)x->data + first;

#pragma omp simd reduction(max : wide)
        for (int64_t k = 0; k < n; k++)
            wide = (from[k] & 0x7fffffff) > wide ? from[k] & 0x7fffffff : wide;
        return wide;
    } else {
        const uint16_t *from = tr_half(x) + first;

#pragma omp simd reduction(max : half)
        for (int64_t k = 0; k < n; k++)
            half = (from[k] & 0x7fff) > half ? from[k] & 0x7fff : half;
        return half;
    }
}

static uint16_t scale_of_largest(enum tr_dtype type, uint32_t bits)
{
    float x = type == TR_F32   ? tr_float_of_bits(bits)
              : type == TR_F16 ? tr_f16_to_float((uint16_t)bits)
                               : tr_bf16_to_float((uint16_t)bits);

    return isfinite(x) ? tr_f16_from_float(fminf(x, (float)TR_FIX_MOST)) : TR_FIX_BROKEN;
}

/* sum[i][c], i < sums, are the partial sums of column c of `columns`; those from there on are 0. */
static void scales_of_sums(double *sum, int sums, int64_t columns, double count, int bits,
                           uint16_t *scale)
{
    const double factor = bits > 1 ? 2.0 : 1.0;

    for (int half = sums / 2; half > 0; half /= 2)
        for (int64_t k = 0; k < half * columns; k++)
            sum[k] += sum[half * columns + k];
    for (int64_t c = 0; c < columns; c++)
        scale[c] = isfinite(sum[c])
                       ? tr_f16_from_float((float)fmin(factor * sqrt(sum[c] / count), TR_FIX_MOST))
                       : TR_FIX_BROKEN;
}

/* Columns first .. first + n - 1 of a block. */
static void strip_by_largest(const struct tr_tensor *x, const struct block *b, int64_t first,
                             int64_t n, uint16_t *scale)
{
    uint32_t wide[SPAN];
    uint16_t half[SPAN];

    memset(wide, 0, (size_t)n * sizeof *wide);
    memset(half, 0, (size_t)n * sizeof *half);
    for (int64_t row = 0; row < b->rows[0] * b->rows[1]; row++)
        largest_of_columns(x, row_of(b, row) + first, n, wide, half);
    for (int64_t c = 0; c < n; c++)
        scale[c] = scale_of_largest(x->dtype, x->dtype == TR_F32 ? wide[c] : half[c]);
}

/* Columns whose partial sums of squares fit the scratch of a thread and the L2 cache; memory is
   read fastest in whole rows. */
enum { STRIP = 1024 };
_Static_assert(STRIP *TR_FIX_SUMS * sizeof(double) <= SCRATCH_FLOATS * sizeof(float),
               "partial sums are kept in scratch");

static void strip_by_squares(const struct tr_queue *q, const struct tr_tensor *x,
                             const struct block *b, int64_t first, int64_t n, int bits,
                             uint16_t *scale)
{
    const int64_t rows = b->rows[0] * b->rows[1];
    double *sum = (double *)(void *)tr_cpu_scratch(q);
    int sums = TR_FIX_SUMS;
    float buffer[STRIP];

    while (sums / 2 >= rows)
        sums /= 2;
    memset(sum, 0, (size_t)(sums * n) * sizeof *sum);
    for (int64_t row = 0; row < rows; row++) {
        const float *from = tr_cpu_in(x, row_of(b, row) + first, n, buffer);
        double *to = sum + row % TR_FIX_SUMS * n;

#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            to[c] += (double)from[c] * (double)from[c];
    }
    scales_of_sums(sum, sums, n, (double)rows, bits, scale);
}

/* n more elements of a bucket of which `at` came before. */
static void add_squares(const float *x, int64_t n, int64_t at, double sum[TR_FIX_SUMS])
{
    int64_t k = 0;

    for (; k < n && (at + k) % TR_FIX_SUMS != 0; k++)
        sum[(at + k) % TR_FIX_SUMS] += (double)x[k] * (double)x[k];
    for (; k + TR_FIX_SUMS <= n; k += TR_FIX_SUMS)
        for (int i = 0; i < TR_FIX_SUMS; i++)
            sum[i] += (double)x[k + i] * (double)x[k + i];
    for (int i = 0; k < n; i++, k++)
        sum[i] += (double)x[k] * (double)x[k];
}

static void block_by_squares(const struct tr_tensor *x, const struct block *b, int64_t width,
                             int bits, uint16_t *scale)
{
    double sum[TR_FIX_SUMS] = {0.0};
    int64_t at = 0;
    float buffer[SPAN];

    for (int64_t row = 0; row < b->rows[0] * b->rows[1]; row++)
        for (int64_t k = 0; k < width; k += SPAN) {
            int64_t n = smaller(width - k, SPAN);

            add_squares(tr_cpu_in(x, row_of(b, row) + k, n, buffer), n, at, sum);
            at += n;
        }
    scales_of_sums(sum, TR_FIX_SUMS, 1, (double)at, bits, scale);
}

/* All cores work on one bucket: a maximum does not depend on who found it. */
static void block_by_largest(int threads, const struct tr_tensor *x, const struct block *b,
                             int64_t width, uint16_t *scale)
{
    int64_t rows = b->rows[0] * b->rows[1], pieces = (width + SPAN - 1) / SPAN;
    uint32_t largest = 0;

#pragma omp parallel for reduction(max        \
                                   : largest) \
    num_threads(threads) if (tr_cpu_worth(threads, rows * width))
    for (int64_t i = 0; i < rows * pieces; i++) {
        int64_t k = i % pieces * SPAN;
        uint32_t here = largest_of_row(x, row_of(b, i / pieces) + k, smaller(width - k, SPAN));

        largest = here > largest ? here : largest;
    }
    *scale = scale_of_largest(x->dtype, largest);
}

/* Buckets that are whole rows. */
static void scales_of_rows(int threads, const struct tr_tensor *scale, const struct tr_tensor *x,
                           const struct tr_fix_sizes *s, struct tr_fix how)
{
    const bool by_largest = how.scale == TR_SCALE_MAX && how.bits > 1;
    const int64_t groups = groups_of(s, how.over);
    const bool together = by_largest && groups < threads; /* on one bucket after another */

#pragma omp parallel for num_threads(threads) if (!together && tr_cpu_worth(threads, s->n))
    for (int64_t g = 0; g < groups; g++) {
        struct block b = block_of(s, how.over, g);

        if (by_largest)
            block_by_largest(together ? threads : 1, x, &b, s->d[2], tr_half(scale) + g);
        else
            block_by_squares(x, &b, s->d[2], how.bits, tr_half(scale) + g);
    }
}

/* Buckets that are columns: strips of them, narrow enough for all cores to have one. */
static void scales_of_columns(const struct tr_queue *q, const struct tr_tensor *scale,
                              const struct tr_tensor *x, const struct tr_fix_sizes *s,
                              struct tr_fix how)
{
    const int threads = q->device->threads;
    const bool by_largest = how.scale == TR_SCALE_MAX && how.bits > 1;
    const int64_t fair = (s->d[2] / threads + 64) / 64 * 64;
    const int64_t strip = smaller(fair, by_largest ? (int64_t)SPAN : (int64_t)STRIP);
    const int64_t strips = (s->d[2] + strip - 1) / strip;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s->n))
    for (int64_t i = 0; i < groups_of(s, how.over) * strips; i++) {
        struct block b = block_of(s, how.over, i / strips);
        int64_t first = i % strips * strip, n = smaller(s->d[2] - first, strip);
        uint16_t *to = tr_half(scale) + i / strips * s->d[2] + first;

        if (by_largest)
            strip_by_largest(x, &b, first, n, to);
        else
            strip_by_squares(q, x, &b, first, n, how.bits, to);
    }
}

void tr_cpu_fix_scale(struct tr_queue *q, const struct tr_tensor *scale, const struct tr_tensor *x,
                      struct tr_fix how)
{
    struct tr_fix_sizes s = tr_sizes_fix(x, scale, NULL, how);

    if (how.over & 4)
        scales_of_rows(q->device->threads, scale, x, &s, how);
    else
        scales_of_columns(q, scale, x, &s, how);
}

/* Those of elements first .. first + n - 1. */
static void find_scales(const struct tr_fix_sizes *s, const struct tr_tensor *scale, int64_t first,
                        int64_t n, float *out)
{
    int64_t row = first / s->d[2], k = first % s->d[2];

    for (int64_t done = 0; done < n; row++, k = 0) {
        int64_t count = smaller(s->d[2] - k, n - done);
        const uint16_t *from = tr_half(scale) + row / s->d[1] * s->stride[0] +
                               row % s->d[1] * s->stride[1] + k * s->stride[2];

        if (s->stride[2]) {
            tr_cpu_widen(TR_F16, from, count, out + done);
        } else {
            const float one = tr_f16_to_float(*from);

            for (int64_t i = 0; i < count; i++)
                out[done + i] = one;
        }
        done += count;
    }
}

/* Scales as floats.  Where all rows have the same they are made once, and from `period` on once
   more, so that a piece reads its own side by side wherever it begins. */
struct scales {
    const struct tr_fix_sizes *size;
    const struct tr_tensor *scale;
    const float *row; /* [period + PIECE], or NULL */
    int64_t period;
};

enum { MOST_SHARED = 1 << 14 }; /* more of them are read faster as fp16 */
_Static_assert(MOST_SHARED + PIECE <= SCRATCH_FLOATS, "scales of a row are kept in scratch");

static struct scales scales_of(const struct tr_queue *q, const struct tr_fix_sizes *s,
                               const struct tr_tensor *scale)
{
    struct scales r = {.size = s, .scale = scale, .period = s->d[2]};
    float *row = tr_cpu_scratch(q);

    if (!s->stride[2] || (s->d[0] > 1 && s->stride[0]) || (s->d[1] > 1 && s->stride[1]) ||
        r.period > MOST_SHARED || s->n < 2 * (r.period + PIECE))
        return r;
    tr_cpu_widen(TR_F16, scale->data, r.period, row);
    for (int64_t k = r.period; k < r.period + PIECE; k++)
        row[k] = row[k - r.period];
    r.row = row;
    return r;
}

/* Those of a piece, where they lie or in scratch[PIECE]. */
static const float *scales_at(const struct scales *r, int64_t first, int64_t n, float *scratch)
{
    if (r->row)
        return r->row + first % r->period;
    find_scales(r->size, r->scale, first, n, scratch);
    return scratch;
}

/* ---- codes in words ---- */

/* The first byte of memory as the highest. */
static uint64_t in_order(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(x);
#else
    return x;
#endif
}

static const uint64_t every_16 = UINT64_C(0x0001000100010001), every_32 = UINT64_C(0x100000001);

/* n codes of `bits` bits, of which code[] has one in each byte and zeros up to the next eight, into
   out[ceil(n * bits / 8) + SLACK]. */
static void pack(uint8_t *restrict code, int64_t n, int bits, uint8_t *restrict out)
{
    const int64_t words = (n + 7) / 8;
    const uint64_t bytes = 0xff * every_16, halves = 0xffff * every_32;
    uint64_t word[WORDS];

    memcpy(word, code, (size_t)words * 8);
#pragma omp simd
    for (int64_t w = 0; w < words; w++) {
        uint64_t x = in_order(word[w]);

        x = (x >> 8 & bytes) << bits | (x & bytes);
        x = (x >> 16 & halves) << 2 * bits | (x & halves);
        x = x >> 32 << 4 * bits | (x & UINT32_MAX);
        word[w] = in_order(x << (64 - 8 * bits));
    }
    for (int64_t w = 0; w < words; w++)
        memcpy(out + w * bits, &word[w], 8);
}

/* The way back, from in[... + SLACK]. */
static void unpack(const uint8_t *restrict in, int64_t n, int bits, uint8_t *restrict code)
{
    const int64_t words = (n + 7) / 8;
    const uint64_t ones = (UINT64_C(1) << bits) - 1, twos = (UINT64_C(1) << 2 * bits) - 1;
    const uint64_t fours = (UINT64_C(1) << 4 * bits) - 1;
    uint64_t word[WORDS];

    for (int64_t w = 0; w < words; w++)
        memcpy(&word[w], in + w * bits, 8);
#pragma omp simd
    for (int64_t w = 0; w < words; w++) {
        uint64_t x = in_order(word[w]) >> (64 - 8 * bits);

        x = x >> 4 * bits << 32 | (x & fours);
        x = (x >> 2 * bits & twos * every_32) << 16 | (x & twos * every_32);
        x = (x >> bits & ones * every_16) << 8 | (x & ones * every_16);
        word[w] = in_order(x);
    }
    memcpy(code, word, (size_t)words * 8);
}

/* ---- numbers and codes ---- */

static void codes_of(const float *x, const float *scale, int64_t n, int bits, uint8_t *code)
{
    /* A sum with `round` is rounded to a whole number, which then ends where the float ends. */
    const float h = (float)(1 << (bits - 1)), round = 12582912.0f;
    const uint32_t half = UINT32_C(1) << (bits - 1);

    if (bits == 1) {
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            code[k] = x[k] >= 0.0f;
        return;
    }
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        float t = x[k] / (scale[k] + TR_FIX_TINY) * h;

        /* What is not a number is not larger either. */
        t = t > -h ? t : -h;
        t = t < h - 1.0f ? t : h - 1.0f;
        code[k] = (uint8_t)(tr_bits_of_float(t + round) + half);
    }
}

/* Draws first .. first + n - 1. */
static void draws_of(struct tr_rng r, uint64_t first, int64_t n, uint32_t *draw)
{
    for (int64_t k = 0; k < n;) {
        const uint64_t at = first + (uint64_t)k;
        uint32_t word[4];

        tr_rng_block(r, at / 4, word);
        for (uint64_t j = at % 4; j < 4 && k < n; j++)
            draw[k++] = word[j];
    }
}

/* The same by draws. */
static void codes_drawn(const float *x, const float *scale, int64_t n, const struct tr_fix *how,
                        uint64_t first, uint8_t *code)
{
    const float h = (float)(1 << (how->bits - 1));
    uint32_t draw[PIECE];

    draws_of(how->draws, first, n, draw);
    for (int64_t k = 0; k < n; k++) {
        float t = tr_fix_round(x[k] / (scale[k] + TR_FIX_TINY) * h, how->distance, draw[k]);

        t = t > -h ? t : -h;
        t = t < h - 1.0f ? t : h - 1.0f;
        code[k] = (uint8_t)(t + h);
    }
}

void tr_cpu_fix_encode(struct tr_queue *q, const struct tr_tensor *code, const struct tr_tensor *x,
                       const struct tr_tensor *scale, struct tr_fix how)
{
    const struct tr_fix_sizes s = tr_sizes_fix(x, scale, code, how);
    const struct scales found = scales_of(q, &s, scale);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s.n))
    for (int64_t i = 0; i < s.n; i += PIECE) {
        int64_t n = smaller(s.n - i, PIECE);
        float buffer[PIECE], room[PIECE];
        const float *scales = how.bits > 1 ? scales_at(&found, i, n, room) : NULL;
        uint8_t codes[PIECE], packed[PIECE + SLACK];

        if (how.stochastic && how.bits > 1)
            codes_drawn(tr_cpu_in(x, i, n, buffer), scales, n, &how, how.first + (uint64_t)i,
                        codes);
        else
            codes_of(tr_cpu_in(x, i, n, buffer), scales, n, how.bits, codes);
        memset(codes + n, 0, (size_t)(-n & 7));
        pack(codes, n, how.bits, packed);
        memcpy(tr_u8(code) + i / 8 * how.bits, packed, (size_t)((n * how.bits + 7) / 8));
    }
}

/* With one bit the numbers are -1 and 1; all others begin with -1 and end one step before 1. */
static void values_of(const uint8_t *code, const float *scale, int64_t n, int bits, float *y)
{
    const float half = bits == 1 ? 0.5f : (float)(1 << (bits - 1)), step = 1.0f / half;

#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        y[k] = ((float)code[k] - half) * step * scale[k];
}

static void add_values(const float *value, const float *scale, int64_t n, float *y)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        float sum = y[k] + value[k];

        y[k] = scale[k] == scale[k] ? sum : y[k];
    }
}

void tr_cpu_fix_decode(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *code,
                       const struct tr_tensor *scale, struct tr_fix how, bool add)
{
    const struct tr_fix_sizes s = tr_sizes_fix(y, scale, code, how);
    const struct scales found = scales_of(q, &s, scale);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, s.n))
    for (int64_t i = 0; i < s.n; i += PIECE) {
        int64_t n = smaller(s.n - i, PIECE);
        float buffer[PIECE], room[PIECE], values[PIECE], *to;
        const float *scales = scales_at(&found, i, n, room);
        uint8_t codes[PIECE], packed[PIECE + SLACK];

        memcpy(packed, tr_u8(code) + i / 8 * how.bits, (size_t)((n * how.bits + 7) / 8));
        unpack(packed, n, how.bits, codes);
        to = add ? tr_cpu_in(y, i, n, buffer) : tr_cpu_out(y, i, buffer);
        values_of(codes, scales, n, how.bits, add ? values : to);
        if (add)
            add_values(values, scales, n, to);
        tr_cpu_put(y, i, n, to);
    }
}
