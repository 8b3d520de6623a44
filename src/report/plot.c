/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/breakdown.h"
#include "report/plot_parts.h"
#include "util/file.h"
#include "util/text.h"

/* A plot over a run has no line of one that was only planned or simulated: `why`. */
static enum tr_status leave_out_plans(const struct tr_records *runs, const char *what,
                                      const char *why, struct tr_plot *out)
{
    int64_t points = 0;
    bool plans = false;

    for (int i = 0; i < runs->count; i++)
        plans |= runs->list[i].origin != TR_ORIGIN_MEASURED;
    for (int i = 0; i < out->count; i++)
        points += out->series[i].count;
    tr_plot_short_series(out);
    if (points == 0)
        return TR_FAIL(TR_EDATA, "there is no %s to draw, because %s%s: add the log of a run", what,
                       plans ? why : "no iteration line has it",
                       plans && runs->count > 1 ? ", and no log has it" : "");
    if (plans)
        tr_plot_note(out, tr_format("Runs without a line were not measured: %s.", why));
    return TR_OK;
}

enum tr_status tr_plot_loss(const struct tr_present *p, struct tr_plot *out)
{
    *out = (struct tr_plot){.title = "Loss", .x_label = "iteration", .y_label = "lm loss"};
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        tr_plot_series(out, tr_format("%s", r->name), TR_LOOK_LINE);
        for (int64_t n = 0; n < r->rows; n++)
            tr_plot_point(out, (double)r->row[n].iteration, r->row[n].field[TR_FIELD_LOSS]);
    }
    return leave_out_plans(p->runs, "loss", "plans and simulations train nothing", out);
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
        for (int64_t n = 0; n < r->rows && r->origin == TR_ORIGIN_MEASURED; n++) {
            const double *field = r->row[n].field;
            double samples = isnan(field[TR_FIELD_BATCH]) ? batch : field[TR_FIELD_BATCH];

            tr_plot_point(out, (double)r->row[n].iteration,
                          1e3 * each * samples / field[TR_FIELD_ELAPSED]);
        }
    }
    return leave_out_plans(p->runs, "throughput over a run",
                           "plans and simulations have one time for all iterations", out);
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

static const enum tr_colour part_colours[] = {
#define PART(symbol, key, colour, logs, plan, what) TR_COLOUR_##colour,
#include "report/parts.def"
#undef PART
};

/* A bar for each run that can be broken down, whose parts are then in b. */
static enum tr_status add_bars(const struct tr_present *p, struct tr_breakdown *b,
                               bool origins[TR_ORIGINS], struct tr_plot *out)
{
    enum tr_status worst = TR_OK;
    char *left_out = NULL;

    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        enum tr_status s = tr_break_down(r, p->warmup, &b[out->bars]);

        if (s == TR_OK) {
            tr_plot_bar(out, tr_format("%s", r->name));
            origins[r->origin] = true;
            continue;
        }
        worst = s;
        left_out = tr_text_join(left_out, ", ", r->name);
    }
    if (left_out && out->bars > 0)
        tr_plot_note(out, tr_format("Without timers, or what they need: %s.", left_out));
    free(left_out);
    return out->bars > 0 ? TR_OK : worst;
}

/* Logs alone tell fill from drain; beside a plan or a simulation they are one. */
static void join_bubble(const bool *origins, struct tr_breakdown *b, struct tr_plot *out)
{
    const bool told = !origins[TR_ORIGIN_PLANNED] && !origins[TR_ORIGIN_SIMULATED];

    if (told)
        return;
    out->title = "Parts of an iteration";
    for (int n = 0; n < out->bars; n++) {
        b[n].part[TR_PART_BUBBLE] = tr_breakdown_bubble(&b[n]);
        b[n].part[TR_PART_FILL] = b[n].part[TR_PART_DRAIN] = 0.0;
    }
    if (origins[TR_ORIGIN_MEASURED])
        tr_plot_note(out, tr_format("Logs: of the last stage, whose timers count sums over tensor "
                                    "ranks as compute."));
    if (origins[TR_ORIGIN_PLANNED])
        tr_plot_note(out, tr_format("Plans: of the stage that takes longest."));
    if (origins[TR_ORIGIN_SIMULATED])
        tr_plot_note(out, tr_format("Simulations: mean of all ranks."));
}

enum tr_status tr_plot_breakdown(const struct tr_present *p, struct tr_plot *out)
{
    struct tr_breakdown *b = calloc((size_t)p->runs->count + 1, sizeof *b);
    bool origins[TR_ORIGINS] = {false};
    enum tr_status s;

    if (!b)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    *out = (struct tr_plot){.title = "Parts of an iteration of the last stage",
                            .x_label = "run",
                            .y_label = "ms",
                            .stacked = true};
    s = add_bars(p, b, origins, out);
    tr_plot_short_names(out->bar, out->bars);
    join_bubble(origins, b, out);
    for (int part = 0; part < TR_PARTS; part++) {
        bool any = false;

        for (int o = 0; o < TR_ORIGINS; o++)
            any |= origins[o] && tr_part_is_of((enum tr_part)part, (enum tr_run_origin)o);
        if (!any)
            continue;
        tr_plot_series(out, tr_format("%s", tr_part_key((enum tr_part)part)), TR_LOOK_LINE);
        out->series[out->count - 1].colour = part_colours[part];
        for (int n = 0; n < out->bars; n++)
            if (b[n].part[part] > 0.0)
                tr_plot_point(out, n, b[n].part[part]);
    }
    mark_overlaps(b, out);
    free(b);
    return s;
}

/* Timers that overlap reach beyond the end of the iteration, which is then marked. */
static double iteration_of(const struct tr_plot *p, int bar)
{
    double sum = 0.0, marked = 0.0;

    for (int i = 0; i < p->count; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            if ((int)p->series[i].x[n] == bar)
                *(p->series[i].look == TR_LOOK_IDEAL ? &marked : &sum) += p->series[i].y[n];
    return marked > 0.0 ? marked : sum;
}

void tr_plot_percent(struct tr_plot *p)
{
    double *all = calloc((size_t)p->bars + 1, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int bar = 0; bar < p->bars; bar++)
        all[bar] = iteration_of(p, bar);
    for (int i = 0; i < p->count; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            p->series[i].y[n] *= 100.0 / all[(int)p->series[i].x[n]];
    p->y_label = "% of the iteration";
    free(all);
}

static enum tr_status (*const of_runs[])(const struct tr_present *from, struct tr_plot *to) = {
#define PLOT(symbol, name, function, axis) [TR_PLOT_##symbol] = tr_plot_##function,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = NULL,
#include "report/plots.def"
};

static enum tr_status (*const of_files[])(char *const *path, int count, struct tr_plot *to) = {
#define PLOT(symbol, name, function, axis) [TR_PLOT_##symbol] = NULL,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = tr_plot_##function,
#include "report/plots.def"
};

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
