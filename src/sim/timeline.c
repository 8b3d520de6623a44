/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "comm/grid.h"
#include "sim/room.h"
#include "sim/sim.h"
#include "train/trace_file.h"

/* The spans of a rank, as its timers would have measured them. */
struct rank {
    struct tr_span *span; /* owned */
    int spans;
    int slot; /* what the last one awaited; -1: nothing */
};

static void add(struct rank *r, struct tr_span x, int slot)
{
    r->span = tr_room_grow(r->span, r->spans, sizeof *r->span);
    r->span[r->spans++] = x;
    r->slot = slot;
}

static struct tr_span span_of(enum tr_timer timer, const struct tr_sim_span *s)
{
    return (struct tr_span){
        .begin = s->begin, .end = s->end, .wait = -1.0, .timer = (uint8_t)timer};
}

/* What follows a pass and belongs to it: its sums over tensor ranks. */
static bool goes_on(const struct rank *r, const struct tr_sim_span *s)
{
    const struct tr_span *last = r->spans > 0 ? &r->span[r->spans - 1] : NULL;

    if (!last || !tr_trace_is_compute(last))
        return false;
    return s->slot == TR_SIM_SUMS ||
           (s->cause == TR_SIM_TENSOR && s->micro == last->about.micro[0] &&
            s->chunk == last->about.chunk[0]);
}

/* The timer of an exchange that is no message between stages. */
static enum tr_timer timer_of(int slot)
{
    return slot == TR_SIM_TIED   ? TR_TIMER_EMBEDDING_ALL_REDUCE
           : slot == TR_SIM_NORM ? TR_TIMER_CLIP
                                 : TR_TIMER_PARAMS_ALL_REDUCE;
}

/* First the wait for the other end, then the message. */
static void add_exchange(struct rank *r, const struct tr_sim_span *s)
{
    const bool idle = s->cause == TR_SIM_BUBBLE || s->cause == TR_SIM_SLOWER;
    struct tr_span *x = r->spans > 0 ? &r->span[r->spans - 1] : NULL;
    struct tr_span message;

    if (!idle && x && r->slot == s->slot && !(x->end < s->begin) && x->wait >= x->end - x->begin) {
        x->end = s->end;
        return;
    }
    message = s->slot < TR_SIM_REPLICAS
                  ? tr_trace_message(s->slot % TR_LEGS, (struct tr_slot){0, -1}, s->begin, s->end)
                  : span_of(timer_of(s->slot), s);
    message.wait = idle ? s->end - s->begin : 0.0;
    add(r, message, s->slot);
}

/* Waiting at the end of an iteration, and what is none of a rank's timers, leave a gap. */
static void take(struct rank *r, const struct tr_sim_span *s)
{
    if (goes_on(r, s))
        r->span[r->spans - 1].end = s->end;
    else if (s->micro >= 0)
        add(r, tr_trace_pass(s->pass, (struct tr_slot){s->chunk, s->micro}, s->begin, s->end), -1);
    else if (s->slot >= 0)
        add_exchange(r, s);
    else if (s->cause == TR_SIM_OPTIMIZER)
        add(r, span_of(TR_TIMER_OPTIMIZER, s), -1);
}

/* The iteration begins with its passes, on all ranks at once. */
static void add_begin(struct rank *r)
{
    struct tr_sim_span all = {.slot = -1};

    for (int i = 0; i < r->spans; i++)
        if (tr_trace_is_compute(&r->span[i]))
            all.end = r->span[i].end;
    add(r, span_of(TR_TIMER_FORWARD_BACKWARD, &all), -1);
}

/* From span `first` on those of its rank; returns how many. */
static int put_rank(const struct tr_plan *p, const struct tr_sim_report *r, int first,
                    struct tr_trace_head *head, FILE *f)
{
    const int number = r->span[first].unit;
    struct tr_trace_rank about = {.at = tr_grid_place(&p->shape.layout, number), .rank = number};
    struct rank rank = {.slot = -1};
    int n = 0;

    while (first + n < r->spans && r->span[first + n].unit == number)
        take(&rank, &r->span[first + n++]);
    add_begin(&rank);
    about.count = rank.spans;
    snprintf(about.host, sizeof about.host, "%.*s", (int)sizeof about.host - 1, p->machine.name);
    tr_trace_put(f, head, &about, rank.span);
    free(rank.span);
    return n;
}

void tr_sim_trace(const struct tr_plan *p, const struct tr_sim_report *r, FILE *f)
{
    struct tr_trace_head head = {.ranks = p->shape.layout.world,
                                 .first = 1,
                                 .last = 1,
                                 .from = "simulated",
                                 .length = r->p50};

    tr_trace_begin(f, &head);
    for (int i = 0; i < r->spans;)
        i += put_rank(p, r, i, &head, f);
    tr_trace_end(f);
}
