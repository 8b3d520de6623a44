/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_parts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "config/model_family.h"
#include "config/strategy.h"
#include "config/vocab.h"
#include "util/file.h"

#define UNSET NULL
#define REQUIRED tr_required
#define TYPE_INT .type = TR_OPT_INT
#define TYPE_REAL .type = TR_OPT_REAL
#define TYPE_MINUTES .type = TR_OPT_MINUTES
#define TYPE_FLAG .type = TR_OPT_FLAG
#define TYPE_TEXT .type = TR_OPT_TEXT
#define TYPE_WORDS .type = TR_OPT_WORDS
#define TYPE_CHOICE(set_) .type = TR_OPT_CHOICE, .set = #set_

static const char dp_mode_help[] = "+ what data-parallel replicas exchange: "
#define MODE(symbol, value, spelling, structure, replicas, exchanges) exchanges
#include "config/modes.def"
    ;

static const struct tr_opt rows[] = {
#define GROUP(symbol, title) {.kind = TR_ROW_GROUP, .name = title, .group = #symbol},
#define OPT(group_, type_, field_, name_, initial_, check_, help_) \
    {.kind = TR_ROW_OPT,                                           \
     .name = name_,                                                \
     .group = #group_,                                             \
     .offset = offsetof(struct tr_config, field_),                 \
     .initial = initial_,                                          \
     .check = TR_CHECK_##check_,                                   \
     .help = help_,                                                \
     TYPE_##type_},
#define ALIAS(group_, field_, name_) \
    {.kind = TR_ROW_ALIAS,           \
     .name = name_,                  \
     .group = #group_,               \
     .offset = offsetof(struct tr_config, field_)},
#define OFF(group_, field_, name_, help_)          \
    {.kind = TR_ROW_OFF,                           \
     .name = name_,                                \
     .group = #group_,                             \
     .offset = offsetof(struct tr_config, field_), \
     .help = help_},
#define IGNORED(name_, values_, why_) \
    {.kind = TR_ROW_IGNORED, .name = name_, .values = values_, .help = why_},
#define GIVEN(name_, values_, why_) \
    {.kind = TR_ROW_GIVEN, .name = name_, .initial = values_, .help = why_},
#define REFUSED(name_, why_) {.kind = TR_ROW_REFUSED, .name = name_, .help = why_},
#include "config/options.def"
};

static const struct tr_spelling spellings[] = {
#define VALUE(set, symbol, value, spelling) {#set, spelling, symbol, TR_SPELLING_MAIN, NULL},
#define SAME(set, symbol, spelling, note) {#set, spelling, symbol, TR_SPELLING_SAME, note},
#define REFUSED(set, spelling, why) {#set, spelling, -1, TR_SPELLING_REFUSED, why},
#include "config/enums.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static const size_t first[] = {
#define FIRST(field) offsetof(struct tr_config, field),
#include "config/first.def"
#undef FIRST
};

/* Families and strategies are tables of their own. */
static bool listed(const struct tr_opt *o, int i, const char **value, const char **about)
{
    const struct tr_family *f =
        o->offset == offsetof(struct tr_config, model_family) ? tr_family_row(i) : NULL;

    if (o->offset == offsetof(struct tr_config, strategy))
        return tr_strategy_listed(i, value, about);
    if (f) {
        *value = f->name;
        *about = f->about;
    }
    return f;
}

static const struct tr_options table = {.verb = "train",
                                        .row = rows,
                                        .rows = ROWS,
                                        .spelling = spellings,
                                        .spellings = sizeof spellings / sizeof spellings[0],
                                        .listed = listed};

void tr_config_help_first(FILE *f)
{
    tr_options_help_first(&table, f, first, sizeof first / sizeof first[0]);
}

static const void *field_of(const struct tr_opt *o, const struct tr_config *c)
{
    return (const char *)c + o->offset;
}

char *tr_config_field_name(const struct tr_opt *o)
{
    char *name = tr_format("%s", o->name);

    for (char *s = name; *s; s++)
        *s = *s == '-' ? '_' : *s;
    return name;
}

/* The OPT rows, sorted by the names of their fields as Megatron sorts its arguments. */
static int by_name(const void *a, const void *b)
{
    const struct tr_opt *const *x = a, *const *y = b;
    char *left = tr_config_field_name(*x), *right = tr_config_field_name(*y);
    const int order = strcasecmp(left, right);

    free(left);
    free(right);
    return order;
}

int tr_config_sorted(const struct tr_opt *out[TR_CONFIG_ROWS])
{
    int n = 0;

    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kind == TR_ROW_OPT)
            out[n++] = &rows[i];
    }
    qsort(out, (size_t)n, sizeof *out, by_name);
    return n;
}

