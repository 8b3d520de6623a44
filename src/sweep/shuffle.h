/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_SHUFFLE_H
#define TR_SWEEP_SHUFFLE_H

#include "sweep/space.h"

/*
 * The order of the runs of a sweep.  Each repetition runs every shape once before the next repetition begins, in an
 * order of its own, so that a machine that becomes slower does not do so to one shape.
 *
 * order[space->runs] of repetition `repeat` (from 0): the shapes by a draw of (--sweep-seed, repetition, name).
 * So it is the same in a sweep that goes on, and shapes that were added do not change the order of the others.
 * With one repetition and no --sweep-seed it is that of the space, the best first.
 */
void tr_sweep_shuffle(const struct tr_sweep *w, const struct tr_sweep_space *space, int64_t repeat,
                      int *order);

/* Is an order drawn? */
bool tr_sweep_shuffles(const struct tr_sweep *w);

#endif
