/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_STOP_H
#define TR_TRAIN_STOP_H

#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "config/config.h"
#include "config/shape.h"
#include "train/report.h"

/*
 * When training stops.  The question is asked after every iteration, when evaluation and the
 * regular checkpoint of that iteration are done; the caller acts on the answer:
 *
 *   DONE       the last of --train-iters: evaluate for the last time, save, return
 *   SIGNAL     --exit-signal came to some rank: the same as for
 *   DURATION   --exit-duration-in-mins is over: save unless this iteration was saved, leave
 *   INTERVAL   the iteration is a multiple of --exit-interval: the same
 *
 * Megatron-LM of 2021 asks in the order SIGNAL, DURATION, INTERVAL, DONE, so that a run whose last
 * iteration is a multiple of the interval ends without its last evaluation.  Here DONE comes first.
 */
enum tr_stop_reason {
    TR_STOP_NOT,
    TR_STOP_DONE,
    TR_STOP_SIGNAL,
    TR_STOP_DURATION,
    TR_STOP_INTERVAL
};

struct tr_stop {
    int64_t train_iters;
    int64_t exit_interval;      /* iterations; 0 for none */
    double exit_minutes;        /* 0 for none */
    int signal;                 /* an exit_signal of enums.def; -1 for none */
    double start;               /* tr_now() when the program began, for set-up counts */
};

/* Listen for --exit-signal from now on, if --exit-signal-handler is given: the first one is kept in
   mind, and the next one does what it does to any program.  For the whole process. */
void tr_stop_listen(const struct tr_config *c);

void tr_stop_init(struct tr_stop *s, const struct tr_config *c, const struct tr_shape *shape,
                  double start);

/*
 * The answer after iteration `iteration` (from 1) at `now` (tr_now()).  Collective over `world`:
 * the clocks differ, and the first rank whose time is over stops all; the answer is the same
 * everywhere.  It communicates only when there is a duration or a signal to
 * listen for, and then once.
 */
enum tr_stop_reason tr_stop_after(const struct tr_stop *s, struct tr_comm *world,
                                  int64_t iteration, double now);

/*
 * What rank 0 prints last, as train/report.h prints: "[exiting program at iteration 200] datetime:
 * ... ", "[exiting program after 600.25 minutes] datetime: ... " or "[exiting program after receiving
 * SIGTERM.] datetime: ... ".  Of DONE, tr_report_done() speaks.
 */
int tr_stop_line(char *buf, size_t size, const struct tr_stop *s, enum tr_stop_reason why,
                 int64_t iteration, double now, struct tr_moment datetime);

#endif
