/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/profile.h"

#include <stdlib.h>

#include "telemetry/timer.h"

enum tr_status tr_profile_check(const struct tr_run *r)
{
    if (r->config->profile && !r->queue.on->apart)
        return TR_FAIL(TR_ECONFIG,
                       "--profile tells the profiler of a GPU when to record, and --backend %s "
                       "computes without one: remove it; profilers of the host see the whole run",
                       r->queue.on->name);
    return TR_OK;
}

static void settle(void *ctx)
{
    struct tr_run *r = ctx;

    r->queue.on->wait(&r->queue);
}

static void mark(void *ctx, int i)
{
    struct tr_run *r = ctx;

    r->queue.on->mark(&r->queue, i);
}

static double between(void *ctx, int from, int to)
{
    struct tr_run *r = ctx;

    return r->queue.on->between(&r->queue, from, to);
}

static void range(void *ctx, const char *name)
{
    struct tr_run *r = ctx;

    r->queue.on->range(&r->queue, name);
}

void tr_profile_open(struct tr_run *r)
{
    const bool events = r->config->timing == TR_TIMING_EVENTS;
    struct tr_clock clock = {.ctx = r, .apart = r->queue.on->apart, .waits = !events};

    if (clock.apart) {
        clock.settle = settle;
        clock.range = range;
    }
    if (clock.apart || events) {
        clock.settle = settle;
        clock.marks = TR_MARKS;
        clock.mark = mark;
        clock.between = between;
    }
    tr_timers_clock(&clock);
}

void tr_profile_close(struct tr_run *r)
{
    if (!r->device)
        return;
    tr_profile_stop(r);
    tr_timers_clock(NULL);
}

const char *tr_profile_clock(const struct tr_run *r)
{
    if (r->config->timing == TR_TIMING_EVENTS)
        return "that of the device, which nothing waits for";
    return r->queue.on->apart ? "that of the host, which waits for the device" : NULL;
}

static bool chosen(const struct tr_run *r)
{
    const struct tr_words *ranks = &r->config->profile_ranks;

    for (int i = 0; i < ranks->count; i++)
        if (strtol(ranks->word[i], NULL, 10) == r->world->rank)
            return true;
    return ranks->count == 0 && r->world->rank == 0;
}

/* What was queued before is not part of it. */
static void record(struct tr_run *r, bool on)
{
    r->queue.on->wait(&r->queue);
    r->queue.on->record(&r->queue, on);
    r->recording = on;
}

void tr_profile_before(struct tr_run *r)
{
    if (r->config->profile && r->iteration == r->config->profile_step_start && chosen(r))
        record(r, true);
}

void tr_profile_after(struct tr_run *r)
{
    if (r->recording && r->iteration == r->config->profile_step_end)
        record(r, false);
}

void tr_profile_stop(struct tr_run *r)
{
    if (r->recording)
        record(r, false);
}
