/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_DRAW_PAGE_H
#define TR_REPORT_DRAW_PAGE_H

#include "report/draw.h"

/*
 * Where the parts of a picture are, so that no two texts meet however narrow it is; gnuplot lays
 * the legend out:
 *
 *   title, legend | upper panel | lower panel | names of the axis, caption
 *
 * Widths of texts are estimated from the mean width of a letter: 0.64 of its size in wide fonts
 * such as DejaVu Sans, and 0.57 in sentences, which have blanks and more narrow letters.  Lengths
 * are mm.
 */

/* Sizes in letters: of the margin, of a sample in the legend with the gap behind it, of the numbers
   at the x axis, of a line of text. */
#define TR_DRAW_EDGE 0.6
#define TR_DRAW_SAMPLE 2.0
#define TR_DRAW_GAP 0.6
#define TR_DRAW_TICS 2.0
#define TR_DRAW_LINE 1.3

/* An axis from low to high with a mark each `step`; a logarithmic one has them at powers of two. */
struct tr_draw_scale {
    double low, high, step;
    bool is_log;
};

struct tr_draw_panel {
    double bottom, top;
    struct tr_draw_scale y;
    const char *label;
    bool below;
};

struct tr_draw_page {
    const struct tr_plot *p;
    double width, height, em;
    double left, right; /* of the panels */
    struct tr_draw_scale x;
    struct tr_draw_panel panel[2]; /* from the top */
    int panels;
    char *title, *note;          /* with an end of line where one is; owned */
    int names, columns, longest; /* of the legend; letters */
};

/* TR_ECONFIG as tr_draw_script().  Release it also after a failure. */
enum tr_status tr_draw_lay_out(const struct tr_plot *p, struct tr_draw_page *g) TR_MUST_CHECK;
void tr_draw_page_release(struct tr_draw_page *g);

/* The width of so many letters, mm; lines of a text; rows of the legend, which gnuplot fills;
   letters that a bar's name has room for. */
double tr_draw_letters(const struct tr_draw_page *g, double n);
int tr_draw_lines(const char *text);
int tr_draw_legend_rows(const struct tr_draw_page *g);
int tr_draw_name_letters(const struct tr_draw_page *g);

/* Decimals of all marks of an axis: those of its step. */
int tr_draw_digits(const struct tr_draw_scale *a);

#endif
