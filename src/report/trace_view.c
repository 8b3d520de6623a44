/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/trace_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/text.h"

/* Kinds that are next to one another differ in lightness too, so that they do in print. */
static const struct {
    const char *name;
    enum tr_colour colour; /* in turn: a light grey */
    const char *text;      /* the colour of numbers on it */
    bool some;             /* only some traces have it, and only their legends */
} kinds[TR_TRACE_KINDS] = {
    [TR_TRACE_FORWARD] = {"forward", TR_COLOUR_BLUE, "white", false},
    [TR_TRACE_BACKWARD] = {"backward", TR_COLOUR_SKY, "black", false},
    [TR_TRACE_WEIGHTS] = {"gradients of weights", TR_COLOUR_GREEN, "white", true},
    [TR_TRACE_MESSAGE] = {"message", TR_COLOUR_VERMILION, "white", true},
    [TR_TRACE_WAIT] = {"waiting", TR_COLOUR_IN_TURN, "black", true},
    [TR_TRACE_GRADIENTS] = {"sums of gradients", TR_COLOUR_PURPLE, "white", true},
    [TR_TRACE_OPTIMIZER] = {"optimizer", TR_COLOUR_ORANGE, "white", true},
};

static const char *colour_of(enum tr_trace_kind kind)
{
    return kinds[kind].colour == TR_COLOUR_IN_TURN ? "#d4d4d4" : tr_draw_colour(kinds[kind].colour);
}

/* What a trace tells apart, microseconds: times have three decimals. */
static const double LEAST_US = 1e-3;

/* In heights of a letter: a row, the bar in it, the thin one below it, a line of text, a margin, the mean width of
   a letter. */
static const double ROW = 2.2, BAR = 1.15, THIN = 0.5, LINE = 1.5, EDGE = 0.5, LETTER = 0.6;

/* The rows of one trace, and the part of it that is drawn, in microseconds. */
struct part {
    const struct tr_trace *t;
    double from, to;
    double top;   /* of the first row, pixels */
    char *title;  /* owned */
    char **label; /* [rows], owned */
};

/* The picture, in pixels, of which an inch has 96. */
struct window {
    struct part *part; /* [parts] */
    int parts;
    double length; /* microseconds, of the longest */
    double em, left, right, top, bottom, width, height;
    int columns; /* of the legend */
};

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the picture of a trace");
    return p;
}

static double wide(const struct window *w, int letters)
{
    return LETTER * w->em * letters;
}

/* ---- spans ---- */

/* Messages, and waiting, lie below the rest, since they go on during passes. */
static void draw_span(const struct window *w, const struct part *p, const struct tr_trace_span *s,
                      FILE *f)
{
    const bool thin = s->kind == TR_TRACE_MESSAGE || s->kind == TR_TRACE_WAIT;
    const double each = (w->right - w->left) / w->length;
    const double x = w->left + each * (fmax(s->from, p->from) - p->from);
    const double to = w->left + each * (fmin(s->to, p->to) - p->from);
    const double y = p->top + w->em * (ROW * (double)s->row + (thin ? BAR : 0.0));
    const int digits = s->micro > 0 ? 1 + (int)floor(log10((double)s->micro)) : 1;

    fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x, y,
            to - x, w->em * (thin ? THIN : BAR), colour_of(s->kind));
    /* Passes that follow one another at once are told apart. */
    if (!thin && to - x > 0.5 * w->em)
        fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"0.6\" height=\"%.2f\" fill=\"white\"/>\n",
                to - 0.3, y, w->em * BAR);
    if (s->micro >= 0 && !thin && to - x > wide(w, digits) + 0.15 * w->em)
        fprintf(f,
                "<text x=\"%.2f\" y=\"%.2f\" fill=\"%s\" text-anchor=\"middle\">%" PRId64
                "</text>\n",
                0.5 * (x + to), y + 0.95 * w->em, kinds[s->kind].text, s->micro);
}

static void draw_text(const char *s, FILE *f)
{
    for (; *s; s++)
        switch (*s) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        default:
            fputc(*s, f);
        }
}

static void draw_line(const char *s, double x, double y, FILE *f)
{
    fprintf(f, "<text x=\"%.2f\" y=\"%.2f\">", x, y);
    draw_text(s, f);
    fputs("</text>\n", f);
}

/* ---- axis and legend ---- */

/* 1, 2 or 5 times a power of ten, about `many` of them in `length`. */
static double step_of(double length, double many)
{
    const double tenth = pow(10.0, floor(log10(length / many))), m = length / many / tenth;

    return tenth * (m < 1.5 ? 1.0 : m < 3.5 ? 2.0 : m < 7.5 ? 5.0 : 10.0);
}

