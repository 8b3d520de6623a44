/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "train/step.h"
#include "telemetry/trace.h"

/* Messages of a leg whose times are exchanged at once: enough that the exchange costs nothing, and
   few enough that all ranks of a pipeline have room for those of all others. */
enum { MESSAGES = 256, PLACES = TR_SIDES * TR_LEGS };

/* Spans of an iteration: two computations and at most four transfers of a chunk and micro-batch,
   what these are made of or become, where its samples come from, what happens once, and the waits for a
   tile that the host updates.  Collective calls of a group in an iteration. */
enum { SPANS_OF_MICRO = 12, SPANS_ONCE = 32, SPANS_OF_TILE = 2, CALLS = 2 };

/* The groups in which waits are measured, and the timers of their calls. */
static bool is_of_replicas(enum tr_timer t)
{
    return t == TR_TIMER_PARAMS_ALL_REDUCE || t == TR_TIMER_PARAMS_ALL_GATHER;
}

static bool is_of_embedding(enum tr_timer t)
{
    return t == TR_TIMER_EMBEDDING_ALL_REDUCE;
}

static bool is_of_owners(enum tr_timer t)
{
    return t == TR_TIMER_COUNT_ZEROS || t == TR_TIMER_CLIP;
}

/* With fp16 the norm is taken to see if the gradients are finite. */
static bool is_of_scaled_owners(enum tr_timer t)
{
    return t == TR_TIMER_COUNT_ZEROS || t == TR_TIMER_UNSCALE;
}

/* Messages of one leg in the largest iteration. */
static int64_t messages_of(const struct tr_run *r)
{
    return r->shape.batches.global_batch / r->shape.batches.unit * r->shape.layout.k;
}

static bool wants_waits(const struct tr_run *r)
{
    const struct tr_config *c = r->config;

    return c->split_wait && r->world->size > 1 &&
           !(r->queue.on->apart && c->timing == TR_TIMING_EVENTS);
}

/* Spans of the largest iteration. */
static int64_t spans_of(const struct tr_run *r)
{
    const struct tr_home *beside = r->optim.beside;

    return messages_of(r) * SPANS_OF_MICRO + SPANS_ONCE +
           (beside ? SPANS_OF_TILE * tr_home_tiles(beside) : 0);
}

static enum tr_status reserve(struct tr_recorder *s)
{
    const struct tr_run *r = s->run;
    const int64_t stages = s->most * PLACES * r->shape.layout.p;
    const int64_t calls = s->every * CALLS * r->world->size;

    s->mine = calloc((size_t)(s->most * PLACES + s->every * CALLS), sizeof *s->mine);
    s->all = calloc((size_t)(stages > calls ? stages : calls), sizeof *s->all);
    if (!s->mine || !s->all)
        return TR_FAIL(TR_ERESOURCE, "no memory left to compare when the ranks were ready for "
                                     "their messages; use --no-split-wait");
    return tr_trace_open(s->every * spans_of(r));
}

enum tr_status tr_recorder_open(struct tr_recorder *s, struct tr_run *run)
{
    const int64_t interval = run->shape.amounts.log_interval;

    *s = (struct tr_recorder){.run = run,
                              .waits = wants_waits(run),
                              .traces =
                                  tr_timeline_wanted(run->config) || tr_tidy_wanted(run->config)};
    s->on = s->waits || s->traces;
    if (!s->on)
        return TR_OK;
    s->every = MESSAGES / messages_of(run);
    s->every = s->every < 1 ? 1 : s->every > interval ? interval : s->every;
    s->most = s->every * messages_of(run);
    tr_clocks_open(&s->clocks, run->world, tr_now, false);
    TR_TRY(tr_comm_agree(run->world, reserve(s)));
    TR_TRY(tr_timeline_open(&s->timeline, run, spans_of(run), s->waits));
    return tr_tidy_open(&s->tidy, run);
}

void tr_recorder_close(struct tr_recorder *s)
{
    if (s->on) {
        tr_trace_close();
        tr_clocks_close(&s->clocks);
    }
    tr_timeline_close(&s->timeline);
    tr_tidy_close(&s->tidy);
    free(s->mine);
    free(s->all);
    memset(s, 0, sizeof *s);
}

/* The notes of the other end of a leg of a chunk, where it has messages. */
static void find_other(const struct tr_recorder *s, const struct tr_sched *list, int k, int chunk,
                       struct tr_ready *ready)
{
    const struct tr_route route = tr_sched_route(list);
    const enum tr_leg_bit leg = (enum tr_leg_bit)(1 << k);
    const int number = tr_route_number(route, (struct tr_vstage){list->rank, chunk});
    const int64_t n = s->messages;
    struct tr_vstage there;
    int64_t place;

