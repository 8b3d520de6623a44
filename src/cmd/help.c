/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/search.h"
#include "config/config.h"
#include "util/file.h"
#include "util/text.h"
#include "util/status.h"

const struct tr_doc tr_doc_help = {
    "trireme help [VERB [GROUP | --OPTION]]\n"
    "trireme help --OPTION\n"
    "trireme help --search WORD...\n"
    "trireme help --man VERB\n"
    "trireme help --completion",

    "Without a verb, list the verbs and the options that a first run needs.  With a verb, explain "
    "it and its options, or one group of its options, by its heading or the beginning of a word of "
    "that.  With an option, say what it takes, its range, default and other names, and which pages "
    "name it.  Options that are refused or have no effect say why.\n"
    "\n"
    "    trireme help train optimizer\n"
    "    trireme help --micro-batch-size\n"
    "    trireme help --search dropout\n"
    "\n"
    "--search finds terms, options, verbs, pages and folders of the sources that have all the "
    "words.  Whole words come first, then beginnings of words, then other parts of words.  What is "
    "accepted without effect and what is refused comes last.\n"
    "\n"
    "--man prints the page of a verb in mdoc, the language of manual pages.  The page of the whole "
    "program is that of the verb \"trireme\".  --completion prints what bash needs to complete "
    "verbs and options: `source <(trireme help --completion)`.  `make install` installs both.",
    NULL,
    false,
};

static const char about_trireme[] =
    "trireme trains GPT models with tensor, pipeline and data parallelism, as Megatron-LM does, on "
    "CPU ranks under MPI and on NVIDIA GPUs.  It reads the options, the datasets and the learning "
    "rate schedules of Megatron-LM, and prints its log lines.  Its checkpoints resume in any other "
    "layout.  The page docs/glossary.md lists the terms of the field with the option of each.\n"
    "\n"
    "Everything is done by a verb:";

static const struct {
    int code;
    const char *meaning;
} exits[] = {
#define STATUS(symbol, exit_code, meaning) {exit_code, meaning},
#include "util/status.def"
#undef STATUS
};

void tr_usage(FILE *f)
{
    fputs("usage: trireme VERB [OPTION...]\n\n", f);
    for (int i = 0; i < tr_verb_count; i++)
        fprintf(f, "  %-10s %s\n", tr_verbs[i].name, tr_verbs[i].help);
    fputs("\n`trireme help VERB` explains a verb.\n", f);
}

/* Plain text between two empty lines: the next paragraph of *s, its length in *length. */
static const char *paragraph(const char **s, int *length)
{
    const char *start = *s, *end = strstr(start, "\n\n");

    *length = end ? (int)(end - start) : (int)strlen(start);
    *s = end ? end + 2 : start + *length;
    return *length ? start : NULL;
}

/* Words of a paragraph, at most 92 columns. */
static void print_filled(const char *s, int length, FILE *f)
{
    int column = 0;

    for (const char *end = s + length; s < end;) {
        int word = (int)strcspn(s, " \n");

        word = word > end - s ? (int)(end - s) : word;
        if (column && column + 1 + word > 92) {
            fputc('\n', f);
            column = 0;
        }
        column += fprintf(f, "%s%.*s", column ? " " : "", word, s);
        s += word;
        s += strspn(s, " ") < (size_t)(end - s) ? strspn(s, " ") : (size_t)(end - s);
        s += s < end && *s == '\n';
    }
    fputc('\n', f);
}

/* A group of the verb's own options, or of those of training where it takes them too. */
static enum tr_status help_group(FILE *f, const struct tr_verb *v, const struct tr_options *t,
                                 const char *group)
{
    const char *symbol;

    if (!t)
        return TR_FAIL(TR_ECONFIG, "%s has no options, so there is no group of options '%s'",
                       v->name, group);
    symbol = tr_options_group(t, group);
    if (symbol)
        tr_options_help(t, f, symbol);
    return symbol ? TR_OK : TR_ECONFIG;
}

enum tr_status tr_help_verb(FILE *f, const struct tr_verb *v, const char *group)
{
    const struct tr_options *t = v->doc->options ? v->doc->options() : NULL;
    const char *rest = v->doc->about, *text;
    int length;

