/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/plot_parts.h"
#include "report/scaling.h"
#include "util/file.h"
#include "util/text.h"

/* A run in the plot.  Runs of one origin that scale in one way make a line, whatever their
   layouts are. */
struct scaled {
    const struct tr_record *run;
    struct tr_scaling of;
    double tp, pp, chunks; /* 0: the log does not say */
    bool drawn;
};

struct plotted {
    struct scaled *run; /* [count], those that have lines that count */
    int count;
    const struct tr_record *base[TR_ORIGINS]; /* NULL: nothing is from there */
    bool shown[TR_ORIGINS];                   /* a run that is from there */
    double fewest, most;                      /* GPUs */
};

static double known(const struct tr_record *r, enum tr_fact f)
{
    double x = tr_record_fact(r, f);

    return isnan(x) ? 0.0 : x;
}

/* Work of different batches is compared by the model's operations. */
static void note_left_out(const struct tr_record *r, struct tr_plot *out)
{
    tr_plot_note(
        out, tr_format("Not drawn, for the log lacks iterations or, with a batch of another size, "
                       "the shape of the model: %s.",
                       r->name));
}

static void find_bases(const struct tr_present *p, struct plotted *x)
{
    x->fewest = INFINITY;
    for (int o = 0; o < TR_ORIGINS; o++) {
        x->base[o] = tr_scale_base(p->runs->list, p->runs->count, (enum tr_run_origin)o, p->warmup);
        if (!x->base[o])
            continue;
        x->fewest = fmin(x->fewest, tr_record_fact(x->base[o], TR_FACT_WORLD));
    }
    x->most = x->fewest;
}

/* Against the base of its origin, which need not be on the fewest GPUs of all. */
static void scale(const struct plotted *x, const struct tr_present *p, struct scaled *one)
{
    const struct tr_record *base = x->base[one->run->origin];
    double larger;

    if (!base)
        return;
    larger = tr_record_fact(base, TR_FACT_WORLD) / x->fewest;
    tr_scale(one->run, base, p->warmup, &one->of);
    one->of.speed_up *= larger;
    one->of.speed_up_low *= larger;
    one->of.speed_up_high *= larger;
}

static void find_scales(const struct tr_present *p, struct plotted *x, struct tr_plot *out)
{
    find_bases(p, x);
    x->run = calloc((size_t)p->runs->count, sizeof *x->run);
    if (!x->run)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        struct scaled *one = &x->run[x->count];

        *one = (struct scaled){.run = r};
        scale(x, p, one);
        if (!(one->of.speed_up > 0.0)) {
            note_left_out(r, out);
            continue;
        }
        one->tp = known(r, TR_FACT_TP);
        one->pp = known(r, TR_FACT_PP);
        one->chunks = known(r, TR_FACT_CHUNKS);
        x->most = fmax(x->most, one->of.gpus);
        x->shown[r->origin] = true;
        x->count++;
    }
}

/* The base begins the lines of its origin, strong and weak. */
static bool in_series(const struct scaled *a, const struct scaled *first)
{
    return a->run->origin == first->run->origin &&
           (a->of.kind == first->of.kind || a->of.kind == TR_SCALING_BASE);
}

static int origins_of(const struct plotted *x)
{
    int n = 0;

    for (int o = 0; o < TR_ORIGINS; o++)
        n += x->shown[o];
    return n;
}

static bool has_kind(const struct plotted *x, enum tr_run_origin origin, enum tr_scaling_kind kind)
{
    for (int i = 0; i < x->count; i++)
        if (x->run[i].run->origin == origin && x->run[i].of.kind == kind)
            return true;
    return false;
}

/* "measured", and "measured, strong" where it also scales in another way. */
static char *series_name(const struct plotted *x, const struct scaled *first)
{
    const enum tr_run_origin origin = first->run->origin;
    int kinds = 0;

    for (int kind = TR_SCALING_STRONG; kind <= TR_SCALING_OTHER; kind++)
        kinds += has_kind(x, origin, (enum tr_scaling_kind)kind);
    return kinds > 1
               ? tr_format("%s, %s", tr_run_origin_text(origin), tr_scaling_text(first->of.kind))
               : tr_format("%s", tr_run_origin_text(origin));
}

