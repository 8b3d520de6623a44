/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/rng.h"

#include <math.h>

#include "util/status.h"

enum { ROUNDS = 10 };

struct tr_rng tr_rng_key(uint64_t seed, enum tr_stream stream, int site, int64_t item)
{
    uint64_t i = (uint64_t)item;

    TR_ASSERT(item >= 0 && i < (UINT64_C(1) << 40) && site >= 0 && site < 1 << 16);
    return (struct tr_rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .high = {(uint32_t)i, (uint32_t)(i >> 32) << 24 | (uint32_t)site << 8 | (uint32_t)stream},
    };
}

void tr_rng_block(struct tr_rng r, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = r.high[0], c3 = r.high[1];
    uint32_t k0 = r.key[0], k1 = r.key[1];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = (uint64_t)c0 * UINT32_C(0xD2511F53);
        uint64_t b = (uint64_t)c2 * UINT32_C(0xCD9E8D57);
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;

        c0 = n0;
        c1 = (uint32_t)b;
        c2 = n2;
        c3 = (uint32_t)a;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t tr_rng_u32(struct tr_rng r, uint64_t index)
{
    uint32_t words[4];

    tr_rng_block(r, index / 4, words);
    return words[index % 4];
}

static void normal_pair(const uint32_t word[2], float out[2])
{
    const double unit = 1.0 / 4294967296.0, two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * log(((double)word[0] + 0.5) * unit));
    double angle = two_pi * (((double)word[1] + 0.5) * unit), sine, cosine;

    sincos(angle, &sine, &cosine);
    out[0] = (float)(radius * cosine);
    out[1] = (float)(radius * sine);
}

void tr_rng_normal(struct tr_rng r, uint64_t first, int64_t count, float *out)
{
    uint64_t end = first + (uint64_t)count;

    for (uint64_t block = first / 4; block * 4 < end; block++) {
        uint32_t words[4];
        float draw[4];

        tr_rng_block(r, block, words);
        normal_pair(words, draw);
        normal_pair(words + 2, draw + 2);
        for (uint64_t i = 0; i < 4; i++)
            if (block * 4 + i >= first && block * 4 + i < end)
                out[block * 4 + i - first] = draw[i];
    }
}

void tr_rng_uniform(struct tr_rng r, uint64_t first, int64_t count, float *out)
{
    const uint64_t end = first + (uint64_t)count;

    for (uint64_t block = first / 4; block * 4 < end; block++) {
        uint32_t words[4];

        tr_rng_block(r, block, words);
        for (uint64_t i = 0; i < 4; i++)
            if (block * 4 + i >= first && block * 4 + i < end)
                out[block * 4 + i - first] = (float)(((double)words[i] + 0.5) / 2147483648.0 - 1.0);
    }
}

uint32_t tr_rng_threshold(double p)
{
    TR_ASSERT(p >= 0.0 && p < 1.0);
    return (uint32_t)(p * 4294967296.0);
}
