/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CODEC_H
#define TR_DEVICE_CODEC_H

#include <stdint.h>

/*
 * The numbers of the rows of ops.def that compress, which every backend must make alike: the same lines
 * compute them in all.
 */

enum { TR_FIX_SUMS = 32 };       /* partial sums of squares of a bucket */
enum { TR_FIX_BROKEN = 0x7e00 }; /* the scale of what is not finite: a NaN */
#define TR_FIX_TINY 1e-6f        /* added to a scale that divides */
#define TR_FIX_MOST 65504.0      /* the largest scale */

#define TR_MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The last steps of SplitMix64. */
static inline uint64_t tr_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
