/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "util/file.h"
#include "util/text.h"

static const char *const field_keys[] = {
#define FIELD(symbol, key) key,
#include "report/fields.def"
};

static const struct {
    const char *key, *option;
} facts[] = {
#define FACT(symbol, key, option, help) {key, option},
#include "config/facts.def"
};

static const struct {
    const char *text, *meaning;
} ends[] = {
#define END(symbol, text, meaning) {text, meaning},
#include "report/ends.def"
#undef END
};

static const char *const oddity_texts[] = {
#define ODDITY(symbol, text) text,
#include "report/oddities.def"
#undef ODDITY
};

void *tr_grow(void *list, int64_t used, size_t size)
{
    void *moved = list;

    /* Full at every power of two. */
    if (used == 0 || (used & (used - 1)) == 0)
        moved = reallocarray(list, used ? 2 * (size_t)used : 1, size);
    if (!moved)
        tr_die(TR_ERESOURCE, "no memory left for what the log holds");
    return moved;
}

const char *tr_record_argument(const struct tr_record *r, const char *name)
{
    for (int i = 0; i < r->arguments; i++)
        if (tr_argument_is(r->argument[i].name, strlen(r->argument[i].name), name))
            return r->argument[i].value;
    return r->ours && r->arguments > 0 ? tr_config_initial(name) : NULL;
}

bool tr_argument_is(const char *name, size_t length, const char *option)
{
    for (size_t i = 0; i < length; i++)
        if (option[i] != name[i] && (option[i] != '-' || name[i] != '_'))
            return false;
    return option[length] == '\0';
}

void tr_record_add_argument(struct tr_record *r, const char *name, size_t length, const char *value)
{
    size_t bytes = strnlen(value, TR_ARGUMENT_BYTES);

    if (r->arguments == TR_LOG_ARGUMENTS)
        return;
    while (bytes > 0 && value[bytes - 1] == ' ')
        bytes--;
    r->argument = tr_grow(r->argument, r->arguments, sizeof *r->argument);
    r->argument[r->arguments++] =
        (struct tr_argument){tr_printable(tr_format("%.*s", (int)length, name)),
                             tr_printable(tr_format("%.*s", (int)bytes, value))};
}

void tr_record_drop_arguments(struct tr_record *r)
{
    for (int i = 0; i < r->arguments; i++) {
        free(r->argument[i].name);
        free(r->argument[i].value);
    }
    free(r->argument);
    r->argument = NULL;
    r->arguments = 0;
}

static void release(struct tr_record *r)
{
    tr_record_drop_arguments(r);
    for (int i = 0; i < r->timers; i++)
        free(r->timer[i]);
    free(r->timer);
    free(r->name);
    free(r->row);
    free(r->timing);
    free(r->memory);
    free(r->start);
    free(r->slow);
}

void tr_records_release(struct tr_records *r)
{
    for (int i = 0; i < r->count; i++)
        release(&r->list[i]);
    free(r->list);
    memset(r, 0, sizeof *r);
}

static double work_out(const struct tr_record *r, enum tr_fact f)
{
    const double *x = r->fact;

    switch (f) {
    case TR_FACT_WORLD:
        return x[TR_FACT_TP] * x[TR_FACT_PP] * x[TR_FACT_DP];
    case TR_FACT_DP:
        return x[TR_FACT_WORLD] / (x[TR_FACT_TP] * x[TR_FACT_PP]);
    case TR_FACT_GROUPS:
        return x[TR_FACT_HEADS];
    case TR_FACT_HEAD_WIDTH:
        return x[TR_FACT_HIDDEN] / x[TR_FACT_HEADS];
    case TR_FACT_EMBED:
        return x[TR_FACT_HIDDEN];
    case TR_FACT_FFN:
        return 4.0 * x[TR_FACT_HIDDEN];
    case TR_FACT_MICROS:
        return tr_record_fact(r, TR_FACT_BATCH) /
               (x[TR_FACT_MICRO_BATCH] * tr_record_fact(r, TR_FACT_DP));
    case TR_FACT_CHUNKS:
        if (x[TR_FACT_CHUNK_LAYERS] > 0.0)
            return x[TR_FACT_LAYERS] / (x[TR_FACT_PP] * x[TR_FACT_CHUNK_LAYERS]);
        return 1.0;
    case TR_FACT_BATCH:
        return r->rows > 0 ? r->row[r->rows - 1].field[TR_FIELD_BATCH] : NAN;
    default:
        return NAN;
    }
}

