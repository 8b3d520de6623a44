/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/plot.h"

#include <math.h>
#include <stdlib.h>

#include "report/scaling.h"
#include "util/file.h"
#include "util/text.h"

static enum tr_status plot_loss(const struct tr_present *p, struct tr_plot *out)
{
    *out = (struct tr_plot){.title = "Loss", .x_label = "iteration", .y_label = "lm loss"};
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        tr_plot_series(out, tr_format("%s", r->name));
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

static enum tr_status plot_throughput(const struct tr_present *p, struct tr_plot *out)
{
    bool tokens = know_tokens(p->runs);

    *out = (struct tr_plot){.title = "Throughput",
                            .x_label = "iteration",
                            .y_label = tokens ? "tokens/s" : "samples/s"};
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        double each = tokens ? tr_record_fact(r, TR_FACT_SEQ) : 1.0;
        double batch = tr_record_fact(r, TR_FACT_BATCH);

        tr_plot_series(out, tr_format("%s", r->name));
        for (int64_t n = 0; n < r->rows; n++) {
            const double *field = r->row[n].field;
            double samples = isnan(field[TR_FIELD_BATCH]) ? batch : field[TR_FIELD_BATCH];

            tr_plot_point(out, (double)r->row[n].iteration,
                          1e3 * each * samples / field[TR_FIELD_ELAPSED]);
        }
    }
    return TR_OK;
}

static enum tr_status plot_breakdown(const struct tr_present *p, struct tr_plot *out)
{
    struct tr_breakdown *b = calloc((size_t)p->runs->count + 1, sizeof *b);
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
            tr_plot_bar(out, tr_format("%s", p->runs->list[i].name));
        else
            worst = s;
    }
    for (int part = 0; part < TR_PARTS; part++) {
        tr_plot_series(out, tr_format("%s", tr_part_key((enum tr_part)part)));
        for (int n = 0; n < out->bars; n++)
            tr_plot_point(out, n, b[n].part[part]);
    }
    free(b);
    return out->bars > 0 ? TR_OK : worst;
}

/* The run with the fewest GPUs of those that have more than `gpus`, and of several the next after
   `after`; NULL at the end. */
static const struct tr_record *next_larger(const struct tr_records *runs, double gpus,
                                           const struct tr_record *after)
{
    const struct tr_record *next = NULL;

    for (int i = 0; i < runs->count; i++) {
        const struct tr_record *r = &runs->list[i];
        double mine = tr_record_fact(r, TR_FACT_WORLD);

        if (mine < gpus || (!(mine > gpus) && r <= after))
            continue;
        if (!next || mine < tr_record_fact(next, TR_FACT_WORLD))
            next = r;
    }
    return next;
}

struct scaled {
    const struct tr_records *runs;
    struct tr_scaling *of; /* [runs->count] */
    double fewest, most;   /* GPUs */
};

/* Some run of the kind has more GPUs than the base. */
static bool has_kind(const struct scaled *x, enum tr_scaling_kind kind)
{
    for (int i = 0; i < x->runs->count; i++)
        if (x->of[i].kind == kind && x->of[i].gpus > x->fewest)
            return true;
    return false;
}

/* From the base on, the best run of the kind on each number of GPUs. */
static void plot_best(const struct scaled *x, enum tr_scaling_kind kind, struct tr_plot *out)
{
    const struct tr_record *r = next_larger(x->runs, x->fewest, NULL), *next;
    double best = 1.0;

    if (!has_kind(x, kind))
        return;
    tr_plot_series(out,
                   tr_format("%s scaling, the best on each number of GPUs", tr_scaling_text(kind)));
    for (; r; r = next) {
        const struct tr_scaling *one = &x->of[r - x->runs->list];

        if (one->kind == kind || one->kind == TR_SCALING_BASE)
            best = fmax(best, one->speed_up);
        next = next_larger(x->runs, one->gpus, r);
        if (next && x->of[next - x->runs->list].gpus <= one->gpus)
            continue;
        tr_plot_point(out, one->gpus, best);
        best = NAN;
    }
}

static void plot_all(const struct scaled *x, struct tr_plot *out)
{
    tr_plot_series(out, tr_format("all runs"));
    out->series[out->count - 1].apart = true;
    for (int i = 0; i < x->runs->count; i++)
        tr_plot_point(out, x->of[i].gpus, x->of[i].speed_up);
}

static void find_scales(const struct tr_present *p, const struct tr_record *base, struct scaled *x)
{
    x->runs = p->runs;
    x->fewest = tr_record_fact(base, TR_FACT_WORLD);
    x->of = calloc((size_t)p->runs->count, sizeof *x->of);
    if (!x->of)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    for (int i = 0; i < p->runs->count; i++) {
        tr_scale(&p->runs->list[i], base, p->warmup, &x->of[i]);
        x->most = fmax(x->most, x->of[i].gpus);
    }
}

/* Runs of a sweep are many on each number of GPUs, and in any order: lines join the best alone. */
static enum tr_status plot_scaling(const struct tr_present *p, struct tr_plot *out)
{
    static const enum tr_scaling_kind kinds[] = {TR_SCALING_STRONG, TR_SCALING_WEAK,
                                                 TR_SCALING_OTHER};
    const struct tr_record *base;
    struct scaled x = {0};
    struct tr_table t;
    enum tr_status s = tr_present_scaling(p, &t);

    tr_table_release(&t);
    *out = (struct tr_plot){.title = "Scaling",
                            .x_label = "GPUs",
                            .y_label = "work per second against the smallest run",
                            .log_log = true};
    TR_TRY(s);
    base = tr_scale_base(p->runs->list, p->runs->count, p->warmup);
    find_scales(p, base, &x);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        plot_best(&x, kinds[k], out);
    plot_all(&x, out);
    tr_plot_series(out, tr_format("ideal, from %s on %.0f GPU%s", base->name, x.fewest,
                                  tr_plural((int64_t)x.fewest)));
    tr_plot_point(out, x.fewest, 1.0);
    tr_plot_point(out, x.most, x.most / x.fewest);
    free(x.of);
    return TR_OK;
}

enum tr_status tr_plot_of(enum tr_plot_kind kind, const struct tr_present *p, struct tr_plot *out)
{
    static enum tr_status (*const plots[])(const struct tr_present *from, struct tr_plot *to) = {
        [TR_PLOT_LOSS] = plot_loss,
        [TR_PLOT_THROUGHPUT] = plot_throughput,
        [TR_PLOT_BREAKDOWN] = plot_breakdown,
        [TR_PLOT_SCALING] = plot_scaling,
    };

    return plots[kind](p, out);
}
