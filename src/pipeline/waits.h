/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_WAITS_H
#define TR_PIPELINE_WAITS_H

#include "pipeline/sched.h"
#include "telemetry/trace.h"

/*
 * How much of a transfer was waiting for the partner, and how much was moving bytes.  Both ends
 * note when they were ready: nothing is sent along with the messages, and no rank waits for another
 * one that it would not have waited for.  Afterwards the ends compare notes (train/recorder.h), on
 * one clock (launch/clocks.h), and a rank that was in a transfer from b to e while its partner came
 * at p has
 *
 *     waited       max(0, min(p, e) - b)
 *     transferred  the rest of e - b
 *
 * With several legs p is the latest of the partners'.  A send that ended before its receiver came
 * was taken over by the transport, and did not wait for it.  A leg that was started before is ready
 * since then; only the time in which the rank could do nothing else counts.
 *
 * Where a device works behind the host's back this holds as long as the timers wait for it
 * (--timing sync).
 *
 * All of this is arithmetic on the spans of one rank: no clock, no communication.
 */

/* Of the messages of one leg and side: when one end was ready, in the order of the messages. */
struct tr_ready {
    double *at; /* borrowed */
    int64_t n, most;
};

/* Note when this rank was ready for each message of each leg and side of the lists like `s`, side by side; the notes
   begin empty.  Asserts that they have room. */
void tr_waits_ready(const struct tr_sched *s, const struct tr_span *span, int64_t count,
                    struct tr_ready mine[TR_SIDES * TR_LEGS]);

/*
 * Set `wait` of all transfers, from when the partner was ready: theirs[SEND_FWD] is what the next
 * rank noted for RECV_FWD, and so on for each side.  Asserts that there is one for each message.
 */
void tr_waits_find(const struct tr_sched *s, struct tr_span *span, int64_t count,
                   const struct tr_ready theirs[TR_SIDES * TR_LEGS]);

/* Note when this rank came to each collective call among the spans: those for which is_one() holds.
   The second sets their `wait` from when the last rank of the group came to each. */
void tr_waits_arrivals(const struct tr_span *span, int64_t count, bool (*is_one)(enum tr_timer t),
                       struct tr_ready *mine);
void tr_waits_for_last(struct tr_span *span, int64_t count, bool (*is_one)(enum tr_timer t),
                       const struct tr_ready *last);

/*
 * Add what was found to the timers of SPLIT: to the parts of each transfer's own timer, and the
 * waits of the pipeline to one of three, by what the rank had done in the iteration so far:
 *
 *     pipeline-fill-wait    before its first backward: it waits for work to come
 *     pipeline-drain-wait   after its last forward: the others finish.  With more than one stage also
 *                           where they meet after their last backward: in the sums of the
 *                           embedding's gradients and of the norm
 *     pipeline-steady-wait  between: stages that differ, or a network that is late
 *
 * Fill and drain together are what is called the bubble.  `stages` is the number of stages.
 */
void tr_waits_count(const struct tr_span *span, int64_t count, int stages);

#endif
