/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_TURN_H
#define TR_WEIGHTS_TURN_H

#include <stdint.h>

/*
 * The transposed of a matrix of 4-byte elements: to[c][r] = from[r][c] for r < rows and c < cols, where rows of
 * `from` are from_step elements apart and those of `to` to_step.  They do not overlap.  Bits are moved, whatever
 * number they are.
 */
void tr_turn(const float *from, int64_t from_step, int64_t rows, int64_t cols, float *to,
             int64_t to_step);

/* The same, one element after the other. */
void tr_turn_plain(const float *from, int64_t from_step, int64_t rows, int64_t cols, float *to,
                   int64_t to_step);

#endif
