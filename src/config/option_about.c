/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/file.h"

enum { INDENT = 4 };

/* "  text" in lines; takes the text. */
static void line(FILE *f, char *text)
{
    fprintf(f, "%*s", INDENT, "");
    tr_options_wrap(f, INDENT, text);
    free(text);
}

/* The values of a choice with what is said to some: other spellings and refused ones. */
static void about_choice(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    char *main = tr_options_value(t, o);

    for (char *s = main; *s; s++)
        *s = *s == '|' ? ' ' : *s;
    line(f, tr_format("one of: %s", main));
    free(main);
    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (strcmp(s->set, o->set) != 0 || s->kind == TR_SPELLING_MAIN)
            continue;
        if (s->kind == TR_SPELLING_REFUSED)
            line(f, tr_format("not %s: %s", s->spelling, s->why));
        else
            line(f, tr_format("%s is %s", s->spelling, tr_options_spelling(t, o->set, s->value)));
    }
}

/* One value to a line, with what it means. */
static void about_listed(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    enum { COLUMN = 14 };
    const char *value, *meaning;

    line(f, tr_format("one of:"));
    for (int i = 0; tr_options_listed(t, o, i, &value, &meaning); i++) {
        fprintf(f, "%*s%-*s ", INDENT + 2, "", COLUMN, value);
        tr_options_wrap(f, INDENT + 2 + COLUMN + 1, meaning);
    }
}

static void about_type(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    static const char *const names[] = {
        [TR_OPT_INT] = "a whole number",
        [TR_OPT_REAL] = "a number",
        [TR_OPT_MINUTES] = "minutes, or a number followed by s, m or h,",
        [TR_OPT_FLAG] = "it takes no value",
        [TR_OPT_TEXT] = "a text",
        [TR_OPT_WORDS] = "one or more words",
        [TR_OPT_CHOICE] = "",
    };
    const char *value, *meaning;

    if (o->type == TR_OPT_CHOICE)
        about_choice(t, f, o);
    else if (tr_options_listed(t, o, 0, &value, &meaning))
        about_listed(t, f, o);
    else
        line(f, tr_format("%s%s", names[o->type], tr_options_range(o)));
}

static void about_default(FILE *f, const struct tr_opt *o)
{
    if (o->initial == tr_required)
        line(f, tr_format("it must be given"));
    else if (o->initial)
        line(f, tr_format("default: %s", o->initial));
    else if (o->type == TR_OPT_FLAG)
        line(f, tr_format("default: off"));
}

/* Other names of the field, and what switches it off. */
static void about_names(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    char *all = NULL;

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *r = &t->row[i];

        if (r->kind == TR_ROW_OFF && o->kind == TR_ROW_OPT && r->offset == o->offset)
            line(f, tr_format("off: --%s", r->name));
        if (r->kind != TR_ROW_ALIAS || r->offset != o->offset || o->kind == TR_ROW_OFF)
            continue;
        char *longer = tr_format("%s%s--%s", all ? all : "", all ? ", " : "", r->name);
        free(all);
        all = longer;
    }
    if (all)
        line(f, tr_format("other names: %s", all));
    free(all);
}

static const char *title_of(const struct tr_options *t, const char *group)
{
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind == TR_ROW_GROUP && strcmp(t->row[i].group, group) == 0)
            return t->row[i].name;
    }
    return group;
}

static void about_row(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    char *value = tr_options_value(t, o);

    fprintf(f, "--%s%s%s\n", o->name, value[0] ? " " : "", value);
    free(value);
    line(f, tr_options_says(t, o));
    if (o->kind == TR_ROW_OPT) {
        about_type(t, f, o);
        about_default(f, o);
    }
    about_names(t, f, o);
    if (o->help[0] == '+')
        line(f, tr_format("it is not an option of Megatron-LM"));
    line(f, tr_format("group: %s", title_of(t, o->group)));
}

/* A row of a name that sets nothing. */
static void about_other(const struct tr_options *t, FILE *f, const struct tr_opt *o)
{
    char *says = tr_options_says(t, o);

    fprintf(f, "--%s\n", o->name);
    line(f, says);
}

char *tr_options_says(const struct tr_options *t, const struct tr_opt *o)
{
    const struct tr_opt *main;

    switch (o->kind) {
    case TR_ROW_ALIAS:
        main = tr_options_find(t, o->name);
        return tr_format("another name of --%s: %s", main->name,
                         main->help + strspn(main->help, "+ "));
    case TR_ROW_IGNORED:
        return tr_format("accepted without effect: %s", o->help);
    case TR_ROW_GIVEN:
        return tr_format("accepted with %s, which is done anyway; else refused: %s", o->initial,
                         o->help);
    case TR_ROW_REFUSED:
        return tr_format("refused: %s", o->help);
    default:
        return tr_format("%s", o->help + strspn(o->help, "+ "));
    }
}

enum tr_status tr_options_about(const struct tr_options *t, FILE *f, const char *name)
{
    const char *bare = name + (strncmp(name, "--", 2) == 0 ? 2 : 0);
    const struct tr_opt *o = tr_options_row(t, bare);

    if (!o)
        return tr_options_unknown(t, bare, "");
    if (o->kind == TR_ROW_ALIAS) {
        fprintf(f, "--%s is --%s\n\n", o->name, tr_options_find(t, bare)->name);
        o = tr_options_find(t, bare);
    }
    if (o->kind == TR_ROW_OPT || o->kind == TR_ROW_OFF)
        about_row(t, f, o);
    else
        about_other(t, f, o);
    return TR_OK;
}

/* Does a word of `text` begin with `part`, in any case? */
static bool begins_word(const char *text, const char *part)
{
    for (const char *at = text; *at; at++) {
        if ((at == text || at[-1] == ' ') && strncasecmp(at, part, strlen(part)) == 0)
            return true;
    }
    return false;
}

/* All titles in one sentence; owned by the caller. */
static char *titles(const struct tr_options *t)
{
    char *all = tr_format("%s", "");

    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].kind != TR_ROW_GROUP)
            continue;
        char *longer = tr_format("%s%s%s", all, all[0] ? ", " : "", t->row[i].name);
        free(all);
        all = longer;
    }
    return all;
}

const char *tr_options_group(const struct tr_options *t, const char *text)
{
    const struct tr_opt *found = NULL;
    int n = 0;

    for (int i = 0; i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind != TR_ROW_GROUP)
            continue;
        if (strcasecmp(o->group, text) == 0 || strcasecmp(o->name, text) == 0)
            return o->group;
        if (*text && (begins_word(o->group, text) || begins_word(o->name, text))) {
            found = o;
            n++;
        }
    }
    if (n == 1)
        return found->group;
    char *all = titles(t);
    TR_ASSERT(TR_FAIL(TR_ECONFIG, "'%s' is %s group of options of %s; there are: %s", text,
                      n ? "the beginning of more than one" : "no", t->verb, all) == TR_ECONFIG);
    free(all);
    return NULL;
}
