/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_BUCKETS_H
#define TR_DP_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "model/param.h"

/*
 * Data parallelism (DDP).  The flat gradient buffer is split into buckets, and each bucket is
 * all-reduced over the data-parallel group as soon as its gradients are complete, while the
 * backward pass goes on.  The model lays its parameters out in the order in which backward
 * completes them (model/param.h), so "complete" is one number: all elements below it.
 *
 * Sharded (ZeRO stage 1, Rajbhandari et al. 2020; Megatron's distributed optimizer): replica r
 * receives the sum of the r-th slice of each bucket only, updates those values, and the replicas
 * gather the values from one another: as many bytes as the sums, and a D-th of the optimizer's
 * memory and work.  The gather starts at the end of the buffer and may go on during the next
 * forward pass, which uses parameters in the reverse of the flat order.
 *
 * Losses are weighted by 1 / (M * D) before backward, so a sum is already the mean.  Sums are taken
 * in the type of the gradients, as comm/comm.h says.
 */
/*
 * Split a flat buffer into buckets.  It consists of `n` regions that end at end[0] <= ... <= end[n
 * - 1], all multiples of `unit`, which is a multiple of the number of replicas.  Each region that
 * is not empty is split into as many buckets of at least `at_least` elements as it has, but one,
 * all multiples of `unit`, none more than a unit longer than another; so regions of the same length
 * are split alike, and bucket borders may fall within parameters.  Pure.  *out is owned by the
 * caller; returns how many.
 */
int tr_buckets_plan(const int64_t *end, int n, int64_t at_least, int64_t unit,
                    struct tr_bucket **out);

/*
 * What replica `rank` of `replicas` updates: slice `rank` of each of the `n` buckets when
 * `sharded`, else all of them, as one span.  Ascending.  Pure.  *out is owned by the caller;
 * returns how many.
 */
int tr_buckets_owned(const struct tr_bucket *buckets, int n, int rank, int replicas, bool sharded,
                     struct tr_bucket **out);

/* What happens to a bucket in a step: its gradients are complete; it starts, either with a cast, which then ends, or
   without; the transport has it; where there was a cast its sums are there; they are in their place.  And all are. */
enum tr_bucket_moment {
    TR_BUCKET_READY,
    TR_BUCKET_START_CAST,
    TR_BUCKET_CAST,
    TR_BUCKET_START,
    TR_BUCKET_SENT,
    TR_BUCKET_ARRIVED,
    TR_BUCKET_DONE,
    TR_BUCKET_ALL_DONE /* of bucket 0 */
};
struct tr_bucket_watch {
    void (*at)(void *ctx, int bucket, enum tr_bucket_moment moment); /* NULL: nobody is told */
    void *ctx;
};

/* Who looks at the gradients of this replica before they are summed with those of others: at elements first .. of the
   flat buffer, whose work is queued.  `at` may read them with that queue, and communicates nothing. */
struct tr_grads_look {
    void (*at)(void *ctx, int64_t first, const struct tr_tensor *grads); /* NULL: nobody looks */
    void *ctx;
};
void tr_grads_look_at(const struct tr_grads_look *look, int64_t first,
                      const struct tr_tensor *grads);

struct tr_buckets_how {
    bool overlap_reduce; /* start sums when ready, otherwise all in tr_buckets_finish() */
    bool sharded;
    bool
        overlap_gather; /* wait for values in tr_buckets_need(), otherwise in tr_buckets_gather() */
    struct tr_tensor
        wire; /* as many elements as the gradients have, of another float type: a bucket is cast to it,
                              summed in it and cast back; borrowed.  Without data sums are in the type of the
                              gradients */
    struct tr_bucket_watch watch;
    const struct tr_grads_look *look; /* borrowed: who looks now; or NULL */
    const struct tr_params
        *params; /* borrowed: their names are said of a bucket that is waited for; or NULL */
};

struct tr_buckets;

/*
 * `grads` and `values` are whole flat buffers of the same length, borrowed, each of TR_F32, TR_F16
 * or TR_BF16; `values` is used when sharded only.  `buckets` is copied; they are those of
 * tr_buckets_plan() for the whole buffer.  `group` are the replicas; it is borrowed until close, and nobody
 * else uses it, since ranks reach a bucket at different times.  It is made before the memory is reserved,
 * because the transport may take memory of the device for it.  Open and close are collective over it, and
 * close finds nothing under way; TR_ERESOURCE on all ranks when memory runs out.
 */
enum tr_status tr_buckets_open(struct tr_comm *group, const struct tr_tensor *grads,
                               const struct tr_tensor *values, const struct tr_bucket *buckets,
                               int n, struct tr_buckets_how how,
                               struct tr_buckets **out) TR_MUST_CHECK;
void tr_buckets_close(struct tr_buckets *x);

/*
 * In the backward of the step's last micro-batch: elements below `upto` are complete.  Starts the
 * buckets that lie below it, a few at a time, and lets those under way make progress.  Any number
 * of calls, different ones on each rank; results do not depend on them.  Where transfers are work of
 * the device (tr_transport.queues) all those buckets start, and every rank of `dp` makes the same
 * calls at the same places among its other transfers.
 */
void tr_buckets_ready(struct tr_buckets *x, struct tr_queue *q, int64_t upto);

/* Whether tr_buckets_ready() does anything. */
bool tr_buckets_overlaps(const struct tr_buckets *x);

/* Start what has not started, wait for all, and be ready for the next step: the gradients that this
   replica owns are summed.  When sharded, the others are undefined.  Collective over dp.  The
   caller charges it to backward-params-all-reduce. */
void tr_buckets_finish(struct tr_buckets *x, struct tr_queue *q);

/*
 * After the update of the values that this replica owns: fetch those of the others, or, with
 * overlap_gather, start to.  Nothing when not sharded.  Collective over dp.  The caller charges it
 * to params-all-gather.
 */
void tr_buckets_gather(struct tr_buckets *x, struct tr_queue *q);

/*
 * Return when all values at or above element `from` are there, and let the others come nearer.
 * Call it before values are read: in a forward pass before each layer, with the layer's first
 * element; with 0 before a backward pass, evaluation, saving and the end, so before the next
 * tr_buckets_ready() or tr_buckets_finish().  It may wait until the other replicas have called it with as
 * small a `from`: like forward passes of one model, all make these calls at the same places among
 * their other collective calls.  Further calls do no harm.  Cheap when there is nothing to wait
 * for.
 */
void tr_buckets_need(struct tr_buckets *x, struct tr_queue *q, int64_t from);

#endif
