/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/draw.h"
#include "util/file.h"

/*
 * The script says where the parts of the picture are, so that no two texts meet however narrow it
 * is; gnuplot lays the legend out:
 *
 *   title, legend | upper panel | lower panel | names of the axis, caption
 *
 * Widths of texts are estimated from the mean width of a letter, 0.64 of its size in wide fonts such as DejaVu Sans, and 0.57
 * in sentences, which have blanks and more narrow letters.  Lengths are mm.
 */
static const double MM_OF_POINT = 25.4 / 72.0, LETTER = 0.64, IN_SENTENCES = 0.57, LINE = 1.3;

/* Sizes in letters: of the margin, of a sample in the legend with the gap behind it, of a row of bars, of
   the numbers at the x axis. */
static const double EDGE = 0.6, SAMPLE = 2.0, GAP = 0.6, ROW = 2.4, TICS = 2.0;

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

/* An axis from low to high with a mark each `step`, or, of a logarithmic one, at each power of two. */
struct scale {
    double low, high, step;
    bool is_log;
};

struct panel {
    double bottom, top;
    struct scale y;
    const char *label;
    bool below;
};

struct page {
    const struct tr_plot *p;
    double width, height, em;
    double left, right; /* of the panels */
    struct scale x;
    struct panel panel[2]; /* from the top */
    int panels;
    char *title, *note;          /* with an end of line where one is; owned */
    int names, columns, longest; /* of the legend; letters */
};

static double letters(const struct page *g, double n)
{
    return n * LETTER * g->em;
}

/* ---- texts ---- */

/* A copy with lines of at most `most` letters, broken at blanks, if no % comes next. */
static char *wrap(const char *text, int most)
{
    char *copy = tr_format("%s", text), *line = copy, *blank = NULL;

    for (char *s = copy; *s; s++) {
        if (*s != ' ' || s[1] == '%')
            continue;
        *s = '\0';
        if (blank && tr_plot_letters(line) > most) {
            *blank = '\n';
            line = blank + 1;
        }
        *s = ' ';
        blank = s;
    }
    if (blank && tr_plot_letters(line) > most)
        *blank = '\n';
    return copy;
}

