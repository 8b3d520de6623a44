/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_DP_H
#define TR_DP_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"

/*
 * What happens to gradients between replicas: the flat gradient buffer is cut into buckets, and
 * each bucket is summed over the data-parallel group as soon as its gradients are complete, while
 * the backward pass goes on.  The model lays its parameters out in the order in which backward
 * completes them (model/param.h), so "complete" is one number: all elements below it.
 *
 * Losses are weighted by 1 / (M * D) before backward, so a sum is already the mean.
 */
struct tr_bucket {
    int64_t first, count;       /* elements of the flat buffer */
};

/*
 * Cut `total` elements into buckets at parameter boundaries: each closes at the first boundary at
 * or after `at_least` elements; the last takes what is left.  boundary[n] ascending, the last is
 * total.  Pure.  *out is owned by the caller; returns how many.
 */
int tr_buckets_plan(const int64_t *boundary, int n, int64_t at_least, struct tr_bucket **out);

struct tr_dp;

/*
 * `grads` is the whole flat buffer, borrowed; with `overlap` buckets start when they are ready,
 * otherwise all start in tr_dp_finish().  `buckets` is copied.  Sums run in a group of their own,
 * so between ready() and finish() the caller may use `dp` as it likes.  Open and close are
 * collective over dp; TR_ERESOURCE on all ranks when memory or groups run out.
 */
enum tr_status tr_dp_open(struct tr_comm *dp, const struct tr_tensor *grads,
                          const struct tr_bucket *buckets, int n, bool overlap,
                          struct tr_dp **out) TR_MUST_CHECK;
void tr_dp_close(struct tr_dp *x);

/*
 * In the backward of the step's last micro-batch: elements below `upto` are complete.  Starts the
 * buckets that lie below it, a few at a time, and lets those under way make progress.  Any number
 * of calls, different ones on each rank; results do not depend on them.
 */
void tr_dp_ready(struct tr_dp *x, struct tr_queue *q, int64_t upto);

/* Start what has not started, wait for all, and be ready for the next step.  Collective over dp.
   The caller charges it to backward-params-all-reduce. */
void tr_dp_finish(struct tr_dp *x, struct tr_queue *q);

#endif
