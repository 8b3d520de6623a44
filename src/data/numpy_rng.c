/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/numpy_rng.h"

enum { WORDS = 624, SHIFT = 397 };

static void renew(struct tr_numpy_rng *r)
{
    uint32_t *k = r->key;

    for (int i = 0; i < WORDS; i++) {
        uint32_t y = (k[i] & 0x80000000) | (k[(i + 1) % WORDS] & 0x7fffffff);

        k[i] = k[(i + SHIFT) % WORDS] ^ y >> 1 ^ (0x9908b0df & (0 - (y & 1)));
    }
    r->used = 0;
}

void tr_numpy_seed(struct tr_numpy_rng *r, uint32_t seed)
{
    r->key[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        r->key[i] = 1812433253 * (r->key[i - 1] ^ r->key[i - 1] >> 30) + i;
    r->used = WORDS;
}

uint32_t tr_numpy_u32(struct tr_numpy_rng *r)
{
    uint32_t y;

    if (r->used == WORDS)
        renew(r);
    y = r->key[r->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}

/* Uniform in 0 .. max; beyond 32 bits a draw is two words, the high one first. */
static int64_t bounded(struct tr_numpy_rng *r, int64_t max)
{
    uint64_t top = (uint64_t)max, mask = UINT64_MAX >> __builtin_clzll(top), v;

    do {
        v = tr_numpy_u32(r);
        if (top > UINT32_MAX)
            v = v << 32 | tr_numpy_u32(r);
        v &= mask;
    } while (v > top);
    return (int64_t)v;
}

void tr_numpy_shuffle_u32_to(struct tr_numpy_rng *r, uint32_t *a, int64_t n, int64_t left)
{
    for (int64_t i = n - 1; i >= left; i--) {
        int64_t j = bounded(r, i);
        uint32_t was = a[i];

        a[i] = a[j];
        a[j] = was;
    }
}

void tr_numpy_shuffle_i64_to(struct tr_numpy_rng *r, int64_t *a, int64_t n, int64_t left)
{
    for (int64_t i = n - 1; i >= left; i--) {
        int64_t j = bounded(r, i), was = a[i];

        a[i] = a[j];
        a[j] = was;
    }
}

void tr_numpy_shuffle_u32(struct tr_numpy_rng *r, uint32_t *a, int64_t n)
{
    tr_numpy_shuffle_u32_to(r, a, n, 1);
}

void tr_numpy_shuffle_i64(struct tr_numpy_rng *r, int64_t *a, int64_t n)
{
    tr_numpy_shuffle_i64_to(r, a, n, 1);
}
