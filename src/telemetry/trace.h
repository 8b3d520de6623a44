/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_TRACE_H
#define TR_TELEMETRY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"
#include "telemetry/timer.h"

/*
 * What the timers of this process did and when: a span for each stretch between a start and a stop,
 * in the order of the stops.  The room for them is taken once, in tr_trace_open(); while it is not
 * open, a timer pays one branch.  Timers of SETUP and those that are paused leave no spans.
 *
 * The clock is tr_now(), also where timers go by marks of a device: then a span says when the host
 * queued the work.
 */

/* What a stretch was about, beyond the name of its timer. */
enum tr_span_what {
    TR_SPAN_OTHER,
    TR_SPAN_FWD, /* one chunk on one micro-batch: at[0] */
    TR_SPAN_BWD,
    TR_SPAN_WGT,
    TR_SPAN_XFER,  /* legs began and ended; at[i] is what leg i carried */
    TR_SPAN_START, /* legs began, */
    TR_SPAN_WAIT   /*   and were waited for: pipeline/sched.h */
};

struct tr_about {
    int32_t micro[TR_LEGS];
    uint8_t chunk[TR_LEGS];
    uint8_t what, legs;
};

struct tr_span {
    double begin, end;
    double wait; /* seconds in which a partner had not come; negative: not known */
    struct tr_about about;
    uint8_t timer;
};

/* Read by timers; set by open and close. */
extern bool tr_trace_on;

/* From now on, room for `most` spans; more are counted and dropped.  TR_ERESOURCE.  Not while it is
   open. */
enum tr_status tr_trace_open(int64_t most) TR_MUST_CHECK;
void tr_trace_close(void);

/* What the timers that stop from now on are about, until the next call; NULL: nothing special.
   Copied, open or not. */
void tr_trace_about(const struct tr_about *about);
/* What they are about now; borrowed. */
const struct tr_about *tr_trace_now(void);

/* For telemetry/timer.c. */
void tr_trace_add(enum tr_timer t, double begin, double end);

/* The spans since the last clear, and how many of them; the caller may change them. */
struct tr_span *tr_trace_spans(int64_t *count);

/* Forget them.  Returns how many were dropped since the last time because there was no room. */
int64_t tr_trace_clear(void);

#endif
