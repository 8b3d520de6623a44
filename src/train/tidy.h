/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TIDY_H
#define TR_TRAIN_TIDY_H

#include <stdio.h>

#include "telemetry/trace.h"
#include "train/run.h"

/*
 * --profiling tidy_profiling: the file of each rank that the profiler of that name in CocktailSGD writes, an array of
 * Chrome's complete events of all iterations, or of those after --trace-step-start up to the end of --trace-step-end.
 * Times are microseconds since 1970.  train/tracks.def has its tracks and events.
 *
 *      transfers and computations   args {"micro-batch": number}
 *      what replicas exchange       args {"para": what, "size": elements}
 *      the optimizer                one event of an iteration, without args
 *
 * There is nothing within a computation.  With a single replica the optimizer is on "7. optimizer-step".  The
 * all-reduce of the tied embedding's gradient over the first and the last stage, which that program does not have, is an
 * "opt_allreduce" of that parameter.
 *
 * With --profiling-accumulation N the micro-batches of an iteration count as N accumulation steps, of which only the
 * last, which ends in an optimizer step, is written, its micro-batches numbered from 0.
 *
 * --profiling pytorch_profiling: the same files in another form (train/torch_trace.h).
 *
 * Events are appended as the run goes; the file has its name when it is whole.  One that cannot be written is output
 * that is lost (util/log.h).
 */
struct tr_tidy {
    struct tr_run *run;  /* borrowed */
    char *path;          /* owned */
    FILE *f;             /* owned; NULL: nothing is recorded, or no more */
    int64_t first, last; /* iterations after `first` up to `last` */
    int64_t events;      /* written */
    double wall;         /* what is added to the common clock for seconds since 1970 */
    int64_t base;        /* seconds since 1970 that the times of the other form count from */
    const char
        *embedding;   /* the parameter that two stages sum the gradient of, or NULL; borrowed */
    int64_t embedded; /* its elements here */
};

bool tr_tidy_wanted(const struct tr_config *c);

/* Collective over the world.  TR_EIO on all ranks if one cannot write its file.  Close also after a failure. */
enum tr_status tr_tidy_open(struct tr_tidy *t, struct tr_run *run) TR_MUST_CHECK;
void tr_tidy_close(struct tr_tidy *t);

/* Must the spans until the end of this iteration be added before the next one begins? */
bool tr_tidy_due(const struct tr_tidy *t, int64_t iteration);

/* The spans of whole iterations up to run->iteration, on the common clock. */
void tr_tidy_add(struct tr_tidy *t, const struct tr_span *span, int64_t count);

/* The file is whole if recording is over, or in any case: `now`.  Collective. */
void tr_tidy_write(struct tr_tidy *t, bool now);

#endif
