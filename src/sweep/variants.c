/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/variants.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/start.h"
#include "util/file.h"
#include "util/log.h"

/* What has a list of its own, and what a sweep says itself. */
static const struct {
    const char *option, *instead;
} taken[] = {
#define DIM(symbol, name, option, field, help) {option, "--" name},
#include "sweep/dims.def"
    {"train-iters", "--sweep-iters"},
    {"exit-interval", "--sweep-iters"},
    {"log-interval", "no such dimension, since a sweep logs each iteration"},
    {"eval-iters", "no such dimension, since a sweep evaluates nothing"},
};

static enum tr_status find(const char *name, struct tr_sweep_option *o)
{
    const struct tr_opt *row = tr_options_row(tr_config_options(), name);

    if (!row)
        return TR_FAIL(TR_ECONFIG,
                       "--sweep %s=...: trireme train has no such option; trireme help train lists "
                       "them",
                       name);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i].option, name) == 0)
            return TR_FAIL(TR_ECONFIG, "--sweep %s=...: use %s", name, taken[i].instead);
    if (row->kind != TR_ROW_OPT)
        return TR_FAIL(TR_ECONFIG,
                       "--sweep %s=...: that is another name of an option, or one that does "
                       "nothing here; trireme help train has its own name",
                       name);
    o->flag = row->type == TR_OPT_FLAG;
    return TR_OK;
}

/* V1,V2,... */
static void split(const char *list, struct tr_sweep_option *o)
{
    for (const char *s = list;; s++) {
        const size_t n = strcspn(s, ",");

        o->value = realloc(o->value, (size_t)(o->values + 1) * sizeof *o->value);
        if (!o->value)
            tr_die(TR_ERESOURCE, "no memory left for the lists of a sweep");
        o->value[o->values++] = tr_format("%.*s", (int)n, s);
        s += n;
        if (*s == '\0')
            return;
    }
}

static enum tr_status read_one(const char *word, struct tr_sweep_option *o)
{
    const char *equals = strchr(word, '=');

    if (!equals || equals == word || equals[1] == '\0')
        return TR_FAIL(TR_ECONFIG,
                       "--sweep '%s' is no OPTION=V1,V2: say an option of trireme train without "
                       "its dashes, and its values, as in --sweep seq-length=1024,2048",
                       word);
    o->name = tr_format("%.*s", (int)(equals - word), word);
    TR_TRY(find(o->name, o));
    split(equals + 1, o);
    return TR_OK;
}

const char *tr_sweep_variants_value(const struct tr_sweep_variants *o, int variant, int i)
{
    for (int k = o->count - 1; k > i; k--)
        variant /= o->option[k].values;
    return o->option[i].value[variant % o->option[i].values];
}

void tr_sweep_variants_name(const struct tr_sweep_variants *o, int variant,
                            char name[TR_SWEEP_NAME_MOST])
{
    size_t n = 0;

    name[0] = '\0';
    for (int i = 0; i < o->count; i++) {
        const size_t from = n;

        n += (size_t)snprintf(name + n, TR_SWEEP_NAME_MOST - n, "-%s_%s", o->option[i].name,
                              tr_sweep_variants_value(o, variant, i));
        for (size_t k = from; name[k] != '\0'; k++)
            if (!isalnum((unsigned char)name[k]) && !strchr("-_.+", name[k]))
                name[k] = '_';
        if (n >= TR_SWEEP_NAME_MOST)
            return;
    }
}

/* The longest name is that of the longest values. */
static enum tr_status check_names(const struct tr_sweep_variants *o)
{
    size_t all = 1;

    for (int i = 0; i < o->count; i++) {
        size_t longest = 0;

        for (int k = 0; k < o->option[i].values; k++)
            if (strlen(o->option[i].value[k]) > longest)
                longest = strlen(o->option[i].value[k]);
        all += strlen(o->option[i].name) + longest + 2;
    }
    if (all > TR_SWEEP_NAME_MOST)
        return TR_FAIL(TR_ECONFIG,
                       "with %zu characters of --sweep in their names shapes could not name files, "
                       "and %d are the most: sweep fewer options at a time",
                       all, TR_SWEEP_NAME_MOST);
    return TR_OK;
}

