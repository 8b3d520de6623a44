/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_BUCKET_TIMELINE_H
#define TR_DP_BUCKET_TIMELINE_H

#include "dp/buckets.h"
#include "model/param.h"
#include "telemetry/tensor_timeline.h"

/*
 * --timeline-filename FILE: what rank 0 does with each bucket of gradients, as Horovod's timeline has it
 * (telemetry/tensor_timeline.h).  A bucket is a process, with the names of its tensors.
 *
 *     NEGOTIATE_ALLREDUCE       its gradients are complete on rank 0, and buckets before it are under way; it begins
 *                               with a mark "0"
 *     ALLREDUCE                 it is reduced; inside:
 *         MEMCPY_IN_FUSION_BUFFER   the cast to another type, where there is one
 *         QUEUE                     it is given to the transport
 *         MPI_ALLREDUCE             until the sums are there; or NCCL_ALLREDUCE
 *         MEMCPY_OUT_FUSION_BUFFER  the cast back
 *
 * With sharded optimizer states it is REDUCESCATTER in all these names.  With `cycles` each bucket that begins to be
 * reduced is a mark CYCLE_START.  Times are those of the host.
 */
struct tr_bucket_timeline;

/* Of `n` buckets of these parameters.  TR_EIO, TR_ERESOURCE. */
struct tr_bucket_timeline_how {
    const char *path;
    bool cycles, sharded, nccl;
};
enum tr_status tr_bucket_timeline_open(const struct tr_bucket_timeline_how *how,
                                       const struct tr_params *params,
                                       const struct tr_bucket *bucket, int n,
                                       struct tr_bucket_timeline **out) TR_MUST_CHECK;
void tr_bucket_timeline_close(struct tr_bucket_timeline *t);

/* Whom tr_buckets_open() tells; owned by the timeline. */
struct tr_bucket_watch tr_bucket_timeline_watch(struct tr_bucket_timeline *t);

#endif
