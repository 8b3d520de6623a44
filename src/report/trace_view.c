/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/trace_view.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/text.h"

/* What a span is, by the track that it is on (train/trace's tracks), with its colour. */
enum kind { FORWARD, BACKWARD, MESSAGE, WAIT, GRADIENTS, OPTIMIZER, WEIGHTS, KINDS };
static const struct {
    const char *name;
    enum tr_colour colour; /* in turn: a light grey */
    bool some;             /* only some traces have it, and only their legends */
} kinds[KINDS] = {
    [FORWARD] = {"forward", TR_COLOUR_BLUE, false},
    [BACKWARD] = {"backward", TR_COLOUR_GREEN, false},
    [MESSAGE] = {"message", TR_COLOUR_ORANGE, false},
    [WAIT] = {"waiting", TR_COLOUR_IN_TURN, false},
    [GRADIENTS] = {"gradients", TR_COLOUR_PURPLE, false},
    [OPTIMIZER] = {"optimizer", TR_COLOUR_VERMILION, false},
    [WEIGHTS] = {"gradients of weights", TR_COLOUR_SKY, true},
};

static const char *colour_of(enum kind kind)
{
    return kinds[kind].colour == TR_COLOUR_IN_TURN ? "#d4d4d4" : tr_draw_colour(kinds[kind].colour);
}

struct span {
    int64_t rank, micro; /* micro < 0: none */
    enum kind kind;
    double from, to; /* microseconds */
};

struct tr_trace_view {
    int64_t ranks, first, last; /* iterations */
    char **name;                /* [ranks] of the rows */
    struct span *span;
    size_t spans, room;
    double *begins; /* [iterations * ranks] when the iteration begins on the rank; NAN: not there */
    int64_t *seen;  /* [ranks] iterations so far */
};

/* Two centuries, and what such a trace tells apart: times have three decimals. */
static const double MOST_US = 6.4e15, LEAST_US = 1e-3;

/* ---- reading ---- */

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for a trace");
    return p;
}

static int64_t whole(const json_t *object, const char *name)
{
    const json_t *x = json_object_get(object, name);

    return json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
}

/* Microseconds; NAN for what is none, or a time that no clock has. */
static double real(const json_t *object, const char *name)
{
    const json_t *x = json_object_get(object, name);
    const double us = json_is_number(x) ? json_number_value(x) : NAN;

    return fabs(us) <= MOST_US ? us : NAN;
}

static const char *text(const json_t *object, const char *name)
{
    const char *s = json_string_value(json_object_get(object, name));

    return s ? s : "";
}

static void add(struct tr_trace_view *t, struct span s)
{
    if (!(s.to > s.from))
        return;
    if (t->spans == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        t->span = realloc(t->span, t->room * sizeof *t->span);
        if (!t->span)
            tr_die(TR_ERESOURCE, "no memory left for %zu spans of a trace", t->room);
    }
    t->span[t->spans++] = s;
}

/* The kind of a track's spans that are drawn; those within others are not. */
static enum kind kind_of(const char *name, int64_t track)
{
    const bool numbered = name[0] && name[1] >= '0' && name[1] <= '9';

    switch (track) {
    case 2:
        return numbered ? FORWARD : KINDS;
    case 5:
        return !numbered ? KINDS : name[0] == 'W' ? WEIGHTS : BACKWARD;
    case 1:
    case 3:
    case 4:
    case 6:
        return MESSAGE;
    case 7:
        return GRADIENTS;
    case 8:
        return strcmp(name, "optimizer") == 0 ? OPTIMIZER : KINDS;
    default:
        return KINDS;
    }
}

static void take_span(struct tr_trace_view *t, const json_t *e, int64_t rank)
{
    const json_t *args = json_object_get(e, "args");
    const int64_t track = whole(e, "tid");
    const double from = real(e, "ts"), to = from + real(e, "dur"), wait = real(args, "wait");
    struct span s = {rank, whole(args, "micro-batch"), kind_of(text(e, "name"), track), from, to};

    if (track == 0 && strcmp(text(e, "name"), "forward-backward") == 0 &&
        t->seen[rank] <= t->last - t->first) {
        t->begins[t->seen[rank] * t->ranks + rank] = from;
        t->seen[rank]++;
    }
    /* Whoever waits does so first; the norm of the gradient lies within the optimizer. */
    if (wait > 0.0 && (s.kind != KINDS || track == 8)) {
        struct span idle = s;

        idle.kind = WAIT;
        idle.to = s.from = fmin(from + wait, to);
        add(t, idle);
    }
    if (s.kind != KINDS)
        add(t, s);
}

