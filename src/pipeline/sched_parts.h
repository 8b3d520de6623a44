/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_SCHED_PARTS_H
#define TR_PIPELINE_SCHED_PARTS_H

#include "pipeline/sched.h"

/* What lists are made of; internal to the builders of pipeline/sched.h.  A list has room for all of it. */

/* A computation; nothing where kind is TR_XFER. */
struct tr_work_item {
    enum tr_instr_kind kind;
    struct tr_slot at;
};

/* The messages of one leg and side that are under way, the oldest first; those of all are
   [TR_SIDES * TR_LEGS]. */
struct tr_flight {
    int n;
    struct tr_slot at[TR_FLIGHTS];
};

/*
 * With one chunk per rank: how many forwards come before the first backward of a rank, all of them in gpipe and
 * in an evaluation; and number `i` in the order of computations but TR_WGT: these forwards, pairs, the other
 * backwards.
 */
int tr_list_warm(const struct tr_sched *s, int rank);
struct tr_work_item tr_list_plain(const struct tr_sched *s, int i);

/* What brings the operand of a computation, and what sends its result; or 0. */
unsigned tr_list_leg_before(const struct tr_sched *s, struct tr_work_item w);
unsigned tr_list_leg_after(const struct tr_sched *s, struct tr_work_item w);

void tr_list_leg(struct tr_instr *i, enum tr_leg_bit leg, struct tr_slot at);
void tr_list_work(struct tr_sched *s, struct tr_work_item w);

/* Before a computation: its operand must have come, and so must what came before that; and where as
   many results as there are buffers are under way, the oldest is still in its own. */
void tr_list_ready(struct tr_sched *s, struct tr_flight *flight, struct tr_work_item w);

/* Start those of `legs` that are in `x`, after what is too many under way has been waited for. */
void tr_list_start(struct tr_sched *s, struct tr_flight *flight, const struct tr_instr *x,
                   unsigned legs);

/* At the end: wait for all that is under way. */
void tr_list_landing(struct tr_sched *s, struct tr_flight *flight);

/* zb-h1 (sched_zb.c); zb-v, and evaluations on its route (sched_vee.c). */
void tr_sched_build_zb(struct tr_sched *s);
void tr_sched_build_vee(struct tr_sched *s);

#endif
