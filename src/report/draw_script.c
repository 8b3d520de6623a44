/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/draw_page.h"
#include "util/file.h"

static const char *const colours[] = {
#define COLOUR(symbol, name, rgb) rgb,
#include "report/palette.def"
#undef COLOUR
};
enum { COLOURS = sizeof colours / sizeof colours[0] };
const char *tr_draw_colour(enum tr_colour c)
{
    TR_ASSERT(c > TR_COLOUR_IN_TURN && (int)c <= COLOURS);
    return colours[c - 1];
}

static const char faint[] = "#999999", ideal[] = "#555555";

/* Marks that differ in more than their colour, and lines for the second and third round of colours. */
static const int point_types[] = {7, 5, 9, 13, 11, 6, 4, 8};
enum { POINT_TYPES = sizeof point_types / sizeof point_types[0] };

/* ---- texts ---- */

/* In single quotes, in which nothing but the quote itself is special; n bytes. */
static void put_quoted(const char *s, size_t n, FILE *f)
{
    fputc('\'', f);
    for (; n > 0; n--, s++) {
        if (*s == '\'')
            fputc('\'', f);
        fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
    }
    fputc('\'', f);
}

static void put_place(const struct tr_draw_page *g, double x, double y, FILE *f)
{
    fprintf(f, "screen %.5f,%.5f", x / g->width, y / g->height);
}

/* A line of text, its middle at the height y. */
static void put_label(const struct tr_draw_page *g, const char *s, size_t n, double x, double y,
                      const char *how, FILE *f)
{
    fputs("set label ", f);
    put_quoted(s, n, f);
    fputs(" at ", f);
    put_place(g, x, y, f);
    fprintf(f, " %s noenhanced\n", how);
}

/* Several of them, the first one's upper edge at `top`. */
static void put_lines(const struct tr_draw_page *g, const char *text, double top, FILE *f)
{
    for (; *text; top -= TR_DRAW_LINE * g->em) {
        size_t n = strcspn(text, "\n");

        put_label(g, text, n, TR_DRAW_EDGE * g->em, top - 0.5 * TR_DRAW_LINE * g->em, "left", f);
        text += n + (text[n] == '\n');
    }
}

/* ---- series ---- */

/* Which colour, and which mark: those of the series above, in the lower panel. */
static int turn_of(const struct tr_plot *p, int series)
{
    int n = -1;

    for (int i = 0; i <= series; i++)
        n += !p->series[i].below && p->series[i].count > 0 && p->series[i].look != TR_LOOK_FAINT &&
             p->series[i].look != TR_LOOK_IDEAL;
    return n < 0 ? 0 : n;
}

static const char *colour_of(const struct tr_plot *p, int series)
{
    enum tr_look look = p->series[series].look;
    enum tr_colour own = p->series[series].colour;

    if (own != TR_COLOUR_IN_TURN)
        return tr_draw_colour(own);
    return look == TR_LOOK_FAINT   ? faint
           : look == TR_LOOK_IDEAL ? ideal
                                   : colours[turn_of(p, series) % COLOURS];
}

/* Points of a long line would hide it, and the lines behind: some of them tell lines apart where
   colours do not. */
enum { MOST_POINTS = 24, SOME_POINTS = 10 };

static bool has_points(const struct tr_series *s)
{
    return s->look != TR_LOOK_IDEAL;
}

/* Where a label stands at its point. */
static const char *const places[] = {"left offset 0.8,-0.6", "right offset -0.6,0.7",
                                     "right offset -0.6,-0.8"};
enum { PLACES = sizeof places / sizeof places[0] };

static bool has_labels(const struct tr_series *s)
{
    for (int64_t n = 0; n < s->count; n++)
        if (s->label[n])
            return true;
    return false;
}

static bool has_line(const struct tr_series *s)
{
    return s->look == TR_LOOK_LINE || s->look == TR_LOOK_IDEAL;
}

