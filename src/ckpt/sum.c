/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/sum.h"

#include <string.h>

uint64_t tr_ckpt_sum(const float *x, int64_t n, int64_t first)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    uint64_t place = ((uint64_t)first + 1) * step, sum = 0;

    for (int64_t i = 0; i < n; i++, place += step) {
        uint32_t bits;
        uint64_t z;

        memcpy(&bits, x + i, sizeof bits);
        z = place + bits;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        sum += z ^ z >> 31;
    }
    return sum;
}
