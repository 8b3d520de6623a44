/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PLOT_H
#define TR_REPORT_PLOT_H

#include "report/draw.h"
#include "report/present.h"

/* What is plotted of runs; the values are those of --plot. */
enum tr_plot_kind {
    TR_PLOT_NONE,
#define PLOT(symbol, name, function, axis) TR_PLOT_##symbol,
#define PLOT_FILES(symbol, name, function) TR_PLOT_##symbol,
#include "report/plots.def"
};

/* What its x axis is; the values of --plot-x. */
enum tr_plot_x {
#define PLOT_X(symbol, name) TR_PLOT_X_##symbol,
#include "report/plots.def"
};

/* TR_EDATA, TR_ECONFIG as the table of the same name; *out is released by the caller in any case.
   The caller may set out->style before it is drawn.  Not for a plot of files. */
enum tr_status tr_plot_of(enum tr_plot_kind kind, const struct tr_present *p,
                          struct tr_plot *out) TR_MUST_CHECK;

/* The same with another x axis than iterations, of all GPUs together: tokens that were consumed, seconds
   of training without saving, waits between starts and what was done twice, joules.  For a plot that has
   one; TR_EDATA if a log lacks it. */
enum tr_status tr_plot_against(enum tr_plot_kind kind, const struct tr_present *p, enum tr_plot_x x,
                               struct tr_plot *out) TR_MUST_CHECK;
bool tr_plot_has_x(enum tr_plot_kind kind);

/* The bars of a breakdown in percent of their iteration. */
void tr_plot_percent(struct tr_plot *p);

/* One that is not of logs but of what other verbs print as JSON, the files path[count].  TR_EIO, TR_EDATA
   if one cannot be read, or is something else. */
bool tr_plot_of_files(enum tr_plot_kind kind);
enum tr_status tr_plot_files(enum tr_plot_kind kind, char *const *path, int count,
                             struct tr_plot *out) TR_MUST_CHECK;

#endif
