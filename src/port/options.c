/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/options_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "util/file.h"
#include "util/text.h"

static const struct tr_port_row rows[] = {
#define ROW(dialect, name, how, ours, why) {TR_PORT_##dialect, name, how, ours, why},
#define ADDED(dialect, name, value, why)
#define VARIABLE(dialect, name, rule, ours, why)
#include "port/dialects.def"
};

int tr_port_bits(enum tr_dialect d)
{
    static const int bits[] = {
        [TR_DIALECT_AUTO] = TR_PORT_MEGATRON,
        [TR_DIALECT_MEGATRON] = TR_PORT_MEGATRON,
        [TR_DIALECT_DEEPSPEED] = TR_PORT_MEGATRON | TR_PORT_DEEPSPEED,
        [TR_DIALECT_COCKTAIL] = TR_PORT_COCKTAIL,
        [TR_DIALECT_ACSGD] = TR_PORT_ACSGD,
        [TR_DIALECT_YUAN] = TR_PORT_MEGATRON,
    };

    return bits[d];
}

void tr_port_add_item(struct tr_port *p, enum tr_port_kind kind, const struct tr_port_option *o,
                      char *ours, char *why)
{
    char *theirs = tr_format("--%s", o->name ? o->name : "");

    for (int i = 0; i < o->n; i++) {
        char *value = tr_unmarked(o->value[i]);

        theirs = tr_text_join(theirs, " ", value);
        free(value);
    }
    p->item = realloc(p->item, (size_t)(p->items + 1) * sizeof *p->item);
    TR_ASSERT(p->item);
    p->item[p->items++] = (struct tr_port_item){kind, theirs, ours, why, o->at, o->end, false};
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
        char *quoted = tr_quoted(value[i]);

        line = tr_text_join(line, " ", quoted);
        free(quoted);
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

static bool same_words(const struct tr_port_option *o, const char *name,
                       const struct tr_list *values)
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
void tr_port_add_ours(struct tr_port *p, const struct tr_port_option *o, const char *name,
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

        tr_port_add_item(p, TR_PORT_OPEN, o, shown, copy(why));
        free(line);
    } else if (n > most_values(row)) {
        tr_port_add_item(p, TR_PORT_REFUSED, o, NULL,
                         tr_format("it takes %s", most_values(row) ? "one value" : "no value"));
        free(line);
    } else if (tr_config_parse_text(&c, line) == TR_OK) {
        tr_port_add_item(p, TR_PORT_DONE, o, line, copy(why));
        p->item[p->items - 1].other = !same_words(o, name, &plain);
    } else {
        tr_port_add_item(p, TR_PORT_REFUSED, o, NULL, reason());
        free(line);
    }
    tr_config_release(&c);
    tr_list_release(&plain);
}

const char *tr_port_value(const struct tr_port *p, const char *name)
{
    const size_t n = strlen(name);
    const char *found = NULL;

    for (int i = 0; i < p->words.count; i++) {
        const char *word = p->words.item[i],
                   *next = i + 1 < p->words.count ? p->words.item[i + 1] : "";

        if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, n) != 0)
            continue;
        if (word[2 + n] == '=')
            found = word + 3 + n;
        else if (!word[2 + n])
            found = strncmp(next, "--", 2) == 0 ? "" : next;
    }
    return found;
}

long tr_port_number(const struct tr_port *p, const char *name, long otherwise)
{
    const char *text = tr_port_value(p, name);
    long value;
    char *end;

    if (!text)
        return otherwise;
    value = strtol(text, &end, 10);
    return *end || end == text || value < 1 || value > INT_MAX ? -1 : value;
}

bool tr_port_true(const struct tr_port *p, const char *name, bool otherwise)
{
    const char *text = tr_port_value(p, name);

    return text ? strcasecmp(text, "true") == 0 : otherwise;
}

static bool has(const struct tr_port *p, const char *name)
{
    return tr_port_value(p, name) != NULL;
}

long tr_port_replicas(const struct tr_port *p)
{
    const long stages = tr_port_number(p, "pipeline-group-size", 1);
    const long given = tr_port_number(p, "data-group-size", 0);

    if (given != 0 || !p->known.runs)
        return given < 0 ? 0 : given > 0 ? given : 1;
    return stages > 0 && p->known.ranks % stages == 0 ? p->known.ranks / stages : 0;
}

/* What their number is multiplied by, or divided by if it is negative; 0 if that is not known. */
static long factor(const struct tr_port *p, enum tr_port_conversion how)
{
    long a = how == PER_STAGE ? tr_port_number(p, "pipeline-group-size", 1)
             : how == TOKENS  ? tr_port_number(p, "seq-length", 1)
                              : tr_port_number(p, "gradient-accumulate-step", 1);
    long b = how == PER_REPLICA ? tr_port_replicas(p) : 1;

    if (a < 1 || b < 1)
        return 0;
    return how == PER_STAGE || how == PER_REPLICA ? a * b : -a;
}

