/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "port/options_parts.h"
#include "util/file.h"

static const char *const kinds[] = {
    [TR_PORT_DONE] = "done",       [TR_PORT_GIVEN] = "given",     [TR_PORT_IGNORED] = "ignored",
    [TR_PORT_REFUSED] = "refused", [TR_PORT_UNKNOWN] = "unknown", [TR_PORT_OPEN] = "open",
};

const char *tr_port_kind_name(enum tr_port_kind kind)
{
    return kinds[kind];
}

/* Does this word name a program of Python that trains? */
static bool trains(const char *word)
{
    static const char *const parts[] = {"pretrain", "train", "dist_", "finetune"};
    const char *base = tr_basename(word);
    size_t n = strlen(base);

    if (n < 4 || strcmp(base + n - 3, ".py") != 0)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(base, parts[i]))
            return true;
    }
    return false;
}

/* Commands that only name files. */
static bool only_talks(const char *word)
{
    static const char *const names[] = {"echo", "printf", "cat", "cp", "mv",  "rm",    "ls",
                                        "sed",  "grep",   "tee", "cd", "git", "chmod", "mkdir"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i]) == 0)
            return true;
    }
    return false;
}

/* Where the program is among the words of a command that trains, else -1. */
static int program_of(const struct tr_list *words)
{
    if (only_talks(words->item[0]))
        return -1;
    for (int i = 0; i < words->count; i++) {
        if (trains(words->item[i]))
            return i;
    }
    return -1;
}

static void add_words(struct tr_list *to, const struct tr_list *from, int first, int end)
{
    for (int i = first; i < end; i++)
        tr_list_add(to, from->item[i], strlen(from->item[i]));
}

/* The first command that trains. */
static void find_command(struct tr_port *p)
{
    for (int i = 0; i < p->script.commands; i++) {
        const struct tr_script_command *c = &p->script.command[i];
        const int at = program_of(&c->words);

        if (at >= 0 && p->program) {
            p->others++;
        } else if (at >= 0) {
            p->program = tr_unmarked(c->words.item[at]);
            p->line = c->line;
            add_words(&p->launcher, &c->words, 0, at);
            add_words(&p->words, &c->words, at + 1, c->words.count);
        }
    }
}

/* Lines that begin with an option are a list of arguments. */
static void find_arguments(struct tr_port *p)
{
    for (int i = 0; i < p->script.commands; i++) {
        const struct tr_list *words = &p->script.command[i].words;

        if (strncmp(words->item[0], "--", 2) == 0)
            add_words(&p->words, words, 0, words->count);
    }
}

