/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_SDPA_H
#define TR_DEVICE_CUDA_CUDA_SDPA_H

#include <stdbool.h>
#include <stddef.h>

#include "device/cuda/sdpa.h"

/*
 * cuDNN's attention: plans for the graphs of device/cuda/sdpa.h, and their execution.  Sources are the
 * reference of cuDNN's graph API and what NVIDIA's cudnn-frontend (release 1.17 and later) makes of
 * attention; nothing of either is needed to build this.
 *
 * A plan is made on the host, in about a second, when a size is first met, and kept.  It is for one set
 * of sizes; the scale is a number that comes with each call.
 *
 * Bounds.  fp16 or bf16; cuDNN 9.8 or newer, and before 9.16 lengths that are multiples of 128 (others
 * need a mask of another kind there), but not 9.10.0 and 9.10.1; GPUs of compute capability 8 and 9;
 * two tokens or more; D a multiple of 8. cuDNN 9.19 takes D up to 256 forward, and backward up to 128
 * on 8.x and up to 256 on 9.x.  No dropout (cuDNN draws other numbers than this program) and no `from`.
 *
 * Backward gives the same bits every time, unless sizes.any_order lets it add in any order: see
 * tr_sdpa_backward().  cudnn-frontend builds either graph, the first when it is asked for a deterministic
 * algorithm.  That costs a matrix of t * t numbers in fp16 or bf16 per head, so the batch goes through
 * the room in parts; the other has sums in fp32 of t * d, which cuDNN 9.6 and newer sets to zero.  Versions, lengths,
 * GPUs and widths are the same for both, but that the matrix of one head must fit into the room.
 */
struct tr_cuda_sdpa;

struct tr_cuda_sdpa_how {
    int arch;              /* 80, 90, ... */
    size_t room;           /* of the scratch that each call is given */
    bool wanted;           /* what is not served is worth a warning */
    void *stream;          /* cudaStream_t: where calls go; of the GPU in use */
    const char *described; /* NULL, or a GPU in JSON for which plans are made; nothing can be
                              executed then, and no GPU is needed */
};

/* Opens cuDNN.  TR_ERESOURCE if it is missing or too old, TR_ECONFIG if the GPU is none of its or this
   program was built without it. */
enum tr_status tr_cuda_sdpa_open(const struct tr_cuda_sdpa_how *how,
                                 struct tr_cuda_sdpa **out) TR_MUST_CHECK;
void tr_cuda_sdpa_close(struct tr_cuda_sdpa *c);

/* Why cuDNN of version `of` (as cudnnGetVersion() has it) is not asked for attention over t tokens, or NULL: static
   storage.  Pure. */
const char *tr_cuda_sdpa_refuses(int of, int64_t t);

/* "cuDNN 9.19.0"; static storage. */
const char *tr_cuda_sdpa_name(void);

/* A call: addresses on the device, of what the direction needs; `type` is that of qkv, ctx and their
   gradients.  They begin on multiples of 16 bytes, lse (fp32) of 4. */
struct tr_cuda_sdpa_call {
    bool backward;
    struct tr_sdpa_sizes sizes; /* of all heads */
    enum tr_dtype type;
    float scale;
    void *qkv, *ctx, *lse, *dctx, *dqkv;
};

/* Whether cuDNN can do it in the room there is; of the call the addresses and the scale do not matter.
   Makes the plans.  *why is the reason where it can't, for as long as `c` is open. */
bool tr_cuda_sdpa_served(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                         const char **why);

/* The most scratch that a part of a call takes that is served, and how many parts there are. */
size_t tr_cuda_sdpa_bytes(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call);
int64_t tr_cuda_sdpa_parts(const struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call);

/* Queue one part, from 0 on, of a call that is served.  NULL, or cuDNN's word for what is wrong (static
   storage). */
const char *tr_cuda_sdpa_run(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                             int64_t part, void *scratch) TR_MUST_CHECK;

#endif
