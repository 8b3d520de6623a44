/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/sched_parts.h"

/*
 * ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.2): forwards and backwards in the
 * order of 1F1B, and the gradients of weights behind them.  Rank r leaves r of these for later, so that each
 * backward of the first micro-batches goes to the rank before it at once, and what is left fills the end, where
 * 1F1B waits.
 */

static void start(struct tr_sched *s, struct tr_flight *flight, unsigned leg, struct tr_slot at)
{
    struct tr_instr x = {.kind = TR_START};

    if (!leg)
        return;
    tr_list_leg(&x, (enum tr_leg_bit)leg, at);
    tr_list_start(s, flight, &x, leg);
}

/* Whether the next rank computes this backward before this forward: then it sends before it receives. */
static bool gradient_first(const struct tr_sched *s, int forward, int backward)
{
    return forward > tr_list_warm(s, s->rank + 1) + backward;
}

/*
 * Behind a computation its result is sent, and a gradient for the next one received.  An input is received
 * behind the gradients of weights, because it takes the place of the micro-batch that ends with them.
 */
static void append_legs(struct tr_sched *s, struct tr_flight *flight, struct tr_work_item done,
                        struct tr_work_item todo)
{
    const unsigned send = tr_list_leg_after(s, done);
    const unsigned receive = todo.kind == TR_BWD ? tr_list_leg_before(s, todo) : 0;

    if (send == TR_SEND_FWD && receive && gradient_first(s, done.at.micro, todo.at.micro)) {
        start(s, flight, receive, todo.at);
        start(s, flight, send, done.at);
        return;
    }
    start(s, flight, send, done.at);
    start(s, flight, receive, todo.at);
}

static void append_weights(struct tr_sched *s, int micro)
{
    if (micro >= 0)
        tr_list_work(s, (struct tr_work_item){TR_WGT, {0, micro}});
}

void tr_sched_build_zb(struct tr_sched *s)
{
    const int n = 2 * s->micros, late = s->rank < s->micros ? s->rank : s->micros;
    struct tr_flight flight[TR_SIDES * TR_LEGS] = {{.n = 0}};
    struct tr_work_item w = tr_list_plain(s, 0), next;

    for (int i = 0; i < n; i++, w = next) {
        next = i + 1 < n ? tr_list_plain(s, i + 1) : (struct tr_work_item){.kind = TR_XFER};
        if (w.kind == TR_FWD)
            start(s, flight, tr_list_leg_before(s, w), w.at);
        tr_list_ready(s, flight, w);
        tr_list_work(s, w);
        append_legs(s, flight, w, next);
        if (w.kind == TR_BWD)
            append_weights(s, w.at.micro - s->rank);
    }
    for (int micro = s->micros - late; micro < s->micros; micro++)
        append_weights(s, micro);
    tr_list_landing(s, flight);
}
