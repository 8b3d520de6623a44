/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PLOT_PARTS_H
#define TR_REPORT_PLOT_PARTS_H

#include "report/plot.h"

/* Common parts of plot.c and plot_*.c: what makes a plot of runs. */
#define PLOT(symbol, name, function, axis)                                             \
    enum tr_status tr_plot_##function(const struct tr_present *p, struct tr_plot *out) \
        TR_MUST_CHECK;
#define PLOT_FILES(symbol, name, function)                                               \
    enum tr_status tr_plot_##function(char *const *path, int count, struct tr_plot *out) \
        TR_MUST_CHECK;
#include "report/plots.def"

/* Whether two series show the same: points at the same x, whose y are apart by at most the part
   `within` of them; the most that any are.  The second leaves none in a series, which is then not
   drawn and has no name in a legend. */
bool tr_plot_alike(const struct tr_series *a, const struct tr_series *b, double within,
                   double *most);
void tr_plot_empty(struct tr_series *s);

/* Of series that are the runs, one for all that are equal, "5 layouts, equal to 1e-6", and their
   names in the caption. */
void tr_plot_merge_runs(const struct tr_records *runs, struct tr_plot *out);

/* Short names of runs for bars and legends, in place of name[count], which are owned: without folders and ".log", and
   without what all of them begin and end with, as long as something is left that tells them apart.
   "a-18b.log" and "a-30b.log" become "18b" and "30b"; the name of a run alone stays. */
void tr_plot_short_names(char **name, int count);

/* The same of all series. */
void tr_plot_short_series(struct tr_plot *p);

#endif