    if (tr_sched_peer(list, leg, chunk) < 0)
        return;
    there = tr_route_at(route, number + (leg & (TR_SEND_FWD | TR_RECV_BWD) ? 1 : -1));
    /* The other end of a leg is its neighbour in the order of their bits. */
    place = tr_sched_side(list, there.chunk) * TR_LEGS + (k ^ 1);
    ready[tr_sched_side(list, chunk) * TR_LEGS + k] =
        (struct tr_ready){.at = s->all + (there.rank * PLACES + place) * n, .n = n};
}

/* When the neighbours were ready: of each leg, and after it in `mine`, at its other end. */
static void find_neighbours(struct tr_recorder *s, struct tr_span *span, int64_t count)
{
    const struct tr_sched *list = &s->run->train_list;
    struct tr_comm *pp = &s->run->grid.pp;
    struct tr_ready ready[PLACES];
    const int64_t n = s->messages;

    for (int i = 0; i < PLACES; i++)
        ready[i] = (struct tr_ready){.at = s->mine + i * n, .most = n};
    tr_waits_ready(list, span, count, ready);
    pp->via->gather_all(pp, s->mine, n * PLACES * (int64_t)sizeof *s->mine, s->all);
    memset(ready, 0, sizeof ready);
    for (int chunk = 0; chunk < list->chunks; chunk++)
        for (int k = 0; k < TR_LEGS; k++)
            find_other(s, list, k, chunk, ready);
    tr_waits_find(list, span, count, ready);
}

/* When the last rank of a group came to each of its calls. */
static void find_last(struct tr_recorder *s, struct tr_span *span, int64_t count,
                      struct tr_comm *group, bool (*is_one)(enum tr_timer t))
{
    struct tr_ready ready = {.at = s->mine, .most = s->every * CALLS};

    if (group->size < 2)
        return;
    tr_waits_arrivals(span, count, is_one, &ready);
    if (ready.n == 0)
        return;
    group->via->gather_all(group, ready.at, ready.n * (int64_t)sizeof *ready.at, s->all);
    for (int rank = 0; rank < group->size; rank++)
        for (int64_t i = 0; i < ready.n; i++)
            if (s->all[rank * ready.n + i] > ready.at[i])
                ready.at[i] = s->all[rank * ready.n + i];
    tr_waits_for_last(span, count, is_one, &ready);
}

static void find_waits(struct tr_recorder *s, struct tr_span *span, int64_t count)
{
    struct tr_run *r = s->run;

    if (r->shape.layout.p > 1 && s->messages > 0)
        find_neighbours(s, span, count);
    find_last(s, span, count, &r->grid.dp, is_of_replicas);
    find_last(s, span, count, &r->grid.embed, is_of_embedding);
    find_last(s, span, count, tr_dp_owners(&r->dp),
              r->config->fp16 ? is_of_scaled_owners : is_of_owners);
    tr_waits_count(span, count, r->shape.layout.p);
}

static void put_together(struct tr_recorder *s)
{
    int64_t count;
    struct tr_span *span = tr_trace_spans(&count);

    tr_clocks_align(&s->clocks);
    for (int64_t i = 0; i < count; i++) {
        span[i].begin = tr_clocks_common(&s->clocks, span[i].begin);
        span[i].end = tr_clocks_common(&s->clocks, span[i].end);
    }
    if (s->waits)
        find_waits(s, span, count);
    if (s->traces) {
        tr_timeline_add(&s->timeline, span, count, tr_clocks_error(&s->clocks));
        tr_tidy_add(&s->tidy, span, count);
    }
    TR_ASSERT(tr_trace_clear() == 0);
    s->iterations = s->messages = 0;
}

double tr_recorder_after(struct tr_recorder *s, bool passed, bool due)
{
    double began;

    if (!s->on)
        return 0.0;
    s->iterations++;
    if (!passed)
        s->messages += (int64_t)s->run->micros * s->run->shape.layout.k;
    if (due || s->iterations == s->every ||
        (s->traces && (tr_timeline_due(&s->timeline, s->run->iteration) ||
                       tr_tidy_due(&s->tidy, s->run->iteration))))
        put_together(s);
    if (!s->traces)
        return 0.0;
    began = tr_now();
    tr_timeline_write(&s->timeline, false);
    tr_tidy_write(&s->tidy, false);
    return tr_now() - began;
}

void tr_recorder_finish(struct tr_recorder *s)
{
    if (!s->traces)
        return;
    if (s->iterations > 0)
        put_together(s);
    tr_timeline_write(&s->timeline, true);
    tr_tidy_write(&s->tidy, true);
}
