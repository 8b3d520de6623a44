/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/cpu/cpu_codes.h"
#include "device/cpu/cpu_half.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Adam with moments in blocks of 8 bits, a block at a time.  All elements make their step before the first moment becomes
 * a code again, since the largest of them is the scale.  Until then moments are floats in the L1 cache.
 */

/* One moment of a block: codes and floats, with zeros up to a multiple of GROUP. */
struct moment {
    _Alignas(64) uint8_t code[TR_BLOCK_MOST];
    _Alignas(64) float x[TR_BLOCK_MOST];
    const struct tr_cpu_codes *codes;
    float scale;
};

/* The largest magnitudes so far, of each lane. */
struct largest {
    vec m, v;
};

static int code_of_zero(enum tr_book book)
{
    return book == TR_BOOK_SIGNED ? TR_BOOK_ZERO : 0;
}

/* From memory. */
static void get(struct moment *m, enum tr_book book, const uint8_t *block, int64_t n)
{
    const int64_t room = (n + GROUP - 1) / GROUP * GROUP;

    m->codes = tr_cpu_codes(book);
    memcpy(&m->scale, block, sizeof m->scale);
    memcpy(m->code, block + TR_BOOK_SCALE_BYTES, (size_t)n);
    memset(m->code + n, code_of_zero(book), (size_t)(room - n));
}

static inline float largest_lane(vec x)
{
    for (int n = LANES; n > 1; n /= 2)
        x = vec_max(EVENS(x, x), ODDS(x, x)); /* the lower and the upper half, twice */
    return x[0];
}

/* Back to memory, with another scale. */
static void put(struct moment *m, vec most, uint8_t *block, int64_t n)
{
    const float scale = tr_book_scale(largest_lane(most)), inverse = tr_book_inverse(scale);

    memcpy(block, &scale, sizeof scale);
    if (scale <= 0.0f) {
        memset(block + TR_BOOK_SCALE_BYTES, code_of_zero(m->codes->book), (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += GROUP)
        codes_encode(m->codes, m->x + i, inverse, m->code + i);
    memcpy(block + TR_BOOK_SCALE_BYTES, m->code, (size_t)n);
}

static inline vec square_root(vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE__)
    return (vec)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* In each lane, x where |grad| is at most TR_ADAM8_MOST, else y. */
static inline vec if_fine(vec grad, vec x, vec y)
{
#if defined(__AVX512F__)
    return (vec)_mm512_mask_blend_ps(
        _mm512_cmp_ps_mask((__m512)codes_abs(grad), _mm512_set1_ps(TR_ADAM8_MOST), _CMP_LE_OQ),
        (__m512)y, (__m512)x);
#elif defined(__AVX__)
    return (vec)_mm256_blendv_ps(
        (__m256)y, (__m256)x,
        _mm256_cmp_ps((__m256)codes_abs(grad), _mm256_set1_ps(TR_ADAM8_MOST), _CMP_LE_OQ));
#else
    const ints fine = codes_abs(grad) <= vec_all(TR_ADAM8_MOST);

    return (vec)((fine & (ints)x) | (~fine & (ints)y));
#endif
}

/* Of LANES elements: operations and their order are those of device/ref/ref_adam8.c. */
static inline void step(const struct tr_adam8 *a, float *p, vec *m, vec *v, const float *g)
{
    const vec zero = {0.0f}, old = vec_load(p), grad = vec_load(g) * vec_all(a->factor);
    const vec kept_m = vec_all(a->beta1) * *m, new_m = vec_all(a->to_m) * grad;
    const vec kept_v = vec_all(a->beta2) * *v, part_v = vec_all(a->to_v) * grad;
    const vec new_v = part_v * grad;
    const vec mi = kept_m + new_m, vi = kept_v + new_v;
    const vec root = square_root(vi) + vec_all(a->eps);
    const vec ratio = mi / root, change = vec_all(a->rate) * ratio;
    const vec moved = old - change, shrunk = moved * vec_all(a->shrink);

    vec_store(p, if_fine(grad, shrunk, old));
    *m = if_fine(grad, mi + zero, zero); /* no negative zeros */
    *v = if_fine(grad, vi, zero);
}

/* Of GROUP elements, whose moments are those from `first` on. */
static inline __attribute__((always_inline)) void step_group(const struct tr_adam8 *a, float *p,
                                                             struct moment *m, struct moment *v,
                                                             const float *g, int64_t first,
                                                             struct largest *most)
{
    vec ms[VECTORS], vs[VECTORS];

    codes_decode(TR_BOOK_SIGNED, m->codes, m->code + first, ms);
    codes_decode(TR_BOOK_UNSIGNED, v->codes, v->code + first, vs);
    for (int i = 0; i < VECTORS; i++) {
        ms[i] = ms[i] * vec_all(m->scale);
        vs[i] = vs[i] * vec_all(v->scale);
        step(a, p + i * LANES, &ms[i], &vs[i], g + i * LANES);
        vec_store(m->x + first + i * LANES, ms[i]);
        vec_store(v->x + first + i * LANES, vs[i]);
        most->m = vec_max(codes_abs(ms[i]), most->m);
        most->v = vec_max(vs[i], most->v);
    }
}

static struct largest step_block(const struct tr_adam8 *how, float *p, struct moment *m,
                                 struct moment *v, const float *g, int64_t n)
{
    const struct tr_adam8 a = *how; /* in registers, whatever p may point to */
    struct largest most = {{0.0f}, {0.0f}};
    float few_p[GROUP] = {0.0f}, few_g[GROUP] = {0.0f};
    const int64_t whole = n / GROUP * GROUP;
    const size_t rest = (size_t)(n - whole) * sizeof *p;

    for (int64_t i = 0; i < whole; i += GROUP)
        step_group(&a, p + i, m, v, g + i, i, &most);
    if (rest == 0)
        return most;
    memcpy(few_p, p + whole, rest);
    memcpy(few_g, g + whole, rest);
    step_group(&a, few_p, m, v, few_g, whole, &most);
    memcpy(p + whole, few_p, rest);
    return most;
}

void tr_cpu_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks)
{
    const int64_t n = tr_sizes_adam8(half, p, m, v, g, blocks);
    const int64_t all = 1 + (n - 1 + blocks.size - blocks.lead) / blocks.size;
    const struct tr_adam8 a = tr_adam8_of(&how);
    const int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t b = 0; b < all; b++) {
        const int64_t at = b == 0 ? 0 : blocks.lead + (b - 1) * blocks.size;
        const int64_t count = tr_code_next(blocks, at, n), byte = tr_code_bytes(blocks, at);
        uint8_t *mb = tr_u8(m) + byte, *vb = tr_u8(v) + byte;
        float grads[TR_BLOCK_MOST];
        struct moment ms, vs;
        struct largest most;

        get(&ms, TR_BOOK_SIGNED, mb, count);
        get(&vs, TR_BOOK_UNSIGNED, vb, count);
        most = step_block(&a, tr_f32(p) + at, &ms, &vs, tr_cpu_in(g, at, count, grads), count);
        put(&ms, most.m, mb, count);
        put(&vs, most.v, vb, count);
        if (half)
            tr_cpu_put(half, at, count, tr_f32(p) + at);
    }
}