static bool has_option(const struct tr_port *p, const char *prefix)
{
    for (int i = 0; i < p->words.count; i++) {
        if (strncmp(p->words.item[i], "--", 2) == 0 &&
            strncmp(p->words.item[i] + 2, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

enum tr_dialect tr_port_guess(const struct tr_port *p)
{
    const char *base = p->program ? tr_basename(p->program) : "";

    if (has_option(p, "pipeline-group-size") || strncmp(base, "dist_", 5) == 0) {
        bool cocktail = has_option(p, "total-steps") || has_option(p, "train-warmup-steps") ||
                        strstr(base, "train");

        return cocktail ? TR_DIALECT_COCKTAIL : TR_DIALECT_ACSGD;
    }
    if (has_option(p, "deepspeed") || has_option(p, "zero-stage"))
        return TR_DIALECT_DEEPSPEED;
    return TR_DIALECT_MEGATRON;
}

/* The options that `trireme train` must have, after all lines that were made. */
static void find_missing(struct tr_port *p)
{
    const struct tr_options *t = tr_config_options();
    const bool folder = tr_port_value(p, "model-name") && p->dialect != TR_DIALECT_MEGATRON;
    char *text = tr_port_args(p, "");
    struct tr_config c;

    tr_config_init(&c);
    if (tr_config_parse_text(&c, text) == TR_OK) {
        for (int i = 0; i < t->rows; i++) {
            const struct tr_opt *o = &t->row[i];

            if (tr_config_lacks(&c, o) && !tr_port_is_open(p, o->name) &&
                !(folder && strcmp(o->group, "MODEL") == 0))
                tr_list_add(&p->missing, o->name, strlen(o->name));
        }
    }
    tr_config_release(&c);
    free(text);
}

/* More than any program takes: such a text is no job script, and would take long. */
static enum tr_status check_size(const struct tr_port *p)
{
    enum { MOST_WORDS = 1 << 15, MOST_OPTIONS = 1 << 11 };
    int options = 0;

    for (int i = 0; i < p->words.count; i++)
        options += strncmp(p->words.item[i], "--", 2) == 0;
    if (p->words.count <= MOST_WORDS && options <= MOST_OPTIONS)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "%d words and %d options are more than a training takes (%d and %d): give the "
                   "script of one training alone",
                   p->words.count, options, MOST_WORDS, MOST_OPTIONS);
}

static const struct program {
    const char *name, *options, *note;
} programs[] = {
#define PROGRAM(name, options, note) {name, options, note},
#include "port/programs.def"
};

static void add_text(struct tr_list *to, const char *s)
{
    for (size_t n; *s; s += n + (s[n] == ' ')) {
        n = strcspn(s, " ");
        tr_list_add(to, s, n);
    }
}

/* A program that is run without options. */
static enum tr_status find_settings(struct tr_port *p)
{
    const char *base = tr_basename(p->program);

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *note;

        if (strcmp(programs[i].name, base) != 0)
            continue;
        add_text(&p->words, programs[i].options);
        p->dialect = TR_DIALECT_YUAN;
        note = tr_format("%s has its settings in itself: these are those of YuanGenerativeLM's "
                         "first version; %s",
                         base, programs[i].note);
        tr_list_take(&p->script.notes, note);
        return TR_OK;
    }
    return TR_FAIL(TR_ECONFIG,
                   "%s is run without options, so its settings stand in the program itself, which "
                   "is not read: give them to `trireme train`, or a list of arguments here",
                   base);
}

enum tr_status tr_port_read(const char *text, enum tr_dialect dialect,
                            const struct tr_list *defined, struct tr_port *out)
{
    *out = (struct tr_port){.dialect = dialect};
    TR_TRY(tr_script_read(text, defined, &out->script));
    find_command(out);
    if (!out->program)
        find_arguments(out);
    if (!out->words.count && out->program)
        TR_TRY(find_settings(out));
    tr_port_explain_launcher(out);
    if (out->items) /* a program that is refused */
        return TR_OK;
    if (!out->words.count)
        return TR_FAIL(TR_ECONFIG,
                       "no command here trains: none runs a pretrain_*.py, dist_*.py or other "
                       "*train*.py with options, and no line begins with an option");
    TR_TRY(check_size(out));
    if (out->dialect == TR_DIALECT_AUTO)
        out->dialect = tr_port_guess(out);
    tr_port_convert(out);
    find_missing(out);
    return TR_OK;
}

void tr_port_release(struct tr_port *p)
{
    tr_script_release(&p->script);
    free(p->program);
    tr_list_release(&p->launcher);
    tr_list_release(&p->words);
    for (int i = 0; i < p->items; i++) {
        free(p->item[i].theirs);
        free(p->item[i].ours);
        free(p->item[i].why);
    }
    free(p->item);
    tr_list_release(&p->added);
    tr_list_release(&p->taken);
    tr_list_release(&p->started);
    tr_list_release(&p->missing);
    free(p->known.type);
    free(p->known.tokenizer);
    *p = (struct tr_port){0};
}

bool tr_port_whole(const struct tr_port *p)
{
    return !p->count[TR_PORT_REFUSED] && !p->count[TR_PORT_UNKNOWN] && !p->count[TR_PORT_OPEN] &&
           !p->missing.count;
}
