/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/timer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/status.h"

enum { SF = TR_SEND_FWD, RF = TR_RECV_FWD, SB = TR_SEND_BWD, RB = TR_RECV_BWD };

static const struct {
    const char *name;
    unsigned legs;
    enum tr_timer_kind kind;
    int level, order;
    const char *newer;
} table[TR_TIMERS] = {
#define TIMER(symbol, name, legs, kind, level, order, newer) \
    {name, legs, TR_TIMER_##kind, level, order, newer},
#include "util/timers.def"
#undef TIMER
};

static struct {
    bool running, ever, ranged;
    double since, seconds;
    int mark; /* at its start */
} watch[TR_TIMERS];

static bool paused;

/* What util/timer.h calls marks.  The last two are the anchors of tr_timers_settle(), in turn. */
enum { SPANS = 1024, ANCHORS = 2 };

static struct tr_clock device;
static struct {
    int used, anchor;
    int spans; /* that wait for their seconds */
    struct span {
        enum tr_timer timer;
        int from, to;
    } span[SPANS];
} marks;

static int append(char *buf, size_t size, int at, const char *fmt, ...) TR_PRINTF(4, 5);

double tr_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void settle(void)
{
    if (device.settle)
        device.settle(device.ctx);
}

static bool has_marks(enum tr_timer t)
{
    return device.marks > 0 && table[t].kind != TR_TIMER_SETUP;
}

static void add_span(enum tr_timer t, int from, int to)
{
    watch[t].seconds += device.between(device.ctx, from, to);
}

/* What runs goes on from an anchor, which stays while the other one is made. */
void tr_timers_settle(void)
{
    int anchor = device.marks - ANCHORS + marks.anchor;

    if (device.marks == 0 || marks.used == 0)
        return;
    device.mark(device.ctx, anchor);
    settle();
    for (int i = 0; i < marks.spans; i++)
        add_span(marks.span[i].timer, marks.span[i].from, marks.span[i].to);
    for (int t = 0; t < TR_TIMERS; t++) {
        if (!watch[t].running || !has_marks((enum tr_timer)t))
            continue;
        add_span((enum tr_timer)t, watch[t].mark, anchor);
        watch[t].mark = anchor;
    }
    marks.anchor = (marks.anchor + 1) % ANCHORS;
    marks.used = marks.spans = 0;
}

static int next_mark(void)
{
    if (marks.used == device.marks - ANCHORS || marks.spans == SPANS)
        tr_timers_settle();
    device.mark(device.ctx, marks.used);
    return marks.used++;
}

void tr_timers_clock(const struct tr_clock *clock)
{
    tr_timers_settle();
    for (int t = 0; t < TR_TIMERS; t++)
        TR_ASSERT(!watch[t].running || table[t].kind == TR_TIMER_SETUP);
    device = clock ? *clock : (struct tr_clock){0};
    TR_ASSERT(device.marks == 0 || device.marks >= 2 * ANCHORS);
}

void tr_timer_start(enum tr_timer t)
{
    if (paused)
        return;
    TR_ASSERT(!watch[t].running);
    watch[t].ranged = device.range != NULL;
    if (watch[t].ranged)
        device.range(device.ctx, table[t].name);
    if (has_marks(t)) {
        watch[t].mark = next_mark();
    } else {
        settle();
        watch[t].since = tr_now();
    }
    watch[t].running = watch[t].ever = true;
}

void tr_timer_stop(enum tr_timer t)
{
    if (paused)
        return;
    TR_ASSERT(watch[t].running);
    if (has_marks(t)) {
        int to = next_mark();

        marks.span[marks.spans++] = (struct span){t, watch[t].mark, to};
    } else {
        settle();
        watch[t].seconds += tr_now() - watch[t].since;
    }
    watch[t].running = false;
    if (watch[t].ranged && device.range)
        device.range(device.ctx, NULL);
}

void tr_timers_pause(bool pause)
{
    paused = pause;
}

double tr_timer_seconds(enum tr_timer t)
{
    tr_timers_settle();
    return watch[t].seconds;
}

double tr_timer_take(enum tr_timer t)
{
    double seconds = tr_timer_seconds(t);

    watch[t].seconds = 0.0;
    return seconds;
}

void tr_timers_read(double seconds[TR_TIMERS])
{
    tr_timers_settle();
    for (int t = 0; t < TR_TIMERS; t++)
        seconds[t] = watch[t].seconds;
}

void tr_timers_reset(void)
{
    tr_timers_settle();
    for (int t = 0; t < TR_TIMERS; t++)
        if (table[t].kind != TR_TIMER_SETUP)
            watch[t].seconds = 0.0;
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

/* Append to the text of length `at` in buf[size]; the new length. */
static int append(char *buf, size_t size, int at, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(buf + at, size - (size_t)at, fmt, args);
    va_end(args);
    TR_ASSERT(n >= 0 && (size_t)(at + n) < size);
    return at + n;
}

static bool in_line(int t)
{
    return watch[t].ever && (table[t].kind == TR_TIMER_ADDS || table[t].kind == TR_TIMER_NESTED);
}

int tr_timers_line(char *buf, size_t size, int iterations)
{
    int n = append(buf, size, 0, "time (ms)");

    tr_timers_settle();
    for (int t = 0; t < TR_TIMERS; t++)
        if (in_line(t))
            n = append(buf, size, n, " | %s: %.2f", table[t].name,
                       watch[t].seconds * 1000.0 / iterations);
    return n;
}

int tr_timers_line_of(char *buf, size_t size, const enum tr_timer *timers, int count)
{
    int n = append(buf, size, 0, "time (ms)");

    for (int i = 0; i < count; i++)
        n = append(buf, size, n, " | %s: %.2f", table[timers[i]].name,
                   tr_timer_take(timers[i]) * 1000.0);
    return n;
}

/* "NAME ......: " or, for all ranks, "  NAME:" and a line for each that has a value. */
static int append_timer(char *buf, size_t size, int at, enum tr_timer_view view, const double *all,
                        int ranks, enum tr_timer t, double unit)
{
    static const char dots[] = "................................................";
    const char *name = table[t].newer;
    double least = HUGE_VAL, most = 0.0;

    for (int rank = 0; rank < ranks; rank++) {
        if (all[rank * TR_TIMERS + (int)t] > 0.0)
            least = fmin(least, all[rank * TR_TIMERS + (int)t]);
        most = fmax(most, all[rank * TR_TIMERS + (int)t]);
    }
    if (most <= 0.0)
        return at;
    if (view == TR_TIMER_ALL) {
        at = append(buf, size, at, "\n  %s:", name);
        for (int rank = 0; rank < ranks; rank++)
            if (all[rank * TR_TIMERS + (int)t] > 0.0)
                at = append(buf, size, at, "\n     rank %2d: %.2f", rank,
                            all[rank * TR_TIMERS + (int)t] * unit);
        return at;
    }
    at = append(buf, size, at, "\n    %s %s: ", name, dots + strlen(name) + 1);
    if (view == TR_TIMER_MAX)
        return append(buf, size, at, "%.2f", most * unit);
    return append(buf, size, at, "(%.2f, %.2f)", least * unit, most * unit);
}

static const char *heading(enum tr_timer_view view)
{
    switch (view) {
    case TR_TIMER_MAX:
        return "max time across ranks (ms):";
    case TR_TIMER_MINMAX:
        return "(min, max) time across ranks (ms):";
    default:
        TR_ASSERT(view == TR_TIMER_ALL);
        return "times across ranks (ms):";
    }
}

int tr_timers_table_of(char *buf, size_t size, enum tr_timer_view view, const double *all,
                       int ranks, const enum tr_timer *timers, int count, int iterations)
{
    int first = append(buf, size, 0, "%s", heading(view)), n = first;

    for (int i = 0; i < count; i++)
        n = append_timer(buf, size, n, view, all, ranks, timers[i], 1000.0 / iterations);
    if (n == first)
        n = append(buf, size, 0, "%s", "");
    return n;
}

int tr_timers_of_level(enum tr_timer timers[TR_TIMERS], int level)
{
    int count = 0;

    for (int order = 1; order < 100; order++)
        for (int t = 0; t < TR_TIMERS; t++)
            if (table[t].order == order && table[t].level > 0 && table[t].level <= level)
                timers[count++] = (enum tr_timer)t;
    return count;
}
