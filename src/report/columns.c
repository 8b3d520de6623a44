/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "report/agree.h"
#include "util/file.h"
#include "util/text.h"

enum {
#define COLUMN(symbol, kind, name, header, note, put) COLUMN_##symbol,
#include "report/columns.def"
    COLUMNS
};

static const struct {
    enum tr_column_kind kind;
    const char *name, *header, *note, *low, *high;
} known[COLUMNS] = {
#define COLUMN(symbol, kind, name, header, note, put) \
    {TR_COLUMN_##kind, name, header, note, name "_low", name "_high"},
#include "report/columns.def"
};

static const struct {
    const char *name, *columns;
} presets[] = {
#define PRESET(name, columns) {name, columns},
#include "report/columns.def"
};

/* ---- which ---- */

static char *all_names(void)
{
    char *names = NULL;

    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        names = tr_text_join(names, ", ", presets[i].name);
    names = tr_text_join(names, ", ", "or some of");
    for (int i = 0; i < COLUMNS; i++)
        names = tr_text_join(names, i > 0 ? ", " : " ", known[i].name);
    return names;
}

static enum tr_status unknown(const char *option, const char *name)
{
    char *names = all_names();
    enum tr_status s =
        TR_FAIL(TR_ECONFIG, "%s: there is no column '%s', so the table cannot be made; give %s",
                option, name, names);

    free(names);
    return s;
}

static int find(const char *name)
{
    for (int i = 0; i < COLUMNS; i++)
        if (strcasecmp(known[i].name, name) == 0)
            return i;
    return -1;
}

bool tr_columns_have(const struct tr_columns *c, int which)
{
    for (int i = 0; i < c->count; i++)
        if (c->which[i] == which)
            return true;
    return false;
}

/* The columns of a preset, or NULL. */
static const char *preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcasecmp(presets[i].name, name) == 0)
            return presets[i].columns;
    return NULL;
}

/* With the columns of presets in place of their names; owned by the caller. */
static char *unfold(const char *list)
{
    char *copy = tr_format("%s", list), *rest = copy, *all = NULL;

    while (rest) {
        char *word = strsep(&rest, ","), *end = word + strlen(word);
        const char *columns;

        while (end > word && end[-1] == ' ')
            *--end = '\0';
        word += strspn(word, " ");
        columns = preset(word);
        all = tr_text_join(all, ",", columns ? columns : word);
    }
    free(copy);
    return all;
}

/* "NAME" or "NAME=HEADER", which is cut in two. */
static enum tr_status add(struct tr_columns *c, const char *option, char *word)
{
    char *header = strchr(word, '=');
    int which;

    if (header)
        *header++ = '\0';
    which = find(word);
    if (which < 0)
        return unknown(option, word);
    if (tr_columns_have(c, which))
        return TR_FAIL(TR_ECONFIG,
                       "%s has %s twice, and programs could not tell the two apart; give it once",
                       option, word);
    if (header && !*header)
        return TR_FAIL(TR_ECONFIG, "%s: %s= has no header; give one, or leave out the =", option,
                       word);
    c->head = tr_grow(c->head, c->count, sizeof *c->head);
    c->which = tr_grow(c->which, c->count, sizeof *c->which);
    c->head[c->count] =
        (struct tr_column){known[which].name, header ? header : known[which].header};
    c->which[c->count++] = which;
    return TR_OK;
}

enum tr_status tr_columns_parse(const char *option, const char *list, struct tr_columns *out)
{
    char *rest;

    *out = (struct tr_columns){.list = unfold(list)};
    rest = out->list;
    while (rest)
        TR_TRY(add(out, option, strsep(&rest, ",")));
    return TR_OK;
}

enum tr_column_kind tr_column_kind_of(int which)
{
    return known[which].kind;
}

struct tr_column tr_column_bound(int which, bool high)
{
    return high ? (struct tr_column){known[which].high, "to"}
                : (struct tr_column){known[which].low, "from"};
}

void tr_columns_release(struct tr_columns *c)
{
    free(c->head);
    free(c->which);
    free(c->list);
    *c = (struct tr_columns){0};
}

/* ---- cells ---- */

static void put_fact(struct tr_table *t, const struct tr_record *r, enum tr_fact f)
{
    tr_table_real(t, tr_record_fact(r, f), 0);
}

static void put_size(struct tr_table *t, const struct tr_summary *s)
{
    char size[16];

    tr_model_size(s->parameters, size);
    tr_table_text(t, "%s", size);
}

static void put_notes(struct tr_table *t, const struct tr_record *r, const struct tr_summary *s)
{
    int end = tr_record_end(r);

    if (r->origin != TR_ORIGIN_MEASURED)
        tr_table_text(t, "%s%s%s", tr_run_origin_text(r->origin),
                      *r->machine ? " on " : ", no machine", r->machine);
    else if (r->rows == 0)
        tr_table_text(t, "failed: %s", tr_end_text(end));
    else if (end != TR_END_UNKNOWN && !tr_end_orderly(end))
        tr_table_text(t, "%" PRId64 " iterations, then %s", s->last, tr_end_text(end));
    else
        tr_table_text(t, "%s", r->start[r->starts - 1].ended);
}

static void put_agree(struct tr_table *t, const struct tr_records *all, const struct tr_record *r)
{
    char text[TR_AGREE_BYTES];

    tr_table_text(t, "%s", tr_agree_text(tr_agree(all, r), text));
}

static void put_cell(int which, const struct tr_records *all, const struct tr_record *r,
                     const struct tr_summary *s, struct tr_table *t)
{
    switch (which) {
#define COLUMN(symbol, kind, name, header, note, put) \
    case COLUMN_##symbol:                             \
        put;                                          \
        break;
#include "report/columns.def"
    default:
        TR_ASSERT(false);
    }
}

void tr_columns_row(const struct tr_columns *c, const struct tr_records *all,
                    const struct tr_record *r, const struct tr_summary *s, struct tr_table *t)
{
    for (int i = 0; i < c->count; i++)
        put_cell(c->which[i], all, r, s, t);
}

static bool is_seen(const struct tr_table *t, const char *key)
{
    for (int i = 0; i < t->columns; i++)
        if (strcmp(t->column[i].key, key) == 0)
            return !tr_table_is_empty(t, i);
    return false;
}

void tr_columns_note(const struct tr_columns *c, struct tr_table *t)
{
    char *all = NULL;

    for (int i = 0; i < c->count; i++) {
        const char *note = known[c->which[i]].note;
        char *one = *note && is_seen(t, c->head[i].key)
                        ? tr_format("%s: %s.", c->head[i].name, note)
                        : NULL;

        all = one ? tr_text_join(all, "  ", one) : all;
        free(one);
    }
    if (all) {
        char *text = tr_processor_text(t->processor, all);

        tr_table_note(t, "%s", text);
        free(text);
    }
    free(all);
}
