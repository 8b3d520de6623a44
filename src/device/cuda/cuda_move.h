/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_MOVE_H
#define TR_DEVICE_CUDA_CUDA_MOVE_H

#include "device/cuda/cuda.h"

/*
 * Between host memory of the program and memory of the GPU: upload() and download() of the backend.  All
 * bytes go through pinned memory, which the GPU reads and writes by itself, and on the compute stream: a
 * copy that keeps its place among operations could not begin earlier on another one.
 *
 * What is uploaded is copied to a ring first, so that the caller has its memory back and nobody
 * waits; the host waits only where the ring is full of what the GPU has not taken yet.
 */
struct tr_cuda_moves;

/* TR_ERESOURCE where the system gives no pinned memory. */
enum tr_status tr_cuda_moves_open(struct tr_cuda_moves **out) TR_MUST_CHECK;

/* `m` may be NULL.  Nothing is under way. */
void tr_cuda_moves_close(struct tr_cuda_moves *m);

/* tr_backend.upload() and download(). */
void tr_cuda_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from);
void tr_cuda_download(struct tr_queue *q, void *to, const struct tr_tensor *from);

#endif
