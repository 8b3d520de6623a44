/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/trace.h"

#include <stdlib.h>

bool tr_trace_on;

static struct {
    struct tr_span *span;
    int64_t most, count, dropped;
    struct tr_about about;
} trace;

enum tr_status tr_trace_open(int64_t most)
{
    TR_ASSERT(!tr_trace_on && most > 0);
    trace.span = calloc((size_t)most, sizeof *trace.span);
    if (!trace.span)
        return TR_FAIL(
            TR_ERESOURCE,
            "no memory left to record what the timers do (%lld records of %d bytes); leave "
            "out --trace, or trace fewer iterations",
            (long long)most, (int)sizeof *trace.span);
    trace.most = most;
    trace.count = trace.dropped = 0;
    tr_trace_on = true;
    return TR_OK;
}

void tr_trace_close(void)
{
    free(trace.span);
    trace.span = NULL;
    trace.most = trace.count = 0;
    tr_trace_on = false;
}

void tr_trace_about(const struct tr_about *about)
{
    trace.about = about ? *about : (struct tr_about){0};
}

const struct tr_about *tr_trace_now(void)
{
    return &trace.about;
}

void tr_trace_add(enum tr_timer t, double begin, double end)
{
    if (trace.count == trace.most) {
        trace.dropped++;
        return;
    }
    trace.span[trace.count++] = (struct tr_span){
        .begin = begin, .end = end, .wait = -1.0, .about = trace.about, .timer = (uint8_t)t};
}

struct tr_span *tr_trace_spans(int64_t *count)
{
    *count = trace.count;
    return trace.span;
}

int64_t tr_trace_clear(void)
{
    int64_t dropped = trace.dropped;

    trace.count = trace.dropped = 0;
    return dropped;
}
