/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_CURVE_H
#define TR_SIM_CURVE_H

#include <stdbool.h>

#include "config/work.h"
#include "util/status.h"

/*
 * Times of collectives that `trireme bench coll` measured: the table that it prints, whose first line, behind
 * whatever else was printed, names the group and its ranks.  Between two sizes the logarithm of the time is linear in that of the size; smaller messages take what
 * the smallest did, and larger ones have the bandwidth of the largest.
 */
enum { TR_SIM_CURVE_POINTS = 64 };
struct tr_sim_curve {
    bool tensor; /* group tp; else dp or world, of replicas */
    int ranks;
    struct tr_sim_measured {
        int points;
        double bytes[TR_SIM_CURVE_POINTS], seconds[TR_SIM_CURVE_POINTS];
    } of[TR_WORK_REDUCE_SCATTER + 1]; /* by enum tr_work_collective_kind */
};

/* `name` is the file, for sentences: TR_ECONFIG with what is wrong and the line. */
enum tr_status tr_sim_curve_read(const char *name, const char *text,
                                 struct tr_sim_curve *out) TR_MUST_CHECK;

/* Seconds of a collective whose kind has points. */
double tr_sim_curve_seconds(const struct tr_sim_curve *c, enum tr_work_collective_kind kind,
                            double bytes);

#endif
