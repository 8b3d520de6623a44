/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_STEP_H
#define TR_TRAIN_STEP_H

#include "train/origin.h"
#include "train/run.h"

/* What a step reports to the log. */
struct tr_step_result {
    double loss;      /* mean over the global batch; on ranks of the last stage, else 0 */
    double grad_norm; /* before clipping, 0 if not computed; on all ranks */
    double zeros;     /* elements of its gradient that are zero, if run->count_zeros; else -1 */
    bool skipped;     /* a gradient was not finite, so nothing was updated; on all ranks */
    bool unusual;     /* skipped, and no lower loss scale can help; on all ranks */
    struct tr_origin origin; /* then: of this rank's gradients */
};

/* Connect the executor to the run's chunks: fills run->stage. */
void tr_step_connect(struct tr_run *r);

/* Put into a list of this run what its data-parallel mode does with weights and gradients meanwhile.  TR_ERESOURCE. */
enum tr_status tr_step_residency(struct tr_run *r, struct tr_sched *s) TR_MUST_CHECK;

/*
 * The gradients of the next global batch (gradient accumulation): the pipeline schedule, the
 * reduction over replicas, the all-reduce of the tied embedding's gradients, all of it queued.
 * Afterwards they lie in run->model.params.grads, equal on all replicas.  Collective over the
 * world.  The second waits, and returns the loss as in tr_step_result; once for each call of the
 * first.
 */
void tr_step_gradients(struct tr_run *r);
double tr_step_loss(struct tr_run *r);

/*
 * One training step: tr_step_gradients(), then the optimizer at the learning rate that is due.
 * Advances consumed samples, and unless the step was skipped the schedule of the learning rate; not the
 * iteration.  Collective.
 */
void tr_step(struct tr_run *r, struct tr_step_result *out);

/* In place of a step: skip the samples of the next global batch.  Not collective. */
void tr_step_pass(struct tr_run *r, struct tr_step_result *out);

/* Forward of the global batch that begins with sample `first`, without dropout.  Collective. */
void tr_step_forward(struct tr_run *r, int64_t first);

/*
 * Mean loss of `iterations` global batches of a split from sample `first` on, forward only, without
 * dropout; on ranks of the last stage, else 0.  Does not count in the timers.  Collective.
 */
double tr_eval(struct tr_run *r, enum tr_split split, int64_t first, int64_t iterations);

/* The learning rate that the next step will use. */
double tr_step_lr(const struct tr_run *r);

#endif
