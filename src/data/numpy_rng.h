/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_NUMPY_RNG_H
#define TR_DATA_NUMPY_RNG_H

#include <stdint.h>

/*
 * numpy.random.RandomState, as far as Megatron's order of samples needs it: the one foreign
 * generator that must be matched to the bit.  The generator is MT19937 (Matsumoto and Nishimura,
 * ACM TOMACS 8, 1998), seeded by their init_genrand().
 */
struct tr_numpy_rng {
    uint32_t key[624];
    int used; /* words of key given out since it was last renewed */
};

/* RandomState(seed). */
void tr_numpy_seed(struct tr_numpy_rng *r, uint32_t seed);

/* The next 32 bits. */
uint32_t tr_numpy_u32(struct tr_numpy_rng *r);

/* RandomState.shuffle of a[0 .. n-1]: from the last element down, each swapped with one at or
   below it, chosen by masking and drawing again until the draw is not above. */
void tr_numpy_shuffle_u32(struct tr_numpy_rng *r, uint32_t *a, int64_t n);
void tr_numpy_shuffle_i64(struct tr_numpy_rng *r, int64_t *a, int64_t n);

/* The beginning of it: what is left is the shuffle of a[0 .. left-1], 1 <= left <= n. */
void tr_numpy_shuffle_u32_to(struct tr_numpy_rng *r, uint32_t *a, int64_t n, int64_t left);
void tr_numpy_shuffle_i64_to(struct tr_numpy_rng *r, int64_t *a, int64_t n, int64_t left);

#endif
