/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CODEC_BITS_H
#define TR_DEVICE_CODEC_BITS_H

#include <math.h>
#include <stdint.h>

/*
 * The arithmetic of quantization and sparsification in ops.def, which must have the same bits in
 * every backend: all use this code.
 */

enum { TR_FIX_SUMS = 32 };       /* partial sums of squares of a bucket */
enum { TR_FIX_BROKEN = 0x7e00 }; /* the scale of what is not finite: a NaN */
#define TR_FIX_TINY 1e-6f        /* added to a scale that divides */
#define TR_FIX_MOST 65504.0      /* the largest scale */

/* t rounded up or down by a draw; see fix_encode.  What is not finite stays so. */
static inline float tr_fix_round(float t, float distance, uint32_t draw)
{
    const float down = floorf(t), u = (float)(draw >> 8) * (1.0f / 16777216.0f);
    float f = t - down;

    f = f < distance ? 0.0f : f;
    f = f > 1.0f - distance ? 1.0f : f;
    return u < f ? down + 1.0f : down;
}

/* Eight bytes of a mask as they lie in memory, where each begins with its highest bit, become a
   word whose bit i is that of element i; or the way back, which is the same. */
static inline uint64_t tr_mask_word(uint64_t x)
{
    const uint64_t odd = UINT64_C(0x5555555555555555), pairs = UINT64_C(0x3333333333333333);
    const uint64_t nibbles = UINT64_C(0x0f0f0f0f0f0f0f0f);

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    x = (x & odd) << 1 | (x >> 1 & odd);
    x = (x & pairs) << 2 | (x >> 2 & pairs);
    return (x & nibbles) << 4 | (x >> 4 & nibbles);
}

#define TR_MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The last steps of SplitMix64. */
static inline uint64_t tr_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