    if (group)
        return help_group(f, v, t, group);
    fprintf(f, "%s\n\n", v->doc->synopsis);
    if (t && t == tr_doc_train.options()) {
        tr_config_help_first(f);
        fprintf(f,
                "\nAll options follow; `trireme help %s GROUP` shows one group, `trireme help "
                "--NAME` one "
                "option.\n\n",
                v->name);
    }
    while ((text = paragraph(&rest, &length))) {
        if (*text == ' ')
            fprintf(f, "%.*s\n", length, text);
        else
            print_filled(text, length, f);
        fputc('\n', f);
    }
    if (t)
        tr_options_help(t, f, NULL);
    return TR_OK;
}

static void man_about(const char *about, FILE *f)
{
    const char *text;
    int length, n = 0;

    while ((text = paragraph(&about, &length))) {
        if (*text == ' ') {
            fputs(".Bd -literal\n", f);
            tr_man_literal(f, text, length);
            fputs(".Ed\n", f);
        } else {
            if (n)
                fputs(".Pp\n", f);
            tr_man_filled(f, text, length);
        }
        n++;
    }
}

static void man_begin(const char *name, const char *help, const char *synopsis, FILE *f)
{
    fprintf(f, ".\\\" Made from the tables of trireme by `trireme help --man`; do not edit.\n");
    fprintf(f, ".Dd %s\n.Dt ", TR_RELEASE_DATE);
    for (const char *s = name; *s; s++)
        fputc(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s, f);
    fprintf(f, " 1\n.Os trireme %s\n.Sh NAME\n.Nm %s\n.Nd %s\n", PACKAGE_VERSION, name, help);
    fputs(".Sh SYNOPSIS\n.Bd -literal -compact\n", f);
    tr_man_literal(f, synopsis, (int)strlen(synopsis));
    fputs(".Ed\n.Sh DESCRIPTION\n", f);
}

static void man_end(const char *see, FILE *f)
{
    fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds\n", f);
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++)
        fprintf(f, ".It %d\n%s\n", exits[i].code, exits[i].meaning);
    fprintf(f, ".El\n.Sh SEE ALSO\n%s", see);
}

static void man_verb(const struct tr_verb *v, FILE *f)
{
    char *name = tr_format("trireme-%s", v->name);

    man_begin(name, v->help, v->doc->synopsis, f);
    man_about(v->doc->about, f);
    if (v->doc->options) {
        fputs(".Sh OPTIONS\n", f);
        tr_options_man(v->doc->options(), f);
    }
    man_end(".Xr trireme 1\n", f);
    free(name);
}

