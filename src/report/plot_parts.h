/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PLOT_PARTS_H
#define TR_REPORT_PLOT_PARTS_H

#include "report/plot.h"

/* Common parts of plot.c and plot_*.c: what makes a plot of runs. */
#define PLOT(symbol, name, function, axis, plans)                                      \
    enum tr_status tr_plot_##function(const struct tr_present *p, struct tr_plot *out) \
        TR_MUST_CHECK;
#define PLOT_FILES(symbol, name, function)                                               \
    enum tr_status tr_plot_##function(char *const *path, int count, struct tr_plot *out) \
        TR_MUST_CHECK;
#include "report/plots.def"

#endif
