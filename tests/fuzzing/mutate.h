/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_FUZZING_MUTATE_H
#define TR_TESTS_FUZZING_MUTATE_H

#include "fuzzing/fuzz.h"

/* xorshift64*: the same numbers everywhere. */
uint64_t fuzz_draw(uint64_t *state);
size_t fuzz_below(uint64_t *state, size_t n);

/* One change of data[0 .. size), which has room for FUZZ_MOST: a bit, a byte, a number of 1 to 8 bytes or
   of digits that is at an edge, a piece out, doubled or from elsewhere, a word, the end off.  The new
   size. */
size_t fuzz_change(uint8_t *data, size_t size, const char *const *words, uint64_t *state);

#endif
