/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_ENGINE_H
#define TR_SIM_ENGINE_H

#include <stdint.h>

#include "sim/world.h"

/*
 * One iteration, event by event: passes and delays end, messages begin when all parties have posted them, pass their
 * latency and then share links until their bytes have gone.  Messages of a channel follow one another; those of
 * different channels go on at once.
 */

/* A stretch of a rank that was watched, seconds. */
struct tr_sim_span {
    int unit, chunk, micro; /* micro -1: no pass */
    int slot;               /* enum tr_sim_slot of what was awaited; -1: nothing was */
    enum tr_instr_kind pass;
    enum tr_sim_cause cause;
    double begin, end;
};

struct tr_sim_how {
    double
        jitter; /* deviation of the logarithm of the time of a pass on a rank; with it all units are ranks' own */
    uint64_t seed; /* a draw is a function of seed, draw, rank and pass (util/rng.h) */
    int draw;
    const bool *watch; /* [units], or NULL */
};

struct tr_sim_result {
    double seconds;
    double (*spent)
        [TR_SIM_CAUSES]; /* [units]: seconds of a rank, the mean of its group; their sum is `seconds` */
    int spans;
    struct tr_sim_span *span;
    int64_t events;
};

/* The bytes of links are added up in v->net. */
void tr_sim_run(struct tr_sim_world *v, const struct tr_sim_how *how, struct tr_sim_result *out);
void tr_sim_result_release(struct tr_sim_result *r);

#endif
