/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/words.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

const char tr_required[] = "";

/* Ranges, in the order of enum tr_opt_check; `open` ends are not in the range themselves. */
static const struct range {
    double low, high;
    bool low_open, high_open;
    const char *text;
} ranges[] = {
    [TR_CHECK_ANY] = {-INFINITY, INFINITY, false, false, ""},
    [TR_CHECK_COUNT] = {1, 2147483647, false, false, " from 1 to 2147483647"},
    [TR_CHECK_COUNT_OR_0] = {0, 2147483647, false, false, " from 0 to 2147483647"},
    [TR_CHECK_NOT_NEGATIVE] = {0, INFINITY, false, false, " of at least 0"},
    [TR_CHECK_ABOVE_ZERO] = {0, INFINITY, true, false, " above 0"},
    [TR_CHECK_FRACTION] = {0, 1, false, false, " from 0 to 1"},
    [TR_CHECK_PROBABILITY] = {0, 1, false, true, " from 0 to below 1"},
    [TR_CHECK_TIMING_LEVEL] = {0, 2, false, false, " from 0 to 2"},
    [TR_CHECK_SEED] = {0, 4294967295.0, false, false, " from 0 to 4294967295"},
};

/* A struct of options with its table and, for sentences, where the word at hand came from. */
struct target {
    const struct tr_options *t;
    void *base;
    const char *where;
};

static void *field_of(const struct tr_opt *o, void *base)
{
    return (char *)base + o->offset;
}

const char *tr_options_range(const struct tr_opt *o)
{
    return ranges[o->check].text;
}

static bool in_range(const struct range *r, double x)
{
    return (r->low_open ? x > r->low : x >= r->low) && (r->high_open ? x < r->high : x <= r->high);
}

void tr_words_release(struct tr_words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->word[i]);
    free(w->word);
    *w = (struct tr_words){0};
}

static void words_add(struct tr_words *w, const char *text)
{
    w->word = realloc(w->word, (size_t)(w->count + 1) * sizeof *w->word);
    TR_ASSERT(w->word);
    w->word[w->count++] = tr_format("%s", text);
}

static enum tr_status set_int(const struct target *to, const struct tr_opt *o, const char *text)
{
    char *end;

    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || *end || errno || !in_range(&ranges[o->check], (double)x) ||
        (int64_t)x == TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG, "--%s: '%s' will not do: give a whole number%s%s", o->name, text,
                       ranges[o->check].text, to->where);
    *(int64_t *)field_of(o, to->base) = x;
    return TR_OK;
}

static enum tr_status set_real(const struct target *to, const struct tr_opt *o, const char *text)
{
    char *end;
    double x = strtod(text, &end);

    /* Only decimal digits: strtod() also takes "nan", "inf" and hexadecimal. */
    if (end == text || *end || text[strspn(text, "+-.0123456789eE")] || !isfinite(x) ||
        !in_range(&ranges[o->check], x))
        return TR_FAIL(TR_ECONFIG, "--%s: '%s' will not do: give a number%s%s", o->name, text,
                       ranges[o->check].text, to->where);
    *(double *)field_of(o, to->base) = x;
    return TR_OK;
}

/* A number of minutes, or of what stands behind it: 10, 90s, 1.5m, 2h. */
static enum tr_status set_minutes(const struct target *to, const struct tr_opt *o, const char *text)
{
    char *end;
    double x = strtod(text, &end);

    if (*end == 's' && end > text)
        x /= 60.0;
    else if (*end == 'h')
        x *= 60.0;
    end += end > text && *end && strchr("smh", *end);
    if (end == text || *end || text[strspn(text, "+-.0123456789eEsmh")] || !isfinite(x) ||
        !in_range(&ranges[o->check], x))
        return TR_FAIL(TR_ECONFIG,
                       "--%s: '%s' will not do: give minutes, or a number followed by s, m or "
                       "h,%s%s",
                       o->name, text, ranges[o->check].text, to->where);
    *(double *)field_of(o, to->base) = x;
    return TR_OK;
}