static int lines_of(const char *text)
{
    int n = *text != '\0';

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

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

static void put_place(const struct page *g, double x, double y, FILE *f)
{
    fprintf(f, "screen %.5f,%.5f", x / g->width, y / g->height);
}

/* A line of text, its middle at the height y. */
static void put_label(const struct page *g, const char *s, size_t n, double x, double y,
                      const char *how, FILE *f)
{
    fputs("set label ", f);
    put_quoted(s, n, f);
    fputs(" at ", f);
    put_place(g, x, y, f);
    fprintf(f, " %s noenhanced\n", how);
}

/* Several of them, the first one's upper edge at `top`. */
static void put_lines(const struct page *g, const char *text, double top, FILE *f)
{
    for (; *text; top -= LINE * g->em) {
        size_t n = strcspn(text, "\n");

        put_label(g, text, n, EDGE * g->em, top - 0.5 * LINE * g->em, "left", f);
        text += n + (text[n] == '\n');
    }
}

/* ---- axes ---- */

static double nice_step(double span, double most)
{
    double raw = span / fmax(most, 2.0), unit = pow(10.0, floor(log10(raw)));
    double n = raw / unit;

    return unit * (n <= 1.0 ? 1.0 : n <= 2.0 ? 2.0 : n <= 5.0 ? 5.0 : 10.0);
}

/* The extent of what lines and points of a panel show. */
static struct scale extent_of(const struct tr_plot *p, bool below, bool is_x)
{
    struct scale a = {INFINITY, -INFINITY, 0.0, false};

    for (int i = 0; i < p->count; i++) {
        const struct tr_series *s = &p->series[i];

        for (int64_t n = 0; n < s->count && s->below == below; n++) {
            a.low = fmin(a.low, is_x ? s->x[n] : s->low[n]);
            a.high = fmax(a.high, is_x ? s->x[n] : s->high[n]);
            if (!is_x && s->raw) {
                a.low = fmin(a.low, s->raw[n]);
                a.high = fmax(a.high, s->raw[n]);
            }
        }
    }
    if (a.low > a.high)
        a.low = 0.0, a.high = 1.0;
    return a;
}

/* Room around the points of a logarithmic axis. */
static void widen_log(struct scale *a)
{
    double factor = fmax(pow(a->high / a->low, 0.06), 1.15);

    a->is_log = true;
    a->low /= factor;
    a->high *= factor;
}

/* With marks at whole steps, of which there is room for `most`; `whole`: up to a mark at both ends. */
static void find_marks(struct scale *a, double most, bool whole)
{
    if (!(a->high > a->low)) {
        double half = fabs(a->high) > 0.0 ? 0.5 * fabs(a->high) : 0.5;

        a->low -= half;
        a->high += half;
    }
    a->step = nice_step(a->high - a->low, most);
    if (!whole)
        return;
    a->low = floor(a->low / a->step + 1e-9) * a->step;
    a->high = ceil(a->high / a->step - 1e-9) * a->step;
}

/* Decimals of all marks of an axis: those of its step. */
static int digits_of(const struct scale *a)
{
    return a->is_log || !(a->step > 0.0) ? 0 : (int)fmax(0.0, -floor(log10(a->step) + 1e-9));
}

static int widest_mark(const struct scale *a)
{
    int most = 1;

    for (double x = a->low; a->step > 0.0 && x <= a->high + 0.5 * a->step; x += a->step) {
        char text[32];
        int n = snprintf(text, sizeof text, "%.*f", digits_of(a), x);

        most = n > most ? n : most;
    }
    return a->is_log ? 4 : most;
}

static void scale_y(const struct page *g, struct panel *q)
{
    q->y = extent_of(g->p, q->below, false);
    if (g->p->log_log && !q->below) {
        widen_log(&q->y);
        q->y.low /= 1.15; /* for what stands below the first point */
        return;
    }
    if (g->p->from_zero || q->below)
        q->y.low = fmin(q->y.low, 0.0);
    find_marks(&q->y, (q->top - q->bottom) / (2.0 * g->em), true);
}

/* Are all x whole numbers, as iterations are? */
static bool is_whole(const struct tr_plot *p)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            if (fabs(p->series[i].x[n] - rint(p->series[i].x[n])) > 0.0)
                return false;
    return true;
}

static void scale_x(struct page *g)
{
    double room = g->right - g->left, wide, pad;

    g->x = extent_of(g->p, false, true);
    if (g->p->log_log) {
        widen_log(&g->x);
        return;
    }
    wide = g->x.high >= 1e5 ? 7.0 : 4.0;
    find_marks(&g->x, room / (letters(g, wide) + g->em), false);
    if (is_whole(g->p))
        g->x.step = fmax(g->x.step, 1.0);
    pad = g->p->ticks ? 0.5 : 0.02 * (g->x.high - g->x.low);
    g->x.low -= pad;
    g->x.high += pad;
}

/* How far bars reach. */
static double longest_bar(const struct tr_plot *p)
{
    double most = 0.0;

    for (int b = 0; b < p->bars; b++) {
        double sum = 0.0;

        for (int i = 0; i < p->count; i++)
            for (int64_t n = 0; n < p->series[i].count; n++)
                if ((int)p->series[i].x[n] == b && p->series[i].look != TR_LOOK_IDEAL)
                    sum += fmax(p->series[i].y[n], 0.0);
        most = fmax(most, sum);
    }
    return most;
}

/* ---- layout ---- */

static bool is_named(const struct tr_series *s)
{
    return !s->below && s->count > 0;
}

/* gnuplot places the legend, in as many columns as there is room for; a single series needs no
   name, a single part of bars does. */
