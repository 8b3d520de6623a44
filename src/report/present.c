/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/present_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/flops.h"
#include "report/allocation.h"
#include "report/scaling.h"
#include "telemetry/gpus.h"
#include "util/file.h"
#include "util/text.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))

static double peak_of(const struct tr_present *p, const struct tr_record *r)
{
    if (!isnan(p->peak))
        return p->peak;
    return r->gpu ? tr_gpu_peak(r->gpu) : NAN;
}

void tr_present_summarize(const struct tr_present *p, const struct tr_record *r,
                          struct tr_summary *s)
{
    tr_summarize(r, p->warmup, p->formula, peak_of(p, r), s);
}

/* What was left out of n lines, if anything was. */
static void note_left_out(const struct tr_present *p, struct tr_table *t, int64_t n, int64_t warm,
                          int64_t interrupted)
{
    const bool by_rule = p->warmup == TR_WARMUP_AUTO;
    const char *how = by_rule ? "the first two of a start, at most a quarter" : "--warmup";
    char *first =
        warm > 0 ? tr_format(" %" PRId64 " as warm-up (%s)", warm, how) : tr_format("%s", "");
    char *then =
        interrupted > 0
            ? tr_format(" %" PRId64 " with an evaluation or a save in their time", interrupted)
            : tr_format("%s", "");

    if (warm > 0 || interrupted > 0)
        tr_table_note(t, "Left out of %" PRId64 " iteration lines:%s%s%s.", n, first,
                      warm > 0 && interrupted > 0 ? "," : "", then);
    free(first);
    free(then);
}

void tr_present_note_warmup(const struct tr_present *p, struct tr_table *t)
{
    int64_t warm = 0, interrupted = 0, lines = 0;
    int measured = 0;

    for (int i = 0; i < p->runs->count; i++) {
        struct tr_selection s;

        if (p->runs->list[i].origin != TR_ORIGIN_MEASURED)
            continue;
        measured++;
        s = tr_select_rows(&p->runs->list[i], p->warmup);
        warm += s.warm;
        interrupted += s.interrupted;
        lines += p->runs->list[i].rows;
        tr_selection_release(&s);
    }
    if (measured < p->runs->count)
        tr_table_note(t,
                      "Planned and simulated runs are those of `trireme plan` and `trireme sim`: "
                      "nobody measured them.  The column `from` of --columns tells which they "
                      "are.");
    if (measured == 0)
        return;
    note_left_out(p, t, lines, warm, interrupted);
}

void tr_present_runs(const struct tr_present *p, struct tr_table *t)
{
    tr_table_init(t, "runs", "Runs", p->columns->head, p->columns->count);
    t->processor = tr_records_processor(p->runs);
    for (int i = 0; i < p->runs->count; i++) {
        struct tr_summary s;

        tr_present_summarize(p, &p->runs->list[i], &s);
        tr_columns_row(p->columns, p->runs, &p->runs->list[i], &s, t);
    }
    tr_columns_note(p->columns, t);
    tr_present_note_warmup(p, t);
}

static void add_times(struct tr_table *t, const struct tr_summary *s)
{
    tr_table_scaled(t, s->ms.median, 1);
    tr_table_scaled(t, s->ms.mean, 1);
    tr_table_scaled(t, s->ms.min, 1);
    tr_table_scaled(t, s->ms.max, 1);
    tr_table_scaled(t, s->samples_per_second, 2);
    tr_table_real(t, s->tokens_per_second, 0);
    tr_table_scaled(t, s->hardware_tflops, 2);
    tr_table_scaled(t, s->model_tflops, 2);
    tr_table_scaled(t, s->logged_tflops, 2);
    tr_table_real(t, 100.0 * s->hfu, 2);
    tr_table_real(t, 100.0 * s->mfu, 2);
    tr_table_real(t, 100.0 * s->bubble, 1);
}

