/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_DRAW_H
#define TR_REPORT_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/* A plot, and how it is drawn: by gnuplot, or as text. */
struct tr_series {
    char *name;    /* owned */
    double *x, *y; /* [count], owned; points with a NAN are left out */
    int64_t count;
    bool apart; /* the points have no line between them */
};

struct tr_plot {
    const char *title, *x_label, *y_label; /* borrowed */
    bool log_log;
    bool stacked; /* bars instead of lines: series are stacked, a bar for each x = 0, 1, ... */
    struct tr_series *series; /* owned */
    int count;
    char **bar; /* [bars] names of the bars, owned */
    int bars;
};

/* An empty series of the plot, its name taken over; and a point of the last series. */
void tr_plot_series(struct tr_plot *p, char *name);
void tr_plot_point(struct tr_plot *p, double x, double y);

/* The next bar's name, taken over. */
void tr_plot_bar(struct tr_plot *p, char *name);

void tr_plot_release(struct tr_plot *p);

/* As a script of gnuplot with its data in it, without terminal and output. */
void tr_draw_script(const struct tr_plot *p, FILE *f);

/* For people, at most 96 columns. */
void tr_draw_text(const struct tr_plot *p, FILE *f);

/*
 * Into a file: .png and .svg by gnuplot, .gp its script.  TR_ECONFIG for another suffix,
 * TR_ERESOURCE if gnuplot is not there, TR_EIO if it could not draw.
 */
enum tr_status tr_draw_file(const struct tr_plot *p, const char *path) TR_MUST_CHECK;

#endif
