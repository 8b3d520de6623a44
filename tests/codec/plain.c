/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/plain.h"

#include <math.h>
#include <string.h>

#include "util/half.h"

float rounded_to(enum tr_dtype type, float x)
{
    return type == TR_F16    ? tr_f16_to_float(tr_f16_from_float(x))
           : type == TR_BF16 ? tr_bf16_to_float(tr_bf16_from_float(x))
                             : x;
}

/* ---- rounding to bits ---- */

/* The number of the bucket of element i. */
static int64_t bucket_of(struct tr_fix fix, const int64_t dim[3], int64_t i)
{
    const int64_t at[3] = {i / (dim[1] * dim[2]), i / dim[2] % dim[1], i % dim[2]};
    int64_t bucket = 0;

    for (int d = 0; d < 3; d++)
        if (!(fix.over >> d & 1U))
            bucket = bucket * dim[d] + at[d];
    return bucket;
}

static int64_t buckets(struct tr_fix fix, const int64_t dim[3])
{
    return bucket_of(fix, dim, dim[0] * dim[1] * dim[2] - 1) + 1;
}

static float scale_of(struct tr_fix fix, const int64_t dim[3], const float *x, int64_t bucket)
{
    const int64_t n = dim[0] * dim[1] * dim[2];
    long double sum = 0.0L, mean;
    float largest = 0.0F;
    int64_t count = 0;
    double scale;

    for (int64_t i = 0; i < n; i++) {
        if (bucket_of(fix, dim, i) != bucket)
            continue;
        if (!isfinite(x[i]))
            return NAN;
        sum += (long double)x[i] * (long double)x[i];
        largest = fmaxf(largest, fabsf(x[i]));
        count++;
    }
    mean = sum / (long double)count;
    scale = fix.bits == 1               ? (double)sqrtl(mean)
            : fix.scale == TR_SCALE_MAX ? (double)largest
                                        : 2.0 * (double)sqrtl(mean);
    return rounded_to(TR_F16, (float)fmin(scale, 65504.0));
}

static int code_of(int bits, float x, float scale)
{
    const float half = ldexpf(1.0F, bits - 1);
    float q = rintf(x / (scale + 1e-6F) * half);

    if (bits == 1)
        return x >= 0.0F;
    if (isnan(q))
        return 0;
    return (int)(fmaxf(-half, fminf(half - 1.0F, q)) + half);
}

static float value_of(int bits, int code, float scale)
{
    const float half = ldexpf(1.0F, bits - 1);

    return bits == 1 ? (float)(2 * code - 1) * scale : ((float)code - half) / half * scale;
}

int64_t plain_put(struct tr_fix fix, const int64_t dim[3], const float *x, unsigned char *wire)
{
    const int64_t n = dim[0] * dim[1] * dim[2], count = n > 0 ? buckets(fix, dim) : 0;
    const int64_t codes = (n * fix.bits + 7) / 8, even = (codes + 1) / 2 * 2;

    memset(wire, 0, (size_t)even);
    for (int64_t b = 0; b < count; b++) {
        float scale = scale_of(fix, dim, x, b);
        uint16_t stored = isnan(scale) ? 0x7e00 : tr_f16_from_float(scale);

        memcpy(wire + even + 2 * b, &stored, 2);
        for (int64_t i = 0; i < n; i++) {
            int code = bucket_of(fix, dim, i) == b ? code_of(fix.bits, x[i], scale) : 0;
            for (int bit = 0; bit < fix.bits; bit++) {
                int64_t at = i * fix.bits + bit;
                if (code >> (fix.bits - 1 - bit) & 1)
                    wire[at / 8] |= (unsigned char)(0x80 >> at % 8);
            }
        }
    }
    return even + 2 * count;
}

void plain_get(struct tr_fix fix, const int64_t dim[3], const unsigned char *wire, bool add,
               float *y)
{
    const int64_t n = dim[0] * dim[1] * dim[2], even = ((n * fix.bits + 7) / 8 + 1) / 2 * 2;

    for (int64_t i = 0; i < n; i++) {
        uint16_t stored;
        float scale;
        int code = 0;

        memcpy(&stored, wire + even + 2 * bucket_of(fix, dim, i), 2);
        scale = tr_f16_to_float(stored);
        for (int64_t at = i * fix.bits; at < (i + 1) * fix.bits; at++)
            code = 2 * code + (wire[at / 8] >> (7 - at % 8) & 1);
        if (!add)
            y[i] = value_of(fix.bits, code, scale);
        else if (!isnan(scale))
            y[i] = rounded_to(TR_F16, y[i] + value_of(fix.bits, code, scale));
    }
}

/* ---- delta ---- */

/* What is kept of `message`, or that nothing is. */
static void keep(struct plain *p, int64_t sample, const float *message)
{
    const struct tr_fix few = {.bits = p->how.keep_bits, .over = 2, .scale = TR_SCALE_MAX};
    const int64_t dim[3] = {1, p->how.tokens, p->how.width}, n = dim[1] * dim[2];
    unsigned char squeezed[MAX_WIRE];

    p->seen[sample] = true;
    for (int64_t i = 0; i < n; i++)
        p->seen[sample] = p->seen[sample] && isfinite(message[i]);
    memcpy(p->m[sample], message, (size_t)n * sizeof(float));
    if (!p->keeps_few_bits || !p->seen[sample])
        return;
    plain_put(few, dim, message, squeezed);
    plain_get(few, dim, squeezed, false, p->m[sample]);
    for (int64_t i = 0; i < n; i++)
        p->m[sample][i] = rounded_to(TR_F16, p->m[sample][i]);
}

int64_t plain_delta(struct plain *p, const int64_t *sample, const float *x, unsigned char *wire,
                    float *y)
{
    const int64_t n = p->how.tokens * p->how.width;
    int64_t dim[3] = {0, p->how.tokens, p->how.width}, bytes = 0;
    float delta[MAX_NUMBERS], m[MAX_NUMBERS];

    for (int b = 0; b < p->how.samples; b++)
        if (p->seen[sample[b]]) {
            memcpy(m + dim[0] * n, p->m[sample[b]], (size_t)n * sizeof(float));
            for (int64_t i = 0; i < n; i++)
                delta[dim[0] * n + i] = x[b * n + i] - m[dim[0] * n + i];
            dim[0]++;
        }
    if (dim[0] > 0) {
        bytes = plain_put(p->how.fix, dim, delta, wire);
        plain_get(p->how.fix, dim, wire, true, m);
    }
    for (int b = 0, old = 0; b < p->how.samples; b++) {
        if (p->seen[sample[b]])
            memcpy(y + b * n, m + n * old++, (size_t)n * sizeof(float));
        else
            for (int64_t i = 0; i < n; i++, bytes += 2) {
                uint16_t whole = tr_f16_from_float(x[b * n + i]);
                memcpy(wire + bytes, &whole, 2);
                y[b * n + i] = tr_f16_to_float(whole);
            }
        keep(p, sample[b], y + b * n);
    }
    return bytes;
}
