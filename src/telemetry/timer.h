/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_TIMER_H
#define TR_TELEMETRY_TIMER_H

#include <stdbool.h>
#include <stddef.h>

#include "util/clock.h"

/*
 * Named stop watches of this process.  telemetry/timers.def is the one list: the enum, the names, the order
 * in the log and the lookup from transfers to timers come from it.  They are on the monotonic clock of the
 * host unless tr_timers_clock() says otherwise.
 *
 * A timer accumulates between tr_timer_start() and tr_timer_stop().  While tr_timers_pause(true) is
 * in force (evaluation, saving), start and stop do nothing, so those do not pollute the interval.
 */

/* The legs of a transfer between pipeline neighbours; declared here because a set of legs names a
   timer.  pipeline/sched.h says what they carry. */
enum tr_leg_bit { TR_SEND_FWD = 1, TR_RECV_FWD = 2, TR_SEND_BWD = 4, TR_RECV_BWD = 8, TR_LEGS = 4 };

enum tr_timer_kind {
    TR_TIMER_ADDS,
    TR_TIMER_NESTED,
    TR_TIMER_AROUND,
    TR_TIMER_SETUP,
    TR_TIMER_SPLIT,
    TR_TIMER_OWN
};

/* What a table of timers shows of the ranks, to find stragglers: the values of
   --timing-log-option. */
enum tr_timer_view { TR_TIMER_MAX, TR_TIMER_MINMAX, TR_TIMER_ALL };

enum tr_timer {
#define TIMER(symbol, name, legs, kind, level, order, newer) TR_TIMER_##symbol,
#include "telemetry/timers.def"
#undef TIMER
    TR_TIMERS
};

/*
 * Timers of an asynchronous device, which works on what the host has queued.  All functions
 * borrow `ctx`; each may be NULL.
 *
 * Without marks the host's clock is read, and before that settle() has brought the device to where the
 * host is, as Megatron-LM does it: what a timer shows is what happened between its start and its stop,
 * and the waiting costs time of its own.
 *
 * With `marks` of them (4 at least) start and stop leave marks among the device's work and do not wait.
 * mark(i) makes mark i anew there; between() gives the seconds between two that the device has passed.
 * Seconds are made of them in tr_timers_settle(), which happens by itself when somebody reads the timers
 * and when no mark is left.  Timers of SETUP have the host's clock all the same.  With `waits` the others
 * have it too, as if there were no marks, and marks are for timers of OWN alone.
 *
 * `apart`: the device is not the processor that runs this code, so timers of OWN have its marks.  Without it
 * they have the processor time of the thread that calls.
 *
 * range() tells a profiler that a timer starts, by its name of 2021, or with NULL that the last one that
 * was started stops.
 */
struct tr_clock {
    void *ctx;
    bool apart, waits;
    void (*settle)(void *ctx);
    int marks;
    void (*mark)(void *ctx, int i);
    double (*between)(void *ctx, int from, int to);
    void (*range)(void *ctx, const char *name);
};

/* From now on; copied.  NULL: the host's clock.  No timer but those of SETUP is running. */
void tr_timers_clock(const struct tr_clock *clock);

/* Wait until the device has passed all marks, and use them again.  Costs next to nothing when it has
   nothing left to do anyway; nothing without marks. */
void tr_timers_settle(void);

/* Asserts that `t` is stopped, respectively running. */
void tr_timer_start(enum tr_timer t);
void tr_timer_stop(enum tr_timer t);

/* Count `seconds` for a timer of SPLIT, which is never started.  The second counts them for the two
   parts of `t`, which has_parts() says it has. */
void tr_timer_add(enum tr_timer t, double seconds);
void tr_timer_add_parts(enum tr_timer t, double wait, double transfer);
bool tr_timer_has_parts(enum tr_timer t);

void tr_timers_pause(bool paused);

/* The name of the timer that was started last of those that run, paused or not; NULL if none does. */
const char *tr_timer_running(void);

/*
 * The own compute time of this rank, TR_TIMER_OWN_COMPUTE: what it works within FORWARD_COMPUTE and
 * BACKWARD_COMPUTE, without what stands between own_pause() and own_resume(), which is communication.  Those two
 * nest, and do nothing elsewhere.  Measured only after own(true), for it reads a clock at each of these calls: the
 * processor time of the calling thread, which neither waiting for a core nor threads of libraries count in, or
 * on a device that is apart the time between marks among its work.
 */
