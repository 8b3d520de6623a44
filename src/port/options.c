/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "util/file.h"

enum conversion {
    SAME,
    FLAG,
    PER_STAGE,
    PER_REPLICA,
    MICRO_STEPS,
    EVAL_STEPS,
    TOKENS,
    UNLESS_TOKENS,
    ONLY_1,
    EXPERTS,
    LOAD,
    NOTHING,
    UNLESS_EPOCHS,
    UNLESS_TRUE,
    EVALUATE,
    IF_GROUPED,
    IF_ROTARY,
    IF_SCALED,
    FAMILY
};

/* Whose rows they are, as bits. */
enum { MEGATRON = 1, COCKTAIL = 2, ACSGD = 4, DEEPSPEED = 8, SLOW = COCKTAIL | ACSGD };

static const struct row {
    int dialects;
    const char *name;
    enum conversion how;
    const char *ours, *why;
} rows[] = {
#define ROW(dialect, name, how, ours, why) {dialect, name, how, ours, why},
#define ADDED(dialect, name, value, why)
#define VARIABLE(dialect, name, ours)
#include "port/dialects.def"
};

static const struct added {
    int dialects;
    const char *name, *value, *why;
} added[] = {
#define ROW(dialect, name, how, ours, why)
#define ADDED(dialect, name, value, why) {dialect, name, value, why},
#define VARIABLE(dialect, name, ours)
#include "port/dialects.def"
};

static const struct variable {
    int dialects;
    const char *name, *ours;
} variables[] = {
#define ROW(dialect, name, how, ours, why)
#define ADDED(dialect, name, value, why)
#define VARIABLE(dialect, name, ours) {dialect, name, ours},
#include "port/dialects.def"
};

static int bit(enum tr_dialect d)
{
    static const int bits[] = {
        [TR_DIALECT_AUTO] = MEGATRON,
        [TR_DIALECT_MEGATRON] = MEGATRON,
        [TR_DIALECT_DEEPSPEED] = MEGATRON | DEEPSPEED,
        [TR_DIALECT_COCKTAIL] = COCKTAIL,
        [TR_DIALECT_ACSGD] = ACSGD,
    };

    return bits[d];
}

/* An option of theirs: its name and the n words behind it, which are borrowed. */
struct option {
    char *name; /* owned */
    const char **value;
    int n;
};

static void add_item(struct tr_port *p, enum tr_port_kind kind, const struct option *o, char *ours,
                     char *why)
{
    char *theirs = tr_format("--%s", o->name);

    for (int i = 0; i < o->n; i++) {
        char *value = tr_unmarked(o->value[i]), *longer = tr_format("%s %s", theirs, value);

        free(value);
        free(theirs);
        theirs = longer;
    }
    p->item = realloc(p->item, (size_t)(p->items + 1) * sizeof *p->item);
    TR_ASSERT(p->item);
    p->item[p->items++] = (struct tr_port_item){kind, theirs, ours, why, false};
    p->count[kind]++;
}

static char *copy(const char *text)
{
    return text ? tr_format("%s", text) : NULL;
}

/* The sentence of a failure begins with the option, which is shown next to it. */
static char *reason(void)
{
    const char *s = tr_last_error(), *colon = strstr(s, ": ");

    return copy(strncmp(s, "--", 2) == 0 && colon ? colon + 2 : s);
}

/* "--name value..." as a line of an argument file. */
static char *line_of(const char *name, const char *const *value, int n)
{
    char *line = tr_format("--%s", name);

    for (int i = 0; i < n; i++) {
        char *quoted = tr_quoted(value[i]), *longer = tr_format("%s %s", line, quoted);

        free(quoted);
        free(line);
        line = longer;
    }
    return line;
}

