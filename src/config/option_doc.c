/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/file.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 92 };

char *tr_options_value(const struct tr_options *t, const struct tr_opt *o)
{
    static const char *const names[] = {
        [TR_OPT_INT] = "N",
        [TR_OPT_REAL] = "X",
        [TR_OPT_FLAG] = "",
        [TR_OPT_TEXT] = "TEXT",
        [TR_OPT_WORDS] = "WORD...",
        [TR_OPT_CHOICE] = "",
        [TR_OPT_MINUTES] = "X[s|m|h]",
    };
    char *all = tr_format("%s", o->kind == TR_ROW_OFF ? "" : names[o->type]);

    if (o->kind == TR_ROW_OFF || o->type != TR_OPT_CHOICE)
        return all;
    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (s->kind != TR_SPELLING_MAIN || strcmp(s->set, o->set) != 0)
            continue;
        char *longer = tr_format("%s%s%s", all, all[0] ? "|" : "", s->spelling);
        free(all);
        all = longer;
    }
    return all;
}

bool tr_options_listed(const struct tr_options *t, const struct tr_opt *o, int i,
                       const char **value, const char **about)
{
    return t->listed && o->kind == TR_ROW_OPT && o->type == TR_OPT_TEXT &&
           t->listed(o, i, value, about);
}

static bool ours(const struct tr_opt *o)
{
    return o->help[0] == '+';
}

static const char *help_of(const struct tr_opt *o)
{
    return ours(o) ? o->help + 2 : o->help;
}

/* "[required]", "[1e-5]" or "". */
static char *initial_text(const struct tr_opt *o)
{
    if (o->kind != TR_ROW_OPT || !o->initial || o->type == TR_OPT_FLAG)
        return tr_format("%s", "");
    return tr_format(" [%s]", o->initial == tr_required ? "required" : o->initial);
}

void tr_options_wrap(FILE *f, int indent, const char *text)
{
    int column = indent;

    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        int length = (int)strcspn(text, " ");

        if (column > indent && column + 1 + length > HELP_WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(f, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
    }
    fputc('\n', f);
}

/* The option, its value, `length` bytes of its help, and its default. */
static void help_line(const struct tr_options *t, FILE *f, const struct tr_opt *o, size_t length)
{
    char *value = tr_options_value(t, o), *initial = initial_text(o);
    char *text = tr_format("%.*s%s", (int)length, help_of(o), initial);
    int column = fprintf(f, "%c --%s %s", ours(o) ? '+' : ' ', o->name, value);

    if (column >= HELP_COLUMN) {
        fputc('\n', f);
        column = 0;
    }
    fprintf(f, "%*s", HELP_COLUMN - column, "");
    tr_options_wrap(f, HELP_COLUMN, text);
    free(value);
    free(initial);
    free(text);
}

static void help_row(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    const char *name, *meaning;

    help_line(t, f, o, strlen(help_of(o)));
    for (int i = 0; tr_options_listed(t, o, i, &name, &meaning); i++) {
        char *both = tr_format("%s: %s", name, meaning);

        fprintf(f, "%*s", HELP_COLUMN, "");
        tr_options_wrap(f, HELP_COLUMN + 2, both);
        free(both);
    }
}

static bool shown(const struct tr_opt *o)
{
    return o->kind == TR_ROW_OPT || o->kind == TR_ROW_OFF;
}

static const char known_title[] = "Names of other programs";

static int count_of(const struct tr_options *t, enum tr_opt_kind kind)
{
    int n = 0;

    for (int i = 0; i < t->rows; i++)
        n += t->row[i].kind == kind;
    return n;
}

/* How many names are known that set nothing, or NULL if there are none; owned by the caller. */
static char *known_others(const struct tr_options *t)
{
    int without = count_of(t, TR_ROW_IGNORED), given = count_of(t, TR_ROW_GIVEN),
        refused = count_of(t, TR_ROW_REFUSED);

    if (!without && !given && !refused)
        return NULL;
    return tr_format(
        "%d options of other programs are accepted and have no effect; %d are accepted "
        "with a value that says what is done anyway; %d are refused.  `trireme "
        "help --NAME` says why, and `trireme help --search WORD` finds them.",
        without, given, refused);
}

static void help_known(const struct tr_options *t, FILE *f)
{
    char *text = known_others(t);

    if (text) {
        fprintf(f, "\n%s\n%*s", known_title, HELP_COLUMN, "");
        tr_options_wrap(f, HELP_COLUMN, text);
    }
    free(text);
}

/* What the signs beside an option mean. */
static void help_marks(FILE *f)
{
    fputs("+ marks an option that Megatron-LM does not have.  N is a whole number, X a number,\n"
          "A|B one of these words.  [A] is the default; [required] must be given.\n\n",
          f);
}

static bool any_ours(const struct tr_options *t, const char *group)
{
    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (shown(o) && ours(o) && (!group || strcasecmp(o->group, group) == 0))
            return true;
    }
    return false;
}

void tr_options_help_first(const struct tr_options *t, FILE *f, const size_t *field, int n)
{
    fprintf(f, "The %d options of %s that one needs\n\n", n, t->verb);
    help_marks(f);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < t->rows; k++) {
            const struct tr_opt *o = &t->row[k];

            if (o->kind == TR_ROW_OPT && o->offset == field[i])
                help_line(t, f, o, strcspn(help_of(o), ";"));
        }
    }
}