/* A number of lines, iterations or starts, of which a plan has none. */
static void add_count(struct tr_table *t, const struct tr_record *r, int64_t n)
{
    tr_table_real(t, r->origin == TR_ORIGIN_MEASURED ? (double)n : NAN, 0);
}

static void add_rest(struct tr_table *t, const struct tr_record *r, const struct tr_summary *s)
{
    tr_table_scaled(t, s->allocated, 0);
    tr_table_scaled(t, s->reserved, 0);
    tr_table_real(t, s->loss_first, -6);
    tr_table_real(t, s->loss_last, -6);
    tr_table_real(t, s->loss_least, -6);
    tr_table_real(t, r->validation, -6);
    add_count(t, r, s->skipped);
    add_count(t, r, s->nan);
    add_count(t, r, r->saves);
    add_count(t, r, r->starts);
    add_count(t, r, r->lost);
    tr_table_text(t, "%s", r->origin == TR_ORIGIN_MEASURED ? tr_end_text(tr_record_end(r)) : "");
}

/* Medians of energy and of what the lines "traffic" say, in the order of the columns. */
static void add_medians(struct tr_table *t, const struct tr_present *p, const struct tr_record *r)
{
    static const struct {
        enum tr_field field;
        int digits;
    } of[] = {
        {TR_FIELD_ENERGY, 1},
        {TR_FIELD_POWER, 1},
        {TR_FIELD_TOKEN_JOULES, 3},
#define TRAFFIC_GROUP(symbol, name)                                         \
    {TR_FIELD_##symbol##_COMPRESS, 2}, {TR_FIELD_##symbol##_DECOMPRESS, 2}, \
        {TR_FIELD_##symbol##_EXPOSED, 2}, {TR_FIELD_##symbol##_WIRE, 2},    \
        {TR_FIELD_##symbol##_HIDDEN, 2},
#define TRAFFIC(symbol, group, name, key, what) \
    {TR_FIELD_##symbol##_BYTES, 0}, {TR_FIELD_##symbol##_RATIO, 2},
#include "telemetry/traffic.def"
    };
    struct tr_selection chosen = tr_select_rows(r, p->warmup);

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        tr_table_scaled(t, tr_selection_order(r, &chosen, of[i].field).median, of[i].digits);
    tr_selection_release(&chosen);
}

static const struct tr_column summary_columns[] = {
    {"log", ""},
    {"layout", "lines as in"},
    {"iteration_first", "first iteration line"},
    {"iteration_last", "last iteration line"},
    {"lines", "iteration lines"},
    {"lines_counted", "that count"},
    {"lines_warmup", "left out: warm-up"},
    {"lines_interrupted", "left out: evaluation, save"},
    {"ms_median", "ms per iteration, median"},
    {"ms_mean", "mean"},
    {"ms_min", "least"},
    {"ms_max", "most"},
    {"samples_per_second", "samples/s"},
    {"tokens_per_second", "tokens/s"},
    {"tflops_hardware", "hardware TFLOP/s per {GPU}"},
    {"tflops_model", "model TFLOP/s per {GPU}"},
    {"tflops_logged", "TFLOP/s as logged"},
    {"hfu_percent", "HFU, %"},
    {"mfu_percent", "MFU, %"},
    {"bubble_percent", "ideal bubble, %"},
    {"allocated_mib", "MiB allocated, most"},
    {"reserved_mib", "MiB reserved, most"},
    {"loss_first", "loss, first"},
    {"loss_last", "loss, last"},
    {"loss_least", "loss, least"},
    {"validation_loss", "validation loss, last"},
    {"skipped_iterations", "iterations skipped"},
    {"nan_iterations", "iterations with nan"},
    {"saves", "checkpoints saved"},
    {"starts", "starts"},
    {"iterations_lost", "iterations done again"},
    {"end", "end"},
    {"joules", "joules of a {GPU}, per iteration"},
    {"watts", "watts of a {GPU}"},
    {"joules_per_token", "joules per token"},
#define TRAFFIC_GROUP(symbol, name)                                                       \
    {name "_compress_ms", name " compress, ms per iteration"},                            \
        {name "_decompress_ms", "decompress"}, {name "_exposed_ms", "wait for messages"}, \
        {name "_wire_ms", "messages under way"}, {name "_hidden_ms", "overlapped"},
#define TRAFFIC(symbol, group, name, key, what) \
    {key "_bytes", name ", bytes per iteration"}, {key "_below_fp16", "times below fp16"},
#include "telemetry/traffic.def"
};

/* Sizes of the first run whose layers are not GPT-2's: the formula of those is true of all.  NULL where there is none. */
static const struct tr_dims *dims_of_formula(const struct tr_present *p, struct tr_dims *room)
{
    for (int i = 0; i < p->runs->count; i++)
        if (tr_record_dims(&p->runs->list[i], room) &&
            tr_flops_text(p->formula, room, false) != tr_flops_text(p->formula, NULL, false))
            return room;
    return NULL;
}

static void note_formulas(const struct tr_present *p, struct tr_table *t)
{
    struct tr_dims room;
    const struct tr_dims *m = dims_of_formula(p, &room);

    tr_table_note(t, "Done: %s, or if nothing is recomputed %s.",
                  tr_flops_text(TR_FLOPS_SC21, m, true), tr_flops_text(TR_FLOPS_SC21, m, false));
    tr_table_note(t, "Model: %s.", tr_flops_text(p->formula, m, false));
}

void tr_present_summary(const struct tr_present *p, struct tr_table *t)
{
    tr_table_init(t, "summary", "Summary", summary_columns, COUNT(summary_columns));
    t->across = true;
    t->processor = tr_records_processor(p->runs);
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        struct tr_summary s;

        tr_present_summarize(p, r, &s);
        tr_table_text(t, "%s", r->name);
        tr_table_text(t, "%s",
                      r->origin != TR_ORIGIN_MEASURED ? tr_run_origin_text(r->origin)
                      : r->ours                       ? "trireme"
                                                      : tr_layout_text(r->layout));
        add_count(t, r, s.first);
        add_count(t, r, s.last);
        add_count(t, r, s.lines);
        add_count(t, r, s.counted);
        add_count(t, r, s.warm);
        add_count(t, r, s.interrupted);
        add_times(t, &s);
        add_rest(t, r, &s);
        add_medians(t, p, r);
    }
    note_formulas(p, t);
    tr_table_note(t,
                  "HFU and MFU are these over the peak of the card (--gpu, --peak-tflops).  Ideal "
                  "bubble: (p-1) / (k m + p-1), p stages of k chunks, m micro-batches.");
    tr_present_note_warmup(p, t);
}

/* Hours, or nothing where dates are missing. */
static void add_hours(struct tr_table *t, const struct tr_allocation *a, double seconds)
{
    tr_table_real(t, isnan(a->allocated) ? NAN : seconds / 3600.0, 3);
}

void tr_present_goodput(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},
        {"starts", "Starts"},
        {"allocated_hours", "Allocated h"},
        {"useful_hours", "Useful h"},
        {"goodput", "Goodput %"},
        {"start_hours", "Start-up h"},
        {"saving_hours", "Saving h"},
        {"again_hours", "Did again h"},
        {"rest_hours", "Rest h"},
        {"between_hours", "Between starts h"},
    };
    int64_t ends = 0;

    tr_table_init(t, "goodput", "Goodput", columns, COUNT(columns));
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        const struct tr_allocation a = tr_allocation_of(r);
        const double hours[] = {a.start, a.saving, a.again, a.rest, a.between};

        if (r->origin != TR_ORIGIN_MEASURED)
            continue;
        tr_table_text(t, "%s", r->name);
        tr_table_real(t, (double)r->starts, 0);
        add_hours(t, &a, a.allocated);
        add_hours(t, &a, a.useful);
        tr_table_real(t, a.allocated > 0.0 ? 100.0 * a.useful / a.allocated : NAN, 1);
        for (int k = 0; k < COUNT(hours); k++)
            add_hours(t, &a, hours[k]);
        ends += a.ends;
    }
    tr_table_note(t, "Allocated: from the first to the last date of each start.  Useful: "
                     "iterations that no later "
                     "start did again.  Rest: evaluation, and what the log has no times of.  "
                     "Between starts nothing "
                     "was allocated.");
    if (ends > 0)
        tr_table_note(
            t, "%lld start%s ended without a date: they count until their last line with a time.",
            (long long)ends, tr_plural(ends));
}

