/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_EPOCHS_H
#define TR_DATA_EPOCHS_H

#include <stdint.h>

#include "config/amounts.h"

/*
 * The order of training with --n-epochs.  Replica r of D owns a contiguous part of the samples
 * (tr_epoch_share()), so that its activation cache stays valid; in each epoch it takes them in a
 * new order, and leaves out the last ones of it, fewer than an iteration needs, so that an epoch
 * begins with an iteration.  Which are left out changes from epoch to epoch.
 *
 * With B samples per micro-batch and S of all replicas in an epoch, position k (data/batch.h) is in
 * epoch e = k / S; with i = k mod S it belongs to replica r = i mod (B D) / B, and is place j = i /
 * (B D) * B + i mod B of its order: a shuffle of 0 .. n - 1, n being the samples of r, that begins
 * with these numbers in turn and, for i = n - 1, n - 2, .. 1, exchanges the i-th with the floor(u
 * (i + 1) / 2^32)-th; u is draw number i of the stream TR_STREAM_EPOCH of --seed, site r, item e
 * (util/rng.h).
 *
 * With --epoch-order text the numbers stay in turn, in each epoch.
 *
 * So which sample stands at a position follows from the options and the number of samples alone: all
 * stages know it, as far ahead as they like, and a run resumes anywhere.  It depends on D and S, on B only
 * through S.
 */
struct tr_epochs {
    struct tr_epoch_plan plan; /* a copy */
    int64_t micro_batch;
    int next; /* of the orders, the one to be made anew */
    struct tr_epoch_order {
        int64_t epoch, replica; /* -1: none yet */
        int32_t *order;         /* owned */
    } made[2];
};

/* Room for two orders of a replica, so that looking ahead into the next epoch costs nothing. */
void tr_epochs_open(struct tr_epochs *x, const struct tr_epoch_plan *plan, int64_t micro_batch);
void tr_epochs_close(struct tr_epochs *x);

/* Bytes that the orders take on any rank, 8 for each sample of the replica that has most; 0 without
   --n-epochs. */
int64_t tr_epochs_bytes(const struct tr_epoch_plan *plan);

/* The sample at a position of the order of training, any from 0 on.  Where epoch and replica are not
   among those of the latest calls, their order is made, in place. */
int64_t tr_epochs_at(struct tr_epochs *x, int64_t position);

#endif
