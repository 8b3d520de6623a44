/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/run_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/words.h"
#include "report/breakdown.h"
#include "report/logs.h"
#include "report/scan.h"
#include "report/summary.h"
#include "telemetry/gpus.h"
#include "util/file.h"
#include "util/log.h"

/* ---- options ---- */

static const struct {
    const char *option, *value;
} absent[] = {
#define ABSENT(option, value) {option, value},
#include "config/run_args.def"
};

static const struct {
    const char *option, *flag;
} partners[] = {
#define ONLY_WITH(option, flag) {option, flag},
#include "config/run_args.def"
};

static const struct {
    enum tr_fact fact;
    const char *option;
} facts[] = {
#define FACT(symbol, key, option, help) {TR_FACT_##symbol, option},
#include "config/facts.def"
};

static const char *const said_groups[] = {
#define WHOLE(group) group,
#include "config/run_args.def"
};
static const char *const said_options[] = {
#define ONE(option) option,
#include "config/run_args.def"
};
static const char *const unsaid_options[] = {
#define NOT(option) option,
#include "config/run_args.def"
};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof list / sizeof list[0])
static bool is_read(const struct tr_opt *o)
{
    return o->type != TR_OPT_WORDS && !IS_ONE_OF(o->name, unsaid_options) &&
           (IS_ONE_OF(o->group, said_groups) || IS_ONE_OF(o->name, said_options));
}

/* The option that an argument says, or NULL: none, or one that is not read. */
static const struct tr_opt *option_of(const struct tr_argument *a)
{
    char name[64];
    const struct tr_opt *o;

    if (strlen(a->name) >= sizeof name || strlen(a->value) >= TR_FIELD_BYTES ||
        strcmp(a->value, "None") == 0)
        return NULL;
    strcpy(name, a->name);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    o = tr_options_find(tr_config_options(), name);
    return o && is_read(o) ? o : NULL;
}

/* As one types it. */
static const char *value_of(const struct tr_argument *a, const struct tr_opt *o)
{
    return o->type != TR_OPT_FLAG ? a->value : strcmp(a->value, "True") == 0 ? "on" : "off";
}

static bool says(const struct tr_record *r, const struct tr_opt *o)
{
    for (int i = 0; i < r->arguments; i++)
        if (option_of(&r->argument[i]) == o)
            return true;
    return false;
}

static bool is_on(const struct tr_record *r, const char *flag)
{
    const char *value = tr_record_argument(r, flag);

    return value && strcmp(value, "True") == 0;
}

/* Has the option no effect there, since its flag is off? */
static bool is_idle(const struct tr_record *r, const struct tr_opt *o)
{
    for (size_t i = 0; !r->ours && i < sizeof partners / sizeof partners[0]; i++)
        if (strcmp(partners[i].option, o->name) == 0 && !is_on(r, partners[i].flag))
            return true;
    return false;
}

static void put(const struct tr_record *r, struct tr_config *c, const char *option,
                const char *value)
{
    if (tr_config_set(c, option, value) != TR_OK)
        tr_log(TR_LOG_WARNING, "%s: planned without --%s %s: %s", r->name, option, value,
               tr_last_error());
}

/* A fact that no argument says, or one that stands for another which is known. */
static bool fills_in(const struct tr_record *r, enum tr_fact f, const struct tr_opt *o)
{
    return o && o->type == TR_OPT_INT && !isnan(r->fact[f]) && !says(r, o) &&
           !(f == TR_FACT_CHUNKS && !isnan(r->fact[TR_FACT_CHUNK_LAYERS]));
}

static void put_facts(const struct tr_record *r, struct tr_config *c)
{
    char value[32];

    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        if (!fills_in(r, facts[i].fact, tr_options_find(tr_config_options(), facts[i].option)))
            continue;
        snprintf(value, sizeof value, "%.0f", r->fact[facts[i].fact]);
        put(r, c, facts[i].option, value);
    }
    if (c->vocab_size == TR_UNSET_INT && r->fact[TR_FACT_VOCAB] >= 1.0)
        c->vocab_size = (int64_t)r->fact[TR_FACT_VOCAB];
    if (c->max_position_embeddings == TR_UNSET_INT)
        c->max_position_embeddings = c->seq_length;
}

/* Only fp16 has a loss scale. */
static bool scales_loss(const struct tr_record *r)
{
    return r->rows > 0 && r->row[r->rows - 1].field[TR_FIELD_SCALE] > 1.0;
}

/* A plan needs no learning rate. */
static enum tr_status check(const struct tr_record *r, struct tr_config *c)
{
    const char *missing;

    if (c->lr <= TR_UNSET_REAL)
        c->lr = 0.0;
    missing = tr_config_missing(c);
    if (!missing && c->vocab_size == TR_UNSET_INT && !c->vocab_file && !c->tokenizer_model)
        missing = "vocab-size";
    if (!missing && c->world_size == TR_UNSET_INT)
        missing = "world-size";
    if (!missing)
        return TR_OK;
    return TR_FAIL(TR_EDATA, "%s does not say its --%s: give it", r->name, missing);
}

