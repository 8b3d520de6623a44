/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_CODES_H
#define TR_DEVICE_CPU_CPU_CODES_H

#include <stdbool.h>

#include "device/block_code.h"
#include "device/cpu/cpu_simd.h"

/*
 * Block-wise 8-bit numbers (device/block_code.h), a group at a time: as many as a vector has bytes, which are VECTORS vectors
 * of floats.  Results have the bits of tr_code_book() and tr_block_code(), whatever instructions compute them.
 *
 * Decoding looks up a table: byte by byte where one instruction looks up 64 bytes (AVX512_VBMI), else by gathers.
 *
 * Encoding computes.  The magnitudes of a book come in SEGMENTS, each with equal distances: 0 and those up to 1e-6; six
 * decades; 1.  A segment has a line, on which the integer part of what r = |x| / scale becomes is the nearest magnitude.  The
 * segment of r is found by an estimate of log r and one comparison, which is exact.  Where the line is so close to an
 * integer that roundings could matter, tr_block_code() decides.
 */
enum { VECTORS = 4, GROUP = VECTORS * LANES, SEGMENTS = 8 };
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias));

/*
 * Lines are in units of 2^-POINT, and are DOUBT units too high: what is less than 2 DOUBT above an integer is in doubt.
 * Roundings are below 2 units: 0.3 of the limits between magnitudes, 0.5 each of slope, start and sum.  UNITS is part of
 * each start: a float of at least 2^23 has no bits below 1, so its last bits are the number in units.
 */
enum { POINT = 15, FRACTION = (1 << POINT) - 1, DOUBT = 4 };
#define UNITS 0x1p23f

/* What is wide enough for 16 entries has segments of negative numbers apart, with lines to codes. */
#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define CODES_512
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define CODES_256
#endif

/*
 * Of a book.  Of each segment, limit[] is the largest r, cap[] an r within its last magnitude on the line, which is slope[] r
 * + start[].  With CODES_512 there are SEGMENTS more, for r < 0: the line falls, and a limit is negative.  Otherwise
 * lines are those of magnitudes.
 *
 * An r less than `least` is as good as that, and log r is estimated as bits(r) per_bit + zero, rounded to an integer: the
 * segment or one less.
 *
 * Byte i of what code c stands for is plane[i][c].
 */
struct tr_cpu_codes {
    float limit[2 * SEGMENTS], cap[2 * SEGMENTS], slope[2 * SEGMENTS], start[2 * SEGMENTS];
    float least, per_bit, zero;
    enum tr_book book;
    const float *value;
    uint8_t plane[sizeof(float)][TR_BOOK_CODES];
};

/* The same memory in every call. */
const struct tr_cpu_codes *tr_cpu_codes(enum tr_book book);

static inline vec codes_abs(vec x)
{
    return (vec)((ints)x & INT32_MAX);
}

/* Bit i: whether line t of lane i is in doubt. */
static inline unsigned codes_doubts(ints t)
{
    const ints doubt = (t & FRACTION) < 2 * DOUBT;
    unsigned lanes = 0;

#if defined(CODES_512)
    lanes = _mm512_movepi32_mask((__m512i)doubt);
#elif defined(CODES_256)
    lanes = (unsigned)_mm256_movemask_ps((__m256)doubt);
#else
    for (int i = 0; i < LANES; i++)
        lanes |= (unsigned)(doubt[i] & 1) << i;
#endif
    return lanes;
}

/* The codes of those in doubt of x[GROUP], which are few. */
static inline void codes_settle(const struct tr_cpu_codes *k, const ints t[VECTORS], const float *x,
                                float inverse, uint8_t *code)
{
    for (int i = 0; i < VECTORS; i++)
        for (unsigned lanes = codes_doubts(t[i]); lanes != 0; lanes &= lanes - 1) {
            const int at = i * LANES + __builtin_ctz(lanes);

            code[at] = (uint8_t)tr_block_code(k->book, x[at], inverse);
        }
}

#if defined(CODES_512)
#include "device/cpu/cpu_codes_512.h"
#else
#include "device/cpu/cpu_codes_any.h"
#endif

/*
 * codes_encode(k, x, inverse, code): the codes of x[GROUP], none of which is a negative zero or more than 1 / inverse.
 * codes_decode(book, k, code, to): what code[GROUP] stand for, in to[VECTORS].
 */

#endif