/* Python takes 10_000_000 for a number. */
static char *plain_number(const struct tr_opt *row, const char *text)
{
    char *plain = copy(text), *to = plain;

    if (row->type != TR_OPT_INT || text[strspn(text, "0123456789_")])
        return plain;
    for (const char *s = text; *s; s++) {
        if (*s != '_')
            *to++ = *s;
    }
    *to = '\0';
    return plain;
}

static bool same_words(const struct option *o, const char *name, const struct tr_list *values)
{
    if (strcmp(o->name, name) != 0 || o->n != values->count)
        return false;
    for (int i = 0; i < o->n; i++) {
        if (strcmp(o->value[i], values->item[i]) != 0)
            return false;
    }
    return true;
}

static int most_values(const struct tr_opt *row)
{
    if (row->kind == TR_ROW_OFF || row->type == TR_OPT_FLAG)
        return 0;
    return row->type == TR_OPT_WORDS ? INT_MAX : 1;
}

/* Our option with these values: done if the parser takes it, open if a value is not known. */
static void add_ours(struct tr_port *p, const struct option *o, const char *name,
                     const char *const *value, int n, const char *why)
{
    const struct tr_opt *row = tr_options_row(tr_config_options(), name);
    struct tr_list plain = {0};
    struct tr_config c;
    bool open = false;

    for (int i = 0; i < n; i++) {
        open = open || tr_marked(value[i]);
        tr_list_take(&plain, plain_number(row, value[i]));
    }
    char *line = line_of(name, (const char *const *)plain.item, n);
    tr_config_init(&c);
    if (open) {
        char *shown = tr_unmarked(line);

        add_item(p, TR_PORT_OPEN, o, shown, copy(why));
        free(line);
    } else if (n > most_values(row)) {
        add_item(p, TR_PORT_REFUSED, o, NULL,
                 tr_format("it takes %s", most_values(row) ? "one value" : "no value"));
        free(line);
    } else if (tr_config_parse_text(&c, line) == TR_OK) {
        add_item(p, TR_PORT_DONE, o, line, copy(why));
        p->item[p->items - 1].other = !same_words(o, name, &plain);
    } else {
        add_item(p, TR_PORT_REFUSED, o, NULL, reason());
        free(line);
    }
    tr_config_release(&c);
    tr_list_release(&plain);
}

/* The number behind an option of theirs, or `otherwise`; -1 if it is not known. */
static long number_of(const struct tr_port *p, const char *name, long otherwise)
{
    long value = otherwise;

    for (int i = 0; i + 1 < p->words.count; i++) {
        char *end;

        if (strncmp(p->words.item[i], "--", 2) != 0 || strcmp(p->words.item[i] + 2, name) != 0)
            continue;
        value = strtol(p->words.item[i + 1], &end, 10);
        if (*end || end == p->words.item[i + 1] || value < 1 || value > INT_MAX)
            return -1;
    }
    return value;
}

static bool has(const struct tr_port *p, const char *name)
{
    for (int i = 0; i < p->words.count; i++) {
        if (strncmp(p->words.item[i], "--", 2) == 0 && strcmp(p->words.item[i] + 2, name) == 0)
            return true;
    }
    return false;
}

/* What their number is multiplied by, or divided by if it is negative; 0 if that is not known. */
static long factor(const struct tr_port *p, enum conversion how)
{
    long a = how == PER_STAGE ? number_of(p, "pipeline-group-size", 1)
             : how == TOKENS  ? number_of(p, "seq-length", 1)
                              : number_of(p, "gradient-accumulate-step", 1);
    long b = how == PER_REPLICA ? number_of(p, "data-group-size", 1) : 1;

    if (a < 1 || b < 1)
        return 0;
    return how == PER_STAGE || how == PER_REPLICA ? a * b : -a;
}