void tr_present_starts(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},         {"start", "Start"},
        {"line", "Line"},       {"began", "Began"},
        {"ended", "Last date"}, {"resumed", "From iteration"},
        {"last", "Reached"},    {"lost", "Did again"},
        {"end", "End"},         {"end_line", "Line of end"},
    };

    tr_table_init(t, "starts", "Starts", columns, COUNT(columns));
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        for (int64_t n = 0; n < r->starts && r->origin == TR_ORIGIN_MEASURED; n++) {
            const struct tr_start *s = &r->start[n];

            tr_table_text(t, "%s", r->name);
            tr_table_real(t, (double)(n + 1), 0);
            tr_table_real(t, (double)s->line, 0);
            tr_table_text(t, "%s", s->began);
            tr_table_text(t, "%s", s->ended);
            tr_table_real(t, s->resumed < 0 ? NAN : (double)s->resumed, 0);
            tr_table_real(t, s->last > 0 ? (double)s->last : NAN, 0);
            tr_table_real(t, (double)s->lost, 0);
            tr_table_text(t, "%s", tr_end_text(s->end));
            tr_table_real(t, s->end == TR_END_UNKNOWN ? NAN : (double)s->end_line, 0);
        }
    }
}

void tr_present_slow(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},          {"rank", "Rank"},           {"where", "Where"},
        {"percent", "% slower"}, {"iteration", "Iteration"}, {"event", "Event"},
    };

    tr_table_init(t, "slow", "Slow ranks", columns, COUNT(columns));
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        for (int64_t n = 0; n < r->slows; n++) {
            const struct tr_slow_line *s = &r->slow[n];

            tr_table_text(t, "%s", r->name);
            tr_table_real(t, (double)s->rank, 0);
            tr_table_text(t, "%s", s->where);
            tr_table_real(t, s->percent, 1);
            tr_table_real(t, (double)s->iteration, 0);
            tr_table_text(t, "%s", isnan(s->percent) ? "no longer slow" : "slow");
        }
    }
    tr_table_note(t, "Own compute time against the median of the ranks with the same work.");
}

