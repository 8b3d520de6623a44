/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PLOT_H
#define TR_REPORT_PLOT_H

#include "report/draw.h"
#include "report/present.h"

/* What is plotted of runs; the values are those of --plot. */
enum tr_plot_kind {
    TR_PLOT_NONE,
    TR_PLOT_LOSS,       /* against the iteration, a line for each run */
    TR_PLOT_THROUGHPUT, /* tokens per second, or samples where their length is not known */
    TR_PLOT_BREAKDOWN,  /* the parts of an iteration, a bar for each run */
    TR_PLOT_SCALING     /* speed-up against GPUs, with the ideal */
};

/* TR_EDATA, TR_ECONFIG as the table of the same name; *out is released by the caller in any case.
 */
enum tr_status tr_plot_of(enum tr_plot_kind kind, const struct tr_present *p,
                          struct tr_plot *out) TR_MUST_CHECK;

#endif
