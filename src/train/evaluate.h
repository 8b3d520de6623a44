/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_EVALUATE_H
#define TR_TRAIN_EVALUATE_H

#include "train/run.h"

/*
 * How much of a split an evaluation takes.  Usually --eval-iters global batches, of validation those that
 * follow on the last ones.  With --n-epochs every sample once, or with --drop-last-eval as many as fill whole global
 * batches: its loss is the mean over all of them, and
 * what log and events derive from it, the perplexity, that of the whole text.
 *
 * Samples hardly ever fill the last global batch of the second kind.  Its rest is copies of the first
 * sample (data/batch.h), whose loss a batch of nothing but copies tells, and they are taken out of the mean
 * again: with V samples, n batches of G, a mean E over n G and the loss L of the first sample,
 *
 *     (n G E - (n G - V) L) / V
 *
 * so it costs one batch more, and neither layout nor size of the batch matter, but for rounding.  This
 * needs samples that weigh the same, which is why tr_shape_of() refuses --eod-mask-loss with larger
 * micro-batches than 1; then the loss is the mean of those of the samples.
 *
 * Replicas that differ (dp/local.c) each evaluate their part of the batches with weights of their
 * own, so the loss is a mean over replicas as well, and L is theirs in equal shares: the copies may be at one
 * of them, which makes a difference of a copy's weight times how far their losses of that sample differ.
 */
struct tr_evaluation {
    int64_t first;      /* position of its first sample */
    int64_t iterations; /* global batches; 0: there is none */
    int64_t samples;    /* that count: of the last batch perhaps not all */
};

struct tr_evaluation tr_evaluation_of(const struct tr_run *r, enum tr_split split);

/* The loss of an evaluation from the mean over its batches; as tr_eval() (train/step.h), and collective as
   that, also where it has nothing to do. */
double tr_evaluation_end(struct tr_run *r, enum tr_split split, const struct tr_evaluation *e,
                         double mean);

/* Whether an evaluation is due after the iterations done so far: each --eval-interval, and at the end of
   each epoch but the last, after which the run evaluates anyway. */
bool tr_evaluation_due(const struct tr_amounts *amounts, const struct tr_epoch_plan *epochs,
                       int64_t iteration);

#endif
