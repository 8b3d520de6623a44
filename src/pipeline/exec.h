/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_EXEC_H
#define TR_PIPELINE_EXEC_H

#include "comm/comm.h"
#include "pipeline/sched.h"

/* The messages under way; the executor's own.  Number i of a leg and side is flight[i % TR_FLIGHTS]. */
struct tr_flights {
    struct tr_comm *pp;
    struct tr_leg_flights {
        int begun, done;
        struct tr_pending flight[TR_FLIGHTS];
    } leg[TR_SIDES][TR_LEGS];
};

/*
 * What the executor drives.  train/step.c fills it with the model's chunks, t_exec with a toy.  All
 * functions borrow `ctx`.
 */
struct tr_stage {
    void *ctx;
    /* Compute chunk at.chunk on micro-batch at.micro; the messages lie where message() says. */
    void (*forward)(void *ctx, struct tr_slot at);
    void (*backward)(void *ctx, struct tr_slot at);
    /* What a backward pass that is split leaves; NULL where none is (pipeline/sched.h). */
    void (*weights)(void *ctx, struct tr_slot at);
    /* What this rank sends or receives in one leg: the output activation (SEND_FWD), the input
       (RECV_FWD), the gradient of the input (SEND_BWD) or of the output (RECV_BWD) of `at`. */
    struct tr_tensor (*message)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
    /* Where a chunk and the one after it are both on this rank, before the computation that reads it: copy what
       message() of the first leg is to what it is of the second.  NULL where no list is a vee. */
    void (*hand)(void *ctx, struct tr_slot from, enum tr_leg_bit out, struct tr_slot to,
                 enum tr_leg_bit in);
    /* Before a message is sent, and when one has come: where what travels is not what is computed
       with.  Outside the time of the transfer, in the order in which messages of that leg are sent;
       both may be NULL. */
    void (*pack)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
    void (*unpack)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
    /* A message has come; may be NULL.  Called in the order of the list, within the time of the
       transfer: what is sharded over tensor-parallel ranks is gathered here. */
    void (*arrived)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
    /* Called now and then while the rank waits for its messages: what else is under way goes on.  False
       when nothing of that is, and then the rank waits as it does without; may be NULL. */
    bool (*meanwhile)(void *ctx);
    /* Do one instruction of pipeline/residency.h; NULL where lists have none.  TR_MODULE is not among them. */
    void (*move)(void *ctx, const struct tr_instr *in);
    bool idle; /* gradients are not reduced in this step: TR_REDUCE and TR_SETTLE are left out */
    struct tr_flights flights;
    struct tr_cursor {
        const struct tr_sched *s;
        int at; /* the next instruction */
    } cursor;
};

/*
 * Walk `s`: compute, or transfer.  Forward is charged to forward-compute, backward and the gradients of weights to
 * backward-compute, a transfer to the timer that belongs to its set of legs (telemetry/timer.h).  Where
 * starting and waiting are two instructions, each is charged to its own set: only what the rank
 * could not do meanwhile is in a timer.  Collective over `pp`, whose rank is s->rank.
 *
 * Who sends to whom says config/route.h.  With two ranks the next and the previous one are
 * the same process, so messages of both directions travel between one pair, and the transport has
 * no tags: the i-th send meets the i-th receive.  That is right because the legs of a transfer are
 * handed over in an order that tr_sched_check() proves equal at both ends.
 */
void tr_exec_step(const struct tr_sched *s, struct tr_comm *pp, struct tr_queue *q,
                  struct tr_stage *stage);

/* What tr_exec_step() leaves: sums that are under way when the last computation is over. */
void tr_exec_settle(struct tr_stage *stage);

/*
 * To be called by a stage's forward and backward where they come to a module (model/visits.h), or to TR_MODULE_ALL
 * for the whole pass, and where they leave it: does the instructions that stand there.  A pass that comes to
 * another module than the list says is a failed assertion.  tr_exec_whole(): true if nothing stands between the
 * modules of the pass, so that it may be done in one.
 */
void tr_exec_enter(struct tr_stage *stage, int module);
void tr_exec_leave(struct tr_stage *stage);
bool tr_exec_whole(const struct tr_stage *stage);

/*
 * Let the messages under way make progress; to be called now and then by a stage's forward and
 * backward.  MPI moves messages of more than a few KiB only while it is called.  Not collective.
 */
void tr_exec_poll(struct tr_stage *stage);

#endif