/* A string in Python's quotes. */
static void print_quoted(const char *s, FILE *f)
{
    char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';

    fputc(quote, f);
    for (; *s; s++) {
        if (*s == quote || *s == '\\')
            fputc('\\', f);
        fputc(*s, f);
    }
    fputc(quote, f);
}

static void print_value(const struct tr_opt *o, const struct tr_config *c, FILE *f)
{
    const void *field = field_of(o, c);
    const struct tr_words *words = field;
    char real[40];

    if (tr_options_unset(o, c)) {
        fputs("None", f);
        return;
    }
    switch (o->type) {
    case TR_OPT_INT:
        fprintf(f, "%lld", (long long)*(const int64_t *)field);
        break;
    case TR_OPT_REAL:
        tr_real_text(*(const double *)field, real, sizeof real);
        fputs(real, f);
        break;
    case TR_OPT_MINUTES:
        fprintf(f, "%.15g", *(const double *)field);
        break;
    case TR_OPT_FLAG:
        fputs(*(const bool *)field ? "True" : "False", f);
        break;
    case TR_OPT_CHOICE:
        fputs(tr_options_spelling(&table, o->set, *(const int *)field), f);
        break;
    case TR_OPT_TEXT:
        fputs(*(char *const *)field, f);
        break;
    case TR_OPT_WORDS:
        for (int i = 0; i < words->count; i++) {
            fputs(i ? ", " : "[", f);
            print_quoted(words->word[i], f);
        }
        fputc(']', f);
        break;
    }
}

char *tr_config_value_text(const struct tr_opt *o, const struct tr_config *c)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    TR_ASSERT(f);
    print_value(o, c, f);
    fclose(f);
    TR_ASSERT(text);
    return text;
}

/* The value of a row as JSON, but for reals, which jansson would write with 17 digits. */
static json_t *json_of(const struct tr_opt *o, const struct tr_config *c)
{
    const void *field = field_of(o, c);
    const struct tr_words *words = field;
    json_t *list;

    if (tr_options_unset(o, c))
        return json_null();
    switch (o->type) {
    case TR_OPT_INT:
        return json_integer(*(const int64_t *)field);
    case TR_OPT_REAL:
    case TR_OPT_MINUTES:
        return json_real(*(const double *)field);
    case TR_OPT_FLAG:
        return json_boolean(*(const bool *)field);
    case TR_OPT_CHOICE:
        return json_string(tr_options_spelling(&table, o->set, *(const int *)field));
    case TR_OPT_TEXT:
        return json_string(*(char *const *)field);
    case TR_OPT_WORDS:
        list = json_array();
        for (int i = 0; i < words->count; i++)
            json_array_append_new(list, json_string(words->word[i]));
        return list;
    }
    return NULL;
}

/* What tr_config_set() would be given for a JSON value, or NULL for one of the wrong kind; owned
   by the caller. */
static char *text_of(const struct tr_opt *o, const json_t *value)
{
    const bool real_type = o->type == TR_OPT_REAL || o->type == TR_OPT_MINUTES;
    char real[40];

    if (json_is_integer(value) && (o->type == TR_OPT_INT || real_type))
        return tr_format("%lld", (long long)json_integer_value(value));
    if (json_is_real(value) && real_type) {
        tr_real_text(json_real_value(value), real, sizeof real);
        return tr_format("%s", real);
    }
    if (json_is_boolean(value) && o->type == TR_OPT_FLAG)
        return tr_format("%s", json_is_true(value) ? "on" : "off");
    if (json_is_string(value) && (o->type == TR_OPT_TEXT || o->type == TR_OPT_CHOICE))
        return tr_format("%s", json_string_value(value));
    return NULL;
}