static void convert_number(struct tr_port *p, const struct option *o, const struct row *row)
{
    const long by = factor(p, row->how);
    char *plain = NULL, *end = NULL, *text;
    long long x = 0, result = 0;

    if (o->n == 1) {
        plain = plain_number(tr_options_row(tr_config_options(), row->ours), o->value[0]);
        x = strtoll(plain, &end, 10);
    }
    if (!plain || *end || end == plain || x < 0 || by == 0 ||
        (by > 0 && __builtin_mul_overflow(x, by, &result))) {
        char *shown = tr_format("--%s", row->ours);

        add_item(p, TR_PORT_OPEN, o, shown, copy(row->why));
        free(plain);
        return;
    }
    if (by < 0)
        result = x / -by;
    text = tr_format("%lld", result);
    add_ours(p, o, row->ours, (const char *const *)&text, 1, result == x ? NULL : row->why);
    free(text);
    free(plain);
}

static bool says(const struct option *o, const char *text)
{
    return o->n == 1 && strcasecmp(o->value[0], text) == 0;
}

/* Conversions that go by what their value says. */
static void convert_choice(struct tr_port *p, const struct option *o, const struct row *row)
{
    static const char *const none[] = {"0"};
    enum tr_port_kind kind = TR_PORT_REFUSED;
    const char *why = row->why;

    switch (row->how) {
    case FLAG:
        kind = says(o, "false") ? TR_PORT_GIVEN : TR_PORT_DONE;
        break;
    case ONLY_1:
        kind = says(o, "1") ? TR_PORT_GIVEN : TR_PORT_REFUSED;
        break;
    case UNLESS_TRUE:
        kind = says(o, "false") ? TR_PORT_GIVEN : TR_PORT_REFUSED;
        break;
    case EVALUATE:
        kind = says(o, "true") ? TR_PORT_GIVEN : TR_PORT_DONE;
        break;
    default: /* EXPERTS */
        kind = number_of(p, "num-experts", 1) == 1 ? TR_PORT_IGNORED : TR_PORT_REFUSED;
        why = kind == TR_PORT_IGNORED ? "there is one expert" : why;
    }
    if (kind == TR_PORT_DONE)
        add_ours(p, o, row->ours, none, row->how == EVALUATE, why);
    else
        add_item(p, kind, o, NULL, copy(why));
}

/* Our option with their value, or nothing if another option says the same. */
static void convert_unless(struct tr_port *p, const struct option *o, const struct row *row,
                           const char *other)
{
    if (has(p, other))
        add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
    else
        add_ours(p, o, row->ours, o->value, o->n, NULL);
}

static bool has_value(const struct tr_port *p, const char *name, const char *value)
{
    for (int i = 0; i + 1 < p->words.count; i++) {
        if (strncmp(p->words.item[i], "--", 2) == 0 && strcmp(p->words.item[i] + 2, name) == 0 &&
            strcmp(p->words.item[i + 1], value) == 0)
            return true;
    }
    return false;
}

/* Our option with their value if it acts there, which another option decides. */
static void convert_if(struct tr_port *p, const struct option *o, const struct row *row)
{
    const bool rotary = has(p, "use-rotary-position-embeddings") ||
                        has(p, "rotary-position-embeddings") ||
                        has_value(p, "position-embedding-type", "rope") ||
                        has_value(p, "position-embedding-type", "rotary");
    const bool acts = row->how == IF_GROUPED  ? has(p, "group-query-attention")
                      : row->how == IF_ROTARY ? rotary
                                              : has(p, "use-rope-scaling");

    if (acts || has(p, "model-family"))
        add_ours(p, o, row->ours, o->value, o->n, NULL);
    else
        add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
}

/* Their name of a family as ours. */
static void convert_family(struct tr_port *p, const struct option *o, const struct row *row)
{
    static const char *const names[][2] = {{"gptneox", "gpt-neox"}, {"llama", "llama2"}};
    const char *name = o->n == 1 ? o->value[0] : "";

    name += strncmp(name, "flash_", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i][0]) == 0)
            name = names[i][1];
    if (tr_family_find(name) || tr_marked(name))
        add_ours(p, o, row->ours, &name, 1, row->why);
    else
        add_item(
            p, TR_PORT_REFUSED, o, NULL,
            tr_format("it is none of the families; `trireme help --%s` lists them", row->ours));
}

