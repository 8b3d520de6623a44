/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

#include "device/codec_bits.h"
#include "device/ref/ref_element.h"
#include "device/sizes.h"

static double in_float(double x)
{
    return (double)(float)x;
}

/* ---- quantization ---- */

/* Which bucket element i is of. */
static int64_t bucket_of(const struct tr_fix_sizes *s, int64_t i)
{
    return i / (s->d[1] * s->d[2]) * s->stride[0] + i / s->d[2] % s->d[1] * s->stride[1] +
           i % s->d[2] * s->stride[2];
}

/* What a scale is made of. */
struct gathered {
    double largest, sum[TR_FIX_SUMS];
    bool finite;
    int64_t count;
};

static void gather(struct gathered *g, double x)
{
    g->finite = g->finite && isfinite(x);
    g->largest = fmax(g->largest, fabs(x));
    g->sum[g->count++ % TR_FIX_SUMS] += x * x;
}

static double scale_of(struct tr_fix how, struct gathered *g)
{
    if (how.scale == TR_SCALE_MAX && how.bits > 1)
        return fmin(g->largest, TR_FIX_MOST);
    for (int half = TR_FIX_SUMS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            g->sum[i] += g->sum[i + half];
    return in_float(
        fmin((how.bits > 1 ? 2.0 : 1.0) * sqrt(g->sum[0] / (double)g->count), TR_FIX_MOST));
}

/* Of the bucket that begins with element `first`. */
static void gather_bucket(const struct tr_tensor *x, const struct tr_fix_sizes *s, unsigned over,
                          int64_t first, struct gathered *g)
{
    int64_t most[3];

    *g = (struct gathered){.finite = true};
    for (int i = 0; i < 3; i++)
        most[i] = over >> i & 1 ? s->d[i] : 1;
    for (int64_t i = 0; i < most[0]; i++)
        for (int64_t j = 0; j < most[1]; j++)
            for (int64_t k = 0; k < most[2]; k++)
                gather(g, get(x, first + (i * s->d[1] + j) * s->d[2] + k));
}

void tr_ref_fix_scale(struct tr_queue *q, const struct tr_tensor *scale, const struct tr_tensor *x,
                      struct tr_fix how)
{
    struct tr_fix_sizes s = tr_sizes_fix(x, scale, NULL, how);
    int64_t b = 0;

    (void)q;
    /* A bucket that has not been met yet begins here. */
    for (int64_t i = 0; i < s.n && b < s.buckets; i++) {
        struct gathered g;

        if (bucket_of(&s, i) != b)
            continue;
        gather_bucket(x, &s, how.over, i, &g);
        if (g.finite)
            set(scale, b, scale_of(how, &g));
        else
            tr_half(scale)[b] = TR_FIX_BROKEN;
        b++;
    }
}

/* The code of element i. */
static int code_of(float x, float scale, int64_t i, const struct tr_fix *how)
{
    const int bits = how->bits, half = 1 << (bits - 1);
    float t;

    if (bits == 1)
        return x >= 0.0f;
    t = x / (scale + TR_FIX_TINY) * (float)half;
    t = how->stochastic
            ? tr_fix_round(t, how->distance, tr_rng_u32(how->draws, how->first + (uint64_t)i))
            : rintf(t);
    if (!(t > (float)-half))
        return 0;
    return t < (float)(half - 1) ? (int)t + half : 2 * half - 1;
}

static double value_of(int code, float scale, int bits)
{
    int half = 1 << (bits - 1);

    if (bits == 1)
        return (double)(code ? scale : -scale);
    return (double)((float)(code - half) / (float)half * scale);
}

/* Bit i of a string of bytes, each from its highest bit on. */
static int bit(const uint8_t *bytes, int64_t i)
{
    return bytes[i / 8] >> (7 - i % 8) & 1;
}

static void set_bit(uint8_t *bytes, int64_t i)
{
    bytes[i / 8] = (uint8_t)(bytes[i / 8] | 1 << (7 - i % 8));
}

void tr_ref_fix_encode(struct tr_queue *q, const struct tr_tensor *code, const struct tr_tensor *x,
                       const struct tr_tensor *scale, struct tr_fix how)
{
    struct tr_fix_sizes s = tr_sizes_fix(x, scale, code, how);

    (void)q;
    memset(code->data, 0, (size_t)tr_tensor_bytes(code));
    for (int64_t i = 0; i < s.n; i++) {
        int c = code_of((float)get(x, i), (float)get(scale, bucket_of(&s, i)), i, &how);

        for (int k = 0; k < how.bits; k++)
            if (c >> (how.bits - 1 - k) & 1)
                set_bit(tr_u8(code), i * how.bits + k);
    }
}

void tr_ref_fix_decode(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *code,
                       const struct tr_tensor *scale, struct tr_fix how, bool add)
{
    struct tr_fix_sizes s = tr_sizes_fix(y, scale, code, how);

    (void)q;
    for (int64_t i = 0; i < s.n; i++) {
        double of_bucket = get(scale, bucket_of(&s, i)), value;
        int c = 0;

        for (int k = 0; k < how.bits; k++)
            c = 2 * c + bit(tr_u8(code), i * how.bits + k);
        value = value_of(c, (float)of_bucket, how.bits);
        if (!isnan(of_bucket))
            set(y, i, add ? in_float(get(y, i) + value) : value);
        else if (!add)
            set(y, i, (double)NAN);
    }
}

/* ---- top-k ---- */

/* |x| as a number to compare by. */
static uint32_t size_of(const struct tr_tensor *x, int64_t i)
{
    uint32_t bits;

    if (x->dtype != TR_F32)
        return tr_half(x)[i] & 0x7fff;
    memcpy(&bits, tr_f32(x) + i, sizeof bits);
    return bits & 0x7fffffff;
}

static int64_t count_from(const struct tr_tensor *x, int64_t n, uint32_t least)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        count += size_of(x, i) >= least;
    return count;
}

