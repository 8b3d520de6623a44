/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_TIMER_H
#define TR_UTIL_TIMER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Named stop watches of this process, on the monotonic clock.  util/timers.def is the one list: the
 * enum, the names, the order in the log and the lookup from transfers to timers come from it.
 *
 * A timer accumulates between tr_timer_start() and tr_timer_stop().  While tr_timers_pause(true) is
 * in force (evaluation, saving), start and stop do nothing, so those do not pollute the interval.
 */

/* The legs of a transfer between pipeline neighbours; declared here because a set of legs names a
   timer.  pipeline/sched.h says what they carry. */
enum tr_leg_bit {
    TR_SEND_FWD = 1,
    TR_RECV_FWD = 2,
    TR_SEND_BWD = 4,
    TR_RECV_BWD = 8,
    TR_LEGS = 4
};

enum tr_timer_kind { TR_TIMER_ADDS, TR_TIMER_NESTED, TR_TIMER_SETUP };

enum tr_timer {
#define TIMER(symbol, name, legs, kind) TR_TIMER_##symbol,
#include "util/timers.def"
#undef TIMER
    TR_TIMERS
};

/* Seconds on the monotonic clock, from an arbitrary origin. */
double tr_now(void);

/* Asserts that `t` is stopped, respectively running. */
void tr_timer_start(enum tr_timer t);
void tr_timer_stop(enum tr_timer t);

void tr_timers_pause(bool paused);

/* Seconds accumulated in `t` since it was last read; the second sets it to zero. */
double tr_timer_seconds(enum tr_timer t);
double tr_timer_take(enum tr_timer t);

const char *tr_timer_name(enum tr_timer t);
enum tr_timer_kind tr_timer_kind(enum tr_timer t);

/* The timer to which a transfer with these legs is charged; `legs` is not 0. */
enum tr_timer tr_timer_for_legs(unsigned legs);

/*
 * "time (ms) | forward-compute: 53.79 | ..." into buf[size], no newline: for every ADDS and NESTED
 * timer that has ever been started, its milliseconds since the last call divided by `iterations`,
 * two decimals.  Sets those timers to zero.  Returns the length; asserts that it fits.
 */
int tr_timers_line(char *buf, size_t size, int iterations);

/* The same form for the named timers only, in the order given: for set-up, loading and saving. */
int tr_timers_line_of(char *buf, size_t size, const enum tr_timer *timers, int count);

#endif
