/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/plan_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "telemetry/gpus.h"
#include "util/file.h"
#include "util/text.h"

enum { MOST_STAGES = 1 << 16 };
static const double MOST_BYTES = 0x1p60; /* of a rank */

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool tr_plan_file_is(const char *path)
{
    FILE *f;
    int c = ' ';

    if (is_stdin(path)) {
        c = getchar();
        ungetc(c, stdin);
        return c == '{';
    }
    f = fopen(path, "re");
    while (f && isspace(c))
        c = getc(f);
    if (f)
        fclose(f);
    return c == '{';
}

static const char run_verbs[] = "trireme plan --json` or `trireme sim --json";

static enum tr_status open_json(const char *path, const char *what, json_t **out)
{
    FILE *f = is_stdin(path) ? stdin : fopen(path, "re");
    json_error_t why;

    *out = NULL;
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    *out = json_loadf(f, 0, &why);
    if (f != stdin)
        fclose(f);
    if (!*out)
        return TR_FAIL(TR_EDATA, "%s is not what `%s` prints: line %d of it is no JSON (%s)", path,
                       what, why.line, why.text);
    return TR_OK;
}

/* A number, or NAN. */
static double number(const json_t *object, const char *key)
{
    const json_t *x = json_object_get(object, key);

    return json_is_number(x) ? json_number_value(x) : NAN;
}

/* Seconds that an iteration, or a part of it, can take. */
static bool is_time(double x)
{
    return x > 0.0 && x < 1e9;
}

static bool is_count(double x, double least, double most)
{
    return x >= least && x < most && !(fabs(x - rint(x)) > 0.0);
}

/* ---- a plan ---- */

static bool take_stage(const json_t *stage, struct tr_record *r)
{
    static const char *const not_in_logs[] = {"kernel_scratch", "context", "nccl"};
    const json_t *bytes = json_object_get(stage, "bytes");
    double rank = number(stage, "rank"), all = number(bytes, "total");

    for (size_t i = 0; i < sizeof not_in_logs / sizeof not_in_logs[0]; i++) {
        double part = number(bytes, not_in_logs[i]);

        all -= isnan(part) ? 0.0 : part;
    }
    if (!is_count(rank, 0.0, MOST_STAGES) || !(all > 0.0) || !(all < MOST_BYTES))
        return false;
    while (r->memories <= (int)rank) {
        r->memory = tr_grow(r->memory, r->memories, sizeof *r->memory);
        r->memory[r->memories++] = (struct tr_rank_memory){NAN, NAN, NAN, NAN};
    }
    r->memory[(int)rank].allocated = r->memory[(int)rank].max_allocated = all / 1048576.0;
    return true;
}

static void take_shape(const json_t *shape, struct tr_record *r)
{
    static const struct {
        const char *key;
        enum tr_fact fact;
    } sizes[] = {{"ranks", TR_FACT_WORLD},          {"tensor_parallel", TR_FACT_TP},
                 {"pipeline_parallel", TR_FACT_PP}, {"data_parallel", TR_FACT_DP},
                 {"model_chunks", TR_FACT_CHUNKS},  {"micro_batch", TR_FACT_MICRO_BATCH},
                 {"global_batch", TR_FACT_BATCH},   {"micro_batches", TR_FACT_MICROS},
                 {"layers", TR_FACT_LAYERS},        {"padded_vocabulary", TR_FACT_VOCAB}};
    const char *order = json_string_value(json_object_get(shape, "rank_order"));

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const double x = number(shape, sizes[i].key);

        if (is_count(x, 1.0, 0x1p53))
            tr_record_set_fact(r, sizes[i].fact, x);
    }
    r->tp_pp_dp = order && strcmp(order, "tp-pp-dp") == 0;
}

/* As a log prints it; owned by the caller. */
static char *option_text(const json_t *value)
{
    if (json_is_string(value))
        return tr_format("%s", json_string_value(value));
    if (json_is_integer(value))
        return tr_format("%lld", (long long)json_integer_value(value));
    if (json_is_real(value))
        return tr_format("%g", json_real_value(value));
    return tr_format("%s", json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
}

static void take_options(const json_t *options, struct tr_record *r)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)options, name, value)
    {
        char *text = option_text(value);

        tr_record_take_argument(r, name, strlen(name), text);
        free(text);
    }
}

