/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_CYCLIC_H
#define TR_DATA_CYCLIC_H

#include <stdint.h>

#include "util/status.h"

/*
 * The order of --dataloader-type cyclic, which is that of Megatron's MegatronPretrainingRandomSampler.
 * A split of `total` samples is passed again and again, in a new order each time.  With B samples per
 * micro-batch and D replicas an epoch is the first
 *
 *     active = total - total % (B D)
 *
 * of them, split into D buckets of active / D; the rest is never seen.  Replica r takes the samples
 * of bucket r, in the order of torch.randperm(active / D) seeded with the number of the epoch.
 *
 * Position k in the order (data/batch.h) is in epoch k / active and belongs to a replica and a place
 * in its bucket, so the samples consumed still say all there is to know: resuming anywhere gives the
 * order of a run that never stopped.  But the order depends on B and on D.  A run that resumes with
 * others takes samples again that it has seen in this epoch, and leaves out as many.  The order
 * `single` depends on neither and is shuffled already (data/samples.h), which is why it is the
 * default.
 */
struct tr_cyclic {
    int64_t active, bucket; /* samples of an epoch, and of one replica in it */
    int64_t batch, replicas;
    int64_t epoch;   /* that `order` is of; -1: none yet */
    uint32_t *order; /* [bucket] */
};

/* For `total` samples, B = `batch` and D = `replicas`.  TR_EDATA, in a sentence that begins with
   `what`, if total is less than B D or a bucket not below TR_TORCH_LIMIT
   (data/torch_rng.h). */
enum tr_status tr_cyclic_open(struct tr_cyclic *x, const char *what, int64_t total, int64_t batch,
                              int64_t replicas) TR_MUST_CHECK;
void tr_cyclic_close(struct tr_cyclic *x);

/* The sample at a position of the order, any from 0 on.  Where the epoch is another than that of the
   call before, all of its order is made, in place. */
int64_t tr_cyclic_at(struct tr_cyclic *x, int64_t position);

#endif
