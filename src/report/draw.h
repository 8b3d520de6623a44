/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_DRAW_H
#define TR_REPORT_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/* A plot, and how it is drawn: by gnuplot, or as text. */
enum tr_look {
    TR_LOOK_LINE,   /* points with a line between them */
    TR_LOOK_POINTS, /* without one */
    TR_LOOK_FAINT,  /* small grey points, behind the others */
    TR_LOOK_IDEAL   /* a dashed grey line without points, or in bars a mark across */
};

/* The colours of palette.def; the first is each series' own in its turn. */
enum tr_colour {
    TR_COLOUR_IN_TURN,
#define COLOUR(symbol, name, rgb) TR_COLOUR_##symbol,
#include "report/palette.def"
#undef COLOUR
};

/* "#rrggbb" of one of them. */
const char *tr_draw_colour(enum tr_colour c);

struct tr_series {
    char *name;    /* owned */
    double *x, *y; /* [count], owned; points with a NAN are left out */
    double *low,
        *high;    /* [count], owned: the interval that y lies in; y itself where none is known */
    double *raw;  /* [count], owned: y before it was smoothed; or NULL */
    char **label; /* [count], owned: what stands at a point, without quotes; or NULL */
    int64_t count;
    enum tr_look look;
    enum tr_colour colour;
    bool
        below; /* in the lower panel, with the look of the series before it and no name in the legend */
};

/* Of a picture.  Zero and NULL: what tr_draw_file() chooses. */
struct tr_plot_style {
    const char *font;     /* a family, as fontconfig knows it, borrowed */
    double points;        /* size of the letters, 1/72 inch */
    double width, height; /* mm */
};

struct tr_plot {
    const char *title, *x_label, *y_label; /* borrowed */
    const char *below_label; /* of the y axis of a lower panel, borrowed; NULL: there is none */
    bool log_log;            /* the lower panel has a linear y axis all the same */
    bool from_zero;          /* y axes begin at 0 */
    bool legend;             /* also of a series alone */
    bool ticks;              /* of the x axis, at the points alone */
    bool
        stacked; /* bars instead of lines: a row for each x = 0, 1, ... in which series follow each other to the right;
                     what is not above 0 has no place in one */
    struct tr_series *series; /* owned */
    int count;
    char **bar; /* [bars] names of the bars, owned */
    int bars;
    char *note; /* a caption below the picture; owned, or NULL */
    struct tr_plot_style style;
};

/* An empty series of the plot, its name taken over; and a point of the last series, with its interval or without one. */
void tr_plot_series(struct tr_plot *p, char *name, enum tr_look look);
void tr_plot_point(struct tr_plot *p, double x, double y);
void tr_plot_range(struct tr_plot *p, double x, double y, double low, double high);

/* What stands at the last point, taken over. */
void tr_plot_label(struct tr_plot *p, char *label);

/* Lines as their exponential moving average, which forgets a part `weight` less than 1 at each
   point, as in TensorBoard; what was is drawn thin behind them. */
void tr_plot_smooth(struct tr_plot *p, double weight);

/* An empty series in the lower panel, with the name and the look of the last one. */
void tr_plot_below(struct tr_plot *p);

/* The next bar's name, taken over. */
void tr_plot_bar(struct tr_plot *p, char *name);

/* A sentence more in the caption, taken over. */
void tr_plot_note(struct tr_plot *p, char *sentence);

void tr_plot_release(struct tr_plot *p);

/* Letters that are left of a name of UTF-8 in the room of `most` of them, two dots in its middle where it is longer;
   owned by the caller. */
char *tr_plot_clip(const char *name, int most);
int tr_plot_letters(const char *name);

/* As a script of gnuplot with its data in it, without terminal and output.  TR_ECONFIG if the picture has no room for
   axes between title, legend and caption. */
enum tr_status tr_draw_script(const struct tr_plot *p, FILE *f) TR_MUST_CHECK;

/* The size of its picture: width and height in mm. */
void tr_draw_size(const struct tr_plot *p, double *width, double *height);

/* A family of letters and their size, as tr_plot_style has them or as they are chosen. */
const char *tr_draw_font(const struct tr_plot *p);
double tr_draw_points(const struct tr_plot *p);

/* For people, at most 96 columns. */
void tr_draw_text(const struct tr_plot *p, FILE *f);

/*
 * Into a file, by its suffix: those of pictures.def by gnuplot, .gp its script.  TR_ECONFIG for
 * another suffix and as tr_draw_script(), TR_ERESOURCE if gnuplot or its terminal is not there,
 * TR_EIO if it could not draw.
 */
enum tr_status tr_draw_file(const struct tr_plot *p, const char *path) TR_MUST_CHECK;

#endif
