/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/present_parts.h"

/* ---- columns ---- */

static void add_head(struct tr_groups *g, struct tr_column c)
{
    g->head = tr_grow(g->head, g->columns, sizeof *g->head);
    g->head[g->columns++] = c;
}

static void add_heads(struct tr_groups *g)
{
    for (int i = 0; i < g->by.count; i++)
        add_head(g, g->by.head[i]);
    add_head(g, (struct tr_column){"runs", "Runs"});
    add_head(g, (struct tr_column){"failed", "Failed"});
    for (int i = 0; i < g->shown.count; i++) {
        const int which = g->shown.which[i];

        if (tr_columns_have(&g->by, which))
            continue;
        add_head(g, g->shown.head[i]);
        for (int high = 0; high < 2 && tr_column_kind_of(which) == TR_COLUMN_MEASURED; high++)
            add_head(g, tr_column_bound(which, high));
    }
}

enum tr_status tr_groups_parse(const char *by, const char *shown, struct tr_groups *out)
{
    *out = (struct tr_groups){0};
    TR_TRY(tr_columns_parse("--group-by", by, &out->by));
    for (int i = 0; i < out->by.count; i++)
        if (tr_column_kind_of(out->by.which[i]) == TR_COLUMN_MEASURED)
            return TR_FAIL(TR_ECONFIG,
                           "--group-by %s: it is measured, so that no two runs have the same and "
                           "each would be a group of its own; give columns of the layout, as "
                           "gpus,tp,pp,mbs",
                           out->by.head[i].key);
    TR_TRY(tr_columns_parse("--columns", shown, &out->shown));
    add_heads(out);
    return TR_OK;
}

void tr_groups_release(struct tr_groups *g)
{
    tr_columns_release(&g->by);
    tr_columns_release(&g->shown);
    free(g->head);
    *g = (struct tr_groups){0};
}

/* ---- groups of the rows of a table of all runs ---- */

struct grouping {
    const struct tr_cell *cell; /* [runs][width]: columns `by`, then `shown` */
    int runs, width, keys;
    int *group;   /* [runs]: the first run that has the same keys */
    bool *counts; /* [runs] */
    double sure;  /* the least of any interval */
};

static bool same_cell(const struct tr_cell *a, const struct tr_cell *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == TR_CELL_TEXT)
        return strcmp(a->text, b->text) == 0;
    return a->kind == TR_CELL_NONE || (!(a->real < b->real) && !(a->real > b->real));
}

static const struct tr_cell *cell_at(const struct grouping *g, int run, int column)
{
    return &g->cell[(size_t)run * (size_t)g->width + (size_t)column];
}

static int first_like(const struct grouping *g, int run)
{
    for (int i = 0; i < run; i++) {
        int k = 0;

        while (k < g->keys && same_cell(cell_at(g, i, k), cell_at(g, run, k)))
            k++;
        if (k == g->keys)
            return i;
    }
    return run;
}

static void put_cell(struct tr_table *t, const struct tr_cell *c)
{
    if (c->kind == TR_CELL_TEXT)
        tr_table_text(t, "%s", c->text);
    else
        tr_table_unit(t, c->kind == TR_CELL_REAL ? c->real : NAN, c->decimals, c->unit);
}

/* What all runs of the group have, or nothing. */
static void put_common(struct tr_table *t, const struct grouping *g, int group, int column)
{
    const struct tr_cell *first = cell_at(g, group, column);

    for (int i = group; i < g->runs; i++)
        if (g->group[i] == group && !same_cell(first, cell_at(g, i, column))) {
            tr_table_none(t);
            return;
        }
    put_cell(t, first);
}

/* Median and interval.  A single run says nothing of how much another would differ. */
static void put_measured(struct tr_table *t, struct grouping *g, int group, int column)
{
    double *x = calloc((size_t)g->runs, sizeof *x);
    struct tr_order o;
    struct tr_cell like = {0};
    int64_t n = 0;

    TR_ASSERT(x);
    for (int i = group; i < g->runs; i++) {
        const struct tr_cell *c = cell_at(g, i, column);

        if (g->group[i] != group || c->kind != TR_CELL_REAL)
            continue;
        like = *c;
        x[n++] = c->real;
    }
    o = tr_order_of(x, n);
    tr_table_unit(t, o.median, like.decimals, like.unit);
    tr_table_unit(t, n > 1 ? o.low : NAN, like.decimals, like.unit);
    tr_table_unit(t, n > 1 ? o.high : NAN, like.decimals, like.unit);
    g->sure = n > 1 ? fmin(g->sure, o.sure) : g->sure;
    free(x);
}

static void put_group(struct tr_table *t, struct grouping *g, const struct tr_groups *c, int group)
{
    int runs = 0, failed = 0;

    for (int i = group; i < g->runs; i++) {
        runs += g->group[i] == group && g->counts[i];
        failed += g->group[i] == group && !g->counts[i];
    }
    for (int k = 0; k < g->keys; k++)
        put_cell(t, cell_at(g, group, k));
    tr_table_real(t, runs, 0);
    tr_table_real(t, failed > 0 ? (double)failed : NAN, 0);
    for (int i = 0; i < c->shown.count; i++) {
        if (tr_columns_have(&c->by, c->shown.which[i]))
            continue;
        if (tr_column_kind_of(c->shown.which[i]) == TR_COLUMN_MEASURED)
            put_measured(t, g, group, g->keys + i);
        else
            put_common(t, g, group, g->keys + i);
    }
}

static void fill_cells(const struct tr_present *p, struct tr_table *cells, struct grouping *g)
{
    for (int i = 0; i < p->runs->count; i++) {
        struct tr_summary s;

        tr_present_summarize(p, &p->runs->list[i], &s);
        tr_columns_row(&p->groups->by, p->runs, &p->runs->list[i], &s, cells);
        tr_columns_row(&p->groups->shown, p->runs, &p->runs->list[i], &s, cells);
        g->counts[i] = s.counted > 0;
    }
    g->cell = cells->cell;
    for (int i = 0; i < p->runs->count; i++)
        g->group[i] = first_like(g, i);
}

void tr_present_groups(const struct tr_present *p, struct tr_table *t)
{
    const struct tr_groups *c = p->groups;
    struct grouping g = {.runs = p->runs->count,
                         .width = c->by.count + c->shown.count,
                         .keys = c->by.count,
                         .sure = 1.0};
    struct tr_table cells;

    g.group = calloc((size_t)g.runs + 1, sizeof *g.group);
    g.counts = calloc((size_t)g.runs + 1, sizeof *g.counts);
    TR_ASSERT(g.group && g.counts);
    tr_table_init(&cells, "", "", NULL, g.width);
    fill_cells(p, &cells, &g);
    tr_table_init(t, "groups", "Groups of runs", c->head, c->columns);
    t->processor = tr_records_processor(p->runs);
    for (int i = 0; i < g.runs; i++)
        if (g.group[i] == i)
            put_group(t, &g, c, i);
    if (g.sure < 1.0)
        tr_table_note(t,
                      "Medians over the runs of a group.  From, to: an interval that holds the "
                      "median of all repetitions there could be with %.1f %% or more, by order "
                      "statistics.",
                      100.0 * g.sure);
    tr_columns_note(&c->shown, t);
    tr_present_note_warmup(p, t);
    tr_table_release(&cells);
    free(g.group);
    free(g.counts);
}
