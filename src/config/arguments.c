/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "config/config_parts.h"

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
    return *a == *b;
}

const char *tr_config_initial(const char *name)
{
    static char **text;
    const struct tr_options *table = tr_config_options();
    struct tr_options alone = *table;
    struct tr_config initial;

    alone.rows = 1;
    if (!text)
        text = calloc((size_t)table->rows, sizeof *text);
    TR_ASSERT(text);
    for (int i = 0; i < table->rows; i++) {
        alone.row = &table->row[i];
        if (alone.row->kind != TR_ROW_OPT || !same_name(alone.row->name, name))
            continue;
        if (!text[i]) {
            tr_options_init(&alone, &initial);
            text[i] = tr_config_value_text(alone.row, &initial);
            tr_options_release(&alone, &initial);
        }
        return text[i];
    }
    return NULL;
}

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof list / sizeof list[0])
static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (same_name(name, list[i]))
            return true;
    return false;
}

static const char *const facts[] = {
#define FACT(symbol, key, option, help) option,
#define ARGUMENT(symbol, argument) argument,
#include "config/facts.def"
};

/* Do reports and plans of logs read this option?  `says`: its value says something of the model. */
static bool is_read(const struct tr_opt *o, const char *value, bool *says)
{
    static const char *const groups[] = {
#define WHOLE(group) group,
#include "config/run_args.def"
    };
    static const char *const ones[] = {
#define ONE(option) option,
#define DATA(option) option,
#include "config/run_args.def"
    };
    static const struct {
        const char *name, *value;
    } model[] = {
#define SAYS(name, value, change) {name, value},
#include "config/model_args.def"
#undef SAYS
    };

    *says = false;
    for (size_t i = 0; i < sizeof model / sizeof model[0]; i++)
        *says = *says || (same_name(model[i].name, o->name) && strcmp(value, model[i].value) == 0);
    return *says || IS_ONE_OF(o->group, groups) || IS_ONE_OF(o->name, ones) ||
           IS_ONE_OF(o->name, facts);
}

/* A row of the block, or of a short one. */
struct argument {
    char *name, *value; /* owned */
    bool shown, read;
};

/* What a family makes of options that were not given follows from its name, so that it is shown for
   people. */
static void look_at(struct argument *a, const struct tr_opt *o, const struct tr_config *c,
                    const struct tr_config *given, bool family)
{
    const bool fact = IS_ONE_OF(o->name, facts), told = given && tr_config_changed(given, o->name);
    bool says;

    a->name = tr_config_field_name(o);
    a->value = tr_config_value_text(o, c);
    a->read = is_read(o, a->value, &says) && (says || fact || told);
    a->shown = !given || says || told || (family && tr_config_changed(c, o->name)) ||
               (fact && !tr_options_unset(o, family ? c : given));
}

/* "> options besides: lr 0.001, ...": of a short block that would be long, what nothing reads. */
static void print_besides(struct argument *a, int n, FILE *f)
{
    const char *before = "> options besides: ";

    for (int i = 0; i < n; i++) {
        if (!a[i].shown || a[i].read)
            continue;
        fprintf(f, "%s%s %s", before, a[i].name, a[i].value);
        before = ", ";
    }
    if (before[0] == ',')
        fputc('\n', f);
}

void tr_config_print(const struct tr_config *c, const struct tr_config *given, FILE *f)
{
    static const char dots[] = "................................................";
    const struct tr_opt *sorted[TR_CONFIG_ROWS];
    struct argument all[TR_CONFIG_ROWS];
    const bool family = given && tr_config_changed(given, "model-family");
    int n = tr_config_sorted(sorted), shown = 0;
    bool besides;

    for (int i = 0; i < n; i++) {
        look_at(&all[i], sorted[i], c, given, family);
        shown += all[i].shown;
    }
    besides = given && shown > TR_SHORT_ARGUMENTS;
    fputs("------------------------ arguments ------------------------\n", f);
    for (int i = 0; i < n; i++)
        if (all[i].shown && (all[i].read || !besides))
            fprintf(f, "  %s %.*s %s\n", all[i].name, 48 - (int)strlen(all[i].name), dots,
                    all[i].value);
    fputs("-------------------- end of arguments ---------------------\n", f);
    if (besides)
        print_besides(all, n, f);
    for (int i = 0; i < n; i++) {
        free(all[i].name);
        free(all[i].value);
    }
}
