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
 * The nearest magnitudes are computed, a group of elements at a time.  Decade e of a book, 1 to 7, spans 10^(e-8) to
 * 10^(e-7) and has n = 2^e numbers, of TR_BOOK_SIGNED half as many, in the middles of equal intervals.  Limits between
 * them are therefore close to integers of t(r) = n (r / (0.9 10^(e-7)) + 8/9), and the integer part of t is the place
 * of the nearest magnitude, counted from 1 in TR_BOOK_UNSIGNED and from 0 in the other.  Decade 0 has only 0, decade 8
 * only 1.  Comparisons with the limits between decades are exact; where t is so close to an integer that roundings
 * could matter, tr_block_code() decides.
 */
enum { GROUP = 32, VECTORS = GROUP / LANES, DECADES = 8 };
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias));

/*
 * t is in units of 2^-POINT.  Closer to an integer than DOUBT it is in doubt: the roundings of the limits are below
 * 1 unit, those of t in floats, up to 2^24 units, 2, and that to an integer is 1.
 */
enum { POINT = 15, FRACTION = (1 << POINT) - 1, DOUBT = 6 };

/* Of each decade, and of all once more: the limit above it, and minus t as a line and its least value. */
struct magnitudes {
    float limit[2 * DECADES], slope[2 * DECADES], start[2 * DECADES], least[2 * DECADES];
};
static struct magnitudes both[2];

static void fill_magnitudes(enum tr_book which)
{
    const struct tr_code_book *book = tr_code_book(which);
    struct magnitudes *m = &both[which];
    const bool with_sign = which == TR_BOOK_SIGNED;
    const double one = -(1 << POINT);

    for (int i = 0; i < 2 * DECADES; i++) {
        const int e = i % DECADES;
        const double n = ldexp(with_sign ? 0.5 : 1.0, e);

        m->limit[i] = book->limit[with_sign ? (1 << e) - 1 : (2 << e) - 2];
        m->slope[i] = (float)(one * n / (0.9 * pow(10.0, e - 7)));
        m->start[i] = (float)(one * n * 8.0 / 9.0);
        m->least[i] = (float)(one * (2.0 * n - 0.5));
        if (e == 0) { /* and 8: half a number above the place of 0, and near 1 above that of 1 */
            m->slope[i] = (float)(one * (with_sign ? 128.0 : 255.0));
            m->start[i] = (float)(one * (with_sign ? 0.5 : 1.5));
            m->least[i] = (float)(one * 512.0);
        }
    }
}

static void fill_both(void)
{
    fill_magnitudes(TR_BOOK_SIGNED);
    fill_magnitudes(TR_BOOK_UNSIGNED);
}

/* In each lane, table[index], of an index of 0 to 8. */
static inline vec pick(const float table[2 * DECADES], ints index)
{
#if defined(__AVX512F__)
    return (vec)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif defined(__AVX2__)
    return (vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
#else
    vec x = {0.0f};

    for (int i = 0; i < LANES; i++)
        x[i] = table[index[i] % DECADES];
    return x;
#endif
}

/* The decades of r, 1e-7 to 1. */
static inline __attribute__((always_inline)) void decades_of(const struct magnitudes *m,
                                                             const vec r[VECTORS], ints e[VECTORS])
{
    const vec unit = vec_all(0.30103f * 0x1p-23f), bias = vec_all(7.35f - 127.0f * 0.30103f);
    vec next[VECTORS];

    /* The integer part of log10 r + 7.35, from its bits to within 0.03, is the decade or one less. */
    for (int i = 0; i < VECTORS; i++)
        e[i] = __builtin_convertvector(
            vec_mul_add(__builtin_convertvector((ints)r[i], vec), unit, bias), ints);
    for (int i = 0; i < VECTORS; i++)
        next[i] = pick(m->limit, e[i]);
    for (int i = 0; i < VECTORS; i++)
        e[i] -= r[i] > next[i];
}

/* Minus t of |x| * inverse; 1e-7 is nearest to 0, as is all that is less. */
static inline __attribute__((always_inline)) void
minus_t(const struct magnitudes *m, const float *x, float inverse, ints t[VECTORS])
{
    vec r[VECTORS];
    ints e[VECTORS];

    for (int i = 0; i < VECTORS; i++)
        r[i] = vec_max((vec)((ints)vec_load(x + i * LANES) & INT32_MAX) * vec_all(inverse),
                       vec_all(1e-7f));
    decades_of(m, r, e);
    for (int i = 0; i < VECTORS; i++)
        r[i] = vec_mul_add(r[i], pick(m->slope, e[i]), pick(m->start, e[i]));
    for (int i = 0; i < VECTORS; i++)
        t[i] = __builtin_convertvector(vec_max(r[i], pick(m->least, e[i])), ints);
}

static inline bool any_negative(ints x)
{
#if defined(__AVX512F__)
    return _mm512_cmplt_epi32_mask((__m512i)x, _mm512_setzero_si512()) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps((__m256)x) != 0;
#else
    int32_t all = 0;

    for (int i = 0; i < LANES; i++)
        all |= x[i];
    return all < 0;
#endif
}

/* To bytes: less than 0 becomes 0, more than 255 becomes 255. */
static inline void pack(const ints v[VECTORS], uint8_t *code)
{
#if defined(__AVX512F__)
    for (int i = 0; i < VECTORS; i++)
        _mm_storeu_si128(
            (__m128i *)(code + i * LANES),
            _mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)v[i], _mm512_setzero_si512())));