static void take_event(struct tr_trace_view *t, const json_t *e)
{
    const int64_t rank = whole(e, "pid");
    const char *phase = text(e, "ph");

    if (rank < 0 || rank >= t->ranks)
        return;
    if (strcmp(phase, "M") == 0 && strcmp(text(e, "name"), "process_name") == 0) {
        free(t->name[rank]);
        t->name[rank] = tr_printable(tr_format("%s", text(json_object_get(e, "args"), "name")));
    } else if (strcmp(phase, "X") == 0) {
        take_span(t, e, rank);
    }
}

/* Numbers that no trace has are of no trace: what is allocated and drawn follows from them.  Each rank
   has events, if only those that name it. */
static enum tr_status take_head(struct tr_trace_view *t, const json_t *all, const char *path)
{
    enum { MOST = 1 << 20 };
    const json_t *head = json_object_get(all, "metadata");
    const json_t *events = json_object_get(all, "traceEvents");

    t->ranks = whole(head, "ranks");
    t->first = whole(head, "first-iteration");
    t->last = whole(head, "last-iteration");
    if (whole(head, "schema") != 1 || !json_is_array(events) || t->ranks < 1 || t->ranks > MOST ||
        (size_t)t->ranks > json_array_size(events) || t->first < 0 || t->last < t->first ||
        t->last - t->first >= MOST / t->ranks)
        return TR_FAIL(TR_EDATA,
                       "%s is no trace of this program: give one that trireme train --trace FILE "
                       "wrote",
                       path);
    return TR_OK;
}

enum tr_status tr_trace_view_read(const char *path, struct tr_trace_view **out)
{
    struct tr_trace_view *t = *out = need(1, sizeof *t);
    FILE *f = fopen(path, "re");
    json_error_t why;
    json_t *all, *e;
    enum tr_status s;
    size_t i;

    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    all = json_loadf(f, 0, &why);
    fclose(f);
    if (!all)
        return TR_FAIL(TR_EDATA, "%s is no trace: line %d of it is no JSON (%s)", path, why.line,
                       why.text);
    s = take_head(t, all, path);
    if (s == TR_OK) {
        const size_t iterations = (size_t)(t->last - t->first + 1), ranks = (size_t)t->ranks;

        t->name = need(ranks, sizeof *t->name);
        t->seen = need(ranks, sizeof *t->seen);
        t->begins = need(iterations * ranks, sizeof *t->begins);
        for (size_t k = 0; k < iterations * ranks; k++)
            t->begins[k] = NAN;
        json_array_foreach(json_object_get(all, "traceEvents"), i, e) take_event(t, e);
    }
    json_decref(all);
    return s;
}

void tr_trace_view_release(struct tr_trace_view *t)
{
    if (!t)
        return;
    for (int64_t r = 0; t->name && r < t->ranks; r++)
        free(t->name[r]);
    free(t->name);
    free(t->seen);
    free(t->begins);
    free(t->span);
    free(t);
}

/* ---- drawing ---- */

/* In heights of a letter: a row, the bar in it, the thin one below it, a line of text, a margin, the mean width of
   a letter. */
static const double ROW = 2.2, BAR = 1.15, THIN = 0.5, LINE = 1.5, EDGE = 0.5, LETTER = 0.6;

/* The part of time that is drawn, in microseconds, and where, in pixels, of which an inch has 96. */
struct window {
    double from, to;
    double em, left, right, top, width, height;
    char *title;  /* owned */
    char **label; /* [ranks] of the rows, owned */
    int columns;  /* of the legend */
};

static double wide(const struct window *w, int letters)
{
    return LETTER * w->em * letters;
}

/* When an iteration begins on the first rank that does; NAN if it does on none. */
static double first_begin(const struct tr_trace_view *t, int64_t at)
{
    double least = NAN;

    for (int64_t r = 0; r < t->ranks; r++)
        least = fmin(least, t->begins[at * t->ranks + r]);
    return least;
}

/* From where it begins to where the next one does, or all ends. */
static struct window window_of(const struct tr_trace_view *t, int64_t at)
{
    struct window w = {.from = first_begin(t, at), .to = NAN};

    bool last = at == t->last - t->first;

