/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_TRACE_READ_H
#define TR_REPORT_TRACE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/*
 * The spans of a run, out of a trace that `trireme train --trace` measured, `trireme sim
 * --sim-trace` simulated or `trireme plan --plan-trace` planned: all three have one form
 * (train/trace_file.h).
 */

/* What a span is, by the track that it is on (train/tracks.def).  Spans within others are left
   out. */
enum tr_trace_kind {
    TR_TRACE_FORWARD,
    TR_TRACE_BACKWARD,
    TR_TRACE_WEIGHTS, /* where the backward pass is split */
    TR_TRACE_MESSAGE,
    TR_TRACE_WAIT, /* for the other end of a message or a sum */
    TR_TRACE_GRADIENTS,
    TR_TRACE_OPTIMIZER,
    TR_TRACE_KINDS
};

struct tr_trace_span {
    int64_t row, micro; /* micro < 0: of no micro-batch */
    enum tr_trace_kind kind;
    double from, to; /* microseconds */
};

struct tr_trace_row {
    int64_t rank, seen; /* iterations that have begun on it */
    char *name;         /* "rank 0, stage 0, tensor 0, replica 0 on HOST"; owned */
};

struct tr_trace {
    int64_t ranks, first, last; /* ranks of the run; iterations */
    const char *from;           /* "measured", "simulated" or "planned" */
    double length;              /* microseconds of an iteration that is not measured; NAN */
    struct tr_trace_row *row;   /* [rows], by rank */
    int64_t rows;
    struct tr_trace_span *span;
    size_t spans, room;
    double *begins; /* [iterations * rows] when the iteration begins there; NAN: it does not */
};

/* TR_EIO if the file cannot be read; TR_EDATA, with the line, if it is no JSON, or no trace of this
   program's.  Release also after a failure. */
enum tr_status tr_trace_read(const char *path, struct tr_trace *out) TR_MUST_CHECK;
void tr_trace_release(struct tr_trace *t);

/* Where iteration `at`, 0 being the first one, begins and ends, in microseconds.  NAN if nothing
   is of it. */
void tr_trace_window(const struct tr_trace *t, int64_t at, double *from, double *to);

#endif