/* The timers of a part of the breakdown; for the pipeline bubble the expected time, and the timer
   that contains it. */
static void add_source(struct tr_table *t, const struct tr_record *r, const struct tr_breakdown *b,
                       enum tr_part part)
{
    static const char *const sources[TR_PARTS] = {
        [TR_PART_COMPUTE] = "forward-compute + backward-compute - batch-generator",
        [TR_PART_FILL] = "forward-recv, up to (p-1) forward passes",
        [TR_PART_DRAIN] = "all-reduce of the embedding's gradients, up to (p-1) backward passes",
        [TR_PART_TRANSFER] = "what is left of these two, other messages between stages",
        [TR_PART_GRADIENTS] = "gradient reduction over replicas",
        [TR_PART_OPTIMIZER] = "optimizer",
        [TR_PART_DATA] = "batch-generator",
        [TR_PART_OTHER] = "the rest",
    };
    bool fill = part == TR_PART_FILL, drain = part == TR_PART_DRAIN;

    if (r->origin != TR_ORIGIN_MEASURED) {
        tr_table_none(t);
        tr_table_none(t);
        tr_table_text(t, "%s: %s", tr_run_origin_text(r->origin), tr_part_what(part));
        return;
    }
    tr_table_real(t, fill ? b->fill_by_formula : drain ? b->drain_by_formula : NAN, 2);
    tr_table_real(t, fill ? b->fill_timer : drain ? b->drain_timer : NAN, 2);
    if (b->measured && (fill || drain))
        tr_table_text(t, "measured: %s", fill ? "pipeline-fill-wait" : "pipeline-drain-wait");
    else
        tr_table_text(t, "%s", sources[part]);
}

