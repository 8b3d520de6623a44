/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/plan_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "util/file.h"
#include "util/text.h"

enum { MOST_STAGES = 1 << 16 };

bool tr_plan_file_is(const char *path)
{
    FILE *f = strcmp(path, "-") == 0 ? NULL : fopen(path, "re");
    int c = ' ';

    while (f && isspace(c))
        c = getc(f);
    if (f)
        fclose(f);
    return c == '{';
}

static enum tr_status open_json(const char *path, const char *what, json_t **out)
{
    FILE *f = fopen(path, "re");
    json_error_t why;

    *out = NULL;
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    *out = json_loadf(f, 0, &why);
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
    if (!is_count(rank, 0.0, MOST_STAGES) || !(all > 0.0))
        return false;
    while (r->memories <= (int)rank) {
        r->memory = tr_grow(r->memory, r->memories, sizeof *r->memory);
        r->memory[r->memories++] = (struct tr_rank_memory){NAN, NAN, NAN, NAN};
    }
    r->memory[(int)rank].allocated = r->memory[(int)rank].max_allocated = all / 1048576.0;
    return true;
}

static bool take_plan(const json_t *plan, struct tr_record *r)
{
    static const struct {
        const char *key;
        enum tr_fact fact;
    } sizes[] = {{"ranks", TR_FACT_WORLD},
                 {"tensor_parallel", TR_FACT_TP},
                 {"pipeline_parallel", TR_FACT_PP},
                 {"data_parallel", TR_FACT_DP},
                 {"model_chunks", TR_FACT_CHUNKS}};
    const json_t *shape = json_object_get(plan, "shape"), *stages = json_object_get(plan, "stages");
    const char *order = json_string_value(json_object_get(shape, "rank_order"));
    const json_t *stage;
    bool good = json_array_size(stages) > 0;
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        r->fact[sizes[i].fact] = number(shape, sizes[i].key);
        good &= is_count(r->fact[sizes[i].fact], 1.0, 1e9);
    }
    r->tp_pp_dp = order && strcmp(order, "tp-pp-dp") == 0;
    json_array_foreach(stages, i, stage) good &= take_stage(stage, r);
    return good;
}

enum tr_status tr_plan_file_read(const char *path, struct tr_records *out)
{
    struct tr_record *r;
    json_t *plan;
    bool good;

    TR_TRY(open_json(path, "trireme plan --json", &plan));
    out->list = tr_grow(out->list, out->count, sizeof *out->list);
    r = &out->list[out->count++];
    memset(r, 0, sizeof *r);
    for (int f = 0; f < TR_FACTS; f++)
        r->fact[f] = NAN;
    r->name = tr_printable(tr_format("%s", path));
    good = take_plan(plan, r);
    json_decref(plan);
    if (!good)
        return TR_FAIL(TR_EDATA,
                       "%s is not what `trireme plan --json` prints: it has no layout, or a stage "
                       "without its rank and bytes; make it again with this version",
                       path);
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
