/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Adam with moments in blocks of 8 bits.  A block at a time becomes floats in the L1 cache.
 *
 * The nearest magnitude is looked up by the upper 16 bits of a float, its exponent and 7 bits of its mantissa: among
 * floats that have these in common there is at most one limit between two magnitudes, of which the entry has the
 * lower 16 bits, above the magnitude below it.  Where there is none, they are all ones, which nothing exceeds.
 */
enum { SHIFT = 16, LOW = (1 << SHIFT) - 1 };
enum { FIRST = (127 - 23) << 23 };                       /* 2^-23, below the first limit */
enum { ENTRIES = (((127 << 23) - FIRST) >> SHIFT) + 1 }; /* up to 1 */

struct look {
    int32_t entry[ENTRIES];
    float value[TR_BOOK_CODES];
};
static struct look looks[2];

static int32_t bits_of(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void fill_look(enum tr_book which)
{
    const struct tr_code_book *book = tr_code_book(which);
    struct look *l = &looks[which];
    int k = 0;

    memcpy(l->value, book->value, sizeof l->value);
    for (int i = 0; i < ENTRIES; i++) {
        const int32_t first = FIRST + (i << SHIFT), end = first + LOW;
        const int below = k;
        int32_t limit = LOW;

        if (k < book->magnitudes - 1 && bits_of(book->limit[k]) <= end)
            limit = bits_of(book->limit[k++]) & LOW;
        TR_ASSERT(k == book->magnitudes - 1 || bits_of(book->limit[k]) > end);
        l->entry[i] = (int32_t)((uint32_t)below << SHIFT | (uint32_t)limit);
    }
    TR_ASSERT(k == book->magnitudes - 1);
}

static void fill_looks(void)
{
    fill_look(TR_BOOK_SIGNED);
    fill_look(TR_BOOK_UNSIGNED);
}

static const struct look *look_of(enum tr_book book)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_looks);
    return &looks[book];
}

/* The nearest magnitude to x, 0 to 1 and a rounding more. */
static inline int32_t nearest(const int32_t *entry, float x)
{
    int32_t bits, e;

    memcpy(&bits, &x, sizeof bits);
    bits = bits < FIRST ? FIRST : bits;
    e = entry[(bits - FIRST) >> SHIFT];
    return (e >> SHIFT) + ((bits & LOW) > (e & LOW));
}

static void decode(const struct look *l, const uint8_t *block, int64_t n, float *x)
{
    float scale;

    memcpy(&scale, block, sizeof scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = l->value[block[TR_BOOK_SCALE_BYTES + i]] * scale;
}

static void encode_signed(const struct look *l, const float *x, int64_t n, float largest,
                          uint8_t *block)
{
    const float scale = tr_book_scale(largest), inverse = tr_book_inverse(scale);

    memcpy(block, &scale, sizeof scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const int32_t k = nearest(l->entry, fabsf(x[i]) * inverse);
        const int32_t some = k < 1 ? 1 : k > 127 ? 127 : k;
        const int negative = (x[i] < 0.0f) & (inverse > 0.0f);

        block[TR_BOOK_SCALE_BYTES + i] =
            (uint8_t)(negative ? TR_BOOK_ZERO - some : TR_BOOK_ZERO + k);
    }
}

static void encode_unsigned(const struct look *l, const float *x, int64_t n, float largest,
                            uint8_t *block)
{
    const float scale = tr_book_scale(largest), inverse = tr_book_inverse(scale);

    memcpy(block, &scale, sizeof scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        block[TR_BOOK_SCALE_BYTES + i] = (uint8_t)nearest(l->entry, x[i] * inverse);
}

/* The largest moments of the block. */
struct largest {
    float m, v;
};

static struct largest step(const struct tr_adam8 *a, float *p, float *m, float *v, const float *g,
                           int64_t n)
{
    const struct tr_adam8 h = *a;
    float most_m = 0.0f, most_v = 0.0f;

#pragma omp simd reduction(max : most_m, most_v)
    for (int64_t i = 0; i < n; i++) {
        const float grad = g[i] * h.factor;
        const float kept_m = h.beta1 * m[i], new_m = h.to_m * grad;
        const float kept_v = h.beta2 * v[i], part_v = h.to_v * grad, new_v = part_v * grad;
        const float mi = kept_m + new_m, vi = kept_v + new_v;
        const float root = sqrtf(vi) + h.eps, change = h.rate * (mi / root);
        const float pi = p[i] - change, shrunk = pi * h.shrink;
        const int fine = fabsf(grad) <= TR_ADAM8_MOST;
        const float to_m = fine ? mi : 0.0f, to_v = fine ? vi : 0.0f, size = fabsf(to_m);

        p[i] = fine ? shrunk : p[i];
        m[i] = to_m;
        v[i] = to_v;
        most_m = size > most_m ? size : most_m;
        most_v = to_v > most_v ? to_v : most_v;
    }
    return (struct largest){most_m, most_v};
}

void tr_cpu_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks)
{
    const int64_t n = tr_sizes_adam8(half, p, m, v, g, blocks);
    const int64_t all = 1 + (n - 1 + blocks.size - blocks.lead) / blocks.size;
    const struct look *ml = look_of(TR_BOOK_SIGNED), *vl = look_of(TR_BOOK_UNSIGNED);
    const struct tr_adam8 a = tr_adam8_of(&how);
    const int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (threads > 1 && n > TR_CPU_SMALL)
    for (int64_t b = 0; b < all; b++) {
        const int64_t at = b == 0 ? 0 : blocks.lead + (b - 1) * blocks.size;
        const int64_t count = tr_code_next(blocks, at, n), byte = tr_code_bytes(blocks, at);
        uint8_t *mb = tr_u8(m) + byte, *vb = tr_u8(v) + byte;
        float ms[TR_BLOCK_MOST], vs[TR_BLOCK_MOST], grads[TR_BLOCK_MOST];
        struct largest most;

        decode(ml, mb, count, ms);
        decode(vl, vb, count, vs);
        most = step(&a, tr_f32(p) + at, ms, vs, tr_cpu_in(g, at, count, grads), count);
        encode_signed(ml, ms, count, most.m, mb);
        encode_unsigned(vl, vs, count, most.v, vb);
        if (half)
            tr_cpu_put(half, at, count, tr_f32(p) + at);
    }
}
