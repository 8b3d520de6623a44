/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_PACE_H
#define TR_DEVICE_CUDA_CUDA_PACE_H

#include <cuda_runtime_api.h>

#include "util/status.h"

/*
 * How far the host runs ahead of the GPU.  A stream takes about a thousand launches (1,024 in the
 * drivers that were looked at; CUDA promises no number).  The call that queues one more waits inside
 * CUDA until there is room, where nobody looks at NCCL's asynchronous errors, at the time and at what
 * other ranks tell: if a rank is lost then, the others wait for ever.  So nobody here lets a stream
 * come that far.  What is queued is counted, every TR_CUDA_PACE_EVERY launches, which is two or three
 * layers, an event is recorded, and before the (TR_CUDA_PACE_EVENTS + 1)-th of them the host waits for
 * the oldest as it waits for everything: watching (tr_cuda.watch).
 *
 * A graph counts with all its nodes: what it takes of a stream is not documented either.  It uses up half of
 * the events at most, so a large one lets two others be queued before it, and the GPU does not run dry.  What is
 * captured is not queued, and not counted.
 *
 * No rank waits for what comes later in its own program, so what is no deadlock with a host that waits
 * after each operation is none with this.
 */
enum { TR_CUDA_PACE_EVERY = 64, TR_CUDA_PACE_EVENTS = 8 };

struct tr_cuda;

/* Of one stream. */
struct tr_cuda_pace {
    cudaStream_t stream; /* borrowed */
    cudaEvent_t passed[TR_CUDA_PACE_EVENTS];
    int next;   /* of them */
    int queued; /* since the last one was recorded */
};

/* TR_ERESOURCE where CUDA has no room for events; `p` may be closed all the same, also if it is all zero. */
enum tr_status tr_cuda_pace_open(struct tr_cuda_pace *p, cudaStream_t stream) TR_MUST_CHECK;
void tr_cuda_pace_close(struct tr_cuda_pace *p);

/*
 * `launches` are about to be queued, or have just been: kernels, copies, events and waits for events; of a
 * library's call as many as it may make of it.  The host may wait here.
 */
void tr_cuda_pace(struct tr_cuda *g, struct tr_cuda_pace *p, int launches);

/* What libraries make of one call, at most: cuBLASLt of a product whose k is split; cuDNN of attention, backward;
   NCCL of a call, with the events that tie its own streams to the caller's. */
enum { TR_CUDA_LAUNCHES_PRODUCT = 2, TR_CUDA_LAUNCHES_ATTENTION = 8, TR_CUDA_LAUNCHES_NCCL = 6 };

#endif