enum tr_status tr_sweep_variants_words(const struct tr_sweep_variants *o, int variant,
                                       struct tr_args *a)
{
    for (int i = 0; i < o->count; i++) {
        const char *value = tr_sweep_variants_value(o, variant, i);
        char *text;
        enum tr_status s;

        if (o->option[i].flag && strcmp(value, "off") == 0)
            continue;
        text = tr_format("--%s %s", o->option[i].name, o->option[i].flag ? "" : value);
        s = tr_args_text(a, text);
        free(text);
        TR_TRY(s);
    }
    return TR_OK;
}

/* A later word cannot undo a flag. */
static enum tr_status check_flags(const struct tr_sweep *w, const struct tr_sweep_variants *o)
{
    for (int i = 0; i < o->count; i++) {
        const struct tr_opt *row = tr_options_row(tr_config_options(), o->option[i].name);

        if (o->option[i].flag && *(const bool *)((const char *)w->base + row->offset))
            return TR_FAIL(TR_ECONFIG,
                           "--sweep %s=... says whether it is on: leave out --%s, or what stands "
                           "for it",
                           o->option[i].name, o->option[i].name);
    }
    return TR_OK;
}

/* Of a variant, from the words of training anew; what these are warned of has been said. */
static enum tr_status parse(const struct tr_sweep *w, const struct tr_sweep_variants *o,
                            int variant, struct tr_config *c)
{
    enum tr_status s;

    tr_config_init(c);
    s = tr_config_parse_args(c, w->words);
    for (int i = 0; i < o->count && s == TR_OK; i++)
        s = tr_config_set(c, o->option[i].name, tr_sweep_variants_value(o, variant, i));
    return s == TR_OK ? tr_start_count(c, false) : s;
}

static enum tr_status parse_all(const struct tr_sweep *w, struct tr_sweep_variants *o)
{
    const enum tr_level level = tr_log_level(TR_LOG_ERROR);
    enum tr_status s = TR_OK;
    int at = 0;

    for (; at < o->number && s == TR_OK; at++)
        s = parse(w, o, at, &o->config[at]);
    o->number = at;
    tr_log_level(level);
    return s;
}

enum tr_status tr_sweep_variants_read(const struct tr_sweep *w, int most,
                                      struct tr_sweep_variants *out)
{
    const struct tr_words *words = &w->sweep;

    *out = (struct tr_sweep_variants){.number = 0};
    out->option = calloc((size_t)words->count + 1, sizeof *out->option);
    out->config = calloc((size_t)most, sizeof *out->config);
    if (!out->option || !out->config)
        tr_die(TR_ERESOURCE, "no memory left for the lists of a sweep");
    for (int i = 0, all = 1; i < words->count; i++) {
        TR_TRY(read_one(words->word[i], &out->option[out->count++]));
        for (int k = 0; k < i; k++)
            if (strcmp(out->option[k].name, out->option[i].name) == 0)
                return TR_FAIL(TR_ECONFIG, "--sweep has %s twice: say all its values in one list",
                               out->option[i].name);
        all *= out->option[i].values;
        if (all > most)
            return TR_FAIL(TR_ECONFIG,
                           "--sweep makes more than %d shapes: shorten one of its lists", most);
    }
    TR_TRY(check_names(out));
    TR_TRY(check_flags(w, out));
    out->number = 1;
    for (int i = 0; i < out->count; i++)
        out->number *= out->option[i].values;
    return parse_all(w, out);
}

void tr_sweep_variants_release(struct tr_sweep_variants *o)
{
    for (int i = 0; o->option && i < o->count; i++) {
        for (int k = 0; k < o->option[i].values; k++)
            free(o->option[i].value[k]);
        free(o->option[i].value);
        free(o->option[i].name);
    }
    for (int i = 0; i < o->number; i++)
        tr_config_release(&o->config[i]);
    free(o->option);
    free(o->config);
    *o = (struct tr_sweep_variants){.number = 0};
}