/* "TP 4, PP 8, 2 chunks"; NULL if the log does not say it. */
static char *layout_name(const struct scaled *one)
{
    if (!(one->tp > 0.0 && one->pp > 0.0))
        return NULL;
    return one->chunks > 1.0
               ? tr_format("TP %.0f, PP %.0f, %.0f chunks", one->tp, one->pp, one->chunks)
               : tr_format("TP %.0f, PP %.0f", one->tp, one->pp);
}

/* One label for all points of a layout on as many GPUs. */
static bool is_labelled(const struct tr_plot *p, double gpus, const char *layout)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            if (fabs(p->series[i].x[n] - gpus) < 0.5 && p->series[i].label[n] &&
                strcmp(p->series[i].label[n], layout) == 0)
                return true;
    return false;
}

/* The fastest of the series on the next number of GPUs above `gpus`; NULL at the end. */
static struct scaled *next_best(const struct plotted *x, const struct scaled *first, double gpus)
{
    struct scaled *best = NULL;

    for (int i = 0; i < x->count; i++) {
        struct scaled *one = &x->run[i];

        if (!in_series(one, first) || !(one->of.gpus > gpus))
            continue;
        if (!best || one->of.gpus < best->of.gpus ||
            (!(one->of.gpus > best->of.gpus) && one->of.speed_up > best->of.speed_up))
            best = one;
    }
    return best;
}

static void put_speed_up(const struct scaled *one, struct tr_plot *out)
{
    tr_plot_range(out, one->of.gpus, one->of.speed_up, one->of.speed_up_low, one->of.speed_up_high);
}

/* Efficiency in percent. */
static void put_efficiency(const struct scaled *one, struct tr_plot *out)
{
    double percent = 100.0 * one->of.efficiency, part = percent / one->of.speed_up;

    tr_plot_range(out, one->of.gpus, percent, part * one->of.speed_up_low,
                  part * one->of.speed_up_high);
}

static void plot_series(const struct plotted *x, const struct scaled *first, struct tr_plot *out)
{
    tr_plot_series(out, series_name(x, first), TR_LOOK_LINE);
    for (struct scaled *one = next_best(x, first, 0.0); one;
         one = next_best(x, first, one->of.gpus)) {
        char *layout = layout_name(one);

        put_speed_up(one, out);
        if (layout && !is_labelled(out, one->of.gpus, layout))
            tr_plot_label(out, layout);
        else
            free(layout);
    }
    tr_plot_below(out);
    for (struct scaled *one = next_best(x, first, 0.0); one;
         one = next_best(x, first, one->of.gpus)) {
        put_efficiency(one, out);
        one->drawn = true;
    }
}

/* Does a line begin with run i?  The base has one of its own where its origin has no other run. */
static bool is_first(const struct plotted *x, int i)
{
    const struct scaled *one = &x->run[i];

    for (int k = 0; k < x->count; k++)
        if (k != i && x->run[k].run->origin == one->run->origin &&
            (one->of.kind == TR_SCALING_BASE ? x->run[k].of.kind != TR_SCALING_BASE
                                             : k < i && x->run[k].of.kind == one->of.kind))
            return false;
    return true;
}

/* Of a plan and its simulation that are equal, as the eye has it, one line. */
static void merge_origins(struct tr_plot *out)
{
    const double within = 0.005;
    double most;

    for (int i = 0; i < out->count; i += 2)
        for (int k = i + 2; k < out->count; k += 2) {
            struct tr_series *s = &out->series[i];

            if (!tr_plot_alike(s, &out->series[k], within, &most))
                continue;
            s->name = tr_text_join(s->name, ", ", out->series[k].name);
            tr_plot_empty(&out->series[k]);
            tr_plot_empty(&out->series[k + 1]);
        }
}

