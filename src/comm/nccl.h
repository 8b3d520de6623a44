/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_NCCL_H
#define TR_COMM_NCCL_H

#include <stdbool.h>

#include "comm/comm.h"

/*
 * The transport "nccl": memory of GPUs, by NVIDIA's library.  It wraps another one, which carries host
 * memory (calls with q == NULL), barriers, gather_all() and what the ranks agree on; calls with
 * a queue of the cuda backend move memory of its GPU.  There is one communicator of NCCL for the world,
 * and each group has one that is split from it; groups of one rank have none and copy.
 *
 * Blocking calls are work of the compute stream.  What the *_start calls begin runs on a stream of the
 * group's own, which waits for what the compute stream had then; finish() makes the compute stream
 * wait for the transfer.  The host waits for neither.  Transfers of one group follow one another;
 * those of two groups may run at once, so groups share no resources of NCCL (with splitShare their
 * kernels would follow one another, and a message that is waited for would hold up a sum).  To do so
 * without deadlock, kernels must begin in one order on all ranks: that of the calls, which is what
 * NCCL_LAUNCH_ORDER_IMPLICIT asks for.
 *
 * Sums.  NCCL adds in the order of its rings or trees, in fp16 or bf16 where the operands are, and
 * rounds at each addition: unlike the order of the other transports, it depends on the place of an
 * element and on the machine.  All ranks get the same bits from an all-reduce, and a run gets them
 * again as long as the machine, the layout, the version and NCCL_ALGO, NCCL_PROTO and the number of
 * channels are the same.
 *
 * Memory.  NCCL takes memory of the GPU when a communicator is made, and from 2.22 on again when a
 * communicator first uses an algorithm (rings, trees, NVLS, SHARP), or first sends to a rank.  What
 * comes after the program has reserved all that is left would fail in the middle of a step, so all
 * groups are made before, and tr_comm_nccl_warm() makes the first of all calls that they will make.
 *
 * Faults.  While the host waits for the GPU (tr_cuda.watch), the transport looks at what NCCL says of
 * each communicator, at how long the oldest call of each group has been under way, and for a word from
 * ranks that failed.  Then this rank tells what it was waiting for, tells the other ranks, which do
 * the same, aborts its communicators and ends the job through tr_die() with TR_ETEMP.  When a call
 * is late the wrapped transport finds out first which ranks did not come (its late()).
 *
 * Calls.  A communicator can be one whose calls return at once (`blocking = 0`), to be asked whether
 * they are over, or one whose calls block until all is queued.  Which is cheaper depends on the
 * version: see choose_calls() in comm/nccl.c.  Where they block, a thread does what the paragraph above
 * says while the rank is inside one.
 *
 * Environment.  Variables of NCCL that the user sets are left alone.  NCCL_LAUNCH_ORDER_IMPLICIT=1 is
 * set otherwise, and with `share` what lets ranks share a GPU: from NCCL 2.30 on its own way,
 * before that a host name for each rank, which makes NCCL go through the network of that host.
 */
struct tr_nccl_how {
    double timeout_s; /* a call under way for longer has failed: the limit of `inner` as well */
    bool share;       /* ranks of a node may share a GPU */
    bool mixed;       /* GPUs of several kinds may be in one job */
    int ranks_of_id; /* at most so many ranks meet at one rank when NCCL connects the world, with NCCL
                         2.23 or newer; 0 is 256 */
};

/*
 * *out is `inner` (borrowed; not used by others until release, but for calls on host memory) with GPUs;
 * so are the groups split from it, which are released before it.  `q` is a queue of the cuda backend,
 * borrowed.  All ranks say the same `how`.  Collective.  On all ranks: TR_ERESOURCE when NCCL
 * is missing or cannot start, or without `share` two ranks have the same GPU; TR_ECONFIG for GPUs of two
 * kinds.  A world of one needs no NCCL.
 */
enum tr_status tr_comm_nccl_open(struct tr_comm *inner, struct tr_queue *q,
                                 const struct tr_nccl_how *how, struct tr_comm *out) TR_MUST_CHECK;

/*
 * What a group will be used for: `call` of at most `bytes`, which count the whole operand, of the
 * larger side. NCCL chooses algorithms by call, type, operation and size.  Messages: between neighbours
 * in the order of ranks (CHAIN), also from the last to the first (RING), or between all (ALL_TO_ALL).
 */
enum tr_nccl_call_kind {
    TR_NCCL_ALLREDUCE,
    TR_NCCL_REDUCE_SCATTER,
    TR_NCCL_ALLGATHER,
    TR_NCCL_CHAIN,
    TR_NCCL_RING,
    TR_NCCL_ALL_TO_ALL
};

struct tr_nccl_use {
    struct tr_comm *group;
    enum tr_nccl_call_kind call;
    enum tr_dtype type;
    enum tr_redop op;
    int64_t bytes;
};

/*
 * Before reserve(), when all groups are made: make those calls once, in sizes from 8 bytes to `bytes`,
 * with memory that is given back, and wait for them.  A use of a group that this rank is not in, of one
 * rank, or of no bytes is passed over.  Collective over the world; all ranks of a group name the same
 * uses of it in the same order.  Then tr_comm_nccl_bytes() says what NCCL took of this GPU since the
 * transport was opened, by what CUDA says is left: where ranks share a GPU, of all of them together.
 */
enum tr_status tr_comm_nccl_warm(struct tr_comm *world, const struct tr_nccl_use *use,
                                 int n) TR_MUST_CHECK;
int64_t tr_comm_nccl_bytes(const struct tr_comm *world);

/*
 * What can be known of NCCL, one `put` each, for the record of a run: "version" and "built_with"
 * ("2.28.9"), "communicators" and "memory_mib" of this rank, "calls" ("blocking" or "non-blocking"),
 * each variable NCCL_* of the environment under its own name, and as "says", in NCCL's words, what it
 * logs about channels, algorithms by size, NVLS, SHARP and the network.  No call tells the latter: it
 * is there if NCCL_DEBUG=INFO and NCCL_DEBUG_FILE are set, algorithms on the rank that is the first of
 * a group and with TUNING in NCCL_DEBUG_SUBSYS.  Nothing for a world of one.  Not collective.
 */
typedef void tr_nccl_put(void *ctx, const char *name, const char *value);
void tr_comm_nccl_record(const struct tr_comm *world, tr_nccl_put *put, void *ctx);

/* After reserve(): the memory of the GPU is registered with the communicators of the world and of all
   groups, also of those to come, so that NCCL may move it without copies of its own.  What cannot be
   registered still moves: a warning says so.  Not collective, but all ranks should do it. */
void tr_comm_nccl_register(struct tr_comm *world);

#endif