static void convert(struct tr_port *p, const struct option *o, const struct row *row)
{
    static const char *const none[] = {"0"};

    switch (row->how) {
    case IF_GROUPED:
    case IF_ROTARY:
    case IF_SCALED:
        convert_if(p, o, row);
        break;
    case FAMILY:
        convert_family(p, o, row);
        break;
    case LOAD:
        tr_list_take(&p->added, tr_format("--finetune"));
        add_ours(p, o, row->ours, o->value, o->n, row->why);
        break;
    case SAME:
        add_ours(p, o, row->ours, o->value, o->n, row->why);
        break;
    case NOTHING:
        add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
        break;
    case UNLESS_EPOCHS:
        convert_unless(p, o, row, "n-epochs");
        break;
    case UNLESS_TOKENS:
        convert_unless(p, o, row, "train-tokens");
        break;
    case PER_STAGE:
    case PER_REPLICA:
    case MICRO_STEPS:
    case TOKENS:
        convert_number(p, o, row);
        break;
    case EVAL_STEPS:
        if (says(o, "0"))
            add_ours(p, o, "eval-iters", none, 1, "0 is no evaluation");
        else
            convert_number(p, o, row);
        break;
    default:
        convert_choice(p, o, row);
    }
}

/* By the table of `trireme train`. */
static void look_up(struct tr_port *p, const struct option *o)
{
    const struct tr_options *t = tr_config_options();
    const struct tr_opt *row = tr_options_row(t, o->name);

    if (!row) {
        enum tr_status s = tr_options_unknown(t, o->name, "");

        TR_ASSERT(s != TR_OK);
        add_item(p, TR_PORT_UNKNOWN, o, NULL, reason());
    } else if (row->kind == TR_ROW_IGNORED) {
        add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->help));
    } else if (row->kind == TR_ROW_REFUSED) {
        add_item(p, TR_PORT_REFUSED, o, NULL, copy(row->help));
    } else if (row->kind == TR_ROW_GIVEN && o->n == 1 && tr_marked(o->value[0])) {
        add_item(p, TR_PORT_OPEN, o, copy(o->name), copy(row->help));
    } else if (row->kind == TR_ROW_GIVEN) {
        const bool same = o->n == 1 && tr_value_given(row->initial, o->value[0]);

        add_item(p, same ? TR_PORT_GIVEN : TR_PORT_REFUSED, o, NULL, copy(row->help));
    } else {
        const struct tr_opt *main = tr_options_find(t, o->name);

        add_ours(p, o, main ? main->name : row->name, o->value, o->n, NULL);
    }
}

static void convert_option(struct tr_port *p, const struct option *o)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((rows[i].dialects & bit(p->dialect)) && strcmp(rows[i].name, o->name) == 0) {
            convert(p, o, &rows[i]);
            return;
        }
    }
    look_up(p, o);
}

/* Words before the first option, such as a variable that is not known. */
static void add_stray(struct tr_port *p, const char *word)
{
    char *shown = tr_unmarked(word);
    struct option o = {.name = shown};

    add_item(p, tr_marked(word) ? TR_PORT_OPEN : TR_PORT_UNKNOWN, &o, copy(shown),
             copy("a word that belongs to no option"));
    free(p->item[p->items - 1].theirs);
    p->item[p->items - 1].theirs = shown;
}

static bool is_option(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2];
}

/* A word that is nothing but a part that is not known may be options as well as a value. */
static bool all_marked(const char *word)
{
    const char *close = strchr(word, TR_MARK_CLOSE);

    return word[0] == TR_MARK_OPEN && close && !close[1];
}

