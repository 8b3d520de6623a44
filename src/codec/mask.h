/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_MASK_H
#define TR_CODEC_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/*
 * Random-k sparsification: which elements of a vector take part in a round, by rule and not by
 * magnitude.  The mask is a function of (seed, vector, round): ranks that agree on the three need
 * no communication, and a run that resumes continues as if it had never stopped.  Pure.
 *
 * Of n elements each round takes the same number, c:
 *     rolling              every s-th, s = (int) (1 / ratio), from element (round mod s) on, in s rounds
 *                          of the first c s elements and in the next s of the last c s: so after 2 s
 *                          rounds each had its turn.  0.4 counts as 0.5, and above 0.5 all are taken
 *                          c = n / s
 *     with replacement     c = ratio * n draws; an element drawn twice takes part once
 *     without replacement  c = ratio * n; a permutation of the n is used up c at a time, and where fewer
 *                          than c are left of it the next one begins
 * c is rounded down, then to a multiple of `multiple` (and of 8 in the last two); where that leaves none,
 * all n elements take part in every round, as with a ratio of 1.
 */
enum tr_mask_method { TR_MASK_ROLLING, TR_MASK_REPLACED, TR_MASK_PERMUTED };

struct tr_mask_how {
    enum tr_mask_method method;
    double ratio;     /* above 0, at most 1 */
    int64_t multiple; /* 1 or more */
    uint64_t seed;
};

/* c of `n` elements, n > 0. */
int64_t tr_mask_count(const struct tr_mask_how *how, int64_t n);

/* True, and *out, where the mask is a first element and a step (or everything: 0 and 1); otherwise
   it is a list. */
bool tr_mask_regular(const struct tr_mask_how *how, int64_t n, int64_t round,
                     struct tr_select *out);

/*
 * The mask as a list, in the order in which its elements are counted: out[c] are numbers below n
 * (n < 2^31), none twice; -1 stands for a draw whose element is drawn again later.  `vector` (below
 * 2^16) distinguishes the vectors of a round.  `seen` is room for (n + 7) / 8 bytes, which
 * TR_MASK_REPLACED needs; what is in it does not matter.
 */
void tr_mask_list(const struct tr_mask_how *how, int64_t n, int64_t round, int vector, int32_t *out,
                  unsigned char *seen);

/* Element `i` of the permutation of 0 .. n - 1 named by `r`. */
int64_t tr_mask_permuted(struct tr_rng r, int64_t n, int64_t i);

#endif