void tr_ref_topk_mask(struct tr_queue *q, const struct tr_tensor *mask, const struct tr_tensor *x,
                      int64_t k)
{
    int64_t n = tr_sizes_mask(x, mask, NULL, &k), equal;
    uint32_t least = 0; /* the largest number that k elements reach, bit by bit */

    (void)q;
    for (uint32_t step = UINT32_C(1) << 30; step > 0; step /= 2)
        if (count_from(x, n, least | step) >= k)
            least |= step;
    equal = k - count_from(x, n, least + 1);
    memset(mask->data, 0, (size_t)tr_tensor_bytes(mask));
    for (int64_t i = 0; i < n; i++)
        if (size_of(x, i) > least || (size_of(x, i) == least && equal-- > 0))
            set_bit(tr_u8(mask), i);
}

void tr_ref_mask_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                      const struct tr_tensor *mask)
{
    int64_t k, n = tr_sizes_mask(x, mask, y, &k), j = 0;

    (void)q;
    for (int64_t i = 0; i < n; i++)
        if (bit(tr_u8(mask), i)) {
            TR_ASSERT(j < k);
            set(y, j++, get(x, i));
        }
    TR_ASSERT(j == k);
}

void tr_ref_mask_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *v,
                     const struct tr_tensor *mask, float factor)
{
    int64_t k, n = tr_sizes_mask(y, mask, v, &k), j = 0;

    (void)q;
    for (int64_t i = 0; i < n; i++)
        if (bit(tr_u8(mask), i)) {
            TR_ASSERT(j < k);
            set(y, i, in_float(get(y, i) + (double)factor * get(v, j++)));
        }
    TR_ASSERT(j == k);
}

/* ---- masks and selections ---- */

/* The place of element i of a selection; below 0 where it is absent. */
static int64_t place(const struct tr_select *s, int64_t i)
{
    return s->index ? tr_i32(s->index)[i] : s->first + i * s->step;
}

void tr_ref_select_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                        const struct tr_tensor *b, struct tr_select s)
{
    int64_t n = tr_sizes_select(y, a, b, &s);

    (void)q;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = place(&s, i);

        TR_ASSERT(at < tr_tensor_elems(a));
        set(y, i, at < 0 ? 0.0 : b ? in_float(get(a, at) - get(b, at)) : get(a, at));
    }
}

void tr_ref_select_put(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s)
{
    int64_t n = tr_sizes_select(y, a, NULL, &s);

    (void)q;
    for (int64_t i = 0; i < n; i++) {
        TR_ASSERT(place(&s, i) < tr_tensor_elems(a));
        if (place(&s, i) >= 0)
            set(a, place(&s, i), get(y, i));
    }
}

void tr_ref_select_add(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s, float factor)
{
    int64_t n = tr_sizes_select(y, a, NULL, &s);

    (void)q;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = place(&s, i);

        TR_ASSERT(at < tr_tensor_elems(a));
        if (at >= 0)
            set(a, at, in_float(get(a, at) + (double)factor * get(y, i)));
    }
}

void tr_ref_subtract(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                     const struct tr_tensor *b)
{
    int64_t n = tr_sizes_flat(y, a, b, b);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        set(y, i, in_float(get(a, i) - get(b, i)));
}

/* ---- fingerprint ---- */

void tr_ref_fingerprint(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t bytes = tr_sizes_fingerprint(out, x);
    uint64_t sum = 0;

    (void)q;
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;

        for (int64_t k = 0; k < 8 && i + k < bytes; k++)
            word |= (uint64_t)((const uint8_t *)x->data)[i + k] << 8 * k;
        sum += tr_mix(word + (uint64_t)(i / 8 + 1) * TR_MIX_STEP);
    }
    tr_i64(out)[0] = (int64_t)tr_mix((uint64_t)tr_i64(out)[0] + (uint64_t)bytes + sum);
}