/* The parts as they are printed add up to the time as it is printed: the rest takes the rounding.
 */
static void add_parts(struct tr_table *t, const struct tr_record *r, const struct tr_breakdown *b)
{
    double left = rint(b->ms * 100.0);

    for (int part = 0; part < TR_PARTS; part++) {
        double hundredths = part == TR_PART_OTHER ? left : rint(b->part[part] * 100.0);

        if (!tr_part_is_of((enum tr_part)part, r->origin))
            continue;
        left -= hundredths;
        tr_table_text(t, "%s", r->name);
        tr_table_text(t, "%s", tr_part_key((enum tr_part)part));
        tr_table_real(t, hundredths / 100.0, 2);
        tr_table_real(t, hundredths / b->ms, 1);
        add_source(t, r, b, (enum tr_part)part);
    }
    tr_table_text(t, "%s", r->name);
    tr_table_text(t, "iteration");
    tr_table_real(t, rint(b->ms * 100.0) / 100.0, 2);
    tr_table_real(t, 100.0, 1);
    tr_table_none(t);
    tr_table_none(t);
    if (r->origin != TR_ORIGIN_MEASURED)
        tr_table_text(t, "%s, of %s", tr_run_origin_text(r->origin),
                      r->origin == TR_ORIGIN_PLANNED ? "the stage that takes longest"
                                                     : "the mean rank");
    else
        tr_table_text(t, "elapsed; timers of %s, in %" PRId64 " of the lines that count",
                      b->of_last ? "the last rank" : "all ranks, the largest of them", b->lines);
}

enum tr_status tr_present_breakdown(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},
        {"part", "Part"},
        {"ms", "ms"},
        {"percent", "%"},
        {"expected_ms", "Expected"},
        {"timer_ms", "Timer"},
        {"from", "From"},
    };
    enum tr_status worst = TR_OK;

    tr_table_init(t, "breakdown", "Breakdown of an iteration", columns, COUNT(columns));
    for (int i = 0; i < p->runs->count; i++) {
        struct tr_breakdown b;
        enum tr_status s = tr_break_down(&p->runs->list[i], p->warmup, &b);

        if (s == TR_OK)
            add_parts(t, &p->runs->list[i], &b);
        else
            tr_table_note(t, "%s.", tr_last_error());
        worst = s == TR_OK ? worst : s;
    }
    if (t->cells == 0)
        return worst;
    tr_table_note(t, "Milliseconds, medians.  Fill and drain are the pipeline's bubble: waiting, "
                     "not moving bytes.");
    tr_present_note_warmup(p, t);
    return TR_OK;
}

static void add_scaling(const struct tr_present *p, struct tr_table *t, const struct tr_record *r,
                        const struct tr_record *base)
{
    struct tr_scaling s;

    tr_scale(r, base, p->warmup, &s);
    tr_table_text(t, "%s", r->name);
    tr_table_real(t, s.gpus, 0);
    tr_table_text(t, "%s", tr_scaling_text(s.kind));
    tr_table_real(t, s.speed_up, 3);
    tr_table_real(t, 100.0 * s.efficiency, 1);
    tr_table_real(t, 100.0 * s.busy, 1);
    tr_table_real(t, 100.0 * s.hidden, 1);
    tr_table_real(t, 100.0 * s.step, 1);
    tr_table_real(t, 100.0 * s.balance, 1);
    tr_table_scaled(t, s.gemm, 2);
    tr_table_real(t, 100.0 * s.gemm / peak_of(p, r), 1);
    tr_table_scaled(t, s.total, 2);
    tr_table_real(t, 100.0 * s.total / peak_of(p, r), 1);
}

