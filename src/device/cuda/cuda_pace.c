/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_pace.h"

#include <string.h>

#include "device/cuda/cuda.h"

enum tr_status tr_cuda_pace_open(struct tr_cuda_pace *p, cudaStream_t stream)
{
    *p = (struct tr_cuda_pace){.stream = stream};
    for (int i = 0; i < TR_CUDA_PACE_EVENTS; i++) {
        cudaError_t error = cudaEventCreateWithFlags(&p->passed[i], cudaEventDisableTiming);

        if (error == cudaSuccess)
            continue;
        p->passed[i] = NULL;
        return TR_FAIL(TR_ERESOURCE, "CUDA has no room for events: %s", cudaGetErrorString(error));
    }
    return TR_OK;
}

void tr_cuda_pace_close(struct tr_cuda_pace *p)
{
    for (int i = 0; i < TR_CUDA_PACE_EVENTS; i++)
        if (p->passed[i])
            (void)cudaEventDestroy(p->passed[i]);
    memset(p, 0, sizeof *p);
}

/* An event that was never recorded counts as passed. */
static void pass_one(struct tr_cuda *g, struct tr_cuda_pace *p)
{
    cudaEvent_t oldest = p->passed[p->next];

    p->next = (p->next + 1) % TR_CUDA_PACE_EVENTS;
    tr_cuda_wait_event(g, oldest);
    tr_cuda_must(g, cudaEventRecord(oldest, p->stream), "cudaEventRecord");
}

void tr_cuda_pace(struct tr_cuda *g, struct tr_cuda_pace *p, int launches)
{
    if (g->capturing)
        return;
    p->queued += launches;
    for (int i = 0; i < TR_CUDA_PACE_EVENTS / 2 && p->queued >= TR_CUDA_PACE_EVERY; i++) {
        p->queued -= TR_CUDA_PACE_EVERY;
        pass_one(g, p);
    }
    p->queued %= TR_CUDA_PACE_EVERY;
}
