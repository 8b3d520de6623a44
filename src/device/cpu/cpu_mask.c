/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

enum { BLOCKS = 16, DRAWS = 4 * BLOCKS, ROUNDS = 10 };

/* tr_rng_block() for BLOCKS blocks from `block` on, one in each lane. */
static void draw(struct tr_rng r, uint64_t block, uint32_t out[DRAWS])
{
#pragma omp simd
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t at = block + (uint64_t)i;
        uint32_t c0 = (uint32_t)at, c1 = (uint32_t)(at >> 32), c2 = r.high[0], c3 = r.high[1];
        uint32_t k0 = r.key[0], k1 = r.key[1];

        for (int round = 0; round < ROUNDS; round++) {
            uint64_t a = (uint64_t)c0 * UINT32_C(0xD2511F53);
            uint64_t b = (uint64_t)c2 * UINT32_C(0xCD9E8D57);

            c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)b;
            c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)a;
            k0 += UINT32_C(0x9E3779B9);
            k1 += UINT32_C(0xBB67AE85);
        }
        out[4 * i] = c0;
        out[4 * i + 1] = c1;
        out[4 * i + 2] = c2;
        out[4 * i + 3] = c3;
    }
}

void tr_cpu_mask(struct tr_rng r, uint64_t first, int64_t count, uint32_t threshold, float kept,
                 float *out)
{
    int64_t skip = (int64_t)(first % 4);

    /* From the start of the block in which `first` lies; out[-skip] would be its first draw. */
    for (int64_t at = -skip; at < count; at += DRAWS) {
        int64_t from = at < 0 ? 0 : at, to = at + DRAWS < count ? at + DRAWS : count;
        uint32_t words[DRAWS];

        draw(r, (first + (uint64_t)(at + skip)) / 4, words);
#pragma omp simd
        for (int64_t i = from; i < to; i++)
            out[i] = words[i - at] < threshold ? 0.0f : kept;
    }
}

void tr_cpu_mask_row(const struct tr_dropout *drop, int64_t n, int64_t width, float *out)
{
    int64_t row = drop->first_row + n, token = row % drop->tokens;
    struct tr_rng r =
        tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[row / drop->tokens]);

    tr_cpu_mask(r, (uint64_t)(token * width), width, tr_rng_threshold(drop->p),
                (float)(1.0 / (1.0 - drop->p)), out);
}
