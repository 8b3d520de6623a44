/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_REPLICAS_H
#define TR_TRAIN_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"
#include "train/run.h"

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
 * A checkpoint has the weights of the first replica in the file that all read, and a sidecar file
 * for each rank, rank-NNNNN.replica (ckpt/rank.h) with what its replica holds: a run of the same
 * layout and mode goes on with the same bits.  Any other begins with the weights of the first
 * replica on all.
 *
 * `x` is NULL where replicas do not differ; then calls do nothing, and of two replicas or more there is
 * always one.
 */
struct tr_cocktail;
struct tr_replicas;

/* What it needs, without memory, and nothing where replicas do not diverge; after the optimizer's
   sizes are known.  Fills r->replicas.  Not collective. */
enum tr_status tr_replicas_open(struct tr_run *r) TR_MUST_CHECK;
void tr_replicas_close(struct tr_replicas *x);

/* Take memory ("compression"). */
void tr_replicas_plan(struct tr_replicas *x, struct tr_arena *a);

/* When the memory is there, also where r->replicas is NULL; says in the log what is exchanged.  Collective
   over the world. */
enum tr_status tr_replicas_start(struct tr_run *r) TR_MUST_CHECK;

/* Does the current step leave gradients unreduced? */
bool tr_replicas_apart(const struct tr_replicas *x);

/* The parts of a step: before its first micro-batch; between the parts of the model and while the rank
   waits for other stages, which says whether it is of use; after the last micro-batch, which ends with weights
   that have what others sent; and when the norm is known.  The last one makes all ranks agree on whether the
   step is skipped, and returns the largest norm of a replica. */
void tr_replicas_begin(struct tr_replicas *x);
bool tr_replicas_poll(struct tr_replicas *x);
void tr_replicas_join(struct tr_replicas *x);
double tr_replicas_settle(struct tr_replicas *x, struct tr_optim_result *found);

/* Compare fingerprints of what is equal on all replicas between steps, the reference, where there
   is one: TR_EDATA on all ranks with a sentence that names the first rank that differs.  The second
   does so after every --check-replicas-interval iterations.  Collective over the world. */
enum tr_status tr_replicas_compare(struct tr_replicas *x) TR_MUST_CHECK;
enum tr_status tr_replicas_compare_due(struct tr_replicas *x) TR_MUST_CHECK;

/* The rounds, or NULL where there are none. */
struct tr_cocktail *tr_replicas_cocktail(struct tr_replicas *x);

/* Have replicas diverged, so that a checkpoint has the weights of the first? */
bool tr_replicas_parted(const struct tr_replicas *x);

/* What a checkpoint keeps in sidecar files, before `next`; `next` if nothing. */
const struct tr_ckpt_sidecar *tr_replicas_sidecar(struct tr_replicas *x,
                                                  const struct tr_ckpt_sidecar *next);

/* Bytes of that for all ranks together, of a model of `elems` elements; pure. */
int64_t tr_replicas_sidecar_bytes(const struct tr_config *c, const struct tr_data_parallel *dp,
                                  int d, int64_t elems);

/* Weights and moments were loaded, and published: now the sidecar files in `folder`; NULL where
   nothing is wanted.  Says what is dropped, also where r->replicas is NULL.  Collective over the
   world; TR_ECONFIG where replicas that differ would have a warm-up, TR_EDATA and TR_EIO of
   ckpt/rank.h. */
enum tr_status tr_replicas_load(struct tr_run *r, const char *folder) TR_MUST_CHECK;

#endif