static enum tr_status set_flag(const struct target *to, const struct tr_opt *o, const char *text)
{
    bool on = strcmp(text, "on") == 0;

    if (!on && strcmp(text, "off") != 0)
        return TR_FAIL(TR_ECONFIG, "--%s: '%s' will not do: on or off%s", o->name, text, to->where);
    *(bool *)field_of(o, to->base) = on;
    return TR_OK;
}

static enum tr_status choice_unknown(const struct target *to, const struct tr_opt *o,
                                     const char *text)
{
    const struct tr_options *t = to->t;
    const char *known[64];
    char list[512] = "";
    size_t used = 0;
    int n = 0;

    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (strcmp(s->set, o->set) != 0 || s->kind == TR_SPELLING_REFUSED)
            continue;
        TR_ASSERT(n < 64);
        known[n++] = s->spelling;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n > 1 ? ", " : "",
                                 s->spelling);
        TR_ASSERT(used < sizeof list);
    }
    const char *near = tr_nearest_name(text, known, n);
    return TR_FAIL(TR_ECONFIG, "--%s: '%s' is none of %s%s%s%s%s", o->name, text, list,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "", to->where);
}

static enum tr_status set_choice(const struct target *to, const struct tr_opt *o, const char *text)
{
    const struct tr_options *t = to->t;

    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (strcmp(s->set, o->set) != 0 || strcmp(s->spelling, text) != 0)
            continue;
        if (s->kind == TR_SPELLING_REFUSED)
            return TR_FAIL(TR_ECONFIG, "--%s %s: %s%s", o->name, text, s->why, to->where);
        if (s->why)
            tr_log_rank0(TR_LOG_WARNING, "--%s %s: %s%s", o->name, text, s->why, to->where);
        *(int *)field_of(o, to->base) = s->value;
        return TR_OK;
    }
    return choice_unknown(to, o, text);
}

static enum tr_status set_one(const struct target *to, const struct tr_opt *o, const char *text)
{
    char **field;

    switch (o->type) {
    case TR_OPT_INT:
        return set_int(to, o, text);
    case TR_OPT_REAL:
        return set_real(to, o, text);
    case TR_OPT_MINUTES:
        return set_minutes(to, o, text);
    case TR_OPT_FLAG:
        return set_flag(to, o, text);
    case TR_OPT_CHOICE:
        return set_choice(to, o, text);
    case TR_OPT_TEXT:
        field = field_of(o, to->base);
        char *copy = tr_format("%s", text);
        free(*field);
        *field = copy;
        return TR_OK;
    case TR_OPT_WORDS:
        words_add(field_of(o, to->base), text);
        return TR_OK;
    }
    return TR_FAIL(TR_EINTERNAL, "--%s has no type", o->name);
}

static void unset(const struct tr_opt *o, void *base)
{
    void *field = field_of(o, base);

    switch (o->type) {
    case TR_OPT_INT:
        *(int64_t *)field = TR_UNSET_INT;
        break;
    case TR_OPT_REAL:
    case TR_OPT_MINUTES:
        *(double *)field = TR_UNSET_REAL;
        break;
    case TR_OPT_FLAG:
        *(bool *)field = false;
        break;
    case TR_OPT_CHOICE:
        *(int *)field = 0;
        break;
    case TR_OPT_TEXT:
        free(*(char **)field);
        *(char **)field = NULL;
        break;
    case TR_OPT_WORDS:
        tr_words_release(field);
        break;
    }
}

/* The option that `name` most likely means, by its first name, or NULL.  Options that are refused
   or have no effect are not suggested. */
static const char *nearest_option(const struct tr_options *t, const char *name)
{
    const char **known = calloc((size_t)t->rows + 1, sizeof *known), *near;
    const struct tr_opt *o;
    int n = 0;

    TR_ASSERT(known);
    for (int i = 0; i < t->rows; i++) {
        enum tr_opt_kind kind = t->row[i].kind;

        if (kind == TR_ROW_OPT || kind == TR_ROW_ALIAS || kind == TR_ROW_OFF)
            known[n++] = t->row[i].name;
    }
    near = tr_nearest_name(name, known, n);
    free(known);
    o = near ? tr_options_find(t, near) : NULL;
    return o ? o->name : near;
}

