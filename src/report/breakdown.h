/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_BREAKDOWN_H
#define TR_REPORT_BREAKDOWN_H

#include "report/summary.h"

/*
 * Where the time of an iteration goes, by the timers of the last stage, milliseconds.
 *
 * Megatron's names say what a stage waited in, not what for.  On the last stage of p, with m
 * micro-batches in k chunks, of which forward takes tf and backward tb, `forward-recv` lasts until
 * the pipeline has filled, (p-1) tf, and `backward-embedding-all-reduce` until it has drained,
 * (p-1) tb, because the first stage comes to that sum last.  So
 *
 *   compute    forward-compute + backward-compute - batch-generator, which lies in the first
 *   fill       the smaller of forward-recv and (p-1) tf
 *   drain      the smaller of the sum of the embedding's gradients and (p-1) tb
 *   transfer   what is left of these two, and of all other messages between stages
 *   gradients  sums over replicas, and fetching what they share
 *   optimizer, data (batch-generator)
 *   other      the rest of the elapsed time; below zero where timers overlap
 *
 * and all of it adds up to the elapsed time exactly.  Time and timers are medians over those lines
 * that count and have timers.
 *
 * Where a log of trireme tells waiting from transfer (--split-wait), fill and drain are what the
 * last rank waited; then drain also holds the wait inside of the optimizer, which is not counted
 * there.
 *
 * Of a table over all ranks the last one's are taken where it names them, else the largest, without
 * timers that the last stage never has.
 *
 * A plan or a simulation says its parts itself (parts.def): a plan of the stage that takes longest, a simulation
 * of the mean rank.  They tell sums inside layers and waiting for replicas apart, and do not tell fill
 * from drain.
 */
struct tr_breakdown {
    double ms; /* elapsed, the sum of the parts */
    double part[TR_PARTS];
    double forward, backward; /* of a micro-batch, tf and tb */
    double fill_by_formula, drain_by_formula;
    double fill_timer, drain_timer; /* what the two timers show */
    double balance; /* mean of all ranks' computing time over that used here; NAN if the log
                                   has one rank's alone */
    int64_t lines;  /* that have timers */
    bool measured;  /* fill and drain were, and are not worked out by the formulas */
    bool of_last;   /* the last rank's numbers; else the largest of all ranks */
};

/* All waiting for other stages: fill and drain, or bubble. */
double tr_breakdown_bubble(const struct tr_breakdown *b);

/* TR_ECONFIG if the log lacks a number that an option can say; TR_EDATA if it has not the timers,
   or no line that counts. */
enum tr_status tr_break_down(const struct tr_record *r, int64_t warmup,
                             struct tr_breakdown *out) TR_MUST_CHECK;

/* Its name; what a plan or simulation means by it; whether logs, and those, tell it. */
const char *tr_part_key(enum tr_part p);
const char *tr_part_what(enum tr_part p);
bool tr_part_is_of(enum tr_part p, enum tr_run_origin o);

#endif