static int by_name(const void *a, const void *b)
{
    const struct tr_verb *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void man_trireme(FILE *f)
{
    struct tr_verb *sorted = calloc((size_t)tr_verb_count, sizeof *sorted);
    char *see = NULL;
    size_t size;
    FILE *list = open_memstream(&see, &size);

    TR_ASSERT(list && sorted);
    memcpy(sorted, tr_verbs, (size_t)tr_verb_count * sizeof *sorted);
    qsort(sorted, (size_t)tr_verb_count, sizeof *sorted, by_name);
    for (int i = 0; i < tr_verb_count; i++)
        fprintf(list, ".Xr trireme-%s 1%s\n", sorted[i].name, i + 1 < tr_verb_count ? " ," : "");
    fclose(list);
    man_begin("trireme", "train GPT models over many ranks", "trireme VERB [OPTION...]", f);
    man_about(about_trireme, f);
    fputs(".Bl -tag -width Ds\n", f);
    for (int i = 0; i < tr_verb_count; i++)
        fprintf(f, ".It Cm %s\n%s\n", tr_verbs[i].name, tr_verbs[i].help);
    fputs(".El\n", f);
    man_end(see, f);
    free(sorted);
    free(see);
}

static void complete(FILE *f)
{
    fputs("# bash completion for trireme, made by `trireme help --completion`.\n"
          "_trireme() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} values=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        values='",
          f);
    for (int i = 0; i < tr_verb_count; i++)
        fprintf(f, "%s%s", i ? " " : "", tr_verbs[i].name);
    fputs("'\n    else\n        \"_trireme_${COMP_WORDS[1]}\" 2>/dev/null\n    fi\n"
          "    case $values in\n"
          "    '' | FILE | NONE) ;;\n"
          "    *) mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$current\") ;;\n"
          "    esac\n"
          "}\n"
          "_trireme_help() {\n    values='",
          f);
    for (int i = 0; i < tr_verb_count; i++)
        fprintf(f, "%s%s", i ? " " : "", tr_verbs[i].name);
    fputs("'\n}\n", f);
    for (int i = 0; i < tr_verb_count; i++) {
        if (!tr_verbs[i].doc->options)
            continue;
        fprintf(f, "_trireme_%s() {\n    case ${COMP_WORDS[COMP_CWORD - 1]} in\n",
                tr_verbs[i].name);
        tr_options_complete(tr_verbs[i].doc->options(),
                            tr_verbs[i].doc->trains ? "_trireme_train" : NULL, f);
        fputs("    esac\n}\n", f);
    }
    fputs("complete -o default -F _trireme trireme\n", f);
}

static enum tr_status about_option(const struct tr_options *t, const char *option)
{
    const char *bare = option + 2;
    const struct tr_opt *o;

    TR_TRY(tr_options_about(t, stdout, bare));
    o = tr_options_find(t, bare);
    char *name = tr_format("--%s", o ? o->name : bare);
    tr_search_option(stdout, name);
    free(name);
    return TR_OK;
}

/* An option of a verb; of training where the verb takes those too. */
static enum tr_status help_option(const struct tr_verb *v, const char *option)
{
    const struct tr_options *t = v->doc->options ? v->doc->options() : NULL;

    if (v->doc->trains && !(t && tr_options_row(t, option + 2)))
        t = tr_doc_train.options();
    if (!t)
        return TR_FAIL(TR_ECONFIG, "%s has no options, so there is no %s", v->name, option);
    return about_option(t, option);
}

/* An option of any verb: of training if it is one. */
static enum tr_status help_any_option(const char *option)
{
    bool found = false;

    if (tr_options_row(tr_doc_train.options(), option + 2))
        return about_option(tr_doc_train.options(), option);
    for (int i = 0; i < tr_verb_count; i++) {
        const struct tr_options *t = tr_verbs[i].doc->options ? tr_verbs[i].doc->options() : NULL;

        if (!t || !tr_options_row(t, option + 2))
            continue;
        printf("%strireme %s\n\n", found ? "\n" : "", tr_verbs[i].name);
        TR_TRY(about_option(t, option));
        found = true;
    }
    return found ? TR_OK : tr_options_unknown(tr_doc_train.options(), option + 2, "");
}

static enum tr_status help_topic(int argc, char **argv)
{
    const struct tr_verb *v = tr_verb_find(argv[0]);
    char *group = NULL;
    enum tr_status s;

    if (!v || argc == 1)
        return v ? tr_help_verb(stdout, v, NULL) : TR_ECONFIG;
    if (argc == 2 && strncmp(argv[1], "--", 2) == 0)
        return help_option(v, argv[1]);
    for (int i = 1; i < argc; i++)
        group = tr_text_join(group, " ", argv[i]);
    s = tr_help_verb(stdout, v, group);
    free(group);
    return s;
}

static enum tr_status help_man(const char *name)
{
    const struct tr_verb *v;

    if (strcmp(name, "trireme") == 0) {
        man_trireme(stdout);
        return TR_OK;
    }
    v = tr_verb_find(name);
    if (v)
        man_verb(v, stdout);
    return v ? TR_OK : TR_ECONFIG;
}

static enum tr_status help(int argc, char **argv)
{
    if (argc == 1) {
        tr_usage(stdout);
        fputc('\n', stdout);
        tr_config_help_first(stdout);
        fputs("\n`trireme help train` lists all options, `trireme help --NAME` explains one, and\n"
              "`trireme help --search WORD` finds one.\n",
              stdout);
        return TR_OK;
    }
    if (strcmp(argv[1], "--completion") == 0 && argc == 2) {
        complete(stdout);
        return TR_OK;
    }
    if (strcmp(argv[1], "--man") == 0 && argc == 3)
        return help_man(argv[2]);
    if (strcmp(argv[1], "--search") == 0 && argc > 2)
        return tr_search(stdout, argc - 2, argv + 2);
    if (argv[1][0] != '-')
        return help_topic(argc - 1, argv + 1);
    if (argc == 2 && strlen(argv[1]) > 2 && argv[1][1] == '-' && strcmp(argv[1], "--man") != 0 &&
        strcmp(argv[1], "--search") != 0)
        return help_any_option(argv[1]);
    return TR_FAIL(TR_ECONFIG, "usage: trireme help [VERB [GROUP | --OPTION]], or trireme help "
                               "--OPTION, or trireme help --search WORD...");
}

int tr_cmd_help(int argc, char **argv)
{
    return tr_status_exit_code(help(argc, argv));
}
