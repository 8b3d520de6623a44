/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_REPLICAS_SAVE_H
#define TR_TRAIN_REPLICAS_SAVE_H

#include <stdint.h>

#include "ckpt/ckpt.h"
#include "train/run.h"

/*
 * Checkpoints of replicas that diverge (dp/local.c).  A checkpoint has the weights of the first replica in
 * the file that all read, and a sidecar file for each rank, rank-NNNNN.replica (ckpt/rank.h), with what its
 * replica holds: a run of the same layout and mode goes on with the same bits.  Any other begins with the
 * weights of the first replica on all.  Where replicas stay equal and keep errors of what they sent
 * (dp/averager.h), the sidecar files have these alone, and any other run begins without.
 */

/* What a checkpoint keeps in sidecar files, in *out before `next`; `next` if nothing.  `out` is to live until
   it is saved. */
const struct tr_ckpt_sidecar *tr_replicas_sidecar(struct tr_run *r, struct tr_ckpt_sidecar *out,
                                                  const struct tr_ckpt_sidecar *next);

/* Bytes of that for all ranks together, of a model of `elems` elements; pure. */
int64_t tr_replicas_sidecar_bytes(const struct tr_config *c, const struct tr_data_parallel *dp,
                                  int d, int64_t elems);

/* Weights and moments were loaded, and published: now the sidecar files in `folder`; NULL where nothing
   is wanted.  Says what is dropped, also where replicas do not diverge.  Collective over the world;
   TR_ECONFIG where replicas that differ would have a warm-up, TR_EDATA and TR_EIO of ckpt/rank.h. */
enum tr_status tr_replicas_load(struct tr_run *r, const char *folder) TR_MUST_CHECK;

#endif
