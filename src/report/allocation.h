/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_ALLOCATION_H
#define TR_REPORT_ALLOCATION_H

#include "report/record.h"

/*
 * Where the time of a chain of jobs went, as its log says.  Of each start the log has its first and its last date,
 * which are the time that was allocated, as far as it shows; what was of use are the iterations that no later start did
 * again.  Goodput is useful over allocated time, as in sim/goodput.h.  Seconds.
 */
struct tr_allocation {
    double allocated, useful;
    double start;  /* up to the first iteration: programs, weights, data */
    double saving; /* that training waited for checkpoints */
    double again;  /* of iterations that a later start did again */
    double rest;   /* evaluation, and what the log has no times of */
    double
        between; /* from the end of a start to the beginning of the next, when nothing was allocated */
    int64_t
        ends; /* starts of whose end the log has no date: they count until their last line that has a time */
};

/* All starts of a run.  allocated is NAN if one has no date at all, and then the rest means nothing. */
struct tr_allocation tr_allocation_of(const struct tr_record *r);

/* Iterations of row i, from the row before it in the same start on, of which its fields are the means; and their
   seconds. */
int64_t tr_allocation_interval(const struct tr_record *r, int64_t i);
double tr_allocation_row(const struct tr_record *r, int64_t i);

#endif
