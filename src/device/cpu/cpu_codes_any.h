/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_CODES_ANY_H
#define TR_DEVICE_CPU_CPU_CODES_ANY_H

/* The part of device/cpu/cpu_codes.h for AVX2, and for any processor. */

#if defined(CODES_256)
static inline __m256i codes_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Of 32 numbers packed to 16 and to 8 bits, which is done by 128 bits, in their order. */
static inline __m256i codes_ordered(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#endif

/* In each lane, table[index % SEGMENTS]. */
static inline vec codes_pick(const float table[2 * SEGMENTS], ints index)
{
#if defined(CODES_256)
    return (vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
#else
    float x[LANES];

    for (int i = 0; i < LANES; i++)
        x[i] = table[index[i] & (SEGMENTS - 1)];
    return vec_load(x);
#endif
}

/* In each lane, the smaller. */
static inline vec codes_min(vec a, vec b)
{
#if defined(CODES_256)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return -vec_max(-a, -b);
#endif
}

/* The units of LANES elements: UNITS + magnitude, and a fraction. */
static inline ints codes_units(const struct tr_cpu_codes *k, const float *x, float inverse)
{
    const vec r = vec_max(codes_abs(vec_load(x)) * vec_all(inverse), vec_all(k->least));
    ints segment = (ints)vec_mul_add(__builtin_convertvector((ints)r, vec), vec_all(k->per_bit),
                                     vec_all(k->zero)); /* its last 3 bits */

    segment -= r > codes_pick(k->limit, segment);
    return (ints)vec_mul_add(codes_min(r, codes_pick(k->cap, segment)),
                             codes_pick(k->slope, segment), codes_pick(k->start, segment));
}

static inline bool codes_any_in_doubt(const ints t[VECTORS])
{
    ints any = {0};

    for (int i = 0; i < VECTORS; i++)
        any |= (t[i] & FRACTION) < 2 * DOUBT;
#if defined(CODES_256)
    return _mm256_movemask_epi8((__m256i)any) != 0;
#else
    for (int i = 1; i < LANES; i++)
        any[0] |= any[i];
    return any[0] != 0;
#endif
}

/* Bits POINT to POINT + 7 of each. */
static inline void codes_pack(const ints t[VECTORS], uint8_t *code)
{
#if defined(CODES_256)
    const ints a = (t[0] >> POINT) & 255, b = (t[1] >> POINT) & 255;
    const ints c = (t[2] >> POINT) & 255, d = (t[3] >> POINT) & 255;
    const __m256i low = _mm256_packus_epi32((__m256i)a, (__m256i)b);
    const __m256i high = _mm256_packus_epi32((__m256i)c, (__m256i)d);

    _mm256_storeu_si256((__m256i *)code, codes_ordered(_mm256_packus_epi16(low, high)));
#else
    for (int i = 0; i < GROUP; i++)
        code[i] = (uint8_t)(t[i / LANES][i % LANES] >> POINT);
#endif
}

/* Magnitudes of x become codes, as in tr_book_signed(). */
static inline void codes_sign(const float *x, uint8_t *code)
{
#if defined(CODES_256)
    const __m256i zero = _mm256_set1_epi8(TR_BOOK_ZERO), size = codes_load(code);
    const __m256i low = _mm256_packs_epi32(codes_load(x), codes_load(x + LANES));
    const __m256i high = _mm256_packs_epi32(codes_load(x + 2 * LANES), codes_load(x + 3 * LANES));
    const __m256i negative = codes_ordered(_mm256_packs_epi16(low, high));
    const __m256i most = _mm256_min_epu8(_mm256_max_epu8(size, _mm256_set1_epi8(1)), zero);
    const __m256i up = _mm256_add_epi8(zero, size), down = _mm256_sub_epi8(zero, most);

    _mm256_storeu_si256((__m256i *)code, _mm256_blendv_epi8(up, down, negative));
#else
    for (int i = 0; i < GROUP; i++)
        code[i] = (uint8_t)tr_book_signed(code[i], x[i] < 0.0f);
#endif
}

static inline __attribute__((always_inline)) void
codes_encode(const struct tr_cpu_codes *k, const float *x, float inverse, uint8_t *code)
{
    ints t[VECTORS];

    for (int i = 0; i < VECTORS; i++)
        t[i] = codes_units(k, x + i * LANES, inverse);
    codes_pack(t, code);
    if (k->book == TR_BOOK_SIGNED)
        codes_sign(x, code);
    if (codes_any_in_doubt(t))
        codes_settle(k, t, x, inverse, code);
}

static inline __attribute__((always_inline)) void
codes_decode(enum tr_book book, const struct tr_cpu_codes *k, const uint8_t *code, vec to[VECTORS])
{
    (void)book;
#if defined(CODES_256)
    for (int i = 0; i < VECTORS; i++) {
        const __m128i c = _mm_loadl_epi64((const __m128i *)(code + i * LANES));

        to[i] = (vec)_mm256_i32gather_ps(k->value, _mm256_cvtepu8_epi32(c), sizeof(float));
    }
#else
    for (int i = 0; i < VECTORS; i++) {
        float x[LANES];

        for (int lane = 0; lane < LANES; lane++)
            x[lane] = k->value[code[i * LANES + lane]];
        to[i] = vec_load(x);
    }
#endif
}

#endif