/* Words need no quoting on this way. */
static bool load_words(struct tr_words *words, const json_t *list)
{
    size_t n = json_array_size(list);

    for (size_t i = 0; i < n; i++) {
        if (!json_is_string(json_array_get(list, i)))
            return false;
    }
    words->word = calloc(n ? n : 1, sizeof *words->word);
    TR_ASSERT(words->word);
    for (size_t i = 0; i < n; i++)
        words->word[i] = tr_format("%s", json_string_value(json_array_get(list, i)));
    words->count = (int)n;
    return true;
}

static enum tr_status load_row(struct tr_config *c, const struct tr_opt *o, const json_t *value)
{
    enum tr_status status;
    char *text;

    if (json_is_null(value) || json_is_array(value))
        TR_TRY(tr_config_set(c, o->name, NULL));
    if (json_is_null(value))
        return TR_OK;
    if (json_is_array(value) && o->type == TR_OPT_WORDS &&
        load_words((struct tr_words *)((char *)c + o->offset), value))
        return TR_OK;
    text = text_of(o, value);
    if (!text)
        return TR_FAIL(TR_EDATA, "the stored option %s has a value of the wrong kind", o->name);
    status = tr_config_set(c, o->name, text);
    free(text);
    return status == TR_OK ? TR_OK : TR_EDATA;
}

void tr_config_init(struct tr_config *c)
{
    tr_options_init(&table, c);
    c->vocab_known = (struct tr_vocab_file){0};
    c->blocks_known = (struct tr_blocks_known){0};
}

void tr_config_release(struct tr_config *c)
{
    tr_options_release(&table, c);
}

enum tr_status tr_config_parse(struct tr_config *c, int argc, char **argv)
{
    return tr_options_parse(&table, c, argc, argv, NULL);
}

enum tr_status tr_config_parse_args(struct tr_config *c, const struct tr_args *words)
{
    TR_TRY(tr_options_parse_args(&table, c, words, NULL));
    c->tokenizer_type = tr_vocab_type(c->tokenizer_type, c->vocab_file, c->tokenizer_model);
    return TR_OK;
}

enum tr_status tr_config_parse_text(struct tr_config *c, const char *text)
{
    return tr_options_parse_text(&table, c, text);
}

enum tr_status tr_config_set(struct tr_config *c, const char *name, const char *value)
{
    return tr_options_set(&table, c, name, value);
}

/* As tr_options_find(), which looks at every row: a plan asks 50,000 times for the same thirty. */
static const struct tr_opt *find(const char *name)
{
    static _Atomic(const struct tr_opt *) asked[512];
    uint32_t slot = 0;
    const struct tr_opt *o;

    for (const char *s = name; *s; s++)
        slot = 31 * slot + (unsigned char)*s;
    slot %= sizeof asked / sizeof *asked;
    o = asked[slot];
    if (o && strcmp(o->name, name) == 0)
        return o;
    o = tr_options_find(&table, name);
    asked[slot] = o;
    return o;
}

bool tr_config_changed(const struct tr_config *c, const char *name)
{
    const struct tr_opt *o = find(name);
    const struct tr_options alone = {table.verb, o, 1, spellings, table.spellings, NULL};
    struct tr_config initial;
    json_t *is, *was;
    bool same;

    TR_ASSERT(o);
    tr_options_init(&alone, &initial);
    is = json_of(o, c);
    was = json_of(o, &initial);
    same = json_equal(is, was);
    json_decref(is);
    json_decref(was);
    tr_options_release(&alone, &initial);
    return !same;
}

/* Learned positions are a table, and nothing else says how long it is. */
static bool needs_table(const struct tr_config *c)
{
    struct tr_family f;

    return tr_family_of(c, &f) == TR_OK && f.positions == TR_POSITIONS_LEARNED;
}

