/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_GOLDEN_H
#define TR_TESTS_GOLDEN_H

#include <stdint.h>

/*
 * Reader of the numbers in tests/golden; the README there says what they are.  For tests: what is
 * wrong with a file or a request ends the program with TAP's "Bail out!".
 */
struct tr_golden;

/* The model of gpt2_tiny: letters as in tensor/tensor.h, GOLDEN_S positions, GOLDEN_M micro-batches
   of GOLDEN_B samples each per step. */
enum {
    GOLDEN_V = 61,
    GOLDEN_S = 16,
    GOLDEN_H = 32,
    GOLDEN_A = 4,
    GOLDEN_F = 128,
    GOLDEN_L = 4,
    GOLDEN_B = 2,
    GOLDEN_M = 2,
    GOLDEN_STEPS = 10
};

/* Its optimizer. */
#define GOLDEN_LR 0.01
#define GOLDEN_BETA1 0.9
#define GOLDEN_BETA2 0.999
#define GOLDEN_EPS 1e-5
#define GOLDEN_DECAY 0.01
#define GOLDEN_CLIP 1.0

/* Read tests/golden/NAME.index and NAME.bin of the source folder ($srcdir, or "."). */
struct tr_golden *tr_golden_open(const char *name);
void tr_golden_close(struct tr_golden *g);

/* The entry of that name, which has `count` elements; borrowed until close. */
const float *tr_golden_get(const struct tr_golden *g, const char *name, int64_t count);

/* The same for the entry KIND/NAME. */
const float *tr_golden_get_of(const struct tr_golden *g, const char *kind, const char *name,
                              int64_t count);

/* Element `index`, counted in its whole shape, of the initial value of the parameter `name`; the second
   where the gain of a norm is 1 + the parameter. */
float tr_golden_weight(const char *name, int64_t index);
float tr_golden_weight_one(const char *name, int64_t index);

/* Token `t`, 0 .. GOLDEN_S, of sample `sample`; and 0 .. seq, of other models. */
int32_t tr_golden_token(int64_t sample, int t);
int32_t tr_golden_token_of(int64_t sample, int t, int64_t seq, int64_t vocab);

/* The two functions that both are made of. */
uint64_t tr_golden_splitmix64(uint64_t x);
uint64_t tr_golden_fnv1a(const char *text);

#endif
