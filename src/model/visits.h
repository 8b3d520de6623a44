/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_VISITS_H
#define TR_MODEL_VISITS_H

#include <stdbool.h>

#include "config/activations.h"

/*
 * The order in which a pass of a chunk comes to its modules: the embedding, a layer, the head.  The forward and
 * the backward pass (model/chunk.c) follow it, and plans of what must be in memory when are made from it.
 *
 * A module's number is 0 for the embedding, 1 + i for layer i of the chunk, and layers + 1 for the head.
 */
struct tr_visit {
    int module;
    bool
        writes; /* the gradients of its weights; in a backward pass that recomputes, reading comes before */
};

/* What a chunk with `layers` layers has. */
struct tr_visits_of {
    const struct tr_activations *activations;
    int layers;
    bool embeds, heads;
};

/* A backward pass that is split computes the gradients of weights apart, but those of the embedding and of the head;
   until then the gradients of a layer are not complete. */
enum tr_visits_pass {
    TR_VISITS_FORWARD,
    TR_VISITS_BACKWARD,
    TR_VISITS_SPLIT,  /* backward without these */
    TR_VISITS_WEIGHTS /* and these */
};

/* Fills out[2 * layers + 2], and returns how many there are.  Pure. */
int tr_visits(const struct tr_visits_of *of, enum tr_visits_pass pass, struct tr_visit *out);

/* Whether backward recomputes layer `i` of a chunk (activation recomputation), and from which layer on: those up
   to `i` are computed once more together.  Pure. */
bool tr_recomputed(const struct tr_activations *a, int i);
int tr_recomputed_from(const struct tr_activations *a, int i);

#endif
