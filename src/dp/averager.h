/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_AVERAGER_H
#define TR_DP_AVERAGER_H

#include <stdint.h>

#include "comm/comm.h"
#include "dp/spans.h"
#include "util/arena.h"

/*
 * The mean of a vector over replicas, quantized on its way to the servers and on its way back, with error feedback at
 * both ends (AC-SGD's QuantizedAdam; Tang et al., ICML 2021).
 *
 *     x   fp32 [N]     of each replica; in the end the same on all, to the bit
 *     e   fp16 [N]     what the messages of this replica left out
 *     s   fp16 [N/D]   what the averages of its chunk left out, of which it is the server
 *
 * Each span (dp/spans.h) is padded with zeros to a multiple of D * TR_AVERAGER_BUCKET * 4 and split into D chunks.  A
 * bucket of TR_AVERAGER_BUCKET numbers is strided over its chunk (codec/sparse.h) and has one fp16 scale.
 *
 *     worker   for each chunk: y = x + e, a message of y to its server, e = y - what that says
 *     server   a = (sum of the D messages in the order of replicas) / D + s, a message of a to all, s = a - what that
 *              says
 *     all      x = what the D messages say
 *
 * so that the sum over steps of what x became, plus s and the mean of e, is the sum of the means of x, but for the
 * rounding of e and s to fp16.
 *
 * Bytes.  In both directions a replica sends D - 1 messages of tr_averager_bytes(): for a chunk of n numbers
 * n (bits + 16 / TR_AVERAGER_BUCKET) / 8.
 */
enum { TR_AVERAGER_BUCKET = 512 };

struct tr_averager;

/* For replica `rank` of `replicas` (2 or more), `bits` 1 to 8; `spans` are copied.  TR_ERESOURCE. */
enum tr_status tr_averager_open(int bits, const struct tr_dp_span *spans, int n, int rank,
                                int replicas, struct tr_averager **out) TR_MUST_CHECK;
void tr_averager_close(struct tr_averager *a);

/* Take memory ("compression") of the device; see util/arena.h.  e and s begin at zero. */
void tr_averager_plan(struct tr_averager *a, struct tr_arena *device);

/* x (TR_F32) becomes its mean over `group`, the replicas.  Collective over it.  Charged to gather-grads,
   distribute-grads, worker-compress and server-compress. */
void tr_averager_run(struct tr_averager *a, struct tr_comm *group, struct tr_queue *q,
                     const struct tr_tensor *x);

/* Seconds of the last run, where timers do not measure the device: of compression, of messages, of decompression. */
struct tr_averager_spent {
    double compress, wire, decompress;
};
struct tr_averager_spent tr_averager_spent(const struct tr_averager *a);

/* Of one message, and the numbers that it stands for, padding included. */
int64_t tr_averager_bytes(const struct tr_averager *a);
int64_t tr_averager_numbers(const struct tr_averager *a);

/* e, chunk after chunk of span after span, and s. */
struct tr_tensor tr_averager_worker_error(const struct tr_averager *a);
struct tr_tensor tr_averager_server_error(const struct tr_averager *a);

#endif
