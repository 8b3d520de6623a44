/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_HALF_H
#define TR_UTIL_HALF_H

#include <stdint.h>
#include <string.h>

/*
 * The two 16-bit floating point formats, as bits.  On the CPU they are for storage only: one
 * computes in float and rounds a result once, to the nearest and in a tie to the even one.  Too
 * large a number becomes infinity, NaN stays NaN (quiet, once rounded), subnormal numbers are
 * exact.
 *
 *            exponent  fraction  unit roundoff  largest      smallest
 *   fp16         5        10        2^-11       65504        2^-24       IEEE 754-2019 binary16
 *   bf16         8         7        2^-8        3.39e38      2^-133      upper half of a binary32
 *
 * The functions have no branches that depend on data, so a loop over them becomes vector
 * instructions.
 */

static inline uint32_t tr_bits_of_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float tr_float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float tr_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    /* The exponent is biased by 15 there and by 127 here; all ones stay all ones. */
    uint32_t normal = rest + ((uint32_t)(127 - 15) << 23);
    uint32_t special = rest | 0x7f800000 | (rest > 0x0f800000 ? 0x00400000 : 0);
    uint32_t subnormal = tr_bits_of_float((float)(int32_t)(h & 0x7fff) * 0x1p-24f);
    uint32_t bits = rest < 0x00800000 ? subnormal : rest < 0x0f800000 ? normal : special;

    return tr_float_of_bits(sign | bits);
}

static inline uint16_t tr_f16_from_float(float x)
{
    uint32_t all = tr_bits_of_float(x), sign = all >> 16 & 0x8000, bits = all & 0x7fffffff;
    uint32_t normal = (bits - ((uint32_t)(127 - 15) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    /* Neighbours of 0.5 are 2^-24 apart below 1, which is the spacing of subnormal numbers. */
    uint32_t subnormal = tr_bits_of_float(tr_float_of_bits(bits) + 0.5f) - 0x3f000000;
    uint32_t special = bits > 0x7f800000 ? 0x7e00 | (bits >> 13 & 0x3ff) : 0x7c00;
    uint32_t half = bits < 0x38800000 ? subnormal : bits < 0x47800000 ? normal : special;

    return (uint16_t)(sign | half);
}

static inline float tr_bf16_to_float(uint16_t h)
{
    return tr_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t tr_bf16_from_float(float x)
{
    uint32_t bits = tr_bits_of_float(x);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x00400000;

    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

/*
 * x with one rounding less to fear: the float on the side of zero, with its last bit set if that
 * is not exact.  Rounding this to fp16 or bf16 gives what rounding x itself would, because a float
 * has more than two bits to spare.  Boldo and Melquiond, "Emulation of a FMA and correctly rounded
 * sums: proved algorithms using rounding to odd" (IEEE Transactions on Computers 57, 2008).
 */
static inline float tr_float_to_odd(double x)
{
    float near = (float)x;
    uint32_t bits = tr_bits_of_float(near);

    if ((double)near == x || near != near)
        return near;
    /* One step towards zero if it went away from there; infinity steps to the largest number. */
    if ((x < 0.0 ? -x : x) < (double)tr_float_of_bits(bits & 0x7fffffff))
        bits--;
    return tr_float_of_bits(bits | 1);
}

#endif
