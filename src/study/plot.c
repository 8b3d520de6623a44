/* SPDX-License-Identifier: BSD-3-Clause */
#include "study/plot.h"

#include <math.h>
#include <stdlib.h>

#include "study/scaling.h"
#include "util/file.h"

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

static enum tr_status plot_scaling(const struct tr_present *p, struct tr_plot *out)
{
    const struct tr_record *base;
    struct tr_table t;
    double fewest, most = 0.0;
    enum tr_status s = tr_present_scaling(p, &t);

    tr_table_release(&t);
    *out = (struct tr_plot){.title = "Scaling",
                            .x_label = "GPUs",
                            .y_label = "work per second against the smallest run",
                            .log_log = true};
    TR_TRY(s);
    base = tr_scale_base(p->runs->list, p->runs->count, p->warmup);
    fewest = tr_record_fact(base, TR_FACT_WORLD);
    tr_plot_series(out, tr_format("runs"));
    for (const struct tr_record *r = next_larger(p->runs, 0.0, NULL); r;
         r = next_larger(p->runs, most, r)) {
        struct tr_scaling one;

        tr_scale(r, base, p->warmup, &one);
        tr_plot_point(out, one.gpus, one.speed_up);
        most = one.gpus;
    }
    tr_plot_series(out, tr_format("ideal"));
    tr_plot_point(out, fewest, 1.0);
    tr_plot_point(out, most, most / fewest);
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
