/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_GRAPH_H
#define TR_DEVICE_CUDA_CUDA_GRAPH_H

#include "device/cuda/cuda.h"

/*
 * CUDA graphs of the compute stream: capture(), captured() and replay() of tr_backend.
 *
 * What is captured is one stream: kernels, copies on the device, and calls of cuBLASLt and cuDNN, which are
 * given their workspace and do not wait.  The mode is that of one thread: what other threads of the process
 * ask of CUDA meanwhile does no harm.  tr_cuda_pace() does not count while it is captured; a graph counts
 * with all its nodes when it is started.
 */
void tr_cuda_capture(struct tr_queue *q);
struct tr_graph *tr_cuda_captured(struct tr_queue *q);
void tr_cuda_replay(struct tr_queue *q, struct tr_graph *graph);

/* When the device is closed: of all of them. */
void tr_cuda_graphs_close(struct tr_cuda *g);

/* A line for the log when there are more graphs than the last time, or NULL; valid until the next call. */
const char *tr_cuda_graphs_news(struct tr_cuda *g);

#endif
