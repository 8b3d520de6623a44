/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_RANDOM_CUH
#define TR_KERNELS_RANDOM_CUH

#include "common.cuh"

/*
 * The draws of util/rng.h inside kernels: the same words for the same (seed, stream, site, item, index),
 * so that a model drops the same activations on a CPU and on a GPU.
 */

/* What a kernel needs of struct tr_dropout; passed by value. */
struct dropping {
    uint32_t key[2];    /* the seed */
    uint32_t high;      /* site << 8 | stream, of the upper half of the counter */
    uint32_t threshold; /* 0: nothing is dropped */
    float kept;         /* what an element that stays is multiplied by */
    const int64_t *sample;
    int64_t tokens, first_row;
};

static inline dropping dropping_of(const struct tr_dropout *d)
{
    dropping x = {};

    if (d->p == 0.0)
        return x;
    x.key[0] = (uint32_t)d->seed;
    x.key[1] = (uint32_t)(d->seed >> 32);
    x.high = (uint32_t)d->site << 8 | (uint32_t)d->stream;
    x.threshold = (uint32_t)(d->p * 4294967296.0);
    x.kept = (float)(1.0 / (1.0 - d->p));
    x.sample = d->sample;
    x.tokens = d->tokens;
    x.first_row = d->first_row;
    return x;
}

/* Draws 4 * block .. 4 * block + 3 for sample `item`: Philox 4x32 with 10 rounds. */
TR_INLINE void draw_block(const dropping &d, int64_t item, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)item;
    uint32_t c3 = (uint32_t)((uint64_t)item >> 32) << 24 | d.high;
    uint32_t k0 = d.key[0], k1 = d.key[1];

    TR_UNROLL
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53U, b = (uint64_t)c2 * 0xCD9E8D57U;

        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* What one element is multiplied by: 0 or d.kept. */
TR_INLINE float factor_of(const dropping &d, uint32_t word)
{
    return word < d.threshold ? 0.0f : d.kept;
}

#endif