static void draw_axis(const struct window *w, FILE *f)
{
    const double length = 1e-3 * w->length, room = w->right - w->left;
    const double step = step_of(length, fmax(2.0, fmin(10.0, room / wide(w, 8))));
    const int digits = (int)fmax(0.0, -floor(log10(step) + 1e-9));

    for (int i = 0; i * step <= length; i++) {
        const double x = w->left + room * i * step / length;

        fprintf(f,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"#bbbbbb\" "
                "stroke-width=\"0.5\"/>\n"
                "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%.*f</text>\n",
                x, x, w->top - 0.3 * w->em, w->bottom, x, w->bottom + w->em, digits, i * step);
    }
    fprintf(f, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">ms</text>\n",
            0.5 * (w->left + w->right), w->bottom + (1.0 + LINE) * w->em);
}

static bool in_legend(const struct window *w, int kind)
{
    bool has = !kinds[kind].some;

    for (int k = 0; k < w->parts; k++)
        for (size_t i = 0; i < w->part[k].t->spans && !has; i++)
            has = (int)w->part[k].t->span[i].kind == kind;
    return has;
}

/* A column of the legend has room for the longest name in it. */
static double column_of(const struct window *w)
{
    int most = 0;

    for (int k = 0; k < TR_TRACE_KINDS; k++)
        if (in_legend(w, k) && (int)strlen(kinds[k].name) > most)
            most = (int)strlen(kinds[k].name);
    return wide(w, most) + 2.2 * w->em;
}

static void draw_legend(const struct window *w, FILE *f)
{
    int n = 0;

    for (int k = 0; k < TR_TRACE_KINDS; k++) {
        const double x = EDGE * w->em + column_of(w) * (n % w->columns);
        const double y = (EDGE + LINE * (double)(n / w->columns)) * w->em;

        if (!in_legend(w, k))
            continue;
        fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x,
                y + 0.25 * w->em, 1.2 * w->em, 0.9 * w->em, colour_of((enum tr_trace_kind)k));
        draw_line(kinds[k].name, x + 1.6 * w->em, y + w->em, f);
        n++;
    }
}

/* ---- names of rows ---- */

/* More are left together: a trace can have any names. */
enum { MOST_PIECES = 8 };

/* The piece number n of "rank 0, stage 1, tensor 0", its length in *bytes; NULL if there are less. */
static const char *piece_of(const char *name, int n, size_t *bytes)
{
    const bool last = n == MOST_PIECES - 1;
    const char *end;

    for (; n > 0 && name; n--) {
        name = strstr(name, ", ");
        name = name ? name + 2 : NULL;
    }
    end = name && !last ? strstr(name, ", ") : NULL;
    *bytes = !name ? 0 : end ? (size_t)(end - name) : strlen(name);
    return name;
}

/* Do all rows have the same in this piece? */
static bool is_shared(const struct tr_trace *t, int n)
{
    size_t bytes, others;
    const char *first = piece_of(t->row[0].name, n, &bytes);

    for (int64_t r = 1; r < t->rows && first; r++) {
        const char *piece = piece_of(t->row[r].name, n, &others);

        if (!piece || others != bytes || strncmp(piece, first, bytes) != 0)
            return false;
    }
    return first && t->rows > 1;
}

/* "measured 430 ms: iteration 3 on 2 ranks"; only what is measured has several. */
static char *title_of(const struct part *p, int64_t number, bool alone)
{
    const struct tr_trace *t = p->t;
    const bool measured = strcmp(t->from, "measured") == 0;
    char *what = measured ? tr_format("teration %" PRId64 " on ", number) : tr_format("%s", "");
    char *rows = t->rows < t->ranks ? tr_format("%" PRId64 " of ", t->rows) : tr_format("%s", "");
    char *ranks = tr_format("%s%" PRId64 " rank%s", rows, t->ranks, tr_plural(t->ranks));
    char *title = alone ? tr_format("I%s%s", what, ranks)
                        : tr_format("%c%s, %.4g ms: %s%s%s", t->from[0] - 'a' + 'A', t->from + 1,
                                    1e-3 * (p->to - p->from), measured ? "i" : "", what, ranks);

    free(what);
    free(rows);
    free(ranks);
    return title;
}

/* A word of a title that says where several traces differ. */
static const char *where_of(const char *piece)
{
    const char *on = strstr(piece, " on ");

    return on ? on : "";
}

/* What tells the rows apart names them, the rest is in the title; of several traces that has the
   machine alone. */
static void name_rows(struct part *p, int64_t number, bool alone)
{
    const struct tr_trace *t = p->t;
    size_t bytes;

    p->title = title_of(p, number, alone);
    p->label = need((size_t)t->rows, sizeof *p->label);
    for (int n = 0; n < MOST_PIECES && t->rows > 0 && piece_of(t->row[0].name, n, &bytes); n++) {
        const bool shared = is_shared(t, n);

        for (int64_t r = 0; r < (shared ? 1 : t->rows); r++) {
            const char *piece = piece_of(t->row[r].name, n, &bytes);
            char **to = shared ? &p->title : &p->label[r], *copy;

            copy = tr_format("%.*s", (int)bytes, piece ? piece : "");
            if (piece && shared && !alone)
                *to = tr_text_join(*to, "", where_of(copy));
            else if (piece)
                *to = tr_text_join(*to, ", ", copy);
            free(copy);
        }
    }
    for (int64_t r = 0; r < t->rows; r++)
        p->label[r] = p->label[r] ? p->label[r] : tr_format("%s", "");
}