    if (!last)
        w.to = first_begin(t, at + 1);
    for (size_t i = 0; last && i < t->spans; i++)
        w.to = fmax(w.to, t->span[i].to);
    return w;
}

static double place(const struct window *w, double at)
{
    return w->left + (w->right - w->left) * (at - w->from) / (w->to - w->from);
}

/* Messages, and waiting, lie below the rest, since they go on during passes. */
static void draw_span(const struct window *w, const struct span *s, FILE *f)
{
    const bool thin = s->kind == MESSAGE || s->kind == WAIT;
    const double x = place(w, fmax(s->from, w->from)), to = place(w, fmin(s->to, w->to));
    const double y = w->top + w->em * (ROW * (double)s->rank + (thin ? BAR : 0.0));
    const int digits = s->micro > 0 ? 1 + (int)floor(log10((double)s->micro)) : 1;

    fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x, y,
            to - x, w->em * (thin ? THIN : BAR), colour_of(s->kind));
    if (s->micro >= 0 && !thin && to - x > wide(w, digits) + 0.15 * w->em)
        fprintf(f,
                "<text x=\"%.2f\" y=\"%.2f\" fill=\"white\" text-anchor=\"middle\">%" PRId64
                "</text>\n",
                0.5 * (x + to), y + 0.95 * w->em, s->micro);
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

/* 1, 2 or 5 times a power of ten, about `many` of them in `length`. */
static double step_of(double length, double many)
{
    const double tenth = pow(10.0, floor(log10(length / many))), m = length / many / tenth;

    return tenth * (m < 1.5 ? 1.0 : m < 3.5 ? 2.0 : m < 7.5 ? 5.0 : 10.0);
}

static void draw_axis(const struct tr_trace_view *t, const struct window *w, FILE *f)
{
    const double length = 1e-3 * (w->to - w->from), room = w->right - w->left;
    const double step = step_of(length, fmax(2.0, fmin(10.0, room / wide(w, 8))));
    const double bottom = w->top + ROW * w->em * (double)t->ranks;

    for (int i = 0; i * step <= length; i++) {
        const double x = w->left + room * i * step / length;

        fprintf(f,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"#bbbbbb\" "
                "stroke-width=\"0.5\"/>\n"
                "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%g</text>\n",
                x, x, w->top - 0.3 * w->em, bottom, x, bottom + w->em, i * step);
    }
    fprintf(f, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">ms</text>\n",
            0.5 * (w->left + w->right), bottom + (1.0 + LINE) * w->em);
}

static bool has(const struct tr_trace_view *t, enum kind kind)
{
    for (size_t i = 0; i < t->spans; i++)
        if (t->span[i].kind == kind)
            return true;
    return false;
}

static bool in_legend(const struct tr_trace_view *t, int kind)
{
    return !kinds[kind].some || has(t, (enum kind)kind);
}

/* A column of the legend has room for the longest name in it. */
static double column_of(const struct tr_trace_view *t, const struct window *w)
{
    int most = 0;

    for (int k = 0; k < KINDS; k++)
        if (in_legend(t, k) && (int)strlen(kinds[k].name) > most)
            most = (int)strlen(kinds[k].name);
    return wide(w, most) + 2.2 * w->em;
}

static void draw_line(const char *s, double x, double y, FILE *f)
{
    fprintf(f, "<text x=\"%.2f\" y=\"%.2f\">", x, y);
    draw_text(s, f);
    fputs("</text>\n", f);
}

