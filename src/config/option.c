/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <errno.h>
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

static bool in_range(const struct range *r, double x)
{
    return (r->low_open ? x > r->low : x >= r->low) && (r->high_open ? x < r->high : x <= r->high);
}

static void words_release(struct tr_words *w)
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
                       "--%s: '%s' will not do: give minutes, or a number with s, m or h behind "
                       "it,%s%s",
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
        words_release(field);
        break;
    }
}

static enum tr_status unknown(const struct target *to, const char *name)
{
    const char *known[512], *near;
    int n = 0;

    for (int i = 0; i < to->t->rows; i++) {
        TR_ASSERT(n < 512);
        if (to->t->row[i].kind != TR_ROW_GROUP && to->t->row[i].kind != TR_ROW_REFUSED)
            known[n++] = to->t->row[i].name;
    }
    near = tr_nearest_name(name, known, n);
    if (near)
        return TR_FAIL(TR_ECONFIG, "--%s: there is no such option; did you mean --%s?%s", name,
                       near, to->where);
    return TR_FAIL(TR_ECONFIG, "--%s: there is no such option; `trireme help %s` lists them%s",
                   name, to->t->verb, to->where);
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
    *out = NULL;
    for (int i = 0; i < to->t->rows && !*out; i++) {
        const struct tr_opt *o = &to->t->row[i];

        if (o->kind != TR_ROW_GROUP && strcmp(o->name, name) == 0)
            *out = o->kind == TR_ROW_ALIAS ? tr_options_find(to->t, name) : o;
    }
    if (!*out)
        status = unknown(to, name);
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
        most = o->values;
    while (n < most && at + 1 + n < a->count && strncmp(a->list[at + 1 + n].text, "--", 2) != 0)
        n++;
    return n;
}

/* The option at a->list[*at]; moves *at past its values. */
static enum tr_status parse_option(struct target *to, const struct tr_args *a, int *at)
{
    const struct tr_opt *o;
    const char *value;
    enum tr_status status = TR_OK;

    TR_TRY(row_of(to, a->list[*at].text, &o, &value));
    int n = words_behind(o, a, *at, value), first = *at + 1;
    *at = first + n;

    if (o->kind == TR_ROW_IGNORED) {
        if (n + (value != NULL) != o->values)
            return TR_FAIL(TR_ECONFIG, "--%s takes %d value%s%s", o->name, o->values,
                           tr_plural(o->values), to->where);
        tr_log_rank0(TR_LOG_WARNING, "--%s has no effect: %s%s", o->name, o->help, to->where);
        return TR_OK;
    }
    if (o->kind == TR_ROW_OFF || o->type == TR_OPT_FLAG) {
        if (value)
            return TR_FAIL(TR_ECONFIG, "--%s takes no value%s", o->name, to->where);
        *(bool *)field_of(o, to->base) = o->kind != TR_ROW_OFF;
        return TR_OK;
    }
    if (!n && !value)
        return TR_FAIL(TR_ECONFIG, "--%s needs a value: %s%s", o->name,
                       o->help + strspn(o->help, "+ "), to->where); /* '+' is for tables */
    if (o->type == TR_OPT_WORDS)
        unset(o, to->base);
    if (value)
        return set_one(to, o, value);
    for (int i = 0; i < n && status == TR_OK; i++)
        status = set_one(to, o, a->list[first + i].text);
    return status;
}

static enum tr_status parse(struct target *to, const struct tr_args *a, struct tr_words *rest)
{
    bool options = true;

    for (int i = 0; i < a->count;) {
        const char *word = a->list[i].text;

        to->where = a->list[i].where;
        if (options && strcmp(word, "--") == 0) {
            options = false;
            i++;
        } else if (options && strncmp(word, "--", 2) == 0) {
            TR_TRY(parse_option(to, a, &i));
        } else if (rest && !(options && word[0] == '-' && word[1])) {
            words_add(rest, word);
            i++;
        } else {
            return TR_FAIL(TR_ECONFIG, "'%s' belongs to no option: their names begin with --%s",
                           word, to->where);
        }
    }
    return TR_OK;
}

/* Plain edit distance in which two neighbours that changed places count once; '_' is '-'. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int row[3][LONGEST + 1], n = (int)strlen(a), m = (int)strlen(b);

    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            char x = a[i - 1] == '_' ? '-' : a[i - 1];
            int best = before[j - 1] + (x != b[j - 1]);

            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            best = before[j] + 1 < best ? before[j] + 1 : best;
            if (i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == b[j - 1] &&
                earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *tr_nearest_name(const char *word, const char *const *names, int n)
{
    /* A third of the letters may be wrong; a name that the word begins counts as one wrong. */
    int best = 1 + (int)strlen(word) / 3 + 1;
    const char *name = NULL;

    for (int i = 0; i < n; i++) {
        int d = distance(word, names[i]);

        if (d > 1 && strlen(word) >= 3 && strncmp(word, names[i], strlen(word)) == 0)
            d = 1;
        if (d < best) {
            best = d;
            name = names[i];
        }
    }
    return name;
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
        if (t->row[i].kind == TR_ROW_OPT && strlen(t->row[i].name) == n &&
            strncmp(t->row[i].name, name, n) == 0)
            return t->row[i].type == TR_OPT_FLAG || name[n] == '=' ? 1 : 2;
    return 0;
}

char **tr_options_split(const struct tr_options *t, int argc, char **argv, int *own)
{
    char **out = calloc((size_t)argc + 1, sizeof *out);
    int at = 0;

    if (!out)
        tr_die(TR_ERESOURCE, "no memory left for %d words of the command line", argc);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0, take = 0; i < argc; i++) {
            take = take > 0 ? take : words_of(t, argv[i]);
            if ((take > 0) == (turn == 0))
                out[at++] = argv[i];
            take -= take > 0;
        }
        *own = turn == 0 ? at : *own;
    }
    return out;
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
        return unknown(&to, bare);
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

void tr_real_text(double x, char *buf, size_t size)
{
    char digits[40];
    int precision = 0, exponent;

    if (!isfinite(x)) {
        snprintf(buf, size, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    /* The fewest significant digits that read back as x; 17 always do. */
    do
        snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16)
        snprintf(buf, size, "%s", digits);
    else
        snprintf(buf, size, "%.*f", precision > exponent ? precision - exponent : 1, x);
}
