/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_RESIDENCY_H
#define TR_PIPELINE_RESIDENCY_H

#include "config/activations.h"
#include "config/layout.h"
#include "model/param.h"
#include "model/visits.h"
#include "pipeline/sched.h"

/*
 * Where weights and gradients are, and when: instructions that tr_residency_add() puts into the list of a
 * schedule, behind the computation that they belong to.  All accesses of a step are known before it begins, so
 * weights are fetched ahead of their use, across passes and micro-batches, and what a window will hold at each
 * moment can be checked without a network.
 *
 *   TR_FETCH    start to bring the weights of part `item` into window `window`
 *   TR_ACQUIRE  wait until they are there
 *   TR_CLEAR    from here on gradients of the part are written in its window, beginning at zero
 *   TR_MODULE   module `item` (model/visits.h) of the chunk computes
 *   TR_RELEASE  the weights of the part are not read until they are acquired again
 *   TR_REDUCE   gradients of the part are complete: start to reduce them
 *   TR_SETTLE   wait for that, and add the sum to what the owner keeps
 *
 * A part is one of struct tr_params, and so is its window; chunks take the window that a plan of their moves
 * (pipeline/moves.h) gives them, as early as it is free.  What is not in a window is always there; it is
 * acquired, too, where it may still be on its way when a step begins.
 */
struct tr_residency {
    const struct tr_params *params; /* of stage `stage`; borrowed */
    const struct tr_layout *layout;
    const struct tr_activations *activations;
    int stage;

    /* When gradients are reduced: in no pass, in that of the last micro-batch, which all others add to, or in
       each, which writes them anew. */
    enum tr_reduce { TR_REDUCE_AFTER, TR_REDUCE_LAST, TR_REDUCE_EACH } reduce;
    bool in_order; /* in the order of the flat buffers: then all before a part are complete, too */
    bool at_once;  /* TR_SETTLE follows at once, so that nothing is overlapped */
    bool arrives;  /* weights may be under way when a step begins */
    int ahead; /* so many layers are fetched before they are needed, where windows permit; without chunks */
};

/*
 * Put them into the list of a schedule that was built.  TR_ERESOURCE.  A list to which nothing has to be added
 * is left as it is.
 */
enum tr_status tr_residency_add(const struct tr_residency *how, struct tr_sched *s) TR_MUST_CHECK;

/*
 * Follow the list with nothing in mind but what the instructions mean.  Returns NULL if all of this holds, and
 * otherwise a sentence that says what does not (static storage).
 *
 *   - Each pass comes to its modules in their order.
 *   - A module computes when all of its weights have been fetched, acquired and not overwritten.
 *   - No window is taken from weights that are in use, or from such as were fetched and not used.
 *   - Gradients are written where they were cleared, and not while they are reduced.
 *   - The gradients of each part are reduced once in a step, or once in each micro-batch, when all modules of the
 *     pass that write them have computed, those of its TR_WGT too, and what was started is settled.
 */
const char *tr_residency_check(const struct tr_residency *how, const struct tr_sched *s);

/* How many parts with windows a list brings, and how often it reduces one, of those from part `from` on.  And the elements
   of those that it brings, and of those that it reduces, also of such as have no window. */
struct tr_residency_count {
    int64_t fetches, reductions;
    int64_t fetched, reduced;
};
struct tr_residency_count tr_residency_count(const struct tr_params *ps, const struct tr_sched *s,
                                             int from);

/* What all lists of residency are made from, for both: the parts of a module. */
struct tr_residents {
    const struct tr_residency *how;
    struct tr_resident_chunk {
        int layers, first_layer;
        bool embeds, heads;
        int *first, *count; /* [layers] the parts of each layer */
        int ends[2];        /* parts of the embedding, of the head */
        int *end[2];        /* [ends[i]] */
    } * chunk;              /* [k] */
    int *every;             /* [parts] i, of parts one after the other */
};

void tr_residents_open(const struct tr_residency *how, struct tr_residents *x);
void tr_residents_close(struct tr_residents *x);

/* How a computation of the list comes to its modules (model/visits.h). */
enum tr_visits_pass tr_residents_pass(const struct tr_sched *s, const struct tr_instr *in);

/* The parts of a module: *n of them, borrowed. */
const int *tr_residents_of(const struct tr_residents *x, int chunk, int module, int *n);

#endif
