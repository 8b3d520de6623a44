/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_REPLICAS_H
#define TR_DP_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/grid.h"
#include "config/config.h"
#include "config/shape.h"
#include "launch/launch.h"
#include "model/param.h"
#include "telemetry/traffic.h"
#include "util/arena.h"

/*
 * --dp-mode cocktail_sgd and local: local SGD, replicas that step on their own gradients and
 * diverge.  From iteration --train-warmup-steps on no gradients are exchanged: those of a replica
 * are the mean over its own micro-batches, clipped by the norm of its own, the same factor on all
 * its ranks.  A gradient that is not finite anywhere makes all replicas skip the step, so that they
 * have one loss scale.
 *
 * With cocktail_sgd each step has a round (dp/cocktail.h).  It begins with the step and is over before its
 * update, so the gradients are those at the weights before the round: one step late, as published.  A round
 * that failed on one rank is dropped on all of the replica's.
 *
 * What ranks of a replica hold twice must stay equal on them: what is not sharded over tensor
 * ranks, and the word embedding that the first and the last stage share, are compressed apart from
 * the rest (spans 1 and 2), by ranks that have the same numbers and so make the same messages.
 *
 * `x` is NULL where replicas do not differ; then calls do nothing, and of two replicas or more there is
 * always one.
 */
struct tr_cocktail;
struct tr_replicas;

/* The run that replicas are of.  All is borrowed until they are closed; `grid`, `world`, `queue` and `traffic`
   are used from tr_replicas_start() on. */
struct tr_replicas_of {
    const struct tr_config *config;
    const struct tr_shape *shape;
    const struct tr_launch *launch; /* the names of hosts */
    const struct tr_params *params;
    const int64_t *iteration; /* iterations that are over, as the run counts them */
    struct tr_grid *grid;
    struct tr_comm *world;
    struct tr_queue *queue;
    struct tr_traffic *traffic;
};

/* What it needs, without memory; *out is NULL where replicas do not diverge.  Not collective. */
enum tr_status tr_replicas_open(const struct tr_replicas_of *of,
                                struct tr_replicas **out) TR_MUST_CHECK;
void tr_replicas_close(struct tr_replicas *x);

/* Take memory ("compression"). */
void tr_replicas_plan(struct tr_replicas *x, struct tr_arena *a);

/* When the memory is there: `weights` are the masters of this rank's optimizer, fp32, borrowed until close.
   Says in the log what is exchanged.  Collective over the world. */
enum tr_status tr_replicas_start(struct tr_replicas *x,
                                 const struct tr_tensor *weights) TR_MUST_CHECK;

/* Does the current step leave gradients unreduced? */
bool tr_replicas_apart(const struct tr_replicas *x);

/* The parts of a step: before its first micro-batch; between the parts of the model and while the rank
   waits for other stages, which says whether it is of use; after the last micro-batch, which ends with weights
   that have what others sent; and when the norm is known.  The last one makes all ranks agree on whether the
   step is skipped, and returns the largest norm of a replica; *skipped says before whether this one's
   gradients are not finite. */
void tr_replicas_begin(struct tr_replicas *x);
bool tr_replicas_poll(struct tr_replicas *x);
void tr_replicas_join(struct tr_replicas *x);
double tr_replicas_settle(struct tr_replicas *x, double norm, bool *skipped);

/* Compare fingerprints of what is equal on all replicas between steps, the reference, where there
   is one: TR_EDATA on all ranks with a sentence that names the first rank that differs.  The second
   does so after every --check-replicas-interval iterations.  Collective over the world. */
enum tr_status tr_replicas_compare(struct tr_replicas *x) TR_MUST_CHECK;
enum tr_status tr_replicas_compare_due(struct tr_replicas *x) TR_MUST_CHECK;

/* The rounds, or NULL where there are none. */
struct tr_cocktail *tr_replicas_cocktail(struct tr_replicas *x);

/* Have replicas diverged, so that a checkpoint has the weights of the first? */
bool tr_replicas_parted(const struct tr_replicas *x);

/* A checkpoint of replicas that had diverged was loaded; `round` is that of the reference, where there is one. */
void tr_replicas_resume(struct tr_replicas *x, int64_t round);

#endif
