/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TRACKER_H
#define TR_TRAIN_TRACKER_H

#include <stdio.h>

#include "train/run.h"

/*
 * --memory-tracker: the buffers of this rank at three marks, in the lines of YuanGenerativeLM's memory tracker.
 * What is in use between steps is there at the start; all of the arena at the peak of a step; and what only a step needs
 * goes at its end.  Nothing is allocated or freed in between: "allocated" is the arena at each mark.  A file that
 * cannot be written is output that is lost (util/log.h).  Not collective.
 */
struct tr_tracker {
    FILE *file; /* NULL: there is none, or it has been written */
    char *path; /* owned */
};

/* Before the first step: opens the file, and the first mark.  Nothing without the option. */
void tr_tracker_open(struct tr_tracker *t, const struct tr_run *r);

/* After a step: the first time both other marks, and the file is closed. */
void tr_tracker_step(struct tr_tracker *t, const struct tr_run *r);

/* Also where there was no step. */
void tr_tracker_close(struct tr_tracker *t);

#endif
