/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/exec.h"

static void compute(void (*work)(void *ctx, struct tr_slot at), const struct tr_stage *stage,
                    struct tr_slot at, enum tr_timer timer)
{
    tr_timer_start(timer);
    work(stage->ctx, at);
    tr_timer_stop(timer);
}

static struct tr_leg leg_of(const struct tr_sched *s, const struct tr_stage *stage,
                            enum tr_leg_bit leg, struct tr_slot at)
{
    const int next = (s->rank + 1) % s->ranks, prev = (s->rank + s->ranks - 1) % s->ranks;

    return (struct tr_leg){
        .dir = leg & (TR_SEND_FWD | TR_SEND_BWD) ? TR_LEG_SEND : TR_LEG_RECV,
        .peer = leg & (TR_SEND_FWD | TR_RECV_BWD) ? next : prev,
        .buf = stage->message(stage->ctx, at, leg),
        .bytes = stage->message_bytes,
    };
}

static void transfer(const struct tr_sched *s, struct tr_comm *pp, struct tr_queue *q,
                     const struct tr_stage *stage, const struct tr_instr *in)
{
    const enum tr_timer timer = tr_timer_for_legs(in->legs);
    struct tr_leg legs[TR_LEGS];
    struct tr_pending pending;
    int n = 0;

    for (int k = 0; k < TR_LEGS; k++)
        if (in->legs >> k & 1)
            legs[n++] = leg_of(s, stage, (enum tr_leg_bit)(1 << k), in->at[k]);
    tr_timer_start(timer);
    pp->via->exchange_start(pp, q, legs, n, &pending);
    pp->via->finish(pp, q, &pending);
    tr_timer_stop(timer);
}

void tr_exec_step(const struct tr_sched *s, struct tr_comm *pp, struct tr_queue *q,
                  const struct tr_stage *stage)
{
    TR_ASSERT(pp->rank == s->rank && pp->size == s->ranks);
    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];

        switch (in->kind) {
        case TR_FWD:
            compute(stage->forward, stage, in->at[0], TR_TIMER_FORWARD_COMPUTE);
            break;
        case TR_BWD:
            compute(stage->backward, stage, in->at[0], TR_TIMER_BACKWARD_COMPUTE);
            break;
        case TR_XFER:
            transfer(s, pp, q, stage, in);
            break;
        }
    }
}
