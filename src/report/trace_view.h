/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_TRACE_VIEW_H
#define TR_REPORT_TRACE_VIEW_H

#include <stdint.h>
#include <stdio.h>

#include "report/draw.h"
#include "util/status.h"

/*
 * One iteration of all ranks as a picture, out of the trace that `trireme train --trace` wrote
 * (docs/timelines.md): a row for each rank, in it the forward and backward passes with the numbers of their
 * micro-batches, below them what was sent, in grey the part of it that was waiting for the other end, then
 * the sums of gradients and the optimizer.
 */
struct tr_trace_view; /* a trace that was read */

/* TR_EIO if the file cannot be read; TR_EDATA, with the line, if it is no JSON, or no trace of this
   program's.  Release also after a failure. */
enum tr_status tr_trace_view_read(const char *path, struct tr_trace_view **out) TR_MUST_CHECK;
void tr_trace_view_release(struct tr_trace_view *t);

/* Iteration `iteration`, or the first with a negative number, as SVG of that width, font and size; its height follows.
   TR_ECONFIG if the trace does not have it. */
enum tr_status tr_trace_view_svg(const struct tr_trace_view *t, int64_t iteration,
                                 const struct tr_plot_style *style, FILE *f) TR_MUST_CHECK;

#endif
