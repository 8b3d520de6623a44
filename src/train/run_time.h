/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_RUN_TIME_H
#define TR_TRAIN_RUN_TIME_H

#include "train/run.h"

/*
 * --log-run-time: AC-SGD's line of how long an iteration takes, after each epoch, or without --n-epochs after the run:
 *
 *     Finished running  N  iterations, averaged (exclude the first iter) run time: S
 *
 * N counts the iterations of the epoch that this process ran; S is the mean of their seconds, the first one's left out,
 * in the shortest decimal that reads back the same, and 0.0 where there is only one.
 */
struct tr_run_time {
    int64_t iterations;
    double seconds; /* of all but the first */
};

/* An iteration took so long, and r->iteration counts it; prints the line where it is the last one.  Not collective. */
void tr_run_time_add(struct tr_run_time *t, const struct tr_run *r, double seconds);

#endif
