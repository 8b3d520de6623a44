/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/timer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/status.h"
#include "telemetry/trace.h"

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
#include "telemetry/timers.def"
#undef TIMER
};

/* Of a timer that is split into wait and transfer, its wait; the transfer follows. */
static const int parts[TR_TIMERS] = {
#define TIMER(symbol, name, legs, kind, level, order, newer)
#define PARTS(symbol, name, level, order) [TR_TIMER_##symbol] = TR_TIMER_##symbol##_WAIT,
#include "telemetry/timers.def"
#undef TIMER
};

static struct {
    bool running, ever, ranged;
    double since, seconds;
    int mark; /* at its start */
} watch[TR_TIMERS];

static bool paused;

/* The timers that run, the last one started on top; they may be stopped in any order. */
static struct {
    enum tr_timer timer[TR_TIMERS];
    int count;
} stack;

/* TR_TIMER_OWN_COMPUTE: wanted, within a computation, and how often it was paused there. */
static struct {
    bool on, inside;
    int pauses;
} own;

/* What telemetry/timer.h calls marks.  The last two are the anchors of tr_timers_settle(), in turn. */
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

static void settle(void)
{
    if (device.settle)
        device.settle(device.ctx);
}

static bool has_marks(enum tr_timer t)
{
    if (device.marks == 0)
        return false;
    return table[t].kind == TR_TIMER_OWN ? device.apart
                                         : table[t].kind != TR_TIMER_SETUP && !device.waits;
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

/* Seconds on the clock of a timer without marks. */
static double clock_of(enum tr_timer t)
{
    struct timespec used;

    if (table[t].kind != TR_TIMER_OWN) {
        settle();
        return tr_now();
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void start(enum tr_timer t)
{
    TR_ASSERT(!watch[t].running);
    watch[t].ranged = device.range != NULL && table[t].kind != TR_TIMER_OWN;
    if (watch[t].ranged)
        device.range(device.ctx, table[t].name);
    if (has_marks(t)) {
        watch[t].mark = next_mark();
        if (tr_trace_on)
            watch[t].since = tr_now();
    } else {
        watch[t].since = clock_of(t);
    }
    watch[t].running = watch[t].ever = true;
}

static void stop(enum tr_timer t)
{
    double now;

    TR_ASSERT(watch[t].running);
    if (has_marks(t)) {
        int to = next_mark();

        marks.span[marks.spans++] = (struct span){t, watch[t].mark, to};
        now = tr_trace_on ? tr_now() : 0.0;
    } else {
        now = clock_of(t);
        watch[t].seconds += now - watch[t].since;
    }
    if (tr_trace_on && table[t].kind != TR_TIMER_SETUP && table[t].kind != TR_TIMER_OWN)
        tr_trace_add(t, watch[t].since, now);
    watch[t].running = false;
    if (watch[t].ranged && device.range)
        device.range(device.ctx, NULL);
}

static bool is_computation(enum tr_timer t)
{
    return t == TR_TIMER_FORWARD_COMPUTE || t == TR_TIMER_BACKWARD_COMPUTE;
}

static void push(enum tr_timer t)
{
    if (stack.count < TR_TIMERS)
        stack.timer[stack.count++] = t;
}

static void pop(enum tr_timer t)
{
    int at = stack.count - 1;

    while (at >= 0 && stack.timer[at] != t)
        at--;
    if (at < 0)
        return;
    stack.count--;
    for (; at < stack.count; at++)
        stack.timer[at] = stack.timer[at + 1];
}

const char *tr_timer_running(void)
{
    return stack.count > 0 ? table[stack.timer[stack.count - 1]].name : NULL;
}

void tr_timer_start(enum tr_timer t)
{
    push(t);
    if (paused)
        return;
    start(t);
    if (!own.on || !is_computation(t))
        return;
    own.inside = true;
    start(TR_TIMER_OWN_COMPUTE);
}

void tr_timer_stop(enum tr_timer t)
{
    pop(t);
    if (paused)
        return;
    if (own.inside && is_computation(t)) {
        TR_ASSERT(own.pauses == 0);
        stop(TR_TIMER_OWN_COMPUTE);
        own.inside = false;
    }
    stop(t);
}

void tr_timers_own(bool on)
{
    TR_ASSERT(!own.inside);
    own.on = on;
}

void tr_timers_own_pause(void)
{
    if (own.inside && own.pauses++ == 0)
        stop(TR_TIMER_OWN_COMPUTE);
}

void tr_timers_own_resume(void)
{
    if (own.inside && --own.pauses == 0)
        start(TR_TIMER_OWN_COMPUTE);
}

void tr_timer_add(enum tr_timer t, double seconds)
{
    TR_ASSERT(table[t].kind == TR_TIMER_SPLIT);
    watch[t].seconds += seconds;
    watch[t].ever = true;
}

bool tr_timer_has_parts(enum tr_timer t)
{
    return parts[t] != 0;
}

void tr_timer_add_parts(enum tr_timer t, double wait, double transfer)
{
    TR_ASSERT(parts[t] != 0);
    tr_timer_add((enum tr_timer)parts[t], wait);
    tr_timer_add((enum tr_timer)(parts[t] + 1), transfer);
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

bool tr_timer_is_transfer(enum tr_timer t)
{
    return table[t].legs != 0;
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

int tr_timers_split_line(char *buf, size_t size, int iterations)
{
    int n = append(buf, size, 0, "wait and transfer (ms)"), first = n;

    for (int t = 0; t < TR_TIMERS; t++)
        if (watch[t].ever && table[t].kind == TR_TIMER_SPLIT)
            n = append(buf, size, n, " | %s: %.2f", table[t].name,
                       watch[t].seconds * 1000.0 / iterations);
    return n > first ? n : append(buf, size, 0, "%s", "");
}

int tr_timers_line_of(char *buf, size_t size, const enum tr_timer *timers, int count)
{
    int n = append(buf, size, 0, "time (ms)");

    for (int i = 0; i < count; i++)
        n = append(buf, size, n, " | %s: %.2f", table[timers[i]].name,
                   tr_timer_take(timers[i]) * 1000.0);
    return n;
}

/* The name, padded with dots to the width that Megatron Core gives it. */
static int append_name(char *buf, size_t size, int at, const char *name)
{
    static const char dots[] = "................................................";
    const size_t length = strlen(name) + 1;

    return append(buf, size, at, "\n    %s %s: ", name, length < sizeof dots ? dots + length : "");
}

/* "NAME ......: " or, for all ranks, "  NAME:" and a line for each that has a value. */
static int append_timer(char *buf, size_t size, int at, enum tr_timer_view view, const double *all,
                        int ranks, enum tr_timer t, double unit)
{
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
    at = append_name(buf, size, at, name);
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

/* Of one kind, or of all kinds but that one. */
static int choose(enum tr_timer timers[TR_TIMERS], int level, bool split)
{
    int count = 0;

    for (int order = 1; order < 100; order++)
        for (int t = 0; t < TR_TIMERS; t++)
            if (table[t].order == order && table[t].level > 0 && table[t].level <= level &&
                (table[t].kind == TR_TIMER_SPLIT) == split)
                timers[count++] = (enum tr_timer)t;
    return count;
}

int tr_timers_of_level(enum tr_timer timers[TR_TIMERS], int level)
{
    return choose(timers, level, false);
}

int tr_timers_of_split(enum tr_timer timers[TR_TIMERS], int level)
{
    return choose(timers, level, true);
}

void tr_timers_read_split(double seconds[TR_TIMERS])
{
    for (int t = 0; t < TR_TIMERS; t++)
        seconds[t] = watch[t].ever && table[t].kind == TR_TIMER_SPLIT ? watch[t].seconds : -1.0;
}

/* The median of those that have the timer, and the rank of the largest; false if none has it. */
static bool spread(const double *all, int ranks, enum tr_timer t, double *sorted, double out[3],
                   int *most)
{
    int n = 0;

    *most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        double x = all[rank * TR_TIMERS + (int)t];
        int at = n;

        if (x < 0.0)
            continue;
        if (x > all[*most * TR_TIMERS + (int)t])
            *most = rank;
        for (n++; at > 0 && sorted[at - 1] > x; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = x;
    }
    if (n == 0)
        return false;
    out[0] = sorted[0];
    out[1] = 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
    out[2] = sorted[n - 1];
    return out[2] > 0.0;
}

static const char *split_heading(enum tr_timer_view view)
{
    return view == TR_TIMER_MAX      ? "max wait and transfer across ranks (ms):"
           : view == TR_TIMER_MINMAX ? "(min, median, max) wait and transfer across ranks (ms):"
                                     : "wait and transfer across ranks (ms):";
}

int tr_timers_split_table(char *buf, size_t size, enum tr_timer_view view,
                          const struct tr_split_times *all, const enum tr_timer *timers, int count,
                          int iterations)
{
    int first = append(buf, size, 0, "%s", split_heading(view)), n = first, most;
    double unit = 1000.0 / iterations, of[3];

    for (int i = 0; i < count; i++) {
        if (!spread(all->seconds, all->ranks, timers[i], all->scratch, of, &most))
            continue;
        if (view == TR_TIMER_ALL) {
            n = append(buf, size, n, "\n  %s:", table[timers[i]].newer);
            for (int rank = 0; rank < all->ranks; rank++)
                if (all->seconds[rank * TR_TIMERS + (int)timers[i]] >= 0.0)
                    n = append(buf, size, n, "\n     rank %2d: %.2f", rank,
                               all->seconds[rank * TR_TIMERS + (int)timers[i]] * unit);
            continue;
        }
        n = append_name(buf, size, n, table[timers[i]].newer);
        if (view == TR_TIMER_MINMAX)
            n = append(buf, size, n, "(%.2f, %.2f, %.2f)", of[0] * unit, of[1] * unit,
                       of[2] * unit);
        else
            n = append(buf, size, n, "%.2f", of[2] * unit);
        n = append(buf, size, n, " rank %d on %s", most, all->host[most]);
    }
    return n > first ? n : append(buf, size, 0, "%s", "");
}