static bool has_ranges(const struct tr_series *s)
{
    for (int64_t n = 0; n < s->count; n++)
        if (s->low[n] < s->y[n] || s->high[n] > s->y[n])
            return true;
    return false;
}

static void put_point(const struct tr_plot *p, int series, FILE *f)
{
    int turn = turn_of(p, series);
    bool plain = p->series[series].look == TR_LOOK_FAINT;

    fprintf(f, " pointtype %d pointsize %s", plain ? 7 : point_types[turn % POINT_TYPES],
            plain ? "0.35" : "0.7");
    if (p->series[series].look == TR_LOOK_LINE && p->series[series].count > MOST_POINTS)
        fprintf(f, " pointinterval %d", (int)(p->series[series].count / SOME_POINTS));
}

static void put_line(const struct tr_plot *p, int series, FILE *f)
{
    fprintf(f, " linewidth %s dashtype %d", p->series[series].count > MOST_POINTS ? "1.2" : "1.5",
            p->series[series].look == TR_LOOK_IDEAL ? 2 : 1 + turn_of(p, series) / COLOURS % 4);
}

static void put_legend(const struct tr_draw_page *g, FILE *f)
{
    if (g->names == 0) {
        fputs("unset key\n", f);
        return;
    }
    fputs("set key at ", f);
    put_place(g, TR_DRAW_EDGE * g->em,
              g->height - (TR_DRAW_EDGE + tr_draw_lines(g->title) * TR_DRAW_LINE) * g->em, f);
    fprintf(f,
            " left top vertical maxrows %d Left reverse noenhanced samplen %g width %g "
            "spacing 1 height 0\n",
            tr_draw_legend_rows(g), TR_DRAW_SAMPLE, TR_DRAW_GAP);
}

/* Of each point x, y, low, high; of a part of a bar where it begins and ends, and its row. */
static void put_block(const struct tr_plot *p, int series, double *at, FILE *f)
{
    const struct tr_series *s = &p->series[series];
    int64_t put = 0;

    fprintf(f, "$series%d << END\n", series);
    for (int64_t n = 0; n < s->count; n++) {
        int row = (int)s->x[n];

        if (p->stacked && s->look == TR_LOOK_IDEAL)
            fprintf(f, "%.10g %d\n", s->y[n], row);
        else if (p->stacked && s->y[n] > 0.0)
            fprintf(f, "%.10g %.10g %d\n", at[row], at[row] + s->y[n], row);
        else if (!p->stacked)
            fprintf(f, s->raw ? "%.10g %.10g %.10g %.10g %.10g\n" : "%.10g %.10g %.10g %.10g\n",
                    s->x[n], s->y[n], s->low[n], s->high[n], s->raw ? s->raw[n] : 0.0);
        else
            continue;
        put++;
        if (p->stacked && s->look != TR_LOOK_IDEAL)
            at[row] += s->y[n];
    }
    /* A block without points is an error to gnuplot, one that is unknown is not. */
    fputs(put > 0 ? "END\n" : "nan nan nan nan\nEND\n", f);
}

/* Is something written at a point of a series before, so that both would meet? */
static bool is_written(const struct tr_plot *p, int series, double x, double y)
{
    for (int i = 0; i < series; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            if (p->series[i].label[n] && fabs(p->series[i].x[n] - x) < 0.01 * x &&
                fabs(p->series[i].y[n] - y) < 0.2 * y)
                return true;
    return false;
}

/* Below a point and right of it, or above and left of it where that is taken; of the last one,
   which would leave the panel, above and left, or below. */
static void put_labels(const struct tr_plot *p, int series, FILE *f)
{
    const struct tr_series *s = &p->series[series];

    fprintf(f, "$labels%d << END\n", series);
    for (int64_t n = 0; n < s->count; n++) {
        const bool last = n + 1 == s->count && n > 0;
        const bool taken = is_written(p, series, s->x[n], s->y[n]);
        const int at = last ? 1 + taken : taken;

        if (!s->label[n])
            continue;
        fprintf(f, "%.10g %.10g", s->x[n], s->y[n]);
        for (int place = 0; place < PLACES; place++)
            fprintf(f, " \"%s\"", place == at ? s->label[n] : "");
        fputc('\n', f);
    }
    fputs("END\n", f);
}

static void put_data(const struct tr_plot *p, FILE *f)
{
    double *at = calloc((size_t)p->bars + 1, sizeof *at);

    if (!at)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int i = 0; i < p->count; i++) {
        put_block(p, i, at, f);
        if (has_labels(&p->series[i]))
            put_labels(p, i, f);
    }
    free(at);
}

