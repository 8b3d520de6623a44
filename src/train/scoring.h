/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_SCORING_H
#define TR_TRAIN_SCORING_H

#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/run.h"

/*
 * What a head of classes says of the samples of an evaluation: between the two calls each forward of r counts the samples
 * that are among `e`, on the ranks that have the head.  A sample is predicted to be of the class with the largest
 * logit, of equal ones the first.  Other heads count nothing, and scores.count is NULL.
 */
struct tr_scoring {
    struct tr_scores scores; /* after the second call those of all replicas, on all ranks */
    int64_t first, end;      /* positions in the split */
    unsigned metrics;        /* what is told of them */
    void *logits;            /* [B, classes] of the model's type, owned */
    int32_t *label;          /* [B], owned */
};
void tr_scoring_begin(struct tr_run *r, const struct tr_evaluation *e, struct tr_scoring *x);

/* Collective over the world. */
void tr_scoring_end(struct tr_run *r, struct tr_scoring *x);
void tr_scoring_close(struct tr_scoring *x);

#endif