static void convert_number(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row)
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

        tr_port_add_item(p, TR_PORT_OPEN, o, shown, copy(row->why));
        free(plain);
        return;
    }
    if (by < 0)
        result = x / -by;
    text = tr_format("%lld", result);
    tr_port_add_ours(p, o, row->ours, (const char *const *)&text, 1, result == x ? NULL : row->why);
    free(text);
    free(plain);
}

static bool says(const struct tr_port_option *o, const char *text)
{
    return o->n == 1 && strcasecmp(o->value[0], text) == 0;
}

/* Conversions that go by what their value says. */
static void convert_choice(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row)
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
        kind = tr_port_number(p, "num-experts", 1) == 1 ? TR_PORT_IGNORED : TR_PORT_REFUSED;
        why = kind == TR_PORT_IGNORED ? "there is one expert" : why;
    }
    if (kind == TR_PORT_DONE)
        tr_port_add_ours(p, o, row->ours, none, row->how == EVALUATE, why);
    else
        tr_port_add_item(p, kind, o, NULL, copy(why));
}

/* Our option with their value, or nothing if another option says the same. */
static void convert_unless(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row, const char *other)
{
    if (has(p, other))
        tr_port_add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
    else
        tr_port_add_ours(p, o, row->ours, o->value, o->n, NULL);
}

static bool has_value(const struct tr_port *p, const char *name, const char *value)
{
    const char *is = tr_port_value(p, name);

    return is && strcmp(is, value) == 0;
}

/* Our option with their value if it acts there, which another option decides. */
static void convert_if(struct tr_port *p, const struct tr_port_option *o,
                       const struct tr_port_row *row)
{
    const bool rotary = has(p, "use-rotary-position-embeddings") ||
                        has(p, "rotary-position-embeddings") ||
                        has_value(p, "position-embedding-type", "rope") ||
                        has_value(p, "position-embedding-type", "rotary");
    const bool acts = row->how == IF_GROUPED  ? has(p, "group-query-attention")
                      : row->how == IF_ROTARY ? rotary
                                              : has(p, "use-rope-scaling");

    if (acts || has(p, "model-family"))
        tr_port_add_ours(p, o, row->ours, o->value, o->n, NULL);
    else
        tr_port_add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
}

/* Their name of a family as ours. */
static void convert_family(struct tr_port *p, const struct tr_port_option *o,
                           const struct tr_port_row *row)
{
    static const char *const names[][2] = {{"gptneox", "gpt-neox"}, {"llama", "llama2"}};
    const char *name = o->n == 1 ? o->value[0] : "";

    name += strncmp(name, "flash_", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i][0]) == 0)
            name = names[i][1];
    if (has(p, "model-name"))
        tr_port_convert_folder(p, o, row);
    else if (tr_family_find(name) || tr_marked(name))
        tr_port_add_ours(p, o, row->ours, &name, 1, row->why);
    else
        tr_port_add_item(
            p, TR_PORT_REFUSED, o, NULL,
            tr_format("it is none of the families; `trireme help --%s` lists them", row->ours));
}

/* "name value" of ours, if theirs is true, or not true. */
static void convert_put(struct tr_port *p, const struct tr_port_option *o,
                        const struct tr_port_row *row)
{
    const char *value = strchr(row->ours, ' ') + 1;
    const bool yes = o->n == 0 || says(o, "true");
    char *name = tr_format("%.*s", (int)(value - row->ours) - 1, row->ours);

    if (yes == (row->how == PUT))
        tr_port_add_ours(p, o, name, &value, 1, row->why);
    else
        tr_port_add_item(p, TR_PORT_GIVEN, o, NULL, NULL);
    free(name);
}

static void convert(struct tr_port *p, const struct tr_port_option *o,
                    const struct tr_port_row *row)
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
        tr_port_add_ours(p, o, row->ours, o->value, o->n, row->why);
        break;
    case SAME:
        tr_port_add_ours(p, o, row->ours, o->value, o->n, row->why);
        break;
    case NOTHING:
        tr_port_add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
        break;
    case UNLESS_TOKENS:
        convert_unless(p, o, row, "train-tokens");
        break;
    case PER_STAGE:
        if (p->known.layers)
            tr_port_convert_depth(p, o, row);
        else
            convert_number(p, o, row);
        break;
    case PER_REPLICA:
    case MICRO_STEPS:
    case TOKENS:
        convert_number(p, o, row);
        break;
    case SAVE_STEPS:
        if (says(o, "0"))
            tr_port_add_item(p, TR_PORT_GIVEN, o, NULL, NULL);
        else
            convert_number(p, o, row);
        break;
    case EVAL_BATCHES:
        if (has(p, "evaluation-steps") && !has_value(p, "evaluation-steps", "0"))
            tr_port_add_ours(p, o, row->ours, o->value, o->n, NULL);
        else
            tr_port_add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->why));
        break;
    case PUT:
    case UNLESS_PUT:
        convert_put(p, o, row);
        break;
    case MODEL:
    case WEIGHTS:
    case RESUME:
    case RESUME_FROM:
    case TOKENIZER:
    case BARE:
    case RANKS:
    case REPLICAS:
    case DATASET:
        tr_port_convert_folder(p, o, row);
        break;
    case EVAL_STEPS:
        if (says(o, "0"))
            tr_port_add_ours(p, o, "eval-iters", none, 1, "0 is no evaluation");
        else
            convert_number(p, o, row);
        break;
    default:
        convert_choice(p, o, row);
    }
}

