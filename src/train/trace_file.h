/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TRACE_FILE_H
#define TR_TRAIN_TRACE_FILE_H

#include <stdio.h>

#include "comm/comm.h"
#include "comm/grid.h"
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

/*
 * tidy_profiling: the array of events of one rank, where tracks are identified by their names, and
 * times are microseconds since 1970.  There is no track but those of that profiler: nothing within
 * a computation, and the optimizer is on "7. optimizer-step" where there is a single replica.
 */
struct tr_tidy {
    int64_t events; /* counts what was written, from 0 */
    int rank;
    bool replicas, sharded; /* there are several; ZeRO-1 over them */
    int64_t bytes;          /* of the gradients */
    double wall;            /* what is added to the common clock for seconds since 1970 */
};
void tr_tidy_put(FILE *f, struct tr_tidy *tidy, const struct tr_span *span, int64_t count);

#endif
