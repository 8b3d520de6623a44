/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/waits.h"

#include <math.h>

#include "util/status.h"

static const unsigned SENDS = TR_SEND_FWD | TR_SEND_BWD;

static void note(struct tr_ready *r, double at)
{
    TR_ASSERT(r->n < r->most);
    r->at[r->n++] = at;
}

static bool begins(const struct tr_span *s)
{
    return s->about.what == TR_SPAN_XFER || s->about.what == TR_SPAN_START;
}

static bool ends(const struct tr_span *s)
{
    return s->about.what == TR_SPAN_XFER || s->about.what == TR_SPAN_WAIT;
}

/* A timer inside a transfer is about the same thing, and is not the transfer. */
static bool is_transfer(const struct tr_span *s)
{
    return s->about.what >= TR_SPAN_XFER && s->timer == tr_timer_for_legs(s->about.legs);
}

static int place_of(const struct tr_sched *s, const struct tr_span *span, int k)
{
    return tr_sched_side(s, span->about.chunk[k]) * TR_LEGS + k;
}

void tr_waits_ready(const struct tr_sched *s, const struct tr_span *span, int64_t count,
                    struct tr_ready mine[TR_SIDES * TR_LEGS])
{
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < TR_LEGS && is_transfer(&span[i]) && begins(&span[i]); k++)
            if (span[i].about.legs >> k & 1)
                note(&mine[place_of(s, &span[i], k)], span[i].begin);
}

static double waited(const struct tr_span *s, double until)
{
    return fmax(0.0, fmin(until, s->end) - s->begin);
}

/* Until when the partners of a transfer were not there; moves on the numbers of the messages. */
static double latest(const struct tr_sched *list, const struct tr_span *s,
                     const struct tr_ready theirs[TR_SIDES * TR_LEGS],
                     int64_t done[TR_SIDES * TR_LEGS])
{
    double until = -HUGE_VAL;

    for (int k = 0; k < TR_LEGS; k++) {
        const int place = place_of(list, s, k);
        double at;

        if (!(s->about.legs >> k & 1))
            continue;
        TR_ASSERT(done[place] < theirs[place].n);
        at = theirs[place].at[done[place]++];
        if (!(SENDS >> k & 1) || at < s->end)
            until = fmax(until, at);
    }
    return until;
}

void tr_waits_find(const struct tr_sched *s, struct tr_span *span, int64_t count,
                   const struct tr_ready theirs[TR_SIDES * TR_LEGS])
{
    int64_t done[TR_SIDES * TR_LEGS] = {0};

    for (int64_t i = 0; i < count; i++) {
        if (!is_transfer(&span[i]))
            continue;
        span[i].wait = ends(&span[i]) ? waited(&span[i], latest(s, &span[i], theirs, done)) : 0.0;
    }
}

void tr_waits_arrivals(const struct tr_span *span, int64_t count, bool (*is_one)(enum tr_timer t),
                       struct tr_ready *mine)
{
    for (int64_t i = 0; i < count; i++)
        if (is_one((enum tr_timer)span[i].timer))
            note(mine, span[i].begin);
}

void tr_waits_for_last(struct tr_span *span, int64_t count, bool (*is_one)(enum tr_timer t),
                       const struct tr_ready *last)
{
    int64_t done = 0;

    for (int64_t i = 0; i < count; i++) {
        if (!is_one((enum tr_timer)span[i].timer))
            continue;
        TR_ASSERT(done < last->n);
        span[i].wait = waited(&span[i], last->at[done++]);
    }
}

/* Is there a forward between span `i` and the end of its iteration?  `again` is the first span that
   was not looked at yet, so that all calls together look at each once. */
static bool forward_follows(const struct tr_span *span, int64_t count, int64_t i, int64_t *again)
{
    if (*again <= i)
        *again = i + 1;
    for (; *again < count; ++*again) {
        if (span[*again].about.what == TR_SPAN_FWD)
            return true;
        if (span[*again].timer == TR_TIMER_FORWARD_BACKWARD)
            return false;
    }
    return false;
}

static void count_phase(const struct tr_span *s, bool backward_seen, bool forward_to_come)
{
    tr_timer_add(TR_TIMER_FILL_WAIT, backward_seen ? 0.0 : s->wait);
    tr_timer_add(TR_TIMER_STEADY_WAIT, backward_seen && forward_to_come ? s->wait : 0.0);
    tr_timer_add(TR_TIMER_DRAIN_WAIT, backward_seen && !forward_to_come ? s->wait : 0.0);
}

void tr_waits_count(const struct tr_span *span, int64_t count, int stages)
{
    bool backward_seen = false;
    int64_t again = 0;

    for (int64_t i = 0; i < count; i++) {
        const struct tr_span *s = &span[i];
        const enum tr_timer t = (enum tr_timer)s->timer;
        const bool optimizer = s->wait >= 0.0 && !tr_timer_has_parts(t);

        if (s->about.what == TR_SPAN_BWD)
            backward_seen = true;
        if (t == TR_TIMER_FORWARD_BACKWARD)
            backward_seen = false;
        if (s->wait < 0.0)
            continue;
        if (optimizer)
            tr_timer_add(TR_TIMER_OPTIMIZER_WAIT, s->wait);
        else
            tr_timer_add_parts(t, s->wait, s->end - s->begin - s->wait);
        if (is_transfer(s))
            count_phase(s, backward_seen, forward_follows(span, count, i, &again));
        else if (stages > 1 && (optimizer || t == TR_TIMER_EMBEDDING_ALL_REDUCE))
            count_phase(s, true, false);
    }
}
