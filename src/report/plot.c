/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/breakdown.h"
#include "report/plot_parts.h"
#include "util/file.h"

enum tr_status tr_plot_loss(const struct tr_present *p, struct tr_plot *out)
{
    *out = (struct tr_plot){.title = "Loss", .x_label = "iteration", .y_label = "lm loss"};
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        tr_plot_series(out, tr_format("%s", r->name), TR_LOOK_LINE);
        for (int64_t n = 0; n < r->rows; n++)
            tr_plot_point(out, (double)r->row[n].iteration, r->row[n].field[TR_FIELD_LOSS]);
    }
    return TR_OK;
}

static bool know_tokens(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        if (isnan(tr_record_fact(&runs->list[i], TR_FACT_SEQ)))
            return false;
    return true;
}

enum tr_status tr_plot_throughput(const struct tr_present *p, struct tr_plot *out)
{
    bool tokens = know_tokens(p->runs);

    *out = (struct tr_plot){.title = "Throughput",
                            .x_label = "iteration",
                            .y_label = tokens ? "tokens/s" : "samples/s"};
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        double each = tokens ? tr_record_fact(r, TR_FACT_SEQ) : 1.0;
        double batch = tr_record_fact(r, TR_FACT_BATCH);

        tr_plot_series(out, tr_format("%s", r->name), TR_LOOK_LINE);
        for (int64_t n = 0; n < r->rows; n++) {
            const double *field = r->row[n].field;
            double samples = isnan(field[TR_FIELD_BATCH]) ? batch : field[TR_FIELD_BATCH];

            tr_plot_point(out, (double)r->row[n].iteration,
                          1e3 * each * samples / field[TR_FIELD_ELAPSED]);
        }
    }
    return TR_OK;
}

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash && slash[1] ? slash + 1 : name;
}

static bool bases_differ(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(base_of(runs->list[i].name), base_of(runs->list[k].name)) == 0)
                return false;
    return true;
}

/* How many bytes all names begin with, and end with, up to a letter that parts words. */
static void shared_ends(char *const *name, int count, size_t *head, size_t *tail)
{
    size_t n = strlen(name[0]);

    *head = *tail = n;
    for (int i = 1; i < count; i++) {
        size_t m = strlen(name[i]), same = 0;

        while (same < *head && name[0][same] == name[i][same])
            same++;
        *head = same;
        for (same = 0; same < *tail && same < m && name[0][n - 1 - same] == name[i][m - 1 - same];)
            same++;
        *tail = same;
    }
    while (*head > 0 && !strchr("-_./ ", name[0][*head - 1]))
        --*head;
    while (*tail > 0 && !strchr("-_./ #", name[0][n - *tail]))
        --*tail;
}

/* Short names of the bars: without folders and without what all of them begin and end with, as long as something is
   left that tells them apart.  "a-18b.log" and "a-30b.log" are "18b" and "30b". */
static void shorten_bars(struct tr_plot *p)
{
    size_t head, tail;

    if (p->bars < 2)
        return;
    shared_ends(p->bar, p->bars, &head, &tail);
    for (int i = 0; i < p->bars; i++)
        if (strlen(p->bar[i]) <= head + tail)
            return;
    for (int i = 0; i < p->bars; i++) {
        size_t n = strlen(p->bar[i]) - head - tail;

        memmove(p->bar[i], p->bar[i] + head, n);
        p->bar[i][n] = '\0';
    }
}

/* Iterations whose parts are more than they: what is below zero has no place in a bar. */
static void mark_overlaps(const struct tr_breakdown *b, struct tr_plot *out)
{
    char *list = tr_format("%s", "");
    int runs = 0;

    tr_plot_series(out, tr_format("end of the iteration"), TR_LOOK_IDEAL);
    for (int n = 0; n < out->bars; n++) {
        char *more;

        if (!(b[n].part[TR_PART_OTHER] < 0.0))
            continue;
        tr_plot_point(out, n, b[n].ms);
        more = tr_format("%s%s%s by %.4g ms", list, runs++ ? ", " : "", out->bar[n],
                         -b[n].part[TR_PART_OTHER]);
        free(list);
        list = more;
    }
    if (runs > 0)
        tr_plot_note(
            out, tr_format("Timers overlap, so that the parts are longer than the iteration, whose "
                           "end is marked: %s.",
                           list));
    free(list);
}

enum tr_status tr_plot_breakdown(const struct tr_present *p, struct tr_plot *out)
{
    struct tr_breakdown *b = calloc((size_t)p->runs->count + 1, sizeof *b);
    const bool bare = bases_differ(p->runs);
    enum tr_status worst = TR_OK;

    if (!b)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    *out = (struct tr_plot){.title = "Parts of an iteration of the last stage",
                            .x_label = "run",
                            .y_label = "ms",
                            .stacked = true};
    for (int i = 0; i < p->runs->count; i++) {
        enum tr_status s = tr_break_down(&p->runs->list[i], p->warmup, &b[out->bars]);

        if (s == TR_OK)
            tr_plot_bar(out, tr_format("%s", bare ? base_of(p->runs->list[i].name)
                                                  : p->runs->list[i].name));
        else
            worst = s;
    }
    shorten_bars(out);
    for (int part = 0; part < TR_PARTS; part++) {
        tr_plot_series(out, tr_format("%s", tr_part_key((enum tr_part)part)), TR_LOOK_LINE);
        for (int n = 0; n < out->bars; n++)
            if (b[n].part[part] > 0.0)
                tr_plot_point(out, n, b[n].part[part]);
    }
    mark_overlaps(b, out);
    free(b);
    return out->bars > 0 ? TR_OK : worst;
}

static enum tr_status (*const of_runs[])(const struct tr_present *from, struct tr_plot *to) = {
#define PLOT(symbol, name, function, axis, plans) [TR_PLOT_##symbol] = tr_plot_##function,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = NULL,
#include "report/plots.def"
};

static enum tr_status (*const of_files[])(char *const *path, int count, struct tr_plot *to) = {
#define PLOT(symbol, name, function, axis, plans) [TR_PLOT_##symbol] = NULL,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = tr_plot_##function,
#include "report/plots.def"
};

bool tr_plot_takes_plans(enum tr_plot_kind kind)
{
    static const bool takes[] = {
#define PLOT(symbol, name, function, axis, plans) [TR_PLOT_##symbol] = plans,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = false,
#include "report/plots.def"
    };

    return takes[kind];
}

bool tr_plot_of_files(enum tr_plot_kind kind)
{
    return of_files[kind] != NULL;
}

enum tr_status tr_plot_of(enum tr_plot_kind kind, const struct tr_present *p, struct tr_plot *out)
{
    TR_ASSERT(of_runs[kind]);
    return of_runs[kind](p, out);
}

enum tr_status tr_plot_files(enum tr_plot_kind kind, char *const *path, int count,
                             struct tr_plot *out)
{
    TR_ASSERT(of_files[kind]);
    return of_files[kind](path, count, out);
}