static void release(struct window *w)
{
    for (int k = 0; k < w->parts; k++) {
        for (int64_t r = 0; w->part[k].label && r < w->part[k].t->rows; r++)
            free(w->part[k].label[r]);
        free(w->part[k].label);
        free(w->part[k].title);
    }
    free(w->part);
}

/* ---- the picture ---- */

static enum tr_status open_part(struct part *p, int64_t iteration, bool alone)
{
    const struct tr_trace *t = p->t;
    const bool any = iteration < 0 || strcmp(t->from, "measured") != 0;
    const int64_t number = any ? t->first : iteration;

    if (number < t->first || number > t->last)
        return TR_FAIL(TR_ECONFIG,
                       "the trace has iterations %" PRId64 " to %" PRId64 ", and not %" PRId64,
                       t->first, t->last, number);
    tr_trace_window(t, number - t->first, &p->from, &p->to);
    if (!(p->to - p->from >= LEAST_US))
        return TR_FAIL(TR_EDATA, "the trace says nothing of iteration %" PRId64, number);
    name_rows(p, number, alone && strcmp(t->from, "measured") == 0);
    return TR_OK;
}

static void lay_out(const struct tr_plot_style *style, struct window *w)
{
    const double px_of_mm = 96.0 / 25.4, px_of_point = 96.0 / 72.0;
    int longest = 0, shown = 0;

    w->em = px_of_point * (style->points > 0.0 ? style->points : 9.0);
    w->width = fmax(px_of_mm * (style->width > 0.0 ? style->width : 160.0), 25.0 * w->em);
    for (int k = 0; k < w->parts; k++)
        for (int64_t r = 0; r < w->part[k].t->rows; r++)
            longest = (int)fmax(longest, tr_plot_letters(w->part[k].label[r]));
    w->left = fmin(wide(w, longest), 0.4 * w->width) + 2.0 * EDGE * w->em;
    w->right = w->width - 1.5 * w->em;
    for (int k = 0; k < TR_TRACE_KINDS; k++)
        shown += in_legend(w, k);
    w->columns = (int)fmax(1.0, fmin(shown, (w->width - EDGE * w->em) / column_of(w)));
    w->bottom = (2.0 * EDGE + LINE * ceil((double)shown / w->columns)) * w->em;
    for (int k = 0; k < w->parts; k++) {
        w->part[k].top = w->bottom + (LINE + 0.4) * w->em;
        w->bottom = w->part[k].top + ROW * w->em * (double)w->part[k].t->rows;
    }
    w->top = w->part[0].top;
    w->height = w->bottom + (1.0 + LINE + EDGE) * w->em;
}

static void draw_part(const struct window *w, const struct part *p, FILE *f)
{
    const int room = (int)((w->left - 2.0 * EDGE * w->em) / wide(w, 1) + 0.5);
    char *title = tr_plot_clip(p->title, (int)((w->width - EDGE * w->em) / wide(w, 1)));

    draw_line(title, EDGE * w->em, p->top - 0.7 * w->em, f);
    free(title);
    for (int64_t r = 0; r < p->t->rows; r++) {
        char *name = tr_plot_clip(p->label[r], room);

        draw_line(name, EDGE * w->em, p->top + w->em * (ROW * (double)r + 0.95), f);
        free(name);
    }
    for (size_t i = 0; i < p->t->spans; i++)
        if (p->t->span[i].to > p->from && p->t->span[i].from < p->to)
            draw_span(w, p, &p->t->span[i], f);
}

static void draw(const struct window *w, const char *font, FILE *f)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"%s\" font-size=\"%.2f\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            w->width, w->height, w->width, w->height, font ? font : "sans-serif", w->em);
    draw_legend(w, f);
    draw_axis(w, f);
    for (int k = 0; k < w->parts; k++)
        draw_part(w, &w->part[k], f);
    fputs("</svg>\n", f);
}

enum tr_status tr_trace_view_svg(const struct tr_trace *t, int count, int64_t iteration,
                                 const struct tr_plot_style *style, FILE *f)
{
    struct window w = {.part = need((size_t)count, sizeof *w.part), .parts = count};
    enum tr_status s = TR_OK;

    for (int k = 0; k < count; k++)
        w.part[k].t = &t[k];
    for (int k = 0; k < count && s == TR_OK; k++) {
        s = open_part(&w.part[k], iteration, count == 1);
        w.length = fmax(w.length, w.part[k].to - w.part[k].from);
    }
    if (s == TR_OK) {
        lay_out(style, &w);
        draw(&w, style->font, f);
    }
    release(&w);
    return s;
}