bool tr_options_help(const struct tr_options *t, FILE *f, const char *group)
{
    bool found = false;

    if (any_ours(t, group))
        help_marks(f);

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (group && (!o->group || strcasecmp(o->group, group) != 0))
            continue;
        if (o->kind == TR_ROW_GROUP)
            fprintf(f, "%s%s\n", found ? "\n" : "", o->name);
        else if (shown(o))
            help_row(t, f, o);
        found = found || o->kind == TR_ROW_GROUP;
    }
    if (!group)
        help_known(t, f);
    return found;
}

void tr_man_literal(FILE *f, const char *s, int length)
{
    bool begin = true;

    for (int i = 0; i < length; i++) {
        if (begin && (s[i] == '.' || s[i] == '\''))
            fputs("\\&", f);
        if (s[i] == '\\')
            fputs("\\e", f);
        else if (s[i] == '-')
            fputs("\\-", f);
        else
            fputc(s[i], f);
        begin = s[i] == '\n';
    }
    fputc('\n', f);
}

void tr_man_filled(FILE *f, const char *s, int length)
{
    const char *end = s + length, *line = s, *space = NULL;

    /* A line ends with a sentence, or at the last blank before column 70. */
    for (const char *at = s; at < end; at++) {
        bool blank = *at == ' ' || *at == '\n';

        if (at - line > 70 && space) {
            tr_man_literal(f, line, (int)(space - line));
            line = space + 1;
            space = NULL;
        }
        if (blank && at == line) {
            line++;
        } else if (blank && at[-1] == '.') {
            tr_man_literal(f, line, (int)(at - line));
            line = at + 1;
            space = NULL;
        } else if (blank) {
            space = at;
        }
    }
    if (line < end)
        tr_man_literal(f, line, (int)(end - line));
}

static void man_row(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    char *value = tr_options_value(t, o), *text;
    const char *name, *meaning;
    bool stated = o->kind == TR_ROW_OPT && o->initial && o->type != TR_OPT_FLAG;

    text = tr_format("Fl -%s%s%s", o->name, value[0] ? " Ar " : "", value);
    fputs(".It ", f);
    tr_man_literal(f, text, (int)strlen(text));
    free(text);
    text = tr_format("%s.%s%s%s", help_of(o),
                     !stated                     ? ""
                     : o->initial == tr_required ? " Required"
                                                 : " Default: ",
                     stated && o->initial != tr_required ? o->initial : "", stated ? "." : "");
    tr_man_filled(f, text, (int)strlen(text));
    for (int i = 0; tr_options_listed(t, o, i, &name, &meaning); i++) {
        free(text);
        text = tr_format("%s: %s.", name, meaning);
        tr_man_filled(f, text, (int)strlen(text));
    }
    free(text);
    free(value);
}

void tr_options_man(const struct tr_options *t, FILE *f)
{
    bool open = false;
    char *others;

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind == TR_ROW_GROUP) {
            fprintf(f, "%s.Ss %s\n.Bl -tag -width Ds\n", open ? ".El\n" : "", o->name);
            open = true;
        } else if (shown(o)) {
            man_row(t, f, o);
        }
    }
    if (open)
        fputs(".El\n", f);
    others = known_others(t);
    if (others) {
        fprintf(f, ".Ss %s\n", known_title);
        tr_man_filled(f, others, (int)strlen(others));
    }
    free(others);
}

/* Tables of sub-verbs may hold a name twice; completion knows no sub-verbs. */
static bool listed_before(const struct tr_options *t, int row)
{
    for (int i = 0; i < row; i++) {
        if (shown(&t->row[i]) && strcmp(t->row[i].name, t->row[row].name) == 0)
            return true;
    }
    return false;
}

void tr_options_complete(const struct tr_options *t, const char *others, FILE *f)
{
    const char *name, *meaning;

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind != TR_ROW_OPT || o->type == TR_OPT_FLAG || listed_before(t, i))
            continue;
        fprintf(f, "    --%s)\n", o->name);
        if (o->type == TR_OPT_CHOICE) {
            char *value = tr_options_value(t, o);

            for (char *bar = value; *bar; bar++)
                *bar = *bar == '|' ? ' ' : *bar;
            fprintf(f, "        values='%s' ;;\n", value);
            free(value);
        } else if (tr_options_listed(t, o, 0, &name, &meaning)) {
            fputs("        values='", f);
            for (int k = 0; tr_options_listed(t, o, k, &name, &meaning); k++)
                fprintf(f, "%s%s", k ? " " : "", name);
            fputs("' ;;\n", f);
        } else {
            fprintf(f, "        values=%s ;;\n",
                    o->type == TR_OPT_TEXT || o->type == TR_OPT_WORDS ? "FILE" : "NONE");
        }
    }
    fputs("    *)\n", f);
    if (others)
        fprintf(f, "        %s\n        case $values in --*) ;; *) return ;; esac\n", others);
    fprintf(f, "        values%s='", others ? "+" : "");
    for (int i = 0, n = others != NULL; i < t->rows; i++) {
        if (shown(&t->row[i]) && !listed_before(t, i))
            fprintf(f, "%s--%s", n++ ? " " : "", t->row[i].name);
    }
    fputs("' ;;\n", f);
}
