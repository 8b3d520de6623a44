/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/trace_read.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/text.h"

/* Two centuries. */
static const double MOST_US = 6.4e15;

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

static void add(struct tr_trace *t, struct tr_trace_span s)
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
static enum tr_trace_kind kind_of(const char *name, int64_t track)
{
    const bool numbered = name[0] && name[1] >= '0' && name[1] <= '9';

    switch (track) {
    case 2:
        return numbered ? TR_TRACE_FORWARD : TR_TRACE_KINDS;
    case 5:
        return !numbered ? TR_TRACE_KINDS : name[0] == 'W' ? TR_TRACE_WEIGHTS : TR_TRACE_BACKWARD;
    case 1:
    case 3:
    case 4:
    case 6:
        return TR_TRACE_MESSAGE;
    case 7:
        return TR_TRACE_GRADIENTS;
    case 8:
        return strcmp(name, "optimizer") == 0 ? TR_TRACE_OPTIMIZER : TR_TRACE_KINDS;
    default:
        return TR_TRACE_KINDS;
    }
}

static void take_span(struct tr_trace *t, const json_t *e, int64_t row)
{
    const json_t *args = json_object_get(e, "args");
    const int64_t track = whole(e, "tid");
    const double from = real(e, "ts"), to = from + real(e, "dur"), wait = real(args, "wait");
    struct tr_trace_span s = {row, whole(args, "micro-batch"), kind_of(text(e, "name"), track),
                              from, to};
    int64_t *seen = &t->row[row].seen;

    if (track == 0 && strcmp(text(e, "name"), "forward-backward") == 0 &&
        *seen <= t->last - t->first)
        t->begins[(*seen)++ * t->rows + row] = from;
    /* Whoever waits does so first; the norm of the gradient lies within the optimizer. */
    if (wait > 0.0 && (s.kind != TR_TRACE_KINDS || track == 8)) {
        struct tr_trace_span idle = s;

        idle.kind = TR_TRACE_WAIT;
        idle.to = s.from = fmin(from + wait, to);
        add(t, idle);
    }
    if (s.kind != TR_TRACE_KINDS)
        add(t, s);
}

static bool names(const json_t *e)
{
    return strcmp(text(e, "ph"), "M") == 0 && strcmp(text(e, "name"), "process_name") == 0;
}

static int by_rank(const void *a, const void *b)
{
    const int64_t x = ((const struct tr_trace_row *)a)->rank,
                  y = ((const struct tr_trace_row *)b)->rank;

    return x < y ? -1 : x > y;
}

/* A row for each rank that has a name; of several names of a rank the last one counts. */
static void take_rows(struct tr_trace *t, const json_t *events)
{
    int64_t count = 0;
    json_t *e;
    size_t i;

    t->row = need(json_array_size(events), sizeof *t->row);
    json_array_foreach(events, i, e)
    {
        const int64_t rank = whole(e, "pid");
        struct tr_trace_row *r = &t->row[t->rows];

        if (!names(e) || rank < 0 || rank >= t->ranks)
            continue;
        t->rows++;
        r->rank = rank;
        r->name = tr_printable(tr_format("%s", text(json_object_get(e, "args"), "name")));
    }
    if (t->rows > 1)
        qsort(t->row, (size_t)t->rows, sizeof *t->row, by_rank);
    for (int64_t r = 0; r < t->rows; r++) {
        if (count > 0 && t->row[count - 1].rank == t->row[r].rank)
            free(t->row[--count].name);
        t->row[count++] = t->row[r];
    }
    t->rows = count;
}

static void take_events(struct tr_trace *t, const json_t *events)
{
    json_t *e;
    size_t i;

    json_array_foreach(events, i, e)
    {
        const struct tr_trace_row key = {.rank = whole(e, "pid")}, *row = NULL;

        if (t->rows > 0 && strcmp(text(e, "ph"), "X") == 0)
            row = bsearch(&key, t->row, (size_t)t->rows, sizeof *t->row, by_rank);
        if (row)
            take_span(t, e, row - t->row);
    }
}

/* Numbers that no trace has are of no trace: what is allocated and drawn follows from them.  Each
   measured rank has events, if only those that name it. */
static enum tr_status take_head(struct tr_trace *t, const json_t *all, const char *path)
{
    enum { MOST = 1 << 20 };
    static const char *const origins[] = {"planned", "simulated"};
    const json_t *head = json_object_get(all, "metadata");
    const json_t *events = json_object_get(all, "traceEvents");

    t->from = "measured";
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++)
        if (strcmp(text(head, "from"), origins[i]) == 0)
            t->from = origins[i];
    t->length = real(head, "iteration-us");
    t->ranks = whole(head, "ranks");
    t->first = whole(head, "first-iteration");
    t->last = whole(head, "last-iteration");
    if (whole(head, "schema") != 1 || !json_is_array(events) || t->ranks < 1 || t->ranks > MOST ||
        (strcmp(t->from, "measured") == 0 && (size_t)t->ranks > json_array_size(events)) ||
        t->first < 0 || t->last < t->first || t->last - t->first >= MOST / t->ranks)
        return TR_FAIL(TR_EDATA,
                       "%s is no trace of this program: give one that trireme train --trace FILE, "
                       "sim --sim-trace FILE or plan --plan-trace FILE wrote",
                       path);
    return TR_OK;
}

enum tr_status tr_trace_read(const char *path, struct tr_trace *t)
{
    FILE *f = fopen(path, "re");
    json_error_t why;
    json_t *all;
    enum tr_status s;

    *t = (struct tr_trace){0};
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    all = json_loadf(f, 0, &why);
    fclose(f);
    if (!all)
        return TR_FAIL(TR_EDATA, "%s is no trace: line %d of it is no JSON (%s)", path, why.line,
                       why.text);
    s = take_head(t, all, path);
    if (s == TR_OK) {
        const json_t *events = json_object_get(all, "traceEvents");
        size_t begins;

        take_rows(t, events);
        begins = (size_t)((t->last - t->first + 1) * t->rows);
        t->begins = need(begins, sizeof *t->begins);
        for (size_t k = 0; k < begins; k++)
            t->begins[k] = NAN;
        take_events(t, events);
    }
    json_decref(all);
    return s;
}

void tr_trace_release(struct tr_trace *t)
{
    for (int64_t r = 0; r < t->rows; r++)
        free(t->row[r].name);
    free(t->row);
    free(t->begins);
    free(t->span);
    *t = (struct tr_trace){0};
}

/* When an iteration begins on the first rank that does; NAN if it does on none. */
static double first_begin(const struct tr_trace *t, int64_t at)
{
    double least = NAN;

    for (int64_t r = 0; r < t->rows; r++)
        least = fmin(least, t->begins[at * t->rows + r]);
    return least;
}

/* From where it begins to where the next one does, or all ends. */
void tr_trace_window(const struct tr_trace *t, int64_t at, double *from, double *to)
{
    const bool last = at == t->last - t->first;

    *from = first_begin(t, at);
    *to = !last ? first_begin(t, at + 1) : *from + t->length;
    for (size_t i = 0; last && i < t->spans; i++)
        *to = fmax(*to, t->span[i].to);
}