#elif defined(__AVX2__)
    const __m256i low = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
    const __m256i high = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    _mm256_storeu_si256((__m256i *)code,
                        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
#else
    for (int i = 0; i < GROUP; i++) {
        const int32_t x = v[i / LANES][i % LANES];

        code[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
#endif
}

/* Codes of x, as far as t is not in doubt; -1 stands for 0. */
static inline __attribute__((always_inline)) void
codes_of(enum tr_book book, const float *x, const ints t[VECTORS], ints code[VECTORS])
{
    for (int i = 0; i < VECTORS; i++) {
        const ints inverted = t[i] >> POINT; /* ~place */
        const ints negative = vec_load(x + i * LANES) < vec_all(0.0f);

        code[i] = book == TR_BOOK_UNSIGNED
                      ? -2 - inverted
                      : TR_BOOK_ZERO - 1 - ((inverted ^ negative) + (negative & (inverted < -1)));
    }
}

/* Whether any t is in doubt; doubt[] is less than 0 where it is. */
static inline __attribute__((always_inline)) bool in_doubt(const ints t[VECTORS],
                                                           ints doubt[VECTORS])
{
    ints any = {0};

    for (int i = 0; i < VECTORS; i++) {
        doubt[i] = ((t[i] + DOUBT) & FRACTION) - 2 * DOUBT;
        any |= doubt[i];
    }
    return any_negative(any);
}

static inline __attribute__((always_inline)) void
encode_groups(enum tr_book book, const float *x, int64_t n, float inverse, uint8_t *code)
{
    const struct magnitudes *m = &both[book];

    for (; n >= GROUP; n -= GROUP, x += GROUP, code += GROUP) {
        ints t[VECTORS], codes[VECTORS], doubt[VECTORS];

        minus_t(m, x, inverse, t);
        codes_of(book, x, t, codes);
        pack(codes, code);
        if (!in_doubt(t, doubt))
            continue;
        for (int i = 0; i < GROUP; i++)
            if (doubt[i / LANES][i % LANES] < 0)
                code[i] = (uint8_t)tr_block_code(book, x[i], inverse);
    }
    for (int i = 0; i < n; i++)
        code[i] = (uint8_t)tr_block_code(book, x[i], inverse);
}

static void encode(enum tr_book book, const float *x, int64_t n, float largest, uint8_t *block)
{
    const float scale = tr_book_scale(largest), inverse = tr_book_inverse(scale);
    uint8_t *code = block + TR_BOOK_SCALE_BYTES;

    memcpy(block, &scale, sizeof scale);
    if (scale <= 0.0f)
        memset(code, book == TR_BOOK_SIGNED ? TR_BOOK_ZERO : 0, (size_t)n);
    else if (book == TR_BOOK_SIGNED)
        encode_groups(TR_BOOK_SIGNED, x, n, inverse, code);
    else
        encode_groups(TR_BOOK_UNSIGNED, x, n, inverse, code);
}

static void decode(enum tr_book book, const uint8_t *block, int64_t n, float *x)
{
    const float *value = tr_code_book(book)->value;
    float scale;

    memcpy(&scale, block, sizeof scale);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = value[block[TR_BOOK_SCALE_BYTES + i]] * scale;
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
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct tr_adam8 a = tr_adam8_of(&how);
    const int threads = q->device->threads;

    pthread_once(&once, fill_both);
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > TR_CPU_SMALL)
    for (int64_t b = 0; b < all; b++) {
        const int64_t at = b == 0 ? 0 : blocks.lead + (b - 1) * blocks.size;
        const int64_t count = tr_code_next(blocks, at, n), byte = tr_code_bytes(blocks, at);
        uint8_t *mb = tr_u8(m) + byte, *vb = tr_u8(v) + byte;
        float ms[TR_BLOCK_MOST], vs[TR_BLOCK_MOST], grads[TR_BLOCK_MOST];
        struct largest most;

        decode(TR_BOOK_SIGNED, mb, count, ms);
        decode(TR_BOOK_UNSIGNED, vb, count, vs);
        most = step(&a, tr_f32(p) + at, ms, vs, tr_cpu_in(g, at, count, grads), count);
        encode(TR_BOOK_SIGNED, ms, count, most.m, mb);
        encode(TR_BOOK_UNSIGNED, vs, count, most.v, vb);
        if (half)
            tr_cpu_put(half, at, count, tr_f32(p) + at);
    }
}