static void lay_legend(struct page *g)
{
    const struct tr_plot *p = g->p;
    const double room = g->width - 2.0 * EDGE * g->em, beside = (SAMPLE + 2.0 * GAP) * g->em;

    for (int i = 0; i < p->count; i++)
        if (is_named(&p->series[i])) {
            const int n = tr_plot_letters(p->series[i].name);

            g->names++;
            g->longest = n > g->longest ? n : g->longest;
        }
    if (g->names == 1 && !p->stacked && !p->legend)
        g->names = 0;
    if (g->longest > (room - beside) / letters(g, 1.0))
        g->longest = (int)((room - beside) / letters(g, 1.0));
    g->columns = (int)fmax(1.0, fmin(g->names, room / (letters(g, g->longest) + beside)));
}

static int legend_rows(const struct page *g)
{
    return g->names > 0 ? (g->names + g->columns - 1) / g->columns : 0;
}

/* From the edges to the panels: title and legend; names of the axis and caption. */
static double head_of(const struct page *g)
{
    return ((lines_of(g->title) + legend_rows(g)) * LINE + 2.0 * EDGE) * g->em;
}

static double foot_of(const struct page *g)
{
    return ((lines_of(g->note) + 1) * LINE + TICS + 2.0 * EDGE) * g->em;
}

/* Of the panels, where it is not given. */
static double body_of(const struct page *g)
{
    if (g->p->stacked)
        return fmax(g->p->bars, 2) * ROW * g->em;
    return g->p->below_label ? fmax(0.75 * g->width, 24.0 * g->em) : 0.5 * g->width;
}

/* Letters that a bar's name has room for. */
static int name_letters(const struct page *g)
{
    return (int)(0.36 * g->width / letters(g, 1.0));
}

static double left_of(const struct page *g)
{
    int most = 0;

    for (int b = 0; b < g->p->bars; b++) {
        int n = tr_plot_letters(g->p->bar[b]);

        most = n > most ? n : most;
    }
    if (g->p->stacked)
        return letters(g, most < name_letters(g) ? most : name_letters(g)) + 1.5 * g->em;
    for (int i = 0; i < g->panels; i++) {
        int n = widest_mark(&g->panel[i].y);

        most = n > most ? n : most;
    }
    return letters(g, most) + (EDGE + LINE + 1.0) * g->em;
}

static void lay_panels(struct page *g)
{
    double top = g->height - head_of(g), bottom = foot_of(g), gap = g->p->below_label ? g->em : 0.0;
    double upper = g->p->below_label ? 0.55 * (top - bottom - gap) : top - bottom;

    g->panel[0] = (struct panel){
        .bottom = top - upper, .top = top, .label = g->p->stacked ? NULL : g->p->y_label};
    g->panels = 1;
    if (g->p->below_label)
        g->panel[g->panels++] = (struct panel){
            .bottom = bottom, .top = top - upper - gap, .label = g->p->below_label, .below = true};
    for (int i = 0; i < g->panels && !g->p->stacked; i++)
        scale_y(g, &g->panel[i]);
    g->left = left_of(g);
    g->right = g->width - 2.0 * g->em;
    scale_x(g);
    if (g->p->stacked) {
        g->x = (struct scale){.high = longest_bar(g->p)};
        find_marks(&g->x, (g->right - g->left) / (5.0 * g->em), true);
    }
}

static enum tr_status lay_out(const struct tr_plot *p, struct page *g)
{
    const struct tr_plot_style *s = &p->style;
    int most;

    *g = (struct page){
        .p = p, .em = tr_draw_points(p) * MM_OF_POINT, .width = s->width > 0.0 ? s->width : 160.0};
    most = (int)((g->width - 2.0 * EDGE * g->em) / (IN_SENTENCES * g->em));
    g->title = wrap(p->title, most);
    g->note = wrap(p->note ? p->note : "", most);
    lay_legend(g);
    g->height = s->height > 0.0 ? s->height : head_of(g) + body_of(g) + foot_of(g);
    if (g->height - head_of(g) - foot_of(g) < (p->below_label ? 12.0 : 4.0) * g->em ||
        g->width < 20.0 * g->em)
        return TR_FAIL(TR_ECONFIG,
                       "a picture of %.0f mm by %.0f mm has no room for axes beside its texts of "
                       "%g points: give more for --plot-width or --plot-height, or less for "
                       "--plot-font-size",
                       g->width, g->height, tr_draw_points(p));
    lay_panels(g);
    return TR_OK;
}

