/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "report/plan_file.h"
#include "report/plot_parts.h"
#include "util/file.h"
#include "util/text.h"

static const double MIB = 1048576.0, GIB = 1073741824.0;

enum { MOST_STAGES = 1 << 16 };

/* Which pipeline stage a rank is of, `stages` and more if of none: ranks stand in the order tensor, data, pipeline, or
   tensor, pipeline, data. */
static int stage_of(const struct tr_record *r, int rank, int stages)
{
    const double world = tr_record_fact(r, TR_FACT_WORLD), tp = tr_record_fact(r, TR_FACT_TP);

    return r->tp_pp_dp ? (int)floor(rank / tp) % stages
                       : (int)fmin(floor(rank / (world / stages)), stages);
}

static bool has_memory(const struct tr_record *r)
{
    for (int i = 0; i < r->memories; i++)
        if (!isnan(r->memory[i].max_allocated))
            return true;
    return false;
}

static enum tr_status check(const struct tr_record *r)
{
    static const enum tr_fact needed[] = {TR_FACT_WORLD, TR_FACT_PP, TR_FACT_TP};

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!(tr_record_fact(r, needed[i]) >= 1.0))
            return tr_record_lacks(r, needed[i], "--plot memory");
    return TR_OK;
}

/* The fullest rank of each stage, and as its interval what the ranks of the stage have. */
static void plot_stages(const struct tr_record *r, struct tr_plot *out)
{
    const int stages = (int)fmin(tr_record_fact(r, TR_FACT_PP), MOST_STAGES);
    double *least = malloc(2 * (size_t)stages * sizeof *least), *most;

    if (!least)
        tr_die(TR_ERESOURCE, "no memory left for the stages of a plot");
    most = least + stages;
    for (int i = 0; i < 2 * stages; i++)
        least[i] = NAN;
    for (int i = 0; i < r->memories; i++) {
        const int stage = stage_of(r, i, stages);

        if (stage >= stages)
            continue;
        least[stage] = fmin(least[stage], r->memory[i].max_allocated); /* which pass NAN over */
        most[stage] = fmax(most[stage], r->memory[i].max_allocated);
    }
    for (int stage = 0; stage < stages; stage++)
        tr_plot_range(out, stage, most[stage], least[stage], most[stage]);
    free(least);
}

/* MiB so far; what is large is shown in GiB. */
static void choose_unit(struct tr_plot *out)
{
    double most = 0.0;

    for (int i = 0; i < out->count; i++)
        for (int64_t n = 0; n < out->series[i].count; n++)
            most = fmax(most, out->series[i].y[n]);
    if (most < GIB / MIB)
        return;
    out->y_label = "memory (GiB)";
    for (int i = 0; i < out->count; i++)
        for (int64_t n = 0; n < out->series[i].count; n++) {
            struct tr_series *s = &out->series[i];

            s->y[n] *= MIB / GIB;
            s->low[n] *= MIB / GIB;
            s->high[n] *= MIB / GIB;
        }
}

static bool has_bars(const struct tr_plot *p)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t n = 0; n < p->series[i].count; n++)
            if (p->series[i].low[n] < p->series[i].high[n])
                return true;
    return false;
}

/* The runs that say nothing of memory; simulations never do.  NULL if there is none; owned by the caller. */
static char *without_memory(const struct tr_records *runs)
{
    char *list = NULL;

    for (int i = 0; i < runs->count; i++)
        if (!has_memory(&runs->list[i]) && runs->list[i].origin != TR_ORIGIN_SIMULATED)
            list = tr_text_join(list, ", ", runs->list[i].name);
    return list;
}

static enum tr_status no_memory(const struct tr_records *runs)
{
    return TR_FAIL(TR_EDATA,
                   "%s%s has no lines of memory, \"[Rank 0] (after 10 iterations) memory (MB)\": "
                   "they come after the first lines of a log of training; a log of --log-format "
                   "terminal has none, nor has a simulation; add what `trireme plan --json` prints",
                   runs->count > 0 ? runs->list[0].name : "no log",
                   runs->count > 1 ? ", like all the others," : "");
}

enum tr_status tr_plot_memory(const struct tr_present *p, struct tr_plot *out)
{
    char *without = without_memory(p->runs);