static void plot_others(const struct plotted *x, struct tr_plot *out)
{
    int64_t left = 0;

    for (int i = 0; i < x->count; i++)
        left += !x->run[i].drawn;
    if (left == 0)
        return;
    tr_plot_series(out, tr_format("other runs"), TR_LOOK_FAINT);
    for (int i = 0; i < x->count; i++)
        if (!x->run[i].drawn)
            tr_plot_point(out, x->run[i].of.gpus, x->run[i].of.speed_up);
    tr_plot_below(out);
    for (int i = 0; i < x->count; i++)
        if (!x->run[i].drawn)
            tr_plot_point(out, x->run[i].of.gpus, 100.0 * x->run[i].of.efficiency);
}

static void plot_ideal(const struct plotted *x, struct tr_plot *out)
{
    tr_plot_series(out, tr_format("ideal"), TR_LOOK_IDEAL);
    tr_plot_point(out, x->fewest, 1.0);
    tr_plot_point(out, x->most, x->most / x->fewest);
    tr_plot_below(out);
    tr_plot_point(out, x->fewest, 100.0);
    tr_plot_point(out, x->most, 100.0);
}

/* What the vertical bars are; nothing where no run has any. */
static void note_intervals(const struct plotted *x, struct tr_plot *out)
{
    double sure = 1.0;
    bool any = false;

    for (int i = 0; i < x->count; i++) {
        if (!(x->run[i].of.sure > 0.0))
            continue;
        any = true;
        sure = fmin(sure, x->run[i].of.sure);
    }
    if (any)
        tr_plot_note(out, tr_format("Vertical bars are %.0f %% intervals of the medians.",
                                    floor(100.0 * fmin(sure, 0.95) + 1e-9)));
}

static void note_bases(const struct plotted *x, enum tr_processor on, struct tr_plot *out)
{
    char *list = NULL;

    for (int o = 0; o < TR_ORIGINS; o++) {
        double gpus;
        char *one;

        if (!x->shown[o])
            continue;
        gpus = tr_record_fact(x->base[o], TR_FACT_WORLD);
        one = tr_format("%s on %.0f %s", x->base[o]->name, gpus,
                        tr_processor_noun(on, (int64_t)gpus));
        list = tr_text_join(list, ", ", one);
        free(one);
    }
    tr_plot_note(
        out, tr_format("Baseline%s: %s, efficiency 100 %%.", origins_of(x) > 1 ? "s" : "", list));
    free(list);
}

static void note_others(const struct plotted *x, struct tr_plot *out)
{
    for (int i = 0; i < x->count; i++)
        if (x->run[i].of.kind == TR_SCALING_OTHER) {
            tr_plot_note(out, tr_format("Other: of another model or batch, compared by the model's "
                                        "operations."));
            return;
        }
}

/* Runs of a sweep are many on each number of GPUs, and in any order: lines join the best alone. */
enum tr_status tr_plot_scaling(const struct tr_present *p, struct tr_plot *out)
{
    const enum tr_processor on = tr_records_processor(p->runs);
    struct plotted x = {0};
    struct tr_table t;
    enum tr_status s = tr_present_scaling(p, &t);

    tr_table_release(&t);
    *out = (struct tr_plot){.title = "Scaling",
                            .x_label = tr_processor_noun(on, 2),
                            .y_label = "speed-up",
                            .below_label = "efficiency (%)",
                            .ticks = true,
                            .log_log = true};
    TR_TRY(s);
    find_scales(p, &x, out);
    for (int i = 0; i < x.count; i++)
        if (is_first(&x, i))
            plot_series(&x, &x.run[i], out);
    merge_origins(out);
    plot_others(&x, out);
    plot_ideal(&x, out);
    note_bases(&x, on, out);
    note_others(&x, out);
    note_intervals(&x, out);
    free(x.run);
    return TR_OK;
}
