/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_CLOCKS_H
#define TR_LAUNCH_CLOCKS_H

#include <stdbool.h>

#include "comm/comm.h"

/*
 * The clocks of the ranks, so that what two of them did can be put in order.  The common clock is
 * that of rank 0.
 *
 * Ranks that run under one kernel read one clock: between them there is nothing to find out, and
 * nothing is sent where all do.  Of every other host the first rank asks: it sends a message to a
 * host whose clock is known, gets the time there back, and takes the fastest of some tries; that
 * time was read between the sending and the arrival of the answer, so the offset is known to half
 * of what the try took (Cristian, "Probabilistic clock synchronization", 1989).  Hosts ask along a
 * binomial tree, all of a level at once, and errors add up on the way, with what clocks may drift between
 * the moments of two answers.
 *
 * Clocks drift by some 1e-5, so they are compared again and again, and times between two
 * comparisons are put on the line between them.
 */
struct tr_clocks {
    struct tr_comm *world; /* borrowed */
    double (*now)(void);
    int hosts, host; /* how many, in the order of their first ranks; of this rank */
    int *leader;     /* [hosts] the first rank of each; owned */
    int *host_of;    /* [world->size] owned */
    /* At `at` on this rank's clock, what is added to it for the common one; before last, and
       last. */
    struct tr_clock_offset {
        double at, offset, error;
    } before, last;
};

/* Collective over `world`.  `now`: the clock of this rank, tr_now() but in tests; with `apart`
   every rank counts as a host of its own, which is for tests too.  Compares once. */
void tr_clocks_open(struct tr_clocks *c, struct tr_comm *world, double (*now)(void), bool apart);
void tr_clocks_close(struct tr_clocks *c);

/* Compare again.  Collective. */
void tr_clocks_align(struct tr_clocks *c);

/* `t` of this rank on the common clock.  Not collective. */
double tr_clocks_common(const struct tr_clocks *c, double t);

/* By how much that may be wrong at most, in seconds. */
double tr_clocks_error(const struct tr_clocks *c);

#endif
