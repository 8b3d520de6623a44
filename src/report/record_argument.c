/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "report/record.h"
#include "report/scan.h"

static const struct {
    const char *name;
    enum tr_fact fact;
} arguments[] = {
#define FACT(symbol, key, option, help) {option, TR_FACT_##symbol},
#define ARGUMENT(symbol, argument) {argument, TR_FACT_##symbol},
#include "config/facts.def"
};

static const struct {
    const char *name, *value;
} model_arguments[] = {
#define SAYS(name, value, change) {name, value},
#include "config/model_args.def"
#undef SAYS
};

void tr_record_set_fact(struct tr_record *r, enum tr_fact f, double x)
{
    if (x > 0.0 && x < 0x1p53)
        r->fact[f] = x;
}

/* What an argument says of the architecture. */
static void take_model(struct tr_record *run, const char *name, size_t length, const char *value)
{
    if (tr_argument_is(name, length, "model-family"))
        run->family = tr_family_find(value);
    for (size_t i = 0; i < sizeof model_arguments / sizeof model_arguments[0]; i++)
        if (tr_argument_is(name, length, model_arguments[i].name) &&
            strcmp(value, model_arguments[i].value) == 0)
            run->says |= 1U << i;
}

/* `auto` says nothing. */
static void take_backend(struct tr_record *run, const char *name, size_t length, const char *value)
{
    const enum tr_processor on = tr_processor_of_backend(value);

    if (tr_argument_is(name, length, "backend") && on != TR_PROCESSOR_UNKNOWN)
        run->processor = on;
}

void tr_record_take_argument(struct tr_record *r, const char *name, size_t length,
                             const char *value)
{
    const char *s = value;
    double x;

    tr_record_add_argument(r, name, length, value);
    if ((tr_argument_is(name, length, "checkpoint-activations") && strcmp(value, "True") == 0) ||
        (tr_argument_is(name, length, "recompute-granularity") && strcmp(value, "full") == 0))
        r->recompute = true;
    if (tr_argument_is(name, length, "use-tp-pp-dp-mapping") && strcmp(value, "True") == 0)
        r->tp_pp_dp = true;
    take_backend(r, name, length, value);
    take_model(r, name, length, value);
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
        if (tr_argument_is(name, length, arguments[i].name) && tr_scan_number(&s, &x))
            tr_record_set_fact(r, arguments[i].fact, x);
}
