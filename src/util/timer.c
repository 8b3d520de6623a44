/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/timer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/status.h"

enum { SF = TR_SEND_FWD, RF = TR_RECV_FWD, SB = TR_SEND_BWD, RB = TR_RECV_BWD };

static const struct {
    const char *name;
    unsigned legs;
    enum tr_timer_kind kind;
} table[TR_TIMERS] = {
#define TIMER(symbol, name, legs, kind) {name, legs, TR_TIMER_##kind},
#include "util/timers.def"
#undef TIMER
};

static struct {
    bool running, ever;
    double since, seconds;
} watch[TR_TIMERS];

static bool paused;

double tr_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void tr_timer_start(enum tr_timer t)
{
    if (paused)
        return;
    TR_ASSERT(!watch[t].running);
    watch[t].running = watch[t].ever = true;
    watch[t].since = tr_now();
}

void tr_timer_stop(enum tr_timer t)
{
    if (paused)
        return;
    TR_ASSERT(watch[t].running);
    watch[t].running = false;
    watch[t].seconds += tr_now() - watch[t].since;
}

void tr_timers_pause(bool pause)
{
    paused = pause;
}

double tr_timer_seconds(enum tr_timer t)
{
    return watch[t].seconds;
}

double tr_timer_take(enum tr_timer t)
{
    double seconds = watch[t].seconds;

    watch[t].seconds = 0.0;
    return seconds;
}

const char *tr_timer_name(enum tr_timer t)
{
    return table[t].name;
}

enum tr_timer_kind tr_timer_kind(enum tr_timer t)
{
    return table[t].kind;
}

enum tr_timer tr_timer_for_legs(unsigned legs)
{
    TR_ASSERT(legs != 0);
    for (int t = 0; t < TR_TIMERS; t++)
        if (table[t].legs == legs)
            return (enum tr_timer)t;
    return TR_TIMER_ALL_FOUR;
}

static int append(char *buf, size_t size, int at, const char *name, double ms)
{
    int n = snprintf(buf + at, size - (size_t)at, " | %s: %.2f", name, ms);

    TR_ASSERT((size_t)(at + n) < size);
    return at + n;
}

static int begin(char *buf, size_t size)
{
    int n = snprintf(buf, size, "time (ms)");

    TR_ASSERT((size_t)n < size);
    return n;
}

int tr_timers_line(char *buf, size_t size, int iterations)
{
    int n = begin(buf, size);

    for (int t = 0; t < TR_TIMERS; t++)
        if (watch[t].ever && table[t].kind != TR_TIMER_SETUP)
            n = append(buf, size, n, table[t].name,
                       tr_timer_take((enum tr_timer)t) * 1000.0 / iterations);
    return n;
}

int tr_timers_line_of(char *buf, size_t size, const enum tr_timer *timers, int count)
{
    int n = begin(buf, size);

    for (int i = 0; i < count; i++)
        n = append(buf, size, n, table[timers[i]].name, tr_timer_take(timers[i]) * 1000.0);
    return n;
}
