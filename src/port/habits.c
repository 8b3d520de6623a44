/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "port/options_parts.h"
#include "util/file.h"

static const struct added {
    int dialects;
    const char *name, *value, *why;
} added[] = {
#define ROW(dialect, name, how, ours, why)
#define ADDED(dialect, name, value, why) {TR_PORT_##dialect, name, value, why},
#define VARIABLE(dialect, name, rule, ours, why)
#include "port/dialects.def"
};

enum rule { VALUE, SWITCH, BYTES, SECONDS, NOTED };

static const struct variable {
    int dialects;
    const char *name;
    enum rule rule;
    const char *ours, *why;
} variables[] = {
#define ROW(dialect, name, how, ours, why)
#define ADDED(dialect, name, value, why)
#define VARIABLE(dialect, name, rule, ours, why) {TR_PORT_##dialect, name, rule, ours, why},
#include "port/dialects.def"
};

/* The language-model runner of AC-SGD takes three layers from its last stage, which has the head, and gives the three
   stages before it one each. */
static void add_stages(struct tr_port *p)
{
    const long n = tr_port_number(p, "num-layers", -1);
    const long stages = tr_port_number(p, "pipeline-group-size", 1);
    char *list, *even;

    if (n <= 3 || stages < 4 || tr_port_classifies(p))
        return;
    even = stages > 4 ? tr_format("%ld*%ld,", n, stages - 4) : tr_format("%s", "");
    list = tr_format("%s%ld*3,%ld", even, n + 1, n - 3);
    tr_port_add_line(p, "pipeline-model-parallel-layout", list);
    free(list);
    free(even);
}

/* AC-SGD's learning rate rises for an epoch unless --warmup-steps says how long. */
static void add_warm_up(struct tr_port *p)
{
    const long epochs = tr_port_number(p, "n-epochs", 10);
    char part[32];

    if (epochs < 1 || tr_port_value(p, "warmup-steps"))
        return;
    tr_real_text(1.0 / (double)epochs, part, sizeof part);
    tr_port_add_line(p, "lr-warmup-fraction", part);
}

void tr_port_add_habits(struct tr_port *p)
{
    const int whose = tr_port_bits(p->dialect);
    const int what = tr_port_classifies(p) ? TR_PORT_CLASSES : TR_PORT_TEXT;
    const int part = whose == TR_PORT_ACSGD ? what : 0;
    const long n = tr_port_number(p, "seq-length", -1);
    char length[32];

    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        if (added[i].dialects & (whose | part))
            tr_port_add_line(p, added[i].name, added[i].value);
    if ((whose & TR_PORT_SLOW) && n > 0 && !tr_port_value(p, "model-name")) {
        snprintf(length, sizeof length, "%ld", n);
        tr_port_add_line(p, "max-position-embeddings", length);
    }
    if (whose == TR_PORT_COCKTAIL && !tr_port_made(p, "eval-interval"))
        tr_port_add_line(p, "eval-iters", "0");
    if (whose == TR_PORT_ACSGD) {
        add_stages(p);
        add_warm_up(p);
    }
}

/* The value of a variable: of the script, or of the environment where its options are run. */
static const char *value_of(const struct tr_port *p, const char *name)
{
    return p->known.runs ? getenv(name) : tr_script_value(&p->script, name);
}

/* The value of our option, owned by the caller; NULL for a flag. */
static char *converted(const struct variable *v, const char *value)
{
    char *end, text[32];
    const double number = strtod(value, &end);
    const bool good = end > value && *end == '\0';

    if (v->rule == SWITCH)
        return NULL;
    if (v->rule == SECONDS && good)
        return tr_format("%ss", value);
    if (v->rule == BYTES && good) {
        tr_real_text(number / 1048576.0, text, sizeof text);
        return tr_format("%s", text);
    }
    return tr_format("%s", value);
}

/* Our option, or the one that says the same in another way, if the line has it; else NULL. */
static const char *given(const struct tr_port *p, const struct variable *v)
{
    static const char elements[] = "ddp-bucket-size";

    if (tr_port_made(p, v->ours) || tr_port_value(p, v->ours))
        return v->ours;
    if (v->rule == BYTES && (tr_port_made(p, elements) || tr_port_value(p, elements)))
        return elements;
    return NULL;
}

static bool is_off(const struct variable *v, const char *value)
{
    return strcmp(value, "0") == 0 && (v->rule == SWITCH || v->rule == BYTES || v->rule == SECONDS);
}

/* What becomes of one that is set, in a few words for tr_port.taken. */
static void take(struct tr_port *p, const struct variable *v, const char *value)
{
    const char *mode = tr_port_value(p, "dp-mode");
    char *line = converted(v, value), *says;

    if (v->rule == NOTED) {
        says = tr_format("%s has no effect: %s", v->name, v->why);
    } else if (v->dialects != TR_PORT_ANY && (!mode || strcmp(mode, "cocktail_sgd") != 0)) {
        says = tr_format("%s has no effect without --dp-mode cocktail_sgd", v->name);
    } else if (given(p, v)) {
        says = tr_format("--%s is given, so %s=%s does not count", given(p, v), v->name, value);
    } else if (is_off(v, value)) {
        says = tr_format("%s=0 is without --%s", v->name, v->ours);
    } else {
        tr_port_add_line(p, v->ours, line);
        says = tr_format("%s=%s is --%s%s%s", v->name, value, v->ours, line ? " " : "",
                         line ? line : "");
    }
    free(line);
    tr_list_take(&p->taken, says);
}

void tr_port_add_variables(struct tr_port *p)
{
    const char *mode = tr_port_value(p, "dp-mode");
    const bool cocktail = mode && strcmp(mode, "cocktail_sgd") == 0;
    const int whose = tr_port_bits(p->dialect);

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const struct variable *v = &variables[i];
        const char *value = value_of(p, v->name);

        if (!value || tr_marked(value))
            continue;
        if ((v->dialects & (whose | TR_PORT_ANY)) || (cocktail && v->rule != NOTED))
            take(p, v, value);
    }
}