/* By the table of `trireme train`. */
static void look_up(struct tr_port *p, const struct tr_port_option *o)
{
    const struct tr_options *t = tr_config_options();
    const struct tr_opt *row = tr_options_row(t, o->name);

    if (!row) {
        enum tr_status s = tr_options_unknown(t, o->name, "");

        TR_ASSERT(s != TR_OK);
        tr_port_add_item(p, TR_PORT_UNKNOWN, o, NULL, reason());
    } else if (row->kind == TR_ROW_IGNORED) {
        tr_port_add_item(p, TR_PORT_IGNORED, o, NULL, copy(row->help));
    } else if (row->kind == TR_ROW_REFUSED) {
        tr_port_add_item(p, TR_PORT_REFUSED, o, NULL, copy(row->help));
    } else if (row->kind == TR_ROW_GIVEN && o->n == 1 && tr_marked(o->value[0])) {
        tr_port_add_item(p, TR_PORT_OPEN, o, copy(o->name), copy(row->help));
    } else if (row->kind == TR_ROW_GIVEN) {
        const bool same = o->n == 1 && tr_value_given(row->initial, o->value[0]);

        tr_port_add_item(p, same ? TR_PORT_GIVEN : TR_PORT_REFUSED, o, NULL, copy(row->help));
    } else {
        const struct tr_opt *main = tr_options_find(t, o->name);

        tr_port_add_ours(p, o, main ? main->name : row->name, o->value, o->n, NULL);
    }
}

const struct tr_port_row *tr_port_row(int dialects, const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((rows[i].dialects & dialects) && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void convert_option(struct tr_port *p, const struct tr_port_option *o)
{
    const struct tr_port_row *row = tr_port_row(tr_port_bits(p->dialect), o->name);

    if (row)
        convert(p, o, row);
    else
        look_up(p, o);
}

/* Words before the first option, such as a variable that is not known. */
static void add_stray(struct tr_port *p, const char *word, int at)
{
    char *shown = tr_unmarked(word);
    struct tr_port_option o = {.name = shown, .at = at, .end = at + 1};

    tr_port_add_item(p, tr_marked(word) ? TR_PORT_OPEN : TR_PORT_UNKNOWN, &o, copy(shown),
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

/* Of several the last one counts. */
static bool given_later(const struct tr_port *p, const struct tr_port_option *o)
{
    const size_t n = strlen(o->name);

    for (int i = o->end; i < p->words.count; i++) {
        const char *word = p->words.item[i];

        if (is_option(word) && strncmp(word + 2, o->name, n) == 0 &&
            (!word[2 + n] || word[2 + n] == '='))
            return true;
    }
    return false;
}

static int take_option(struct tr_port *p, int at)
{
    const char *word = p->words.item[at] + 2, *equals = strchr(word, '=');
    const char **value = calloc((size_t)p->words.count + 1, sizeof *value);
    struct tr_port_option o = {copy(word), value, 0, at, at + 1};
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
    o.end = at + 1 + n;
    if (!p->known.runs || !given_later(p, &o))
        convert_option(p, &o);
    free(o.name);
    free(value);
    return at + 1 + n;
}

/* Is this line, which may be NULL, one of the option `name`? */
static bool is_of(const char *line, const char *name)
{
    const size_t n = strlen(name);

    return line && strncmp(line, "--", 2) == 0 && strncmp(line + 2, name, n) == 0 &&
           (!line[2 + n] || line[2 + n] == ' ');
}

bool tr_port_is_open(const struct tr_port *p, const char *name)
{
    for (int i = 0; i < p->items; i++)
        if (p->item[i].kind == TR_PORT_OPEN && is_of(p->item[i].ours, name))
            return true;
    return false;
}

bool tr_port_made(const struct tr_port *p, const char *name)
{
    for (int i = 0; i < p->items; i++)
        if (is_of(p->item[i].ours, name))
            return true;
    for (int i = 0; i < p->added.count; i++)
        if (is_of(p->added.item[i], name))
            return true;
    return false;
}

void tr_port_add_line(struct tr_port *p, const char *name, const char *value)
{
    if (!tr_port_made(p, name))
        tr_list_take(&p->added, line_of(name, &value, value != NULL));
}

void tr_port_convert(struct tr_port *p)
{
    for (int i = 0; i < p->words.count;) {
        if (is_option(p->words.item[i])) {
            i = take_option(p, i);
        } else {
            add_stray(p, p->words.item[i], i);
            i++;
        }
    }
    tr_port_add_habits(p);
    p->habits = p->added.count;
    tr_port_add_variables(p);
}
