/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_CODES_512_H
#define TR_DEVICE_CPU_CPU_CODES_512_H

/* The part of device/cpu/cpu_codes.h for AVX-512, with its lookups among 128 bytes where there are. */

/* The units of LANES elements: UNITS + code, and a fraction. */
static inline __m512i codes_units(const struct tr_cpu_codes *k, const float *x, float inverse)
{
    enum { LESS = 2, MORE = 3 }; /* of two magnitudes, with the sign of the first */
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse));
    const __m512 r = _mm512_range_ps(scaled, _mm512_set1_ps(k->least), MORE);
    const __m512i bits = _mm512_castps_si512(r);
    const __m512 log = _mm512_fmadd_ps(_mm512_cvtepi32_ps(bits), _mm512_set1_ps(k->per_bit),
                                       _mm512_set1_ps(k->zero));
    __m512i segment = _mm512_castps_si512(log); /* its last 4 bits; 8 is the sign */
    const __m512 limit = _mm512_permutexvar_ps(segment, _mm512_loadu_ps(k->limit));
    const __mmask16 above = _mm512_cmpgt_epu32_mask(bits, _mm512_castps_si512(limit));
    __m512 cap;

    segment = _mm512_mask_sub_epi32(segment, above, segment, _mm512_set1_epi32(-1));
    cap = _mm512_permutexvar_ps(segment, _mm512_loadu_ps(k->cap));
    return _mm512_castps_si512(_mm512_fmadd_ps(
        _mm512_range_ps(r, cap, LESS), _mm512_permutexvar_ps(segment, _mm512_loadu_ps(k->slope)),
        _mm512_permutexvar_ps(segment, _mm512_loadu_ps(k->start))));
}

/* Bits POINT to POINT + 7 of each. */
static inline void codes_pack(const __m512i t[VECTORS], uint8_t *code)
{
#if defined(__AVX512VBMI__)
    /* Of each 64 bits of t[i], two numbers become bytes 2i and 2i + 1. */
    const __m512i from = _mm512_set1_epi16(((32 + POINT) << 8) + POINT);
    static const _Alignas(64) uint8_t pairs[GROUP] = {
        0, 1, 8,  9,  16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, /* of t[0] */
        2, 3, 10, 11, 18, 19, 26, 27, 34, 35, 42, 43, 50, 51, 58, 59, /* of t[1] */
        4, 5, 12, 13, 20, 21, 28, 29, 36, 37, 44, 45, 52, 53, 60, 61, /* of t[2] */
        6, 7, 14, 15, 22, 23, 30, 31, 38, 39, 46, 47, 54, 55, 62, 63, /* of t[3] */
    };
    __m512i bytes = _mm512_multishift_epi64_epi8(from, t[0]);

    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x0c0c0c0c0c0c0c0c, from, t[1]);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x3030303030303030, from, t[2]);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0xc0c0c0c0c0c0c0c0, from, t[3]);
    _mm512_storeu_si512(code, _mm512_permutexvar_epi8(_mm512_load_si512(pairs), bytes));
#else
    for (int i = 0; i < VECTORS; i++)
        _mm_storeu_si128((__m128i *)(code + i * LANES),
                         _mm512_cvtepi32_epi8(_mm512_srli_epi32(t[i], POINT)));
#endif
}

static inline __attribute__((always_inline)) void
codes_encode(const struct tr_cpu_codes *k, const float *x, float inverse, uint8_t *code)
{
    const __m512i not_in_doubt = _mm512_set1_epi32(FRACTION & ~(2 * DOUBT - 1));
    __m512i t[VECTORS];
    __mmask16 sure = 0xffff;

    for (int i = 0; i < VECTORS; i++) {
        t[i] = codes_units(k, x + i * LANES, inverse);
        sure = _mm512_mask_test_epi32_mask(sure, t[i], not_in_doubt);
    }
    codes_pack(t, code);
    if (sure != 0xffff)
        codes_settle(k, (const ints *)t, x, inverse, code);
}

#if defined(__AVX512VBMI__)
/* Byte i of what codes c stand for, in b[i]. */
static inline __attribute__((always_inline)) void
codes_bytes(enum tr_book book, const struct tr_cpu_codes *k, __m512i c, __m512i b[sizeof(float)])
{
    const __m512i zero = _mm512_set1_epi8(TR_BOOK_ZERO);
    const __mmask64 lower = ~_mm512_movepi8_mask(c); /* less than 128 */
    const __mmask64 some = _mm512_cmpneq_epi8_mask(c, zero), negative = lower & some;

    /* Negative numbers are those of the upper half, of which 126 is the first. */
    if (book == TR_BOOK_SIGNED)
        c = _mm512_mask_sub_epi8(c, negative, _mm512_set1_epi8(TR_BOOK_ZERO - 1), c);
    for (size_t i = 0; i < sizeof(float); i++) {
        const __m512i *p = (const __m512i *)(const void *)k->plane[i];

        b[i] =
            _mm512_maskz_permutex2var_epi8(book == TR_BOOK_SIGNED ? some : ~0ULL,
                                           _mm512_loadu_si512(p + 2), c, _mm512_loadu_si512(p + 3));
        if (book == TR_BOOK_UNSIGNED)
            b[i] = _mm512_mask_blend_epi8(
                lower, b[i],
                _mm512_permutex2var_epi8(_mm512_loadu_si512(p), c, _mm512_loadu_si512(p + 1)));
    }
    if (book == TR_BOOK_SIGNED)
        b[3] = _mm512_mask_add_epi8(b[3], negative, b[3], _mm512_set1_epi8(-128)); /* the sign */
}
#endif

static inline __attribute__((always_inline)) void
codes_decode(enum tr_book book, const struct tr_cpu_codes *k, const uint8_t *code, vec to[VECTORS])
{
#if defined(__AVX512VBMI__)
    /* In this order unpacking, which is by 128 bits, puts floats where they belong. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i b[sizeof(float)], low, high;

    codes_bytes(book, k, _mm512_permutexvar_epi32(order, _mm512_loadu_si512(code)), b);
    low = _mm512_unpacklo_epi8(b[0], b[1]);
    high = _mm512_unpacklo_epi8(b[2], b[3]);
    to[0] = (vec)_mm512_unpacklo_epi16(low, high);
    to[1] = (vec)_mm512_unpackhi_epi16(low, high);
    low = _mm512_unpackhi_epi8(b[0], b[1]);
    high = _mm512_unpackhi_epi8(b[2], b[3]);
    to[2] = (vec)_mm512_unpacklo_epi16(low, high);
    to[3] = (vec)_mm512_unpackhi_epi16(low, high);
#else
    (void)book;
    for (int i = 0; i < VECTORS; i++) {
        const __m128i c = _mm_loadu_si128((const __m128i *)(code + i * LANES));

        to[i] = (vec)_mm512_i32gather_ps(_mm512_cvtepu8_epi32(c), k->value, sizeof(float));
    }
#endif
}

#endif
