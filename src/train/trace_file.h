/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TRACE_FILE_H
#define TR_TRAIN_TRACE_FILE_H

#include <stdio.h>

#include "comm/comm.h"
#include "comm/grid.h"
#include "pipeline/sched.h"
#include "telemetry/trace.h"

/*
 * The text of traces: the JSON of Chrome's trace viewer ("Trace Event Format"), complete events
 * ("ph": "X") with times in microseconds.  No clock, no communication.
 *
 * A rank is a process, and what it does has a track each, with the names and colours of
 * CocktailSGD's tidy_profiling:
 *
 *     1. forward-recv      startup                 4. backward-recv     startup
 *     2. forward-compute   good                    5. backward-compute  good
 *     3. forward-send      thread_state_iowait     6. backward-send     thread_state_iowait
 *     7. optimizer-comm    cq_build_passed         8. optimizer-comp    bad
 *
 * A transfer of several legs stands on the track of each.
 */
enum tr_track {
#define TRACK(symbol, track, name, colour) TR_TRACK_##symbol,
#include "train/tracks.def"
    TR_TRACKS
};
struct tr_track_row {
    const char *name, *event, *colour;
};
extern const struct tr_track_row tr_tracks[TR_TRACKS];

/* Where a span stands: a leg of a transfer, and anything else. */
enum tr_track tr_track_of_leg(int leg);
enum tr_track tr_track_of_timer(const struct tr_span *s);

/* A transfer, not a timer within one; the computation of a micro-batch, not what happens once. */
bool tr_trace_is_transfer(const struct tr_span *s);
bool tr_trace_is_compute(const struct tr_span *s);

/* A pass of a micro-batch, and a message of one leg, from `begin` to `end`.  Nothing of it was
   waiting.  Of a message micro -1 says that nobody knows its micro-batch. */
struct tr_span tr_trace_pass(enum tr_instr_kind kind, struct tr_slot at, double begin, double end);
struct tr_span tr_trace_message(int leg, struct tr_slot at, double begin, double end);

struct tr_trace_rank {
    int64_t count, missing; /* spans here, and those that there was no room for */
    double error;           /* seconds: of the common clock on this rank */
    struct tr_place at;
    int rank;
    char host[TR_HOST_BYTES];
};

/* What is the same for all ranks; `events` counts what was written, from 0. */
struct tr_trace_head {
    int64_t events;
    int ranks;
    int64_t first, last; /* iterations, counted from 1 */
    double origin;       /* of times: on the common clock */
    double wall;         /* what is added to it for seconds since 1970 */
    double error;        /* of the common clock, the worst of all ranks */
    bool waits;          /* waits were separated from transfers */
    bool device;         /* a device computes asynchronously, */
    bool waited;         /*   and the timers wait for it */
    const char *from;    /* "planned" or "simulated", with no clock; NULL: measured */
    double length;       /* seconds of an iteration that is not measured */
};

/*
 * One object: "metadata" says what the trace is of and how good its clock is, "traceEvents" are the
 * events.  In addition to the tracks above there is "0. iteration", and on tracks 2 and 8 stand
 * also the parts of what is there.  An event has "micro-batch", "chunk" and, if waits were
 * measured, "wait" in microseconds among its arguments.  begin(), then put() for each rank, then
 * end().
 */
void tr_trace_begin(FILE *f, const struct tr_trace_head *head);
void tr_trace_put(FILE *f, struct tr_trace_head *head, const struct tr_trace_rank *rank,
                  const struct tr_span *span);
void tr_trace_end(FILE *f);

#endif