static void draw_legend(const struct tr_trace_view *t, const struct window *w, FILE *f)
{
    int n = 0;

    draw_line(w->title, EDGE * w->em, (EDGE + 1.0) * w->em, f);
    for (int k = 0; k < KINDS; k++) {
        const double x = EDGE * w->em + column_of(t, w) * (n % w->columns);
        const double y = (EDGE + LINE * (1.0 + (double)(n / w->columns))) * w->em;

        if (!in_legend(t, k))
            continue;
        fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x,
                y + 0.25 * w->em, 1.2 * w->em, 0.9 * w->em, colour_of((enum kind)k));
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

static const char *name_of(const struct tr_trace_view *t, int64_t rank)
{
    return t->name[rank] ? t->name[rank] : "";
}

/* Do all rows have the same in this piece? */
static bool is_shared(const struct tr_trace_view *t, int n)
{
    size_t bytes, others;
    const char *first = piece_of(name_of(t, 0), n, &bytes);

    for (int64_t r = 1; r < t->ranks && first; r++) {
        const char *piece = piece_of(name_of(t, r), n, &others);

        if (!piece || others != bytes || strncmp(piece, first, bytes) != 0)
            return false;
    }
    return first && t->ranks > 1;
}

/* What tells the rows apart names them, the rest is in the title. */
static void name_rows(const struct tr_trace_view *t, int64_t number, struct window *w)
{
    size_t bytes;

    w->title = tr_format("Iteration %" PRId64 " on %" PRId64 " rank%s", number, t->ranks,
                         tr_plural(t->ranks));
    w->label = need((size_t)t->ranks, sizeof *w->label);
    for (int n = 0; n < MOST_PIECES && piece_of(name_of(t, 0), n, &bytes); n++) {
        const bool shared = is_shared(t, n);

        for (int64_t r = 0; r < (shared ? 1 : t->ranks); r++) {
            const char *piece = piece_of(name_of(t, r), n, &bytes);
            char **to = shared ? &w->title : &w->label[r], *copy;

            copy = tr_format("%.*s", (int)bytes, piece ? piece : "");
            *to = piece ? tr_text_join(*to, ", ", copy) : *to;
            free(copy);
        }
    }
    for (int64_t r = 0; r < t->ranks; r++)
        w->label[r] = w->label[r] ? w->label[r] : tr_format("%s", "");
}

static void lay_out(const struct tr_trace_view *t, const struct tr_plot_style *style,
                    struct window *w)
{
    const double px_of_mm = 96.0 / 25.4, px_of_point = 96.0 / 72.0;
    int longest = 0, kinds_shown = 0;

    w->em = px_of_point * (style->points > 0.0 ? style->points : 9.0);
    w->width = fmax(px_of_mm * (style->width > 0.0 ? style->width : 160.0), 25.0 * w->em);
    for (int64_t r = 0; r < t->ranks; r++)
        longest = (int)fmax(longest, tr_plot_letters(w->label[r]));
    w->left = fmin(wide(w, longest), 0.4 * w->width) + 2.0 * EDGE * w->em;
    w->right = w->width - 1.5 * w->em;
    for (int k = 0; k < KINDS; k++)
        kinds_shown += in_legend(t, k);
    w->columns = (int)fmax(1.0, fmin(kinds_shown, (w->width - EDGE * w->em) / column_of(t, w)));
    w->top = (2.0 * EDGE + LINE * (1.0 + ceil((double)kinds_shown / w->columns)) + 0.4) * w->em;
    w->height = w->top + (ROW * (double)t->ranks + 1.0 + LINE + EDGE) * w->em;
}

static void draw(const struct tr_trace_view *t, const struct window *w, const char *font, FILE *f)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"%s\" font-size=\"%.2f\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            w->width, w->height, font ? font : "sans-serif", w->em);
    draw_legend(t, w, f);
    draw_axis(t, w, f);
    for (int64_t r = 0; r < t->ranks; r++) {
        char *name =
            tr_plot_clip(w->label[r], (int)((w->left - 2.0 * EDGE * w->em) / wide(w, 1) + 0.5));

        draw_line(name, EDGE * w->em, w->top + w->em * (ROW * (double)r + 0.95), f);
        free(name);
    }
    for (size_t i = 0; i < t->spans; i++)
        if (t->span[i].to > w->from && t->span[i].from < w->to)
            draw_span(w, &t->span[i], f);
    fputs("</svg>\n", f);
}

enum tr_status tr_trace_view_svg(const struct tr_trace_view *t, int64_t iteration,
                                 const struct tr_plot_style *style, FILE *f)
{
    const int64_t number = iteration < 0 ? t->first : iteration;
    struct window w;

    if (number < t->first || number > t->last)
        return TR_FAIL(TR_ECONFIG,
                       "the trace has iterations %" PRId64 " to %" PRId64 ", and not %" PRId64,
                       t->first, t->last, number);
    w = window_of(t, number - t->first);
    if (!(w.to - w.from >= LEAST_US))
        return TR_FAIL(TR_EDATA, "the trace says nothing of iteration %" PRId64, number);
    name_rows(t, number, &w);
    lay_out(t, style, &w);
    draw(t, &w, style->font, f);
    for (int64_t r = 0; r < t->ranks; r++)
        free(w.label[r]);
    free(w.label);
    free(w.title);
    return TR_OK;
}