static void release(struct page *g)
{
    free(g->title);
    free(g->note);
}

double tr_draw_points(const struct tr_plot *p)
{
    return p->style.points > 0.0 ? p->style.points : 9.0;
}

const char *tr_draw_font(const struct tr_plot *p)
{
    return p->style.font ? p->style.font : "sans-serif";
}

void tr_draw_size(const struct tr_plot *p, double *width, double *height)
{
    struct page g;

    /* The script says what is wrong with it. */
    if (lay_out(p, &g) != TR_OK)
        g.height = fmax(g.height, 1.0);
    *width = g.width;
    *height = g.height;
    release(&g);
}

/* ---- script ---- */

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

static void put_legend(const struct page *g, FILE *f)
{
    if (g->names == 0) {
        fputs("unset key\n", f);
        return;
    }
    fputs("set key at ", f);
    put_place(g, EDGE * g->em, g->height - (EDGE + lines_of(g->title) * LINE) * g->em, f);
    fprintf(f,
            " left top vertical maxrows %d Left reverse noenhanced samplen %g width %g "
            "spacing 1 height 0\n",
            legend_rows(g), SAMPLE, GAP);
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

static void put_series(const struct page *g, int i, FILE *f)
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
static void put_x_marks(const struct page *g, bool lowest, FILE *f)
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
        last = g->x.is_log ? exp(log(next) + letters(g, 5.0) / mm) : next + letters(g, 3.0) / mm;
        last = fmax(last, next);
    }
    fputs(")\n", f);
}

static void put_bar_names(const struct page *g, FILE *f)
{
    fprintf(f, "set yrange [%d.5:-0.5]\nset ytics (", g->p->bars - 1);
    for (int i = 0; i < g->p->bars; i++) {
        char *name = tr_plot_clip(g->p->bar[i], name_letters(g));

        fputs(i ? ", " : "", f);
        put_quoted(name, strlen(name), f);
        fprintf(f, " %d", i);
        free(name);
    }
    fputs(") noenhanced scale 0\nset grid xtics noytics\n", f);
}

static void put_panel(const struct page *g, const struct panel *q, FILE *f)
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
                q->y.low, q->y.high, q->y.step, digits_of(&q->y));
    if (lowest)
        fprintf(f, g->x.is_log ? "set format x '%%g'\n" : "set format x '%%.%df'\n",
                digits_of(&g->x));
    else
        fputs("set format x ''\n", f);
    put_x_marks(g, lowest, f);
    if (q->label)
        put_label(g, q->label, strlen(q->label), (EDGE + 0.5 * LINE) * g->em,
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

static void put_page(const struct page *g, FILE *f)
{
    const char *label = g->p->stacked ? g->p->y_label : g->p->x_label;
    double bottom = g->panel[g->panels - 1].bottom;

    fputs("set decimalsign '.'\nset border 3\nset tics nomirror out scale 0.5\n"
          "set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 0.5\nset errorbars small\n",
          f);
    put_data(g->p, f);
    put_lines(g, g->title, g->height - EDGE * g->em, f);
    put_legend(g, f);
    put_label(g, label, strlen(label), 0.5 * (g->left + g->right),
              bottom - (TICS + 0.5 * LINE) * g->em, "center", f);
    put_lines(g, g->note, (EDGE + lines_of(g->note) * LINE) * g->em, f);
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
    struct page g;
    enum tr_status s = lay_out(p, &g);

    if (s == TR_OK)
        put_page(&g, f);
    release(&g);
    return s;
}