/* Of plans made before profiles said it: GPUs. */
static enum tr_processor processor_of(const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "processor"));
    const enum tr_processor p = name ? tr_processor_named(name) : TR_PROCESSOR_GPU;

    return p == TR_PROCESSORS || !json_is_object(object) ? TR_PROCESSOR_UNKNOWN : p;
}

/* Names of profiles have small letters, "jean-zay-v100-16g". */
static void take_machine(const char *name, const char *title, double nodes, struct tr_record *r)
{
    char large[sizeof r->machine];
    size_t n = 0;

    snprintf(r->machine, sizeof r->machine, "%s", name ? name : "");
    for (; r->machine[n]; n++)
        large[n] = (char)toupper((unsigned char)r->machine[n]);
    large[n] = '\0';
    r->gpu = tr_gpu_in(large);
    if (!r->gpu && title)
        r->gpu = tr_gpu_in(title);
    tr_record_set_fact(r, TR_FACT_NODES, nodes);
}

/* The only line of a run that was not measured: an iteration of so many seconds. */
static void take_iteration(double seconds, struct tr_record *r)
{
    struct tr_row row = {.iteration = 1};

    for (int f = 0; f < TR_FIELDS; f++)
        row.field[f] = NAN;
    row.field[TR_FIELD_ELAPSED] = 1e3 * seconds;
    row.field[TR_FIELD_BATCH] = r->fact[TR_FACT_BATCH];
    r->row = tr_grow(r->row, 0, sizeof *r->row);
    r->row[0] = row;
    r->rows = r->lines = 1;
}

/* Of `seconds` an iteration; each part is an object's `key`, or a number.  What is left is "other". */
static bool take_parts(const json_t *parts, const char *key, double seconds, struct tr_record *r)
{
    static const char *const names[] = {
#define PART(symbol, key, colour, logs, plan, what) plan,
#include "report/parts.def"
#undef PART
    };
    double sum = 0.0;

    if (!is_time(seconds) || !json_is_object(parts))
        return false;
    take_iteration(seconds, r);
    for (int p = 0; p < TR_PARTS; p++) {
        const double x =
            key ? number(json_object_get(parts, names[p]), key) : number(parts, names[p]);

        r->part[p] = is_time(x) && p != TR_PART_OTHER ? 1e3 * x : 0.0;
        sum += r->part[p];
    }
    r->part[TR_PART_OTHER] = fmax(1e3 * seconds - sum, 0.0);
    return r->part[TR_PART_COMPUTE] > 0.0;
}

/* With jitter the parts are those of the first draw and the time is the median: they are shares of it. */
static bool take_simulation(const json_t *sim, struct tr_record *r)
{
    const json_t *spent = json_object_get(sim, "seconds_of_a_rank"), *cause;
    const double median = number(json_object_get(sim, "iteration_seconds"), "p50");
    const char *name;
    double sum = 0.0;

    r->origin = TR_ORIGIN_SIMULATED;
    r->processor = processor_of(sim);
    take_machine(json_string_value(json_object_get(sim, "machine")), NULL, number(sim, "nodes"), r);
    json_object_foreach((json_t *)spent, name, cause) sum += number(cause, "mean");
    if (!is_time(median) || !take_parts(spent, "mean", sum, r))
        return false;
    for (int p = 0; p < TR_PARTS; p++)
        r->part[p] *= median / sum;
    r->row[0].field[TR_FIELD_ELAPSED] = 1e3 * median;
    return true;
}

/* Of an iteration, in ms. */
static void take_interval(const json_t *seconds, struct tr_record *r)
{
    const double low = number(seconds, "p10"), high = number(seconds, "p90");

    if (is_time(low) && is_time(high) && low <= high) {
        r->p10 = 1e3 * low;
        r->p90 = 1e3 * high;
    }
}

/* Without a machine it has no times. */
static bool take_plan(const json_t *plan, struct tr_record *r)
{
    const json_t *stages = json_object_get(plan, "stages"), *stage;
    const json_t *machine = json_object_get(plan, "machine");
    const json_t *seconds = json_object_get(plan, "seconds");
    bool good = json_array_size(stages) > 0;
    size_t i;

    r->origin = TR_ORIGIN_PLANNED;
    if (r->processor == TR_PROCESSOR_UNKNOWN)
        r->processor = processor_of(machine);
    take_machine(json_string_value(json_object_get(machine, "name")),
                 json_string_value(json_object_get(machine, "title")), number(machine, "nodes"), r);
    json_array_foreach(stages, i, stage) good &= take_stage(stage, r);
    take_interval(seconds, r);
    return good &&
           (!json_is_object(seconds) || take_parts(seconds, NULL, number(seconds, "total"), r));
}

