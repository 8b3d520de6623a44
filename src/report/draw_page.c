/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/draw_page.h"

#include <math.h>
#include <stdlib.h>

#include "util/file.h"

static const double MM_OF_POINT = 25.4 / 72.0, LETTER = 0.64, IN_SENTENCES = 0.57;
static const double ROW = 2.4; /* of bars, in letters */

double tr_draw_letters(const struct tr_draw_page *g, double n)
{
    return n * LETTER * g->em;
}

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

int tr_draw_lines(const char *text)
{
    int n = *text != '\0';

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- axes ---- */

static double nice_step(double span, double most)
{
    double raw = span / fmax(most, 2.0), unit = pow(10.0, floor(log10(raw)));
    double n = raw / unit;

    return unit * (n <= 1.0 ? 1.0 : n <= 2.0 ? 2.0 : n <= 5.0 ? 5.0 : 10.0);
}

/* The extent of what lines and points of a panel show. */
static struct tr_draw_scale extent_of(const struct tr_plot *p, bool below, bool is_x)
{
    struct tr_draw_scale a = {INFINITY, -INFINITY, 0.0, false};

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
static void widen_log(struct tr_draw_scale *a)
{
    double factor = fmax(pow(a->high / a->low, 0.06), 1.15);

    a->is_log = true;
    a->low /= factor;
    a->high *= factor;
}

/* With marks at whole steps, of which there is room for `most`; `whole`: up to a mark at both ends.
 */
static void find_marks(struct tr_draw_scale *a, double most, bool whole)
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

int tr_draw_digits(const struct tr_draw_scale *a)
{
    return a->is_log || !(a->step > 0.0) ? 0 : (int)fmax(0.0, -floor(log10(a->step) + 1e-9));
}

static int widest_mark(const struct tr_draw_scale *a)
{
    int most = 1;

    for (double x = a->low; a->step > 0.0 && x <= a->high + 0.5 * a->step; x += a->step) {
        char text[32];
        int n = snprintf(text, sizeof text, "%.*f", tr_draw_digits(a), x);

        most = n > most ? n : most;
    }
    return a->is_log ? 4 : most;
}

static void scale_y(const struct tr_draw_page *g, struct tr_draw_panel *q)
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

static void scale_x(struct tr_draw_page *g)
{
    double room = g->right - g->left, wide, pad;

    g->x = extent_of(g->p, false, true);
    if (g->p->log_log) {
        widen_log(&g->x);
        return;
    }
    wide = g->x.high >= 1e5 ? 7.0 : 4.0;
    find_marks(&g->x, room / (tr_draw_letters(g, wide) + g->em), false);
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
static void lay_legend(struct tr_draw_page *g)
{
    const struct tr_plot *p = g->p;
    const double room = g->width - 2.0 * TR_DRAW_EDGE * g->em,
                 beside = (TR_DRAW_SAMPLE + 2.0 * TR_DRAW_GAP) * g->em;

    for (int i = 0; i < p->count; i++)
        if (is_named(&p->series[i])) {
            const int n = tr_plot_letters(p->series[i].name);

            g->names++;
            g->longest = n > g->longest ? n : g->longest;
        }
    if (g->names == 1 && !p->stacked && !p->legend)
        g->names = 0;
    if (g->longest > (room - beside) / tr_draw_letters(g, 1.0))
        g->longest = (int)((room - beside) / tr_draw_letters(g, 1.0));
    g->columns = (int)fmax(1.0, fmin(g->names, room / (tr_draw_letters(g, g->longest) + beside)));
}

int tr_draw_legend_rows(const struct tr_draw_page *g)
{
    return g->names > 0 ? (g->names + g->columns - 1) / g->columns : 0;
}

/* From the edges to the panels: title and legend; names of the axis and caption. */
static double head_of(const struct tr_draw_page *g)
{
    return ((tr_draw_lines(g->title) + tr_draw_legend_rows(g)) * TR_DRAW_LINE +
            2.0 * TR_DRAW_EDGE) *
           g->em;
}

static double foot_of(const struct tr_draw_page *g)
{
    return ((tr_draw_lines(g->note) + 1) * TR_DRAW_LINE + TR_DRAW_TICS + 2.0 * TR_DRAW_EDGE) *
           g->em;
}

/* Of the panels, where it is not given. */
static double body_of(const struct tr_draw_page *g)
{
    if (g->p->stacked)
        return fmax(g->p->bars, 2) * ROW * g->em;
    return g->p->below_label ? fmax(0.75 * g->width, 24.0 * g->em) : 0.5 * g->width;
}

int tr_draw_name_letters(const struct tr_draw_page *g)
{
    return (int)(0.36 * g->width / tr_draw_letters(g, 1.0));
}

static double left_of(const struct tr_draw_page *g)
{
    int most = 0;

    for (int b = 0; b < g->p->bars; b++) {
        int n = tr_plot_letters(g->p->bar[b]);

        most = n > most ? n : most;
    }
    if (g->p->stacked)
        return tr_draw_letters(g, most < tr_draw_name_letters(g) ? most : tr_draw_name_letters(g)) +
               1.5 * g->em;
    for (int i = 0; i < g->panels; i++) {
        int n = widest_mark(&g->panel[i].y);

        most = n > most ? n : most;
    }
    return tr_draw_letters(g, most) + (TR_DRAW_EDGE + TR_DRAW_LINE + 1.0) * g->em;
}

static void lay_panels(struct tr_draw_page *g)
{
    double top = g->height - head_of(g), bottom = foot_of(g), gap = g->p->below_label ? g->em : 0.0;
    double upper = g->p->below_label ? 0.55 * (top - bottom - gap) : top - bottom;

    g->panel[0] = (struct tr_draw_panel){
        .bottom = top - upper, .top = top, .label = g->p->stacked ? NULL : g->p->y_label};
    g->panels = 1;
    if (g->p->below_label)
        g->panel[g->panels++] = (struct tr_draw_panel){
            .bottom = bottom, .top = top - upper - gap, .label = g->p->below_label, .below = true};
    for (int i = 0; i < g->panels && !g->p->stacked; i++)
        scale_y(g, &g->panel[i]);
    g->left = left_of(g);
    g->right = g->width - 2.0 * g->em;
    scale_x(g);
    if (g->p->stacked) {
        g->x = (struct tr_draw_scale){.high = longest_bar(g->p)};
        find_marks(&g->x, (g->right - g->left) / (5.0 * g->em), true);
    }
}

enum tr_status tr_draw_lay_out(const struct tr_plot *p, struct tr_draw_page *g)
{
    const struct tr_plot_style *s = &p->style;
    int most;

    *g = (struct tr_draw_page){
        .p = p, .em = tr_draw_points(p) * MM_OF_POINT, .width = s->width > 0.0 ? s->width : 160.0};
    most = (int)((g->width - 2.0 * TR_DRAW_EDGE * g->em) / (IN_SENTENCES * g->em));
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

void tr_draw_page_release(struct tr_draw_page *g)
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
    struct tr_draw_page g;

    /* The script says what is wrong with it. */
    if (tr_draw_lay_out(p, &g) != TR_OK)
        g.height = fmax(g.height, 1.0);
    *width = g.width;
    *height = g.height;
    tr_draw_page_release(&g);
}