bool tr_config_lacks(const struct tr_config *c, const struct tr_opt *o)
{
    if (o->kind != TR_ROW_OPT || !tr_options_unset(o, c))
        return false;
    return o->initial == tr_required ||
           (o->offset == offsetof(struct tr_config, max_position_embeddings) && needs_table(c));
}

const char *tr_config_missing(const struct tr_config *c)
{
    for (int i = 0; i < ROWS; i++)
        if (tr_config_lacks(c, &rows[i]))
            return rows[i].name;
    return NULL;
}

const char *tr_config_spelling(const char *name, int value)
{
    const struct tr_opt *o = find(name);

    return o && o->set ? tr_options_spelling(&table, o->set, value) : NULL;
}

static void print_kernels(const char *kernels, FILE *f)
{
    json_t *value = json_string(kernels);

    TR_ASSERT(value);
    fputs(",\n  \"" TR_CONFIG_KERNELS "\": ", f);
    TR_ASSERT(json_dumpf(value, f, JSON_ENCODE_ANY) == 0);
    json_decref(value);
}

char *tr_config_kernels(const char *json)
{
    return tr_config_stored(json, TR_CONFIG_KERNELS);
}

char *tr_config_stored(const char *json, const char *name)
{
    json_t *object = json_loads(json, 0, NULL);
    const char *text = json_string_value(json_object_get(object, name));
    char *copy = text ? strdup(text) : NULL;

    TR_ASSERT(!text || copy);
    json_decref(object);
    return copy;
}

char *tr_config_get_json(const struct tr_config *c, const char *kernels)
{
    const struct tr_opt *sorted[TR_CONFIG_ROWS];
    int n = tr_config_sorted(sorted);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    TR_ASSERT(f);
    for (int i = 0; i < n; i++) {
        char *name = tr_config_field_name(sorted[i]);
        json_t *value = json_of(sorted[i], c);

        fprintf(f, "%s\n  \"%s\": ", i ? "," : "{", name);
        if (json_is_real(value))
            print_value(sorted[i], c, f);
        else
            TR_ASSERT(json_dumpf(value, f, JSON_ENCODE_ANY) == 0);
        json_decref(value);
        free(name);
    }
    if (kernels)
        print_kernels(kernels, f);
    fputs("\n}\n", f);
    fclose(f);
    TR_ASSERT(text);
    return text;
}

static bool describes_model(const struct tr_opt *o)
{
    static const char *const others[] = {"seq-length", "tokenizer-type", "vocab-size"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(o->name, others[i]) == 0)
            return true;
    return strcmp(o->group, "MODEL") == 0;
}

static enum tr_status load_object(struct tr_config *c, const char *json, bool model_only)
{
    json_error_t error;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &error), *value;
    enum tr_status status = TR_OK;
    const char *key;

    if (!json_is_object(object)) {
        status = TR_FAIL(TR_EDATA, "the stored options are not a JSON object: %s",
                         object ? "it is something else" : error.text);
        goto out;
    }
    json_object_foreach(object, key, value)
    {
        char *name = tr_format("%s", key);

        for (char *s = name; *s; s++)
            *s = *s == '_' ? '-' : *s;
        const struct tr_opt *o = tr_options_find(&table, name);
        if (o && (!model_only || describes_model(o)))
            status = load_row(c, o, value);
        else if (!model_only)
            status = TR_FAIL(TR_EDATA, "the stored option %s is unknown to this version", key);
        free(name);
        if (status != TR_OK)
            goto out;
    }
out:
    json_decref(object);
    return status;
}

enum tr_status tr_config_load_json(struct tr_config *c, const char *json)
{
    return load_object(c, json, false);
}

enum tr_status tr_config_load_model(struct tr_config *c, const char *json)
{
    return load_object(c, json, true);
}

const struct tr_options *tr_config_options(void)
{
    return &table;
}

enum tr_status tr_config_help(FILE *f, const char *group)
{
    const char *symbol = group ? tr_options_group(&table, group) : NULL;

    if (group && !symbol)
        return TR_ECONFIG;
    tr_options_help(&table, f, symbol);
    return TR_OK;
}
