/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_H
#define TR_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/cuda_pace.h"
#include "device/cuda/cuda_told.h"
#include "device/device.h"

/*
 * The GPU given to this rank, for the files of the cuda backend and for the transport that moves data
 * between GPUs (comm/nccl.c).  Host code only, in C; kernels are in kernels/ and see no more than
 * device/cuda/cuda_kernel.h.
 *
 * All operations of a queue run on one stream, the compute stream, and so do upload() and download(),
 * which keep their place among them; transfers between GPUs run on streams of their own and are tied
 * to it by events.  The host never waits inside a step but in download() and wait(), and where it would
 * run too far ahead (device/cuda/cuda_pace.h).  One thread of a rank calls all this.
 */
extern const struct tr_backend tr_cuda;

/* Whether this process sees a GPU with a driver that will do. */
bool tr_cuda_there(void);

struct tr_cuda_product; /* what multiplies: device/cuda/cuda_product.h */
struct tr_cuda_sdpa;    /* cuDNN's attention: device/cuda/cuda_sdpa.h */

/* Of cuda_graph.c: what was captured; how many the log has; memory left before the first. */
struct tr_cuda_graphs {
    struct tr_graph *list;
    int count, told;
    int64_t nodes;
    size_t left_before;
    char line[160];
};

struct tr_cuda {
    int ordinal;    /* of this GPU among those of the node */
    int arch;       /* 70, 80, 90, ... */
    int code;       /* what the kernels that run on it were compiled for: arch or less */
    int processors; /* streaming multiprocessors */
    size_t shared;  /* bytes of shared memory that a block may have */
    bool tf32;
    bool any_order; /* of cuDNN's additions: as struct tr_device_how has it */
    char which[64];
    char name[64], uuid[48]; /* "NVIDIA H200", "GPU-1b2c..." */
    cudaStream_t compute;
    struct tr_cuda_pace pace; /* of the compute stream */
    void *scratch;            /* TR_CUDA_SCRATCH_BYTES or more, of the compute stream */
    struct tr_cuda_product *product;
    struct tr_cuda_sdpa *sdpa; /* NULL where cuDNN is not to be had, or not wanted */
    void *base;                /* what reserve() gave last, and its length: to register with NCCL */
    size_t base_bytes, reserved_bytes; /* of all that it gave */
    int64_t of_nccl; /* bytes that NCCL took, as its transport found; for what is said of memory */

    bool capturing; /* operations are recorded as a graph: the host neither waits nor counts them */
    struct tr_cuda_graphs graphs;

    /* While the host waits for the GPU it calls this now and then, if it is not NULL: a transport looks
       for ranks that failed.  It may end the job. */
    void (*watch)(void *ctx);
    void *watch_ctx;

    /* Of cuda_attention.c: why cuDNN is not here, and what was said of attention. */
    char no_cudnn[256];
    struct tr_cuda_told told;

    /* Of cuda.c alone. */
    int threads;
    struct tr_cuda_moves *moves;
    struct tr_cuda_block *blocks;
    cudaEvent_t mark[TR_MARKS];
    char line[256];
};

/* The GPU behind a queue or a device of tr_cuda. */
struct tr_cuda *tr_cuda_of(const struct tr_device *d);

/*
 * End the job unless `error` is cudaSuccess: the sentence has the rank, the host, the GPU with its
 * UUID, `call` and what CUDA says of the error.  `call` is a name and what it was given, for a reader:
 * "layernorm", "cudaMemcpyAsync of 4096 bytes".
 */
void tr_cuda_must(const struct tr_cuda *g, cudaError_t error, const char *call);

/* The same for another library's error: `why` is its own word for it. */
TR_NORETURN void tr_cuda_die(const struct tr_cuda *g, const char *call, const char *why);

/* Wait until everything on a stream, or what was recorded in an event, is done, calling watch(). */
void tr_cuda_wait_stream(struct tr_cuda *g, cudaStream_t s);
void tr_cuda_wait_event(struct tr_cuda *g, cudaEvent_t e);

#endif