static struct tr_record *add_record(const char *path, struct tr_records *out)
{
    struct tr_record *r;

    out->list = tr_grow(out->list, out->count, sizeof *out->list);
    r = &out->list[out->count++];
    memset(r, 0, sizeof *r);
    for (int f = 0; f < TR_FACTS; f++)
        r->fact[f] = NAN;
    r->validation = NAN;
    r->name = tr_printable(tr_format("%s", is_stdin(path) ? "standard input" : path));
    r->ours = true;
    r->start = tr_grow(r->start, 0, sizeof *r->start);
    r->start[r->starts++] = (struct tr_start){
        .end = TR_END_UNKNOWN, .ready = NAN, .before = NAN, .saving = NAN, .again = NAN};
    return r;
}

/* Does the record say a layout? */
static bool has_layout(const struct tr_record *r)
{
    return r->fact[TR_FACT_WORLD] >= 1.0 && r->fact[TR_FACT_TP] >= 1.0 &&
           r->fact[TR_FACT_PP] >= 1.0 && r->fact[TR_FACT_DP] >= 1.0;
}

enum tr_plan_file tr_plan_file_kind(const char *path)
{
    enum tr_plan_file kind = TR_PLAN_FILE_OTHER;
    struct stat st;
    json_t *all;

    if (stat(path, &st) != 0 || st.st_size > TR_PLAN_FILE_BYTES || !tr_plan_file_is(path))
        return kind;
    if (open_json(path, run_verbs, &all) != TR_OK)
        return TR_PLAN_FILE_BROKEN;
    if (json_is_object(json_object_get(all, "shape")))
        kind = TR_PLAN_FILE_RUN;
    else if (json_is_array(json_object_get(all, "pareto")))
        kind = TR_PLAN_FILE_SEARCH;
    json_decref(all);
    return kind;
}

enum tr_status tr_plan_file_read(const char *path, struct tr_records *out)
{
    struct tr_record *r;
    json_t *all;
    bool good;

    TR_TRY(open_json(path, run_verbs, &all));
    if (json_is_array(json_object_get(all, "pareto"))) {
        json_decref(all);
        return TR_FAIL(TR_EDATA,
                       "%s is a search of many runs, which only --plot pareto draws: plan one of "
                       "them with `trireme plan --json`",
                       path);
    }
    r = add_record(path, out);
    take_options(json_object_get(all, "options"), r);
    take_shape(json_object_get(all, "shape"), r);
    good = json_object_get(all, "seconds_of_a_rank") ? take_simulation(all, r) : take_plan(all, r);
    good &= has_layout(r);
    json_decref(all);
    if (!good)
        return TR_FAIL(TR_EDATA,
                       "%s is not what `%s` prints: it lacks the layout, the times, or a stage's "
                       "rank and bytes; make it again with this version",
                       path, run_verbs);
    return TR_OK;
}

/* ---- a front ---- */

enum tr_status tr_front_read(const char *path, struct tr_front *out)
{
    json_t *search;
    const json_t *runs, *one;
    bool good;
    size_t i;

    memset(out, 0, sizeof *out);
    TR_TRY(open_json(path, "trireme plan --search --json", &search));
    runs = json_object_get(search, "pareto");
    out->processor = processor_of(search);
    out->hours_of_run = json_is_true(json_object_get(search, "gpu_hours_of_run"));
    good = json_array_size(runs) > 0;
    json_array_foreach(runs, i, one)
    {
        struct tr_front_run r = {.gpus = number(one, "world_size"),
                                 .batch = number(one, "global_batch_size"),
                                 .seconds = number(one, "seconds"),
                                 .bytes = number(one, "bytes"),
                                 .gpu_hours = number(one, "gpu_hours")};

        good &= r.gpus >= 1.0 && r.batch >= 1.0 && r.seconds > 0.0 && r.bytes > 0.0 &&
                r.gpu_hours > 0.0;
        out->run = tr_grow(out->run, out->count, sizeof *out->run);
        out->run[out->count++] = r;
    }
    json_decref(search);
    if (!good)
        return TR_FAIL(TR_EDATA,
                       "%s has no runs of a search: give what `trireme plan --search --json` "
                       "prints, of a search that found a run that fits",
                       path);
    return TR_OK;
}
