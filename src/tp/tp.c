/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp/tp.h"

#include "telemetry/timer.h"

int64_t tr_tp_rows(const struct tr_tp *tp, int64_t n)
{
    if (!tp->sequence)
        return n;
    TR_ASSERT(n % tp->comm->size == 0);
    return n / tp->comm->size;
}

int64_t tr_tp_first_row(const struct tr_tp *tp, int64_t n)
{
    return tp->sequence ? tr_tp_rows(tp, n) * tp->comm->rank : 0;
}

/* What a rank does in here is no work of its own: it waits for the others. */
static void allreduce(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *x,
                      enum tr_redop op)
{
    tr_timers_own_pause();
    tp->comm->via->allreduce(tp->comm, q, x, op);
    tr_timers_own_resume();
}

void tr_tp_sum(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *x)
{
    if (tp->comm->size > 1)
        allreduce(tp, q, x, TR_SUM);
}

void tr_tp_max(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *x)
{
    if (tp->comm->size > 1)
        allreduce(tp, q, x, TR_MAX);
}

/* This rank's part is in its place of `full`. */
static void put_part(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                     const struct tr_tensor *part)
{
    int64_t n = tr_tensor_elems(part);
    struct tr_tensor mine;

    TR_ASSERT(full->dtype == part->dtype && tr_tensor_elems(full) == n * tp->comm->size);
    mine = tr_tensor_span(full, tp->comm->rank * n, n);
    if (mine.data != part->data)
        q->on->copy(q, &mine, part);
}

static void gather(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                   const struct tr_tensor *part)
{
    if (!tp->sequence) {
        TR_ASSERT(full->data == part->data);
        return;
    }
    put_part(tp, q, full, part);
    tr_timers_own_pause();
    tp->comm->via->allgather(tp->comm, q, full);
    tr_timers_own_resume();
}

static void sum(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *part,
                const struct tr_tensor *full)
{
    if (tp->sequence) {
        tr_timers_own_pause();
        tp->comm->via->reduce_scatter(tp->comm, q, part, full, TR_SUM);
        tr_timers_own_resume();
        return;
    }
    TR_ASSERT(full->data == part->data);
    tr_tp_sum(tp, q, full);
}

void tr_tp_enter_fwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                     const struct tr_tensor *part)
{
    gather(tp, q, full, part);
}

void tr_tp_enter_fwd_start(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                           const struct tr_tensor *part, struct tr_pending *p)
{
    *p = (struct tr_pending){.call = NULL};
    if (!tp->sequence || !tp->overlap) {
        gather(tp, q, full, part);
        return;
    }
    put_part(tp, q, full, part);
    tp->comm->via->allgather_start(tp->comm, q, full, p);
}

void tr_tp_enter_bwd_start(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *part,
                           const struct tr_tensor *full, struct tr_pending *p)
{
    *p = (struct tr_pending){.call = NULL};
    if (!tp->overlap || tp->comm->size == 1) {
        sum(tp, q, part, full);
        return;
    }
    if (tp->sequence) {
        tp->comm->via->reduce_scatter_start(tp->comm, q, part, full, TR_SUM, p);
        return;
    }
    TR_ASSERT(full->data == part->data);
    tp->comm->via->allreduce_start(tp->comm, q, full, TR_SUM, p);
}

void tr_tp_finish(const struct tr_tp *tp, struct tr_queue *q, struct tr_pending *p)
{
    if (!p->call)
        return;
    tr_timers_own_pause();
    tp->comm->via->finish(tp->comm, q, p);
    tr_timers_own_resume();
}

void tr_tp_leave_fwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *part,
                     const struct tr_tensor *full)
{
    sum(tp, q, part, full);
}

void tr_tp_leave_bwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                     const struct tr_tensor *part)
{
    gather(tp, q, full, part);
}
