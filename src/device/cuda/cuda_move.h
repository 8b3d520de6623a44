/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_MOVE_H
#define TR_DEVICE_CUDA_CUDA_MOVE_H

#include "device/cuda/cuda.h"

/*
 * Between host memory of the program and memory of the GPU: upload() and download() of the backend, and the
 * lanes of move().  Of the former all bytes go through pinned memory, which the GPU reads and writes by itself, and on the compute stream: a
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

/*
 * tr_backend.reserve_host(), move(), moved() and after(): a stream for each lane, opened with the first memory
 * of the host, since a run that offloads nothing needs none.
 */
enum tr_status tr_cuda_reserve_host(struct tr_device *d, size_t bytes, void **out) TR_MUST_CHECK;
size_t tr_cuda_host_bytes(const struct tr_cuda_moves *m);
int64_t tr_cuda_move(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                     const struct tr_tensor *from);
void tr_cuda_moved(struct tr_queue *q, int64_t copy);
void tr_cuda_after(struct tr_queue *q, int64_t copy);

#endif