    *out = (struct tr_plot){.title = "Memory of a rank",
                            .x_label = "pipeline stage",
                            .y_label = "memory (MiB)",
                            .from_zero = true,
                            .ticks = true};
    if (without)
        tr_plot_note(out, tr_format("Without lines of memory: %s.", without));
    free(without);
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        if (!has_memory(r))
            continue;
        TR_TRY(check(r));
        tr_plot_series(out, tr_format("%s", r->name), TR_LOOK_LINE);
        plot_stages(r, out);
    }
    if (out->count == 0)
        return no_memory(p->runs);
    choose_unit(out);
    tr_plot_short_series(out);
    tr_plot_note(out, tr_format("Largest allocation of the fullest rank of a stage%s",
                                has_bars(out) ? "; bars reach down to that of the emptiest that "
                                                "the log has."
                                              : "."));
    return TR_OK;
}

/* ---- pareto ---- */

static bool one_batch(const struct tr_front *x)
{
    for (int i = 1; i < x->count; i++)
        if (x->run[i].batch < x->run[0].batch || x->run[i].batch > x->run[0].batch)
            return false;
    return true;
}

/* The next larger number of GPUs above `gpus`; infinity at the end. */
static double next_gpus(const struct tr_front *x, double gpus)
{
    double next = INFINITY;

    for (int i = 0; i < x->count; i++)
        if (x->run[i].gpus > gpus)
            next = fmin(next, x->run[i].gpus);
    return next;
}

static void plot_front(const struct tr_front *x, double gpus, const char *name, bool iteration,
                       struct tr_plot *out)
{
    char *of = *name ? tr_format("%s, ", name) : tr_format("%s", "");

    tr_plot_series(out,
                   tr_format("%s%.0f %s", of, gpus, tr_processor_noun(x->processor, (int64_t)gpus)),
                   TR_LOOK_POINTS);
    free(of);
    for (int below = 0; below < 2; below++) {
        if (below)
            tr_plot_below(out);
        for (int i = 0; i < x->count; i++) {
            const struct tr_front_run *r = &x->run[i];

            if (r->gpus < gpus || r->gpus > gpus)
                continue;
            tr_plot_point(out, r->bytes / GIB,
                          below       ? r->gpu_hours
                          : iteration ? r->seconds
                                      : r->seconds / r->batch);
        }
    }
}

/* By what their ranks compute on. */
static const struct {
    const char *title, *hours, *hours_of_tokens;
} front_words[] = {
#define PROCESSOR(symbol, name, one, many, hours) \
    {"Runs that no other beats in time, memory and " hours, hours, hours ", 1e9 tokens"},
#include "config/processors.def"
};

static enum tr_processor processor_of(const struct tr_front *x, int count)
{
    for (int i = 1; i < count; i++)
        if (x[i].processor != x[0].processor)
            return TR_PROCESSOR_UNKNOWN;
    return x[0].processor;
}

enum tr_status tr_plot_pareto(char *const *path, int count, struct tr_plot *out)
{
    struct tr_front *x = calloc((size_t)count + 1, sizeof *x);
    enum tr_status s = TR_OK;
    enum tr_processor on;
    bool iteration = true, of_run = true;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for a plot");
    *out = (struct tr_plot){.x_label = "memory of the fullest rank (GiB)", .from_zero = true};
    for (int i = 0; i < count && s == TR_OK; i++) {
        s = tr_front_read(path[i], &x[i]);
        iteration &= s == TR_OK && one_batch(&x[i]) && !(x[i].run->batch < x->run->batch) &&
                     !(x[i].run->batch > x->run->batch);
        of_run &= x[i].hours_of_run;
    }
    on = processor_of(x, count);
    out->title = front_words[on].title;
    out->y_label = iteration ? "iteration (s)" : "sample (s)";
    out->below_label = of_run ? front_words[on].hours : front_words[on].hours_of_tokens;
    for (int i = 0; i < count && s == TR_OK; i++)
        for (double gpus = next_gpus(&x[i], 0.0); isfinite(gpus); gpus = next_gpus(&x[i], gpus))
            plot_front(&x[i], gpus, count > 1 ? path[i] : "", iteration, out);
    for (int i = 0; i < count; i++)
        free(x[i].run);
    free(x);
    return s;
}
