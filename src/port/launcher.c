/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "port/options_parts.h"
#include "util/file.h"

enum launcher {
    SRUN,
    MPI,
    TORCH,
    DEEPSPEED,
    HOROVOD,
    NVPROF,
    NSYS,
};

static const struct command {
    enum launcher of;
    const char *words, *becomes;
} commands[] = {
#define LAUNCHER(symbol, words, becomes) {symbol, words, becomes},
#define PART(symbol, option, values, becomes)
#include "port/launchers.def"
};

static const struct part {
    enum launcher of;
    const char *option;
    int values;
    const char *becomes;
} parts[] = {
#define LAUNCHER(symbol, words, becomes)
#define PART(symbol, option, values, becomes) {symbol, option, values, becomes},
#include "port/launchers.def"
};

/* How many words from `at` begin such a command; 0 if they begin another. */
static int begins(const struct tr_list *l, int at, const char *words)
{
    int n = 0;

    for (size_t length; *words; words += length + (words[length] == ' '), n++) {
        const char *word = at + n < l->count ? l->item[at + n] : "";

        length = strcspn(words, " ");
        word = n == 0 && word[0] != '-' ? tr_basename(word) : word;
        if (strncmp(word, words, length) != 0 || word[length])
            return 0;
    }
    return n;
}

static const struct command *command_at(const struct tr_list *l, int at, int *n)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        *n = begins(l, at, commands[i].words);
        if (*n > 0)
            return &commands[i];
    }
    return NULL;
}

/* An option without its dashes, and '-' for '_', up to '='; owned by the caller. */
static char *bare(const char *word)
{
    char *name = tr_format("%s", word + strspn(word, "-"));

    name[strcspn(name, "=")] = '\0';
    for (char *s = name; *s; s++)
        *s = *s == '_' ? '-' : *s;
    return name;
}

static const struct part *part_of(enum launcher of, const char *word)
{
    char *name = bare(word);
    const struct part *found = NULL;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].of == of && strcmp(parts[i].option, name) == 0)
            found = &parts[i];
    free(name);
    return found;
}

/* "words: what they become". */
static void explain(struct tr_port *p, int at, int n, const char *becomes)
{
    char *text = tr_format("%s", "");

    for (int i = at; i < at + n && i < p->launcher.count; i++) {
        char *word = tr_unmarked(p->launcher.item[i]);
        char *longer = tr_format("%s%s%s", text, i > at ? " " : "", word);

        free(word);
        free(text);
        text = longer;
    }
    tr_list_take(&p->started, tr_format("%s: %s", text, becomes));
    free(text);
}

/* One option of a launcher; returns how many words it has. */
static int explain_option(struct tr_port *p, const struct command *of, int at)
{
    const char *word = p->launcher.item[at];
    const struct part *part = of ? part_of(of->of, word) : NULL;
    const int n = part && !strchr(word, '=') ? 1 + part->values : 1;

    if (part)
        explain(p, at, n, part->becomes);
    else if (of && strcmp(word, "--") != 0)
        explain(p, at, 1, "it is not known here; srun may have the like");
    return n;
}

void tr_port_explain_launcher(struct tr_port *p)
{
    const struct command *of = NULL, *found;
    const char *threads = tr_script_value(&p->script, "OMP_NUM_THREADS");

    if (threads && !tr_marked(threads))
        tr_list_take(&p->started, tr_format("OMP_NUM_THREADS=%s: #SBATCH --cpus-per-task; it is "
                                            "read, and --threads counts before it",
                                            threads));
    for (int i = 0, n; i < p->launcher.count; i += n) {
        const char *word = p->launcher.item[i];

        found = command_at(&p->launcher, i, &n);
        if (found) {
            of = found;
            explain(p, i, n, of->becomes);
        } else if (word[0] == '-') {
            n = explain_option(p, of, i);
        } else {
            n = 1;
            if (strncmp(word, "OMP_NUM_THREADS=", 16) == 0)
                explain(p, i, 1,
                        "#SBATCH --cpus-per-task; it is read, and --threads counts before it");
        }
    }
}