/* How many words from `first` belong to the option before them. */
static int values_from(const struct tr_port *p, int first, const char *name)
{
    const struct tr_opt *o = tr_options_row(tr_config_options(), name);
    const bool flag =
        o && (o->kind == TR_ROW_OFF || (o->kind == TR_ROW_OPT && o->type == TR_OPT_FLAG));
    int n = 0;

    while (first + n < p->words.count && !is_option(p->words.item[first + n]) &&
           !(flag && all_marked(p->words.item[first + n])))
        n++;
    return n;
}

static int take_option(struct tr_port *p, int at)
{
    const char *word = p->words.item[at] + 2, *equals = strchr(word, '=');
    const char **value = calloc((size_t)p->words.count + 1, sizeof *value);
    struct option o = {copy(word), value, 0};
    int n = 0;

    TR_ASSERT(value);
    if (equals) {
        o.name[equals - word] = '\0';
        value[o.n++] = equals + 1;
    } else {
        n = values_from(p, at + 1, o.name);
        for (int i = 0; i < n; i++)
            value[o.n++] = p->words.item[at + 1 + i];
    }
    convert_option(p, &o);
    free(o.name);
    free(value);
    return at + 1 + n;
}

bool tr_port_is_open(const struct tr_port *p, const char *name)
{
    const size_t n = strlen(name);

    for (int i = 0; i < p->items; i++) {
        const char *ours = p->item[i].ours;

        if (p->item[i].kind == TR_PORT_OPEN && ours && strncmp(ours, "--", 2) == 0 &&
            strncmp(ours + 2, name, n) == 0 && (!ours[2 + n] || ours[2 + n] == ' '))
            return true;
    }
    return false;
}

/* Is an option of ours among the lines that were made? */
static bool made(const struct tr_port *p, const char *name)
{
    const size_t n = strlen(name);

    for (int i = 0; i < p->items; i++) {
        const char *ours = p->item[i].ours;

        if (ours && strncmp(ours, "--", 2) == 0 && strncmp(ours + 2, name, n) == 0 &&
            (!ours[2 + n] || ours[2 + n] == ' '))
            return true;
    }
    return false;
}

static void add_line(struct tr_port *p, const char *name, const char *value)
{
    if (!made(p, name))
        tr_list_take(&p->added, line_of(name, &value, value != NULL));
}

/* The language-model runner of AC-SGD takes three layers from its last stage, which has the head, and gives the three
   stages before it one each. */
static void add_stages(struct tr_port *p)
{
    const long n = number_of(p, "num-layers", -1), stages = number_of(p, "pipeline-group-size", 1);
    char *list, *even;

    if (n <= 3 || stages < 4 || (p->program && strstr(p->program, "deberta")))
        return;
    even = stages > 4 ? tr_format("%ld*%ld,", n, stages - 4) : tr_format("%s", "");
    list = tr_format("%s%ld*3,%ld", even, n + 1, n - 3);
    add_line(p, "pipeline-model-parallel-layout", list);
    free(list);
    free(even);
}

/* What they do without an option, and what they read from variables. */
static void add_habits(struct tr_port *p)
{
    const int whose = bit(p->dialect);
    char length[32];
    long n = number_of(p, "seq-length", -1);

    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        if (added[i].dialects & whose)
            add_line(p, added[i].name, added[i].value);
    }
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = tr_script_value(&p->script, variables[i].name);

        if ((variables[i].dialects & whose) && value && !tr_marked(value))
            add_line(p, variables[i].ours, value);
    }
    if ((whose & SLOW) && n > 0) {
        snprintf(length, sizeof length, "%ld", n);
        add_line(p, "max-position-embeddings", length);
    }
    if (whose == ACSGD)
        add_stages(p);
}

void tr_port_convert(struct tr_port *p)
{
    for (int i = 0; i < p->words.count;) {
        if (is_option(p->words.item[i])) {
            i = take_option(p, i);
        } else {
            add_stray(p, p->words.item[i]);
            i++;
        }
    }
    add_habits(p);
}
