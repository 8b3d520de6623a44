/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_TRACE_VIEW_H
#define TR_REPORT_TRACE_VIEW_H

#include <stdint.h>
#include <stdio.h>

#include "report/draw.h"
#include "report/trace_read.h"
#include "util/status.h"

/*
 * One iteration of the ranks of a trace as a picture.  Each rank has a row with the forward
 * and backward passes and the numbers of their micro-batches.  Below them is what was sent, in
 * grey the part of it that was waiting for the other end.  Then come the sums of gradients and
 * the optimizer.  Several traces stand above one another on one axis of time.
 */

/* Iteration `iteration` of those of t[count] that are measured, or the first with a negative
   number, as SVG of that width, font and size; its height follows.  TR_ECONFIG if a trace does
   not have it, TR_EDATA if it is empty. */
enum tr_status tr_trace_view_svg(const struct tr_trace *t, int count, int64_t iteration,
                                 const struct tr_plot_style *style, FILE *f) TR_MUST_CHECK;

#endif
