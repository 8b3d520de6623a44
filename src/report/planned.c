/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "report/breakdown.h"
#include "report/present_parts.h"

static bool is_plan(const struct tr_record *r)
{
    return r->origin == TR_ORIGIN_PLANNED && r->rows > 0;
}

/* Logs do not name the machine, so that whoever gives plans and logs says that they belong
   together. */
static bool same_run(const struct tr_record *plan, const struct tr_record *r)
{
    static const enum tr_fact facts[] = {
        TR_FACT_WORLD,  TR_FACT_TP,     TR_FACT_PP,     TR_FACT_CHUNKS, TR_FACT_MICRO_BATCH,
        TR_FACT_MICROS, TR_FACT_LAYERS, TR_FACT_HIDDEN, TR_FACT_FFN,    TR_FACT_SEQ,
    };

    return r->origin == TR_ORIGIN_MEASURED && r->rows > 0 && r->recompute == plan->recompute &&
           tr_record_alike(plan, r, facts, sizeof facts / sizeof facts[0], false);
}

bool tr_planned_any(const struct tr_records *runs)
{
    for (int i = 0; i < runs->count; i++)
        for (int k = 0; k < runs->count && is_plan(&runs->list[i]); k++)
            if (same_run(&runs->list[i], &runs->list[k]))
                return true;
    return false;
}

/* The median of all runs of the plan's layout, ms; NAN: there is none. */
static double measured(const struct tr_present *p, const struct tr_record *plan)
{
    double *x = calloc((size_t)p->runs->count, sizeof *x), median;
    int64_t n = 0;

    TR_ASSERT(x);
    for (int i = 0; i < p->runs->count; i++) {
        struct tr_summary s;

        if (!same_run(plan, &p->runs->list[i]))
            continue;
        tr_present_summarize(p, &p->runs->list[i], &s);
        x[n++] = s.ms.median;
    }
    median = tr_order_of(x, n).median;
    free(x);
    return median;
}

/* What of it the timers of a log tell: those of forward and backward passes count sums inside
   layers. */
static void note_passes(const struct tr_present *p, const struct tr_record *plan,
                        struct tr_table *t)
{
    const double planned = plan->part[TR_PART_COMPUTE] + plan->part[TR_PART_TENSOR];
    struct tr_breakdown b;

    for (int i = 0; i < p->runs->count && plan->part[TR_PART_COMPUTE] > 0.0; i++) {
        const struct tr_record *r = &p->runs->list[i];

        if (!same_run(plan, r) || tr_break_down(r, p->warmup, &b) != TR_OK)
            continue;
        tr_table_note(t,
                      "In %s forward and backward passes took %.0f ms and were planned with "
                      "%.0f.",
                      r->name, b.part[TR_PART_COMPUTE], planned);
        return;
    }
}

/* A time that eight of ten runs do not have. */
static void note_outside(const struct tr_present *p, const struct tr_record *plan, const char *size,
                         double planned, double time, struct tr_table *t)
{
    if (!(plan->p90 > 0.0) || !(time < plan->p10 || time > plan->p90))
        return;
    tr_table_note(t, "%s on %.0f ranks: planned %.0f ms (P10 to P90: %.0f to %.0f), measured %.0f.",
                  size, tr_record_fact(plan, TR_FACT_WORLD), planned, plan->p10, plan->p90, time);
    note_passes(p, plan, t);
}

static void add_plan(const struct tr_present *p, const struct tr_record *plan, struct tr_table *t)
{
    static const enum tr_fact layout[] = {
        TR_FACT_WORLD, TR_FACT_TP, TR_FACT_PP, TR_FACT_DP, TR_FACT_MICRO_BATCH, TR_FACT_MICROS,
    };
    const double time = measured(p, plan);
    struct tr_summary s;
    char size[16];

    tr_present_summarize(p, plan, &s);
    tr_model_size(s.parameters, size);
    tr_table_text(t, "%s", size);
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++)
        tr_table_real(t, tr_record_fact(plan, layout[i]), 0);
    tr_table_text(t, "%s", plan->machine);
    tr_table_scaled(t, s.ms.median, 0);
    tr_table_scaled(t, plan->p90 > 0.0 ? plan->p10 : NAN, 0);
    tr_table_scaled(t, plan->p90 > 0.0 ? plan->p90 : NAN, 0);
    tr_table_scaled(t, time, 0);
    tr_table_real(t, s.ms.median / time, 2);
    note_outside(p, plan, size, s.ms.median, time, t);
}

enum tr_status tr_present_planned(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"size", "Size"},
        {"gpus", "{GPUs}"},
        {"tp", "TP"},
        {"pp", "PP"},
        {"dp", "DP"},
        {"mbs", "MBS"},
        {"micro_batches", "Micro-batches"},
        {"machine", "Machine"},
        {"planned_ms", "Planned, ms"},
        {"p10_ms", "P10"},
        {"p90_ms", "P90"},
        {"measured_ms", "Measured, ms"},
        {"planned_over_measured", "Planned / measured"},
    };
    bool any = false;

    tr_table_init(t, "planned", "Planned and measured", columns, sizeof columns / sizeof *columns);
    t->processor = tr_records_processor(p->runs);
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        if (!is_plan(r))
            continue;
        add_plan(p, r, t);
        any = true;
    }
    if (!any)
        return TR_FAIL(TR_EDATA,
                       "none of these files is a plan with times, so there is nothing to compare "
                       "logs with: give what `trireme plan --machine NAME --json` prints beside "
                       "them");
    tr_table_note(t, "Times of an iteration.  Planned: eight of ten runs that were compared lie "
                     "between P10 and P90.  "
                     "Measured: the median of the logs of the same model and layout.");
    return TR_OK;
}
