/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_KERNEL_H
#define TR_DEVICE_CUDA_CUDA_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/*
 * Between the kernels (kernels/ *.cu, which define operations of ops.def) and the host side of the cuda
 * backend.  No header of CUDA is needed here: the tests compile kernels without a toolkit.
 */
#define OP(name, tol, params) void tr_cuda_##name params;
#include "device/ops.def"
#undef OP

/* As tr_backend.adam8() (kernels/adam8.cu); m and v lie on multiples of 4 bytes. */
void tr_cuda_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                   const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                   struct tr_adamw how, struct tr_code_blocks blocks);

/* Scratch of the compute stream: an operation may use up to this much; what it leaves there is gone
   with the next operation. */
enum { TR_CUDA_SCRATCH_BYTES = 64 << 20 };
void *tr_cuda_scratch(const struct tr_queue *q, size_t bytes);

/* What is reserved for it, with cuDNN's attention or without.  Its deterministic backward, the one without any_order,
   keeps 256 MiB of scores, and what else it needs: 32 heads of 2048 tokens at a time, which is four
   blocks of queries for every multiprocessor of an H100. */
static inline size_t tr_cuda_scratch_reserved(bool cudnn, bool any_order)
{
    return cudnn && !any_order ? (size_t)257 << 20 : (size_t)TR_CUDA_SCRATCH_BYTES;
}

/* The stream of the queue's operations, a cudaStream_t, for one launch that comes next.  The host waits here
   where it is too far ahead (device/cuda/cuda_pace.h). */
void *tr_cuda_stream(const struct tr_queue *q);

/* What the kernels that run here were compiled for: 70, 80, 90, ..., which may be older than the GPU.  A
   kernel that needs an instruction is chosen by this.  What a kernel computes must not depend on how many
   multiprocessors there are. */
int tr_cuda_arch(const struct tr_queue *q);

/* Bytes of shared memory that a block may have on this GPU, once it has asked for them. */
size_t tr_cuda_shared(const struct tr_queue *q);

/* Launches of `kernel` may ask for so much dynamic shared memory, which is set once for each kernel and
   GPU: it is asked when a kernel comes for the first time, or wants more than before.  Any thread. */
void tr_cuda_allow_shared(const struct tr_queue *q, const void *kernel, size_t bytes);

/* A kernel of this program, for questions about the code that was loaded: all are compiled alike. */
const void *tr_cuda_any_kernel(void);

/* After a launch: `error` is what cudaGetLastError() gave; ends the job unless it is 0. */
void tr_cuda_launched(const struct tr_queue *q, const char *kernel, int error);

#endif