enum tr_status tr_options_unknown(const struct tr_options *t, const char *name, const char *where)
{
    const char *near = nearest_option(t, name);

    if (near)
        return TR_FAIL(TR_ECONFIG, "--%s: there is no such option; did you mean --%s?%s", name,
                       near, where);
    return TR_FAIL(TR_ECONFIG,
                   "--%s: there is no such option; `trireme help %s` lists them, and `trireme help "
                   "--search WORD` finds what has that word%s",
                   name, t->verb, where);
}

const struct tr_opt *tr_options_row(const struct tr_options *t, const char *name)
{
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind != TR_ROW_GROUP && strcmp(t->row[i].name, name) == 0)
            return &t->row[i];
    }
    return NULL;
}

/* The row of the word "--name[=value]"; *value points behind the '=' or is NULL. */
static enum tr_status row_of(const struct target *to, const char *word, const struct tr_opt **out,
                             const char **value)
{
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    char *name = tr_format("%.*s", (int)length, word + 2);
    enum tr_status status = TR_OK;

    *value = equals ? equals + 1 : NULL;
    *out = tr_options_row(to->t, name);
    if (*out && (*out)->kind == TR_ROW_ALIAS)
        *out = tr_options_find(to->t, name);
    if (!*out)
        status = tr_options_unknown(to->t, name, to->where);
    else if ((*out)->kind == TR_ROW_REFUSED)
        status = TR_FAIL(TR_ECONFIG, "--%s: %s%s", name, (*out)->help, to->where);
    free(name);
    return status;
}

/* How many words behind the option's own belong to it: at most as many as it takes, and none that
   begins another option. */
static int words_behind(const struct tr_opt *o, const struct tr_args *a, int at, const char *value)
{
    int most = o->type == TR_OPT_WORDS ? a->count : 1, n = 0;

    if (value || o->kind == TR_ROW_OFF || (o->kind == TR_ROW_OPT && o->type == TR_OPT_FLAG))
        return 0;
    if (o->kind == TR_ROW_IGNORED)
        most = o->values == TR_ANY_VALUES ? a->count : o->values;
    while (n < most && at + 1 + n < a->count && strncmp(a->list[at + 1 + n].text, "--", 2) != 0)
        n++;
    return n;
}

static enum tr_status ignored(const struct target *to, const struct tr_opt *o, int values)
{
    if (o->values != TR_ANY_VALUES && values != o->values)
        return TR_FAIL(TR_ECONFIG, "--%s takes %d value%s%s", o->name, o->values,
                       tr_plural(o->values), to->where);
    tr_log_rank0(TR_LOG_WARNING, "--%s has no effect: %s%s", o->name, o->help, to->where);
    return TR_OK;
}

/* A value that says what is done anyway. */
static enum tr_status given(const struct target *to, const struct tr_opt *o, const char *text)
{
    if (!text)
        return TR_FAIL(TR_ECONFIG, "--%s needs a value: %s%s", o->name, o->initial, to->where);
    if (tr_value_given(o->initial, text))
        return TR_OK;
    return TR_FAIL(TR_ECONFIG, "--%s %s: %s%s", o->name, text, o->help, to->where);
}

/* An option that takes values, the n words from `first` or the one behind '='. */
static enum tr_status set_values(const struct target *to, const struct tr_opt *o,
                                 const struct tr_arg *first, int n, const char *value)
{
    enum tr_status status = TR_OK;

    if (!n && !value)
        return TR_FAIL(TR_ECONFIG, "--%s needs a value: %s%s", o->name,
                       o->help + strspn(o->help, "+ "), to->where); /* '+' is for tables */
    if (o->type == TR_OPT_WORDS)
        unset(o, to->base);
    if (value)
        return set_one(to, o, value);
    for (int i = 0; i < n && status == TR_OK; i++)
        status = set_one(to, o, first[i].text);
    return status;
}

