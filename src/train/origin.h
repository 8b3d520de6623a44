/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_ORIGIN_H
#define TR_TRAIN_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

struct tr_run;

/*
 * Where numbers that are not finite began, once the norm of the gradients is none.  Nothing here costs a step that is
 * healthy anything.  The update was left out, so weights are those of the step.  In this order, the first that is found:
 *
 *   weights    a weight that is not finite: the first in the order of the forward pass
 *   forward    the forward pass of the same samples, without dropout, done once more: the first layer whose output is not
 *              finite, or the loss
 *   gradients  the gradients as they were before the update: those of the last layer of the model that has any, for the
 *              backward pass comes there first
 *
 * Once replicas have summed their gradients all of them have it.  So the step is done once more, without an update, and
 * each rank looks at its own before they are summed (struct tr_grads_look).  What does not come again, and what only the
 * sum has, is said to be so; not where links between stages remember what they sent, as that would change it.
 */
enum tr_origin_kind { TR_ORIGIN_NONE, TR_ORIGIN_WEIGHT, TR_ORIGIN_FORWARD, TR_ORIGIN_GRADIENT };

struct tr_origin {
    enum tr_origin_kind kind;
    int position;       /* 0 the embedding, 1 + l layer l, 1 + layers what follows them */
    int micro;          /* of a forward pass */
    int64_t bad, count; /* numbers that are not finite, of how many */
    bool mixed;         /* gradients: made of those of several replicas */
    int64_t iteration;  /* gradients: iterations that were over when the step began */
    char name[80];      /* of the parameter; "" in a forward pass */
};
enum { TR_ORIGIN_BYTES = 320 };

/* In the gradients that this rank owns, before they are cleared and r->iteration counts the step.  Not collective. */
void tr_origin_gradients(struct tr_run *r, struct tr_origin *out);

/* Which is the first of all ranks: "encoder.layers.3.mlp.dense_h_to_4h.weight (1 of 4096 numbers) on rank 5 on n2" and the like
   into text[TR_ORIGIN_BYTES], the same on all ranks, or "" if there is none.  `gradients` is what this rank has of
   tr_origin_gradients() of the last step.  Collective over the world.  The gradients are zero afterwards, and all else of the
   run is as before. */
void tr_origin_find(struct tr_run *r, const struct tr_origin *gradients, char *text);

#endif
