/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "config/option.h"
#include "port/port.h"
#include "util/file.h"
#include "util/text.h"

static const char *const dialects[] = {
    [TR_DIALECT_AUTO] = "an unknown program",
    [TR_DIALECT_MEGATRON] = "Megatron-LM",
    [TR_DIALECT_DEEPSPEED] = "Megatron-DeepSpeed",
    [TR_DIALECT_COCKTAIL] = "CocktailSGD",
    [TR_DIALECT_ACSGD] = "AC-SGD",
    [TR_DIALECT_YUAN] = "YuanGenerativeLM",
};

/* The order in which people read what becomes of options. */
static const struct {
    enum tr_port_kind kind;
    const char *title;
} sections[] = {
    {TR_PORT_REFUSED, "refused: this program does not do it"},
    {TR_PORT_UNKNOWN, "unknown: neither program has it"},
    {TR_PORT_OPEN, "open: only a running shell knows the value"},
    {TR_PORT_IGNORED, "ignored: nothing follows from it"},
    {TR_PORT_GIVEN, "given: it is done anyway"},
    {TR_PORT_DONE, "done"},
};

/* "    TEXT: WHY", broken before the margin. */
static void print_line(FILE *f, const char *text, const char *why)
{
    char *all = tr_format("%s%s%s", text, why ? ": " : "", why ? why : "");

    fprintf(f, "    ");
    tr_options_wrap(f, 4, all);
    free(all);
}

static void print_item(const struct tr_port_item *i, FILE *f)
{
    if (i->kind == TR_PORT_DONE && i->other) {
        char *both = tr_format("%s (theirs: %s)", i->ours, i->theirs);

        print_line(f, both, i->why);
        free(both);
    } else {
        print_line(f, i->kind == TR_PORT_DONE ? i->ours : i->theirs,
                   i->kind == TR_PORT_GIVEN ? NULL : i->why);
    }
}

static void print_list(const struct tr_list *l, const char *title, const char *prefix, FILE *f)
{
    if (l->count)
        fprintf(f, "\n%s\n", title);
    for (int i = 0; i < l->count; i++) {
        char *text = tr_format("%s%s", prefix, l->item[i]);

        print_line(f, text, NULL);
        free(text);
    }
}

static void print_head(const struct tr_port *p, const char *file, FILE *f)
{
    if (p->program)
        fprintf(f, "%s, line %d: options of %s for %s\n", file, p->line, dialects[p->dialect],
                tr_basename(p->program));
    else
        fprintf(f, "%s: a list of options of %s\n", file, dialects[p->dialect]);
    if (p->others)
        fprintf(f, "%d other command%s of it train%s too and %s not read\n", p->others,
                tr_plural(p->others), p->others == 1 ? "s" : "", p->others == 1 ? "was" : "were");
}

void tr_port_print(const struct tr_port *p, const char *file, FILE *f)
{
    print_head(p, file, f);
    for (size_t s = 0; s < sizeof sections / sizeof sections[0]; s++) {
        if (p->count[sections[s].kind])
            fprintf(f, "\n%s\n", sections[s].title);
        for (int i = 0; i < p->items; i++) {
            if (p->item[i].kind == sections[s].kind)
                print_item(&p->item[i], f);
        }
    }
    print_list(&p->started, "how it is started", "", f);
    print_list(&p->added, "added: what it does without an option", "", f);
    print_list(&p->taken, "variables that it reads", "", f);
    print_list(&p->missing, "missing: `trireme train` needs it", "--", f);
    print_list(&p->script.sourced, "files that the script reads and that were not followed", "", f);
    print_list(&p->script.notes, "notes", "", f);
    fputc('\n', f);
    for (int k = 0; k < TR_PORT_KINDS; k++)
        fprintf(f, "%s%d %s", k ? ", " : "", p->count[k], tr_port_kind_name((enum tr_port_kind)k));
    fprintf(f, "; %d missing\n", p->missing.count);
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *list_of(const struct tr_list *l)
{
    json_t *all = json_array();

    for (int i = 0; i < l->count; i++)
        json_array_append_new(all, text_or_null(l->item[i]));
    return all;
}

json_t *tr_port_json(const struct tr_port *p, const char *file)
{
    json_t *all = json_object(), *items = json_array(), *counts = json_object();

    for (int i = 0; i < p->items; i++) {
        const struct tr_port_item *it = &p->item[i];
        json_t *one = json_object();

        json_object_set_new(one, "kind", json_string(tr_port_kind_name(it->kind)));
        json_object_set_new(one, "theirs", text_or_null(it->theirs));
        json_object_set_new(one, "ours", text_or_null(it->ours));
        json_object_set_new(one, "why", text_or_null(it->why));
        json_array_append_new(items, one);
    }
    for (int k = 0; k < TR_PORT_KINDS; k++)
        json_object_set_new(counts, tr_port_kind_name((enum tr_port_kind)k),
                            json_integer(p->count[k]));
    json_object_set_new(all, "file", text_or_null(file));
    json_object_set_new(all, "format", json_string(dialects[p->dialect]));
    json_object_set_new(all, "program", text_or_null(p->program));
    json_object_set_new(all, "line", json_integer(p->line));
    json_object_set_new(all, "others", json_integer(p->others));
    json_object_set_new(all, "options", items);
    json_object_set_new(all, "counts", counts);
    json_object_set_new(all, "added", list_of(&p->added));
    json_object_set_new(all, "started", list_of(&p->started));
    json_object_set_new(all, "taken", list_of(&p->taken));
    json_object_set_new(all, "missing", list_of(&p->missing));
    json_object_set_new(all, "sourced", list_of(&p->script.sourced));
    json_object_set_new(all, "notes", list_of(&p->script.notes));
    return all;
}

static void add_text(struct tr_gathering *g, const char *text)
{
    tr_gather(g, text, strlen(text));
}

/* A line of the file; in a comment, a text of several lines would leave it. */
static void add_row(struct tr_gathering *g, const char *before, const char *text, const char *after)
{
    char *line = tr_format("%s%s%s", before, text, after);

    for (char *s = line; before[0] == '#' && *s; s++)
        *s = *s == '\n' || *s == '\r' ? ' ' : *s;
    add_text(g, line);
    add_text(g, "\n");
    free(line);
}

char *tr_port_args(const struct tr_port *p, const char *file)
{
    struct tr_gathering g = {0};

    add_row(&g, "# Made by `trireme port` from ", file, ".");
    for (int i = 0; i < p->items; i++) {
        const struct tr_port_item *it = &p->item[i];

        if (it->kind == TR_PORT_DONE)
            add_row(&g, "", it->ours, "");
        else if (it->kind == TR_PORT_OPEN)
            add_row(&g, "# ", it->ours, "    (give its value)");
        else if (it->kind == TR_PORT_REFUSED || it->kind == TR_PORT_UNKNOWN)
            add_row(&g, "# not done: ", it->theirs, "");
    }
    for (int i = 0; i < p->added.count; i++)
        add_row(&g, "", p->added.item[i], "");
    for (int i = 0; i < p->missing.count; i++)
        add_row(&g, "# missing: --", p->missing.item[i], "");
    return tr_gathered(&g);
}