static void put_series(const struct tr_draw_page *g, int i, FILE *f)
{
    const struct tr_plot *p = g->p;
    const struct tr_series *s = &p->series[i];
    const char *colour = colour_of(p, i);
    char *name;

    fprintf(f, "$series%d using ", i);
    if (p->stacked && s->look == TR_LOOK_IDEAL) {
        fprintf(f, "1:($2-0.42):(0):(0.84) with vectors nohead linewidth 1.5 linecolor rgb '%s'",
                colour);
    } else if (p->stacked) {
        fprintf(f,
                "(($1+$2)/2):3:1:2:($3-0.35):($3+0.35) with boxxyerror fillcolor rgb '%s' "
                "fillstyle solid 1 border linecolor rgb 'white' linewidth 0.3",
                colour);
    } else {
        bool ranges = has_ranges(s) && has_points(s);

        fprintf(f, "%s with %s%s", ranges ? "1:2:3:4" : "1:2", ranges ? "yerror" : "",
                ranges          ? has_line(s) ? "lines" : "bars"
                : !has_line(s)  ? "points"
                : has_points(s) ? "linespoints"
                                : "lines");
        fprintf(f, " linecolor rgb '%s'", colour);
        if (has_line(s))
            put_line(p, i, f);
        if (has_points(s))
            put_point(p, i, f);
    }
    if (s->count == 0) {
        fputs(" notitle", f);
        return;
    }
    name = g->names > 0 ? tr_plot_clip(s->name, g->longest) : tr_format("%s", s->name);
    fputs(" title ", f);
    put_quoted(name, strlen(name), f);
    free(name);
    if (s->raw)
        fprintf(f, ", $series%d using 1:5 with lines linewidth 0.5 linecolor rgb '#a0%s' notitle",
                i, colour + 1);
    for (int place = 0; place < PLACES && has_labels(s); place++)
        fprintf(f, ", $labels%d using 1:2:%d with labels %s noenhanced notitle", i, 3 + place,
                places[place]);
}

/* Marks of the x axis: at the points, as far as their numbers have room, or at whole steps. */
static void put_x_marks(const struct tr_draw_page *g, bool lowest, FILE *f)
{
    const double low = g->x.is_log ? log(g->x.low) : g->x.low;
    const double high = g->x.is_log ? log(g->x.high) : g->x.high;
    const double mm = (g->right - g->left) / (high - low);
    double last = -INFINITY;

    if (!g->p->ticks) {
        if (g->x.is_log)
            fputs("set xtics auto\n", f);
        else
            fprintf(f, "set xtics %.10g\n", g->x.step);
        return;
    }
    fputs("set xtics (", f);
    for (;;) {
        double next = INFINITY;

        for (int i = 0; i < g->p->count; i++)
            for (int64_t n = 0; n < g->p->series[i].count; n++)
                if (g->p->series[i].x[n] > last && g->p->series[i].x[n] < next)
                    next = g->p->series[i].x[n];
        if (!isfinite(next))
            break;
        fputs(isfinite(last) ? ", " : "", f);
        if (lowest)
            fprintf(f, "'%.6g' %.10g", next, next);
        else
            fprintf(f, "'' %.10g", next);
        /* The next one whose number does not run into this one. */
        last = g->x.is_log ? exp(log(next) + tr_draw_letters(g, 5.0) / mm)
                           : next + tr_draw_letters(g, 3.0) / mm;
        last = fmax(last, next);
    }
    fputs(")\n", f);
}

