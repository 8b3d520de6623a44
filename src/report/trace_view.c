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
    const char *name, *colour;
    bool some; /* only some traces have it, and only their legends */
} kinds[KINDS] = {
    [FORWARD] = {"forward", "#4e79a7", false},
    [BACKWARD] = {"backward", "#59a14f", false},
    [MESSAGE] = {"message", "#f28e2b", false},
    [WAIT] = {"waiting", "#d4d4d4", false},
    [GRADIENTS] = {"gradients", "#b07aa1", false},
    [OPTIMIZER] = {"optimizer", "#e15759", false},
    [WEIGHTS] = {"gradients of weights", "#76b7b2", true},
};

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

/* In pixels. */
enum { LEFT = 260, WIDTH = 1000, RIGHT = 20, TOP = 56, ROW = 26, BAR = 20, THIN = 6, BOTTOM = 34 };

struct window {
    double from, to; /* microseconds */
};

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
    struct window w = {first_begin(t, at), NAN};

    bool last = at == t->last - t->first;

    if (!last)
        w.to = first_begin(t, at + 1);
    for (size_t i = 0; last && i < t->spans; i++)
        w.to = fmax(w.to, t->span[i].to);
    return w;
}

static double place(const struct window *w, double at)
{
    return LEFT + WIDTH * (at - w->from) / (w->to - w->from);
}

/* Messages, and waiting, lie below the rest, since they go on during passes. */
static void draw_span(const struct window *w, const struct span *s, FILE *f)
{
    const bool thin = s->kind == MESSAGE || s->kind == WAIT;
    const double x = place(w, fmax(s->from, w->from)), to = place(w, fmin(s->to, w->to));
    const double y = TOP + ROW * (double)s->rank + (thin ? BAR - THIN : 0);

    fprintf(f, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x, y,
            to - x, thin ? THIN : BAR - THIN - 1, kinds[s->kind].colour);
    if (s->micro >= 0 && !thin && to - x > 8.0 * (1.0 + floor(log10(fmax((double)s->micro, 1.0)))))
        fprintf(f,
                "<text x=\"%.2f\" y=\"%.0f\" fill=\"white\" text-anchor=\"middle\">%" PRId64
                "</text>\n",
                0.5 * (x + to), y + BAR - THIN - 4, s->micro);
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

/* 1, 2 or 5 times a power of ten, about ten of them in `length`. */
static double step_of(double length)
{
    const double tenth = pow(10.0, floor(log10(length / 10.0))), m = length / 10.0 / tenth;

    return tenth * (m < 1.5 ? 1.0 : m < 3.5 ? 2.0 : m < 7.5 ? 5.0 : 10.0);
}

static void draw_axis(const struct tr_trace_view *t, const struct window *w, FILE *f)
{
    const double length = 1e-3 * (w->to - w->from), step = step_of(length);
    const int bottom = TOP + ROW * (int)t->ranks;

    for (int i = 0; i * step <= length; i++) {
        const double x = LEFT + WIDTH * i * step / length;

        fprintf(f,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\" stroke=\"#bbbbbb\" "
                "stroke-width=\"0.5\"/>\n"
                "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                x, x, TOP - 4, bottom, x, bottom + 14, i * step);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">ms</text>\n", LEFT + WIDTH,
            bottom + 28);
}

static bool has(const struct tr_trace_view *t, enum kind kind)
{
    for (size_t i = 0; i < t->spans; i++)
        if (t->span[i].kind == kind)
            return true;
    return false;
}

static void draw_legend(const struct tr_trace_view *t, int64_t iteration, FILE *f)
{
    fprintf(f,
            "<text x=\"4\" y=\"18\" font-size=\"14\">Iteration %" PRId64 " on %" PRId64
            " rank%s</text>\n",
            iteration, t->ranks, tr_plural(t->ranks));
    for (int k = 0; k < KINDS; k++) {
        if (kinds[k].some && !has(t, (enum kind)k))
            continue;
        fprintf(f,
                "<rect x=\"%d\" y=\"26\" width=\"12\" height=\"12\" fill=\"%s\"/>\n"
                "<text x=\"%d\" y=\"36\">%s</text>\n",
                LEFT + 110 * k, kinds[k].colour, LEFT + 110 * k + 17, kinds[k].name);
    }
}

enum tr_status tr_trace_view_svg(const struct tr_trace_view *t, int64_t iteration, FILE *f)
{
    const int64_t number = iteration < 0 ? t->first : iteration;
    const int height = TOP + ROW * (int)t->ranks + BOTTOM;
    struct window w;

    if (number < t->first || number > t->last)
        return TR_FAIL(TR_ECONFIG,
                       "the trace has iterations %" PRId64 " to %" PRId64 ", and not %" PRId64,
                       t->first, t->last, number);
    w = window_of(t, number - t->first);
    if (!(w.to - w.from >= LEAST_US))
        return TR_FAIL(TR_EDATA, "the trace says nothing of iteration %" PRId64, number);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + WIDTH + RIGHT, height);
    draw_legend(t, number, f);
    draw_axis(t, &w, f);
    for (int64_t r = 0; r < t->ranks; r++) {
        fprintf(f, "<text x=\"4\" y=\"%d\">", TOP + ROW * (int)r + 13);
        draw_text(t->name[r] ? t->name[r] : "", f);
        fputs("</text>\n", f);
    }
    for (size_t i = 0; i < t->spans; i++)
        if (t->span[i].to > w.from && t->span[i].from < w.to)
            draw_span(&w, &t->span[i], f);
    fputs("</svg>\n", f);
    return TR_OK;
}