enum tr_status tr_record_config(const struct tr_record *r, const struct tr_args *typed,
                                struct tr_config *out)
{
    tr_config_init(out);
    for (size_t i = 0; !r->ours && i < sizeof absent / sizeof absent[0]; i++)
        put(r, out, absent[i].option, absent[i].value);
    for (int i = 0; i < r->arguments; i++) {
        const struct tr_opt *o = option_of(&r->argument[i]);

        if (o && !is_idle(r, o))
            put(r, out, o->name, value_of(&r->argument[i], o));
    }
    put_facts(r, out);
    if (!out->bf16 && scales_loss(r))
        out->fp16 = true;
    TR_TRY(tr_config_parse_args(out, typed));
    return check(r, out);
}

/* ---- times ---- */

/* The median of the lines that count and have the batch of the last one. */
static double seconds_of(const struct tr_record *r)
{
    struct tr_selection s = tr_select_rows(r, TR_WARMUP_AUTO);
    const double batch = tr_record_fact(r, TR_FACT_BATCH);
    double *ms = calloc((size_t)s.count + 1, sizeof *ms), median;

    if (!ms)
        tr_die(TR_ERESOURCE, "no memory left for the times of a run");
    for (int64_t i = 0; i < s.count; i++) {
        const double *field = r->row[s.row[i]].field;
        const bool other = fabs(field[TR_FIELD_BATCH] - batch) > 0.5;

        ms[i] = other ? NAN : field[TR_FIELD_ELAPSED];
    }
    median = tr_order_of(ms, s.count).median;
    free(ms);
    tr_selection_release(&s);
    return 1e-3 * median;
}

static double known(double ms)
{
    return ms > 0.0 ? 1e-3 * ms : NAN;
}

static void take_timers(const struct tr_record *r, struct tr_measured *m)
{
    struct tr_breakdown b;

    if (tr_break_down(r, TR_WARMUP_AUTO, &b) != TR_OK)
        return;
    m->compute = known(b.part[TR_PART_COMPUTE]);
    m->optimizer = known(b.part[TR_PART_OPTIMIZER]);
}

/* ---- runs ---- */

/* Does it stand for one GPU, and is its peak another one? */
static enum tr_status check_gpu(const struct tr_record *r, const struct tr_machine *m)
{
    const double peak = r->gpu ? tr_gpu_peak(r->gpu) : m->peak_fp16;

    if (fabs(peak / m->peak_fp16 - 1.0) < 0.05)
        return TR_OK;
    return TR_FAIL(
        TR_EDATA,
        "%s ran on GPUs called %s, of %.0f TFLOP/s in fp16, and those of the profile %s have "
        "%.0f: give the profile of a machine with the same GPUs, or a copy of one with "
        "other peaks (docs/machines.md), as --machine",
        r->name, r->gpu, peak, m->name, m->peak_fp16);
}

static enum tr_status use(struct tr_measured_runs *all, int i, const struct tr_args *typed,
                          const struct tr_machine *m)
{
    const struct tr_record *r = &all->logs.list[i];
    struct tr_config *c = &all->config[i];
    const double seconds = seconds_of(r);
    enum tr_status s = tr_record_config(r, typed, c);

    if (s == TR_OK && !(seconds > 0.0))
        s = TR_FAIL(TR_EDATA, "%s has no line of an iteration that counts", r->name);
    if (s == TR_OK)
        s = tr_measured_open(c, m, r->name, seconds, &all->run[all->count]);
    if (s != TR_OK) {
        tr_log(TR_LOG_WARNING, "left out: %s", tr_last_error());
        return TR_OK;
    }
    take_timers(r, &all->run[all->count++]);
    for (int64_t k = 0; k < r->starts; k++)
        if (strncmp(r->start[k].began, all->date, 10) > 0)
            snprintf(all->date, sizeof all->date, "%.10s", r->start[k].began);
    return check_gpu(r, m);
}

static void *room(int n, size_t size)
{
    void *x = calloc((size_t)n + 1, size);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the runs of the logs");
    return x;
}

enum tr_status tr_measured_runs_read(const struct tr_words *paths, const struct tr_args *typed,
                                     const struct tr_machine *m, struct tr_measured_runs *out)
{
    memset(out, 0, sizeof *out);
    TR_TRY(tr_logs_read(paths, false, false, &out->logs));
    out->config = room(out->logs.count, sizeof *out->config);
    out->run = room(out->logs.count, sizeof *out->run);
    for (int i = 0; i < out->logs.count; i++)
        TR_TRY(use(out, i, typed, m));
    if (out->count > 0)
        return TR_OK;
    return TR_FAIL(
        TR_EDATA,
        "no run of these logs says in which layout it took how long: give logs with iteration "
        "lines and the block of arguments before them, or what they lack as options, as in "
        "--num-layers 24");
}

void tr_measured_runs_release(struct tr_measured_runs *r)
{
    for (int i = 0; r->config && i < r->logs.count; i++)
        tr_config_release(&r->config[i]);
    free(r->config);
    free(r->run);
    tr_records_release(&r->logs);
}