/* Past the words behind `at` that begin no option: what follows an option that is wrong is its
   own. */
static int past(const struct tr_args *a, int at)
{
    do
        at++;
    while (at < a->count && strncmp(a->list[at].text, "--", 2) != 0);
    return at;
}

/* The option at a->list[*at]; moves *at past its values. */
static enum tr_status parse_option(struct target *to, const struct tr_args *a, int *at)
{
    const int first = *at + 1;
    const struct tr_opt *o;
    const char *value;

    *at = past(a, *at);
    TR_TRY(row_of(to, a->list[first - 1].text, &o, &value));
    int n = words_behind(o, a, first - 1, value);
    *at = first + n;

    if (o->kind == TR_ROW_IGNORED)
        return ignored(to, o, n + (value != NULL));
    if (o->kind == TR_ROW_GIVEN)
        return given(to, o, value || !n ? value : a->list[first].text);
    if (o->kind == TR_ROW_OFF || o->type == TR_OPT_FLAG) {
        if (value)
            return TR_FAIL(TR_ECONFIG, "--%s takes no value%s", o->name, to->where);
        *(bool *)field_of(o, to->base) = o->kind != TR_ROW_OFF;
        return TR_OK;
    }
    return set_values(to, o, a->list + first, n, value);
}

/* The word at a->list[*at] where options may stand; moves *at past it and its values. */
static enum tr_status parse_word(struct target *to, const struct tr_args *a, int *at,
                                 struct tr_words *rest)
{
    const char *word = a->list[*at].text;

    if (strncmp(word, "--", 2) == 0)
        return parse_option(to, a, at);
    if (rest && !(word[0] == '-' && word[1])) {
        words_add(rest, word);
        ++*at;
        return TR_OK;
    }
    *at = word[0] == '-' ? past(a, *at) : *at + 1;
    return TR_FAIL(TR_ECONFIG, "'%s' belongs to no option: their names begin with --%s", word,
                   to->where);
}

/* ---- options that stand for others ---- */

/* What one word, with its value, says of an option; o is NULL if it is none that has a field. */
struct said {
    const struct tr_opt *o;
    const char *value; /* of a flag on or off */
};

static struct said said_at(const struct target *to, const struct tr_args *a, int at)
{
    const char *word = a->list[at].text, *behind = strchr(word, '=');
    struct said x = {NULL, NULL};
    char *name;

    if (strncmp(word, "--", 2) != 0)
        return x;
    name = tr_format("%.*s", (int)strcspn(word + 2, "="), word + 2);
    x.o = tr_options_row(to->t, name);
    if (x.o && x.o->kind == TR_ROW_ALIAS)
        x.o = tr_options_find(to->t, name);
    free(name);
    if (!x.o || (x.o->kind != TR_ROW_OPT && x.o->kind != TR_ROW_OFF))
        return (struct said){NULL, NULL};
    if (x.o->kind == TR_ROW_OFF || x.o->type == TR_OPT_FLAG)
        x.value = x.o->kind == TR_ROW_OFF ? "off" : "on";
    else
        x.value = behind ? behind + 1 : at + 1 < a->count ? a->list[at + 1].text : "";
    return x;
}

/* Words that say something else than those which an option stands for. */
static void compare(const struct target *to, const struct tr_args *a, struct tr_words *wrong)
{
    for (int i = 0; i < a->count; i++) {
        const struct said firm = a->list[i].firm ? said_at(to, a, i) : (struct said){NULL, NULL};

        for (int j = 0; j < a->count && firm.o; j++) {
            const struct said other = said_at(to, a, j);
            char *text;

            if ((j <= i && a->list[j].firm) || !other.o || other.o->offset != firm.o->offset ||
                tr_value_given(firm.value, other.value))
                continue;
            text = tr_format("--%s is %s%s, and %s%s: give one of them", firm.o->name, other.value,
                             a->list[j].where, firm.value, a->list[i].where);
            words_add(wrong, text);
            free(text);
        }
    }
}

