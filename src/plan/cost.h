/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_COST_H
#define TR_PLAN_COST_H

#include <stdbool.h>

#include "config/machine.h"
#include "config/shape.h"
#include "config/work.h"

/*
 * Seconds of the pieces of an iteration on one rank, from its list of work (config/work.h).  A GEMM of m x k
 * with k x n takes
 *
 *     2 m n k / (peak * gemm-efficiency) + e (m k + k n + m n) / memory-gbs
 *
 * with elements of e bytes, so that small ones are less efficient; other operations take their
 * bytes over memory-gbs.  An all-reduce of n bytes over c ranks takes 2 (c - 1) / c n over the
 * link.
 */
struct tr_cost {
    const struct tr_shape *s;   /* borrowed */
    const struct tr_machine *m; /* borrowed */
    double flops;               /* FLOP/s of an infinitely large GEMM */
    double stream;              /* B/s of memory */
    double elem, grad;          /* bytes of an activation, of a gradient */
    double rows;                /* of a micro-batch: tokens */
    struct tr_work work[TR_WORK_HEAD + 1];
    /* Elements of a step with chunks, as struct tr_plan_moves has them: of weights that come from the host, of gradients
       that go there, of weights that replicas gather.  0: as windows of whole layers would. */
    struct tr_cost_moves {
        double fetched, written, gathered;
    } moves;
    /* Seconds of a message between tensor ranks, or NULL: those of the all-reduce above. */
    double (*message)(const void *at, const struct tr_work_collective *m);
    const void *at;
};

/* `s` and `m` are borrowed for as long as it is used. */
void tr_cost_init(struct tr_cost *x, const struct tr_shape *s, const struct tr_machine *m);

/* The peak of a GPU in the precision of that run, FLOP/s; 0 if it has none. */
double tr_cost_peak(const struct tr_precision *p, const struct tr_machine *m);

/* One micro-batch through one chunk. */
struct tr_cost_chunk {
    double forward, backward; /* computing */
    double
        weights; /* of backward, the products that give gradients of weights, where the schedule has them
                       apart, and then they are not in `backward`; else 0 */
    double tensor_forward, tensor_backward; /* waiting for tensor ranks */
    double tensor_link;                     /* messages of tensor ranks, whatever hides them */
};
struct tr_cost_chunk tr_cost_chunk(const struct tr_cost *x, int stage, int chunk);

/* What computation of `meanwhile` seconds and messages of `seconds` that go on beside it take longer than computation alone:
   what outlasts it, and of what does not the part that the machine's overlap-efficiency says slows it down. */
double tr_cost_beside(const struct tr_machine *m, double seconds, double meanwhile);

/* Groups of ranks, and the link on which each rank of one sends to the next while all groups do: B/s and seconds.  Ranks
   of a group on one node share the links of that node. */
enum tr_cost_group { TR_COST_TENSOR, TR_COST_STAGES, TR_COST_REPLICAS };
struct tr_cost_link {
    double rate, wait;
};
struct tr_cost_link tr_cost_link_of(const struct tr_cost *x, enum tr_cost_group group);

/* One activation from stage to stage, or its gradient: the mean of both, where they are compressed.  Bytes that each
   tensor rank sends, and seconds in which the receivers gather them; and all of it over the link of stages. */
struct tr_cost_message {
    double bytes, gather;
};
struct tr_cost_message tr_cost_message(const struct tr_cost *x);
double tr_cost_transfer(const struct tr_cost *x);

/* The gradients of `params` parameters over all replicas; with --use-distributed-optimizer a
   reduce-scatter, and an all-gather of the weights; replicas that diverge exchange weight deltas as
   --dp-mode says; `during` tells in how many backward or forward passes that may go on.  Then the tied embedding,
   between first stage and last. */
double tr_cost_reduce(const struct tr_cost *x, double params, double *during);
double tr_cost_gather(const struct tr_cost *x, double params, double *during);
double tr_cost_tied(const struct tr_cost *x);

/*
 * Bytes that a rank sends: to tensor ranks in one micro-batch through one chunk; of one activation from stage to stage
 * and of its gradient back, with --scatter-gather-tensors-in-pipeline or without; of its gradients, or weight deltas,
 * and of its weights, or means, in an iteration, where it has `params` parameters; of the tied embedding, from either
 * end.
 */
double tr_cost_tensor_bytes(const struct tr_cost *x, int stage, int chunk);
double tr_cost_transfer_bytes(const struct tr_cost *x, bool scatters);
double tr_cost_reduce_bytes(const struct tr_cost *x, double params);
double tr_cost_gather_bytes(const struct tr_cost *x, double params);
double tr_cost_tied_bytes(const struct tr_cost *x);

/* Whether groups of tensor ranks, stages or replicas span nodes: all that they send is then counted as between nodes. */
bool tr_cost_spans(const struct tr_cost *x, enum tr_cost_group group);

/* The update.  An offloaded one takes what is slowest of the link to the host, of whose memory an element reads and
   writes masters and states, its gradient and its weight on their way; and of the disks of files, which read masters
   and states while they write them. */
double tr_cost_optimizer(const struct tr_cost *x, double params);

/* The key of the machine that an offloaded update asks for and that it does not know; or NULL. */
const char *tr_cost_lacks(const struct tr_shape *s, const struct tr_machine *m);

#endif
