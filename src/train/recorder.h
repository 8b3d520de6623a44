/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_RECORDER_H
#define TR_TRAIN_RECORDER_H

#include "launch/clocks.h"
#include "pipeline/waits.h"
#include "train/run.h"
#include "train/tidy.h"
#include "train/timeline.h"

/*
 * What the ranks did and when (telemetry/trace.h), put together: --split-wait separates waiting
 * from transfer, and --trace and --profiling keep it (train/timeline.h, train/tidy.h).
 *
 * Every few iterations, and before each line of the log, the ranks compare clocks, and the ranks of
 * a pipeline exchange when they were ready for their messages: 8 bytes for a message of some MB, a
 * few hundred messages at once, outside all timers.  The collective calls whose waits are measured
 * are the gradient reductions and the all-gathers of the weights over replicas, the all-reduce of
 * the embedding's gradients, and that of the gradient norm.  Those within a layer are part of
 * forward- and backward-compute.
 */
struct tr_recorder {
    struct tr_run *run; /* borrowed */
    bool on;            /* spans are kept, */
    bool waits;         /*   waits measured, */
    bool traces;        /*   and a file written */
    struct tr_timeline timeline;
    struct tr_tidy tidy;
    int64_t every;                /* iterations that there is room for */
    int64_t iterations, messages; /* since the ranks last exchanged times; of a leg */
    int64_t most;                 /* [] of the lists below, in messages */
    struct tr_clocks clocks;
    double *mine, *all; /* owned */
};

/* Iterations after this are recorded, if an option asks for it.  Collective over the world;
   TR_ERESOURCE or TR_EIO on all ranks.  Close also after a failure. */
enum tr_status tr_recorder_open(struct tr_recorder *s, struct tr_run *run) TR_MUST_CHECK;
void tr_recorder_close(struct tr_recorder *s);

/* An iteration is over; `passed`: its samples were skipped.  With `due` the timers of SPLIT are
   up to date afterwards; otherwise when there is no more room.  Returns the seconds that a file
   took, which are not those of training.  Collective. */
double tr_recorder_after(struct tr_recorder *s, bool passed, bool due);

/* The run ends: write what is not written.  Collective. */
void tr_recorder_finish(struct tr_recorder *s);

#endif