/* One wrong option is the sentence of the failure.  Of several each is said, and then their
   number. */
static enum tr_status say_wrong(struct tr_words *wrong)
{
    enum tr_status status = TR_OK;

    if (wrong->count == 1) {
        status = TR_FAIL(TR_ECONFIG, "%s", wrong->word[0]);
    } else if (wrong->count > 1) {
        for (int i = 0; i < wrong->count; i++)
            tr_log_rank0(TR_LOG_ERROR, "%s", wrong->word[i]);
        status = TR_FAIL(TR_ECONFIG, "%d options will not do, see above; nothing was started",
                         wrong->count);
    }
    tr_words_release(wrong);
    return status;
}

/* Set fields from words, and gather the sentences about those that are wrong. */
static void collect(struct target *to, const struct tr_args *a, struct tr_words *rest,
                    struct tr_words *wrong)
{
    int i = 0;

    while (i < a->count && strcmp(a->list[i].text, "--") != 0) {
        to->where = a->list[i].where;
        if (parse_word(to, a, &i, rest) != TR_OK)
            words_add(wrong, tr_last_error());
    }
    for (i++; i < a->count; i++) {
        to->where = a->list[i].where;
        if (rest) {
            words_add(rest, a->list[i].text);
            continue;
        }
        char *text = tr_format("'%s' belongs to no option: their names begin with --%s",
                               a->list[i].text, to->where);
        words_add(wrong, text);
        free(text);
    }
    compare(to, a, wrong);
}

static enum tr_status parse(struct target *to, const struct tr_args *a, struct tr_words *rest)
{
    struct tr_words wrong = {0};

    collect(to, a, rest, &wrong);
    return say_wrong(&wrong);
}

void tr_options_init(const struct tr_options *t, void *base)
{
    struct target to = {t, base, ""};

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind != TR_ROW_OPT)
            continue;
        /* The field holds no pointer yet: it must not be freed. */
        if (o->type == TR_OPT_TEXT)
            *(char **)field_of(o, base) = NULL;
        else if (o->type == TR_OPT_WORDS)
            *(struct tr_words *)field_of(o, base) = (struct tr_words){0};
        unset(o, base);
        if (o->initial && o->initial != tr_required) {
            enum tr_status status = set_one(&to, o, o->initial);

            TR_ASSERT(status == TR_OK);
        }
    }
}

void tr_options_release(const struct tr_options *t, void *base)
{
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind == TR_ROW_OPT)
            unset(&t->row[i], base);
    }
}

enum tr_status tr_options_parse_args(const struct tr_options *t, void *base,
                                     const struct tr_args *words, struct tr_words *rest)
{
    struct target to = {t, base, ""};

    return parse(&to, words, rest);
}

enum tr_status tr_options_parse(const struct tr_options *t, void *base, int argc, char **argv,
                                struct tr_words *rest)
{
    struct tr_args a = {0};
    enum tr_status status = tr_args_argv(&a, argc, argv);

    if (status == TR_OK)
        status = tr_options_parse_args(t, base, &a, rest);
    tr_args_release(&a);
    return status;
}

/* How many words belong to the option of `t` that this word is; 0 if it is none. */
static int words_of(const struct tr_options *t, const char *word)
{
    const char *name = strncmp(word, "--", 2) == 0 ? word + 2 : "";
    const size_t n = strcspn(name, "=");

    for (int i = 0; i < t->rows && n > 0; i++)
        if ((t->row[i].kind == TR_ROW_OPT || t->row[i].kind == TR_ROW_OFF) &&
            strlen(t->row[i].name) == n && strncmp(t->row[i].name, name, n) == 0)
            return t->row[i].type == TR_OPT_FLAG || name[n] == '=' ? 1
                   : t->row[i].type == TR_OPT_WORDS                ? INT_MAX
                                                                   : 2;
    return 0;
}

