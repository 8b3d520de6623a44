/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "report/plot_parts.h"
#include "report/scaling.h"
#include "util/file.h"
#include "util/text.h"

enum { MOST_FAMILIES = 8 };

/* A run in the plot.  Runs with one TP and PP structure that scale in one way make a line. */
struct scaled {
    const struct tr_record *run;
    struct tr_scaling of;
    double tp, pp, chunks; /* 0: the log does not say */
    bool drawn;
};

struct plotted {
    struct scaled *run; /* [count], those that have lines that count */
    int count;
    const struct tr_record *base;
    double fewest, most; /* GPUs */
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

static void find_scales(const struct tr_present *p, struct plotted *x, struct tr_plot *out)
{
    x->base = tr_scale_base(p->runs->list, p->runs->count, p->warmup);
    x->fewest = x->most = tr_record_fact(x->base, TR_FACT_WORLD);
    x->run = calloc((size_t)p->runs->count, sizeof *x->run);
    if (!x->run)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        struct scaled *one = &x->run[x->count];

        one->run = r;
        tr_scale(r, x->base, p->warmup, &one->of);
        if (!(one->of.speed_up > 0.0)) {
            note_left_out(r, out);
            continue;
        }
        one->tp = known(r, TR_FACT_TP);
        one->pp = known(r, TR_FACT_PP);
        one->chunks = known(r, TR_FACT_CHUNKS);
        x->most = fmax(x->most, one->of.gpus);
        x->count++;
    }
}

static bool same_layout(const struct scaled *a, const struct scaled *b)
{
    return fabs(a->tp - b->tp) + fabs(a->pp - b->pp) + fabs(a->chunks - b->chunks) < 0.5;
}

/* The base begins the lines of its layout, strong and weak. */
static bool in_family(const struct scaled *a, const struct scaled *first)
{
    return same_layout(a, first) && (a->of.kind == first->of.kind || a->of.kind == TR_SCALING_BASE);
}

/* "TP 4, PP 8, strong" */
static char *family_name(const struct scaled *first)
{
    char *layout = first->tp > 0.0 && first->pp > 0.0
                       ? tr_format("TP %.0f, PP %.0f", first->tp, first->pp)
                       : tr_format("layout not known");
    char *chunks =
        first->chunks > 1.0 ? tr_format(" in %.0f chunks", first->chunks) : tr_format("%s", "");
    char *name = first->of.kind == TR_SCALING_BASE
                     ? tr_format("%s%s", layout, chunks)
                     : tr_format("%s%s, %s", layout, chunks, tr_scaling_text(first->of.kind));

    free(layout);
    free(chunks);
    return name;
}

/* The fastest of the family on the next number of GPUs above `gpus`; NULL at the end. */
static struct scaled *next_best(const struct plotted *x, const struct scaled *first, double gpus)
{
    struct scaled *best = NULL;

    for (int i = 0; i < x->count; i++) {
        struct scaled *one = &x->run[i];

        if (!in_family(one, first) || !(one->of.gpus > gpus))
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

static void plot_family(const struct plotted *x, const struct scaled *first, struct tr_plot *out)
{
    tr_plot_series(out, family_name(first), TR_LOOK_LINE);
    for (struct scaled *one = next_best(x, first, 0.0); one;
         one = next_best(x, first, one->of.gpus))
        put_speed_up(one, out);
    tr_plot_below(out);
    for (struct scaled *one = next_best(x, first, 0.0); one;
         one = next_best(x, first, one->of.gpus)) {
        put_efficiency(one, out);
        one->drawn = true;
    }
}

/* Does a line begin with run i?  The base has one of its own where no other run has its layout. */
static bool is_first(const struct plotted *x, int i)
{
    const struct scaled *one = &x->run[i];

    for (int k = 0; k < x->count; k++)
        if (k != i &&
            (one->of.kind == TR_SCALING_BASE
                 ? same_layout(&x->run[k], one)
                 : k < i && x->run[k].of.kind == one->of.kind && same_layout(&x->run[k], one)))
            return false;
    return true;
}

static bool is_line(const struct plotted *x, const struct scaled *first)
{
    const struct scaled *one = next_best(x, first, 0.0);

    return one->of.kind == TR_SCALING_BASE || next_best(x, first, one->of.gpus);
}

/* A sweep has many layouts on one number of GPUs, which would crowd the legend out. */
static void plot_families(const struct plotted *x, struct tr_plot *out)
{
    int families = 0;

    for (int i = 0; i < x->count; i++)
        families += is_first(x, i);
    for (int i = 0; i < x->count; i++)
        if (is_first(x, i) && (families <= MOST_FAMILIES || is_line(x, &x->run[i])))
            plot_family(x, &x->run[i], out);
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

static void note_base(const struct plotted *x, struct tr_plot *out)
{
    tr_plot_note(out, tr_format("Baseline: %s on %.0f GPU%s, efficiency 100 %%.", x->base->name,
                                x->fewest, tr_plural((int64_t)x->fewest)));
}

/* Runs of a sweep are many on each number of GPUs, and in any order: lines join the best alone. */
enum tr_status tr_plot_scaling(const struct tr_present *p, struct tr_plot *out)
{
    struct plotted x = {0};
    struct tr_table t;
    enum tr_status s = tr_present_scaling(p, &t);

    tr_table_release(&t);
    *out = (struct tr_plot){.title = "Scaling",
                            .x_label = "GPUs",
                            .y_label = "speed-up",
                            .below_label = "efficiency (%)",
                            .ticks = true,
                            .log_log = true};
    TR_TRY(s);
    find_scales(p, &x, out);
    plot_families(&x, out);
    plot_others(&x, out);
    plot_ideal(&x, out);
    note_base(&x, out);
    note_intervals(&x, out);
    free(x.run);
    return TR_OK;
}