/* `named`: the smallest runs. */
static void note_scaling(struct tr_table *t, const char *named)
{
    const char *one = tr_processor_noun(t->processor, 1);

    tr_table_note(t,
                  "Efficiency: work per %s and second against the smallest run, %s.  Strong: the "
                  "same batch; weak: a batch in proportion; other: work is the model's operations.",
                  one, named);
    tr_table_note(t,
                  "1-bubble x 1-exposed x 1-step x balance x GEMM = product, TFLOP/s per %s by "
                  "formula sc21; over the peak it is HFU.  Exposed: transfers and gradient "
                  "reductions; step: optimizer, data and other.",
                  one);
}

enum tr_status tr_present_scaling(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},
        {"gpus", "{GPUs}"},
        {"kind", "Scaling"},
        {"speed_up", "Speed-up"},
        {"efficiency_percent", "Efficiency, %"},
        {"one_minus_bubble_percent", "1-bubble, %"},
        {"one_minus_exposed_percent", "1-exposed, %"},
        {"one_minus_step_percent", "1-step, %"},
        {"balance_percent", "Balance, %"},
        {"gemm_tflops", "GEMM, TFLOP/s"},
        {"gemm_percent", "GEMM, %"},
        {"total_tflops", "Product, TFLOP/s"},
        {"hfu_percent", "HFU, %"},
    };
    const struct tr_record *base[TR_ORIGINS];
    char *named = NULL;

    tr_table_init(t, "scaling", "Scaling", columns, COUNT(columns));
    t->processor = tr_records_processor(p->runs);
    for (int i = 0; i < p->runs->count; i++)
        if (!(tr_record_fact(&p->runs->list[i], TR_FACT_WORLD) > 0.0))
            return tr_record_lacks(&p->runs->list[i], TR_FACT_WORLD, "the table of scaling");
    for (int o = 0; o < TR_ORIGINS; o++) {
        base[o] = tr_scale_base(p->runs->list, p->runs->count, (enum tr_run_origin)o, p->warmup);
        named = base[o] ? tr_text_join(named, ", ", base[o]->name) : named;
    }
    if (!named)
        return TR_FAIL(TR_EDATA,
                       "no log has an iteration line that counts, so there is no scaling");
    for (int i = 0; i < p->runs->count; i++)
        if (p->runs->list[i].rows > 0 && base[p->runs->list[i].origin])
            add_scaling(p, t, &p->runs->list[i], base[p->runs->list[i].origin]);
    note_scaling(t, named);
    free(named);
    tr_present_note_warmup(p, t);
    return TR_OK;
}

void tr_present_iterations(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"log", "Log"},
        {"line", "Line"},
        {"iteration", "Iteration"},
        {"start", "Start"},
#define FIELD(symbol, key) {key, key},
#include "report/fields.def"
    };

    tr_table_init(t, "iterations", "Iterations", columns, COUNT(columns));
    for (int i = 0; i < p->runs->count; i++) {
        const struct tr_record *r = &p->runs->list[i];

        for (int64_t n = 0; n < r->rows; n++) {
            const struct tr_row *row = &r->row[n];

            tr_table_text(t, "%s", r->name);
            tr_table_real(t, (double)row->line, 0);
            tr_table_real(t, (double)row->iteration, 0);
            tr_table_real(t, (double)row->start + 1.0, 0);
            for (int f = 0; f < TR_FIELDS; f++) {
                const double x = row->field[f];
                const bool small = f == TR_FIELD_LOSS || f == TR_FIELD_RATE;

                tr_table_real(t, x, small ? -6 : rint(x) == x ? 0 : 3);
            }
        }
    }
}