/* Words of the two tables apart, each in its order.  Argument files are the other table's. */
static enum tr_status split(const struct tr_options *t, int argc, char **argv, struct tr_args *own,
                            struct tr_args *others)
{
    for (int i = 0, take = 0; i < argc; i++) {
        /* What begins another option is no value. */
        take = take > 0 && strncmp(argv[i], "--", 2) != 0 ? take : words_of(t, argv[i]);
        TR_TRY(tr_args_argv(take > 0 ? own : others, 1, argv + i));
        take -= take > 0;
    }
    return TR_OK;
}

enum tr_status tr_options_parse_both(const struct tr_options *own, void *own_base,
                                     const struct tr_options *t, void *base, int argc, char **argv,
                                     struct tr_args *others)
{
    struct target first = {own, own_base, ""}, second = {t, base, ""};
    struct tr_args mine = {0};
    struct tr_words wrong = {0};
    enum tr_status status = split(own, argc, argv, &mine, others);

    if (status == TR_OK) {
        collect(&first, &mine, NULL, &wrong);
        collect(&second, others, NULL, &wrong);
        status = say_wrong(&wrong);
    }
    tr_args_release(&mine);
    return status;
}

enum tr_status tr_options_parse_text(const struct tr_options *t, void *base, const char *text)
{
    struct target to = {t, base, ""};
    struct tr_args a = {0};
    enum tr_status status = tr_args_text(&a, text);

    if (status == TR_OK)
        status = parse(&to, &a, NULL);
    tr_args_release(&a);
    return status;
}

enum tr_status tr_options_set(const struct tr_options *t, void *base, const char *name,
                              const char *value)
{
    struct target to = {t, base, ""};
    const char *bare = strncmp(name, "--", 2) == 0 ? name + 2 : name;
    const struct tr_opt *o = tr_options_find(t, bare);
    struct tr_args a = {0};
    enum tr_status status;

    if (!o)
        return tr_options_unknown(t, bare, "");
    if (!value || o->type == TR_OPT_WORDS)
        unset(o, base);
    if (!value)
        return TR_OK;
    if (o->type != TR_OPT_WORDS)
        return set_one(&to, o, value);
    status = tr_args_text(&a, value);
    for (int i = 0; i < a.count && status == TR_OK; i++)
        status = set_one(&to, o, a.list[i].text);
    tr_args_release(&a);
    return status;
}

bool tr_options_unset(const struct tr_opt *o, const void *base)
{
    const void *field = (const char *)base + o->offset;

    switch (o->type) {
    case TR_OPT_INT:
        return *(const int64_t *)field == TR_UNSET_INT;
    case TR_OPT_REAL:
    case TR_OPT_MINUTES:
        return *(const double *)field <= TR_UNSET_REAL;
    case TR_OPT_TEXT:
        return *(char *const *)field == NULL;
    case TR_OPT_WORDS:
        return ((const struct tr_words *)field)->count == 0;
    case TR_OPT_FLAG:
    case TR_OPT_CHOICE:
        break;
    }
    return false;
}

const char *tr_options_missing(const struct tr_options *t, const void *base)
{
    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind == TR_ROW_OPT && o->initial == tr_required && tr_options_unset(o, base))
            return o->name;
    }
    return NULL;
}

const struct tr_opt *tr_options_find(const struct tr_options *t, const char *name)
{
    const struct tr_opt *found = NULL;

    for (int i = 0; i < t->rows && !found; i++) {
        if ((t->row[i].kind == TR_ROW_OPT || t->row[i].kind == TR_ROW_ALIAS) &&
            strcmp(t->row[i].name, name) == 0)
            found = &t->row[i];
    }
    for (int i = 0; found && found->kind == TR_ROW_ALIAS && i < t->rows; i++) {
        if (t->row[i].kind == TR_ROW_OPT && t->row[i].offset == found->offset)
            found = &t->row[i];
    }
    return found;
}

const char *tr_options_spelling(const struct tr_options *t, const char *set, int value)
{
    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (s->kind == TR_SPELLING_MAIN && s->value == value && strcmp(s->set, set) == 0)
            return s->spelling;
    }
    return NULL;
}