void tr_timers_own(bool on);
void tr_timers_own_pause(void);
void tr_timers_own_resume(void);

/* Seconds accumulated in `t` since it was last read; the second sets it to zero. */
double tr_timer_seconds(enum tr_timer t);
double tr_timer_take(enum tr_timer t);

const char *tr_timer_name(enum tr_timer t);
enum tr_timer_kind tr_timer_kind(enum tr_timer t);

/* The seconds of all timers since each was last taken. */
void tr_timers_read(double seconds[TR_TIMERS]);

/* Set those that are no SETUP timers to zero: an interval begins. */
void tr_timers_reset(void);

/* Is a transfer between pipeline neighbours charged to it? */
bool tr_timer_is_transfer(enum tr_timer t);

/* The timer to which a transfer with these legs is charged; `legs` is not 0. */
enum tr_timer tr_timer_for_legs(unsigned legs);

/*
 * "time (ms) | forward-compute: 53.79 | ..." into buf[size], no newline: for every ADDS and NESTED
 * timer that has ever been started, its milliseconds since the last call divided by `iterations`,
 * two decimals.  Returns the length; asserts that it fits.
 */
int tr_timers_line(char *buf, size_t size, int iterations);

/* The same form for the named timers only, in the order given: for set-up, loading and saving. */
int tr_timers_line_of(char *buf, size_t size, const enum tr_timer *timers, int count);

/*
 * The form of Megatron Core, several lines, into buf[size] (TR_TIMERS_BYTES(ranks) is enough), for the
 * named timers in the order given:
 *
 *     (min, max) time across ranks (ms):
 *         forward-backward ...............................: (77.94, 80.11)
 *
 * or "max time across ranks (ms):" with one number per timer, or "times across ranks (ms):" with
 * "     rank  3: 77.94" for each rank under "  forward-backward:".  all[rank * TR_TIMERS + timer] is
 * what tr_timers_read() gave on each rank; milliseconds are divided by `iterations`.  Zeros are of ranks
 * without the timer: they are no minimum and have no line, and a timer that is zero on all ranks is
 * left out.  The length; 0 if no timer is left.  Pure.
 */
int tr_timers_table_of(char *buf, size_t size, enum tr_timer_view view, const double *all,
                       int ranks, const enum tr_timer *timers, int count, int iterations);

/* The timers that --timing-log-level `level` shows in every interval, in their order; how many. */
int tr_timers_of_level(enum tr_timer timers[TR_TIMERS], int level);

/* ---- timers of SPLIT: waiting and transfer ---- */

/* "wait and transfer (ms) | pipeline-fill-wait: 12.00 | ..." as tr_timers_line() does it; 0 if none
   was ever counted. */
int tr_timers_split_line(char *buf, size_t size, int iterations);

/* Those of them that --timing-log-level `level` shows; how many. */
int tr_timers_of_split(enum tr_timer timers[TR_TIMERS], int level);

/* Their seconds; -1 for one that this rank does not have, and for all other timers. */
void tr_timers_read_split(double seconds[TR_TIMERS]);

/* What all ranks read, and where they are: borrowed, and `scratch` [ranks] is written. */
struct tr_split_times {
    int ranks;
    const double *seconds;  /* [rank * TR_TIMERS + timer] */
    const char (*host)[64]; /* [ranks] */
    double *scratch;
};

/*
 * A table as that of tr_timers_table_of(), with the median between the others and the rank of the
 * largest:
 *
 *     (min, median, max) wait and transfer across ranks (ms):
 *         pipeline-fill-wait .............................: (0.00, 12.10, 30.42) rank 3 on r7i4n2
 *
 * A rank counts, zero or not, if it has the timer.  One that is zero on all ranks is left out.
 * TR_TIMERS_BYTES(ranks) is enough.
 */
int tr_timers_split_table(char *buf, size_t size, enum tr_timer_view view,
                          const struct tr_split_times *all, const enum tr_timer *timers, int count,
                          int iterations);

#define TR_TIMERS_BYTES(ranks) (192 * (size_t)TR_TIMERS + 40 * (size_t)TR_TIMERS * (size_t)(ranks))

#endif