static void put_bar_names(const struct tr_draw_page *g, FILE *f)
{
    fprintf(f, "set yrange [%d.5:-0.5]\nset ytics (", g->p->bars - 1);
    for (int i = 0; i < g->p->bars; i++) {
        char *name = tr_plot_clip(g->p->bar[i], tr_draw_name_letters(g));

        fputs(i ? ", " : "", f);
        put_quoted(name, strlen(name), f);
        fprintf(f, " %d", i);
        free(name);
    }
    fputs(") noenhanced scale 0\nset grid xtics noytics\n", f);
}

static void put_panel(const struct tr_draw_page *g, const struct tr_draw_panel *q, FILE *f)
{
    bool lowest = q == &g->panel[g->panels - 1], first = true;

    fprintf(f, "set tmargin at screen %.5f\nset bmargin at screen %.5f\n", q->top / g->height,
            q->bottom / g->height);
    if (g->p->stacked)
        put_bar_names(g, f);
    else if (q->y.is_log)
        fprintf(f, "set logscale y 2\nset yrange [%.10g:%.10g]\n", q->y.low, q->y.high);
    else
        fprintf(f,
                "unset logscale y\nset yrange [%.10g:%.10g]\nset ytics %.10g\nset format y "
                "'%%.%df'\n",
                q->y.low, q->y.high, q->y.step, tr_draw_digits(&q->y));
    if (lowest)
        fprintf(f, g->x.is_log ? "set format x '%%g'\n" : "set format x '%%.%df'\n",
                tr_draw_digits(&g->x));
    else
        fputs("set format x ''\n", f);
    put_x_marks(g, lowest, f);
    if (q->label)
        put_label(g, q->label, strlen(q->label), (TR_DRAW_EDGE + 0.5 * TR_DRAW_LINE) * g->em,
                  0.5 * (q->top + q->bottom), "center rotate by 90", f);
    fputs("plot ", f);
    for (int i = 0; i < g->p->count; i++) {
        if (g->p->series[i].below != q->below)
            continue;
        fputs(first ? "" : ", \\\n     ", f);
        put_series(g, i, f);
        first = false;
    }
    fputc('\n', f);
}

static void put_page(const struct tr_draw_page *g, FILE *f)
{
    const char *label = g->p->stacked ? g->p->y_label : g->p->x_label;
    double bottom = g->panel[g->panels - 1].bottom;

    fputs("set decimalsign '.'\nset border 3\nset tics nomirror out scale 0.5\n"
          "set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 0.5\nset errorbars small\n",
          f);
    put_data(g->p, f);
    put_lines(g, g->title, g->height - TR_DRAW_EDGE * g->em, f);
    put_legend(g, f);
    put_label(g, label, strlen(label), 0.5 * (g->left + g->right),
              bottom - (TR_DRAW_TICS + 0.5 * TR_DRAW_LINE) * g->em, "center", f);
    put_lines(g, g->note, (TR_DRAW_EDGE + tr_draw_lines(g->note) * TR_DRAW_LINE) * g->em, f);
    fprintf(f, "set lmargin at screen %.5f\nset rmargin at screen %.5f\n", g->left / g->width,
            g->right / g->width);
    fprintf(f, "%sset xrange [%.10g:%.10g]\n", g->x.is_log ? "set logscale x 2\n" : "", g->x.low,
            g->x.high);
    if (g->panels > 1)
        fputs("set multiplot\n", f);
    for (int i = 0; i < g->panels; i++) {
        if (i > 0)
            fputs("unset label\nunset key\n", f);
        put_panel(g, &g->panel[i], f);
    }
    if (g->panels > 1)
        fputs("unset multiplot\n", f);
}

enum tr_status tr_draw_script(const struct tr_plot *p, FILE *f)
{
    struct tr_draw_page g;
    enum tr_status s = tr_draw_lay_out(p, &g);

    if (s == TR_OK)
        put_page(&g, f);
    tr_draw_page_release(&g);
    return s;
}
