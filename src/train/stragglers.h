/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_STRAGGLERS_H
#define TR_TRAIN_STRAGGLERS_H

#include "telemetry/slow_ranks.h"
#include "train/run.h"

/*
 * --slow-rank-percent: at the end of each interval of the log every rank's own compute time (tr_timers_own()) goes to
 * rank 0, 8 bytes each, which compares it by the rule of telemetry/slow_ranks.h.  Ranks of one pipeline stage have
 * the same work, over tensor and data ranks.
 */
struct tr_stragglers {
    struct tr_run *run;         /* borrowed; NULL: nobody is compared */
    struct tr_slow_ranks ranks; /* of rank 0 */
    char (*which)[64];          /* [world] their devices, "" where that is the processor; owned */
    double *seconds;            /* [world]; owned */
    bool changed;               /* of rank 0: since it was reported */
    char text[512];             /* of rank 0: the ranks that are slow now, "" if none */
};

/* Before the first iteration.  Collective over the world; TR_ERESOURCE on all ranks.  Close also after a failure. */
enum tr_status tr_stragglers_open(struct tr_stragglers *s, struct tr_run *run) TR_MUST_CHECK;
void tr_stragglers_close(struct tr_stragglers *s);

/* After an iteration, before the timers are reset.  Collective over the world where an interval ends. */
void tr_stragglers_after(struct tr_stragglers *s);

/* After the lines of that interval: names in the log each rank that has become slow, or is no longer.  True, on rank 0
   alone, if there was any, and then `text` is new.  Not collective. */
bool tr_stragglers_tell(struct tr_stragglers *s);

#endif
