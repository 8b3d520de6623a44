/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_EXEC_H
#define TR_PIPELINE_EXEC_H

#include <stdint.h>

#include "comm/comm.h"
#include "pipeline/sched.h"

/*
 * What the executor drives.  train/step.c fills it with the model's chunks, t_exec with a toy.  All
 * functions borrow `ctx`.
 */
struct tr_stage {
    void *ctx;
    /* Compute chunk at.chunk on micro-batch at.micro; the messages lie where message() says. */
    void (*forward)(void *ctx, struct tr_slot at);
    void (*backward)(void *ctx, struct tr_slot at);
    /* Where the message of one leg lies: the output activation (SEND_FWD), the input (RECV_FWD),
       the gradient of the input (SEND_BWD) or of the output (RECV_BWD) of `at`. */
    void *(*message)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
    int64_t message_bytes;      /* the same for all */
};

/*
 * Walk `s`: compute, or start every leg of a transfer and wait for all of them, charged to the
 * timer that belongs to the set of legs (util/timer.h); forward and backward are charged to
 * forward-compute and backward-compute.  Collective over `pp`, whose rank is s->rank.
 *
 * The stages form a ring: next is rank + 1, previous rank - 1, modulo P.  With two ranks both are
 * the same process, so messages of both directions travel between one pair, and the transport has
 * no tags: the i-th send meets the i-th receive.  That is right because the legs of a transfer are
 * handed over in the order of their bits, which is the order that tr_sched_check() proves equal at
 * both ends.
 */
void tr_exec_step(const struct tr_sched *s, struct tr_comm *pp, struct tr_queue *q,
                  const struct tr_stage *stage);

#endif