double tr_record_fact(const struct tr_record *r, enum tr_fact f)
{
    return isnan(r->fact[f]) ? work_out(r, f) : r->fact[f];
}

bool tr_record_alike(const struct tr_record *a, const struct tr_record *b, const enum tr_fact *f,
                     size_t count, bool unknown)
{
    for (size_t i = 0; i < count; i++) {
        const double x = tr_record_fact(a, f[i]), y = tr_record_fact(b, f[i]);

        if (x < y || x > y || (isnan(x) != isnan(y) && !unknown))
            return false;
    }
    return true;
}

enum tr_status tr_record_lacks(const struct tr_record *r, enum tr_fact f, const char *what_for)
{
    return TR_FAIL(TR_ECONFIG, "%s does not say what %s needs: give --%s", r->name, what_for,
                   facts[f].option);
}

enum tr_processor tr_records_processor(const struct tr_records *runs)
{
    enum tr_processor all = TR_PROCESSOR_UNKNOWN;

    for (int i = 0; i < runs->count; i++) {
        const struct tr_record *r = &runs->list[i];
        const enum tr_processor one =
            r->processor == TR_PROCESSOR_UNKNOWN && !r->ours ? TR_PROCESSOR_GPU : r->processor;

        if (all != TR_PROCESSOR_UNKNOWN && one != TR_PROCESSOR_UNKNOWN && one != all)
            return TR_PROCESSOR_UNKNOWN;
        all = one == TR_PROCESSOR_UNKNOWN ? all : one;
    }
    return all;
}

const struct tr_timing *tr_row_timing(const struct tr_record *r, const struct tr_row *row, int name)
{
    for (int i = 0; i < row->timings; i++)
        if (r->timing[row->first_timing + i].name == name)
            return &r->timing[row->first_timing + i];
    return NULL;
}

const char *tr_fact_key(enum tr_fact f)
{
    return facts[f].key;
}

const char *tr_field_key(enum tr_field f)
{
    return field_keys[f];
}

const char *tr_end_text(int end)
{
    return end == TR_END_UNKNOWN ? "the log does not say" : ends[end].meaning;
}

int tr_record_end(const struct tr_record *r)
{
    return r->starts > 0 ? r->start[r->starts - 1].end : TR_END_UNKNOWN;
}

bool tr_end_orderly(int end)
{
    return end != TR_END_UNKNOWN &&
           (strstr(ends[end].text, "exiting program") || strstr(ends[end].text, "is done"));
}

const char *tr_run_origin_text(enum tr_run_origin o)
{
    static const char *const texts[] = {[TR_ORIGIN_MEASURED] = "measured",
                                        [TR_ORIGIN_PLANNED] = "planned",
                                        [TR_ORIGIN_SIMULATED] = "simulated"};

    return texts[o];
}

const char *tr_oddity_text(enum tr_oddity o)
{
    return oddity_texts[o];
}

const char *tr_layout_text(enum tr_log_layout l)
{
    static const char *const texts[] = {
        [TR_LAYOUT_2021] = "Megatron-LM of 2021",
        [TR_LAYOUT_CORE] = "Megatron Core",
        [TR_LAYOUT_DEEPSPEED] = "Megatron-DeepSpeed",
    };

    return texts[l];
}
