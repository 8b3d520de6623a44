/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "report/table_parts.h"
#include "util/file.h"

int64_t tr_table_rows(const struct tr_table *t)
{
    return t->cells / t->columns;
}

char *tr_cell_text(const struct tr_cell *c)
{
    if (c->kind == TR_CELL_REAL)
        return tr_format(c->decimals < 0 ? "%.*E%s" : "%.*f%s", abs(c->decimals), c->real,
                         c->unit ? c->unit : "");
    return tr_format("%s", c->kind == TR_CELL_TEXT ? c->text : "-");
}

bool tr_table_is_empty(const struct tr_table *t, int column)
{
    for (int64_t i = 0; i < tr_table_rows(t); i++)
        if (t->cell[i * t->columns + column].kind != TR_CELL_NONE)
            return false;
    return true;
}

static bool has_text(const struct tr_table *t, int column)
{
    for (int64_t i = 0; i < tr_table_rows(t); i++)
        if (t->cell[i * t->columns + column].kind == TR_CELL_TEXT)
            return true;
    return false;
}

/* Columns in which there is nothing are left out. */
static struct tr_table_grid upright(const struct tr_table *t)
{
    int64_t rows = tr_table_rows(t);
    struct tr_table_grid g = {.rows = rows + 1};
    int *from = calloc((size_t)t->columns, sizeof *from);

    TR_ASSERT(from);
    for (int c = 0; c < t->columns; c++)
        if (!tr_table_is_empty(t, c))
            from[g.columns++] = c;
    g.text = calloc((size_t)(g.rows * g.columns) + 1, sizeof *g.text);
    g.left = calloc((size_t)g.columns + 1, sizeof *g.left);
    TR_ASSERT(g.text && g.left);
    for (int64_t c = 0; c < g.columns; c++) {
        g.left[c] = has_text(t, from[c]);
        g.text[c] = tr_processor_text(t->processor, t->column[from[c]].name);
        for (int64_t i = 0; i < rows; i++)
            g.text[(i + 1) * g.columns + c] = tr_cell_text(&t->cell[i * t->columns + from[c]]);
    }
    free(from);
    return g;
}

static struct tr_table_grid turn(struct tr_table_grid g)
{
    struct tr_table_grid h = {.rows = g.columns, .columns = g.rows};

    h.text = calloc((size_t)(h.rows * h.columns) + 1, sizeof *h.text);
    h.left = calloc((size_t)h.columns + 1, sizeof *h.left);
    TR_ASSERT(h.text && h.left);
    for (int64_t r = 0; r < h.rows; r++)
        for (int64_t c = 0; c < h.columns; c++)
            h.text[r * h.columns + c] = g.text[c * g.columns + r];
    h.left[0] = true;
    free(g.text);
    free(g.left);
    return h;
}

struct tr_table_grid tr_table_grid_of(const struct tr_table *t)
{
    struct tr_table_grid g = upright(t);

    return t->across ? turn(g) : g;
}

void tr_table_grid_release(struct tr_table_grid *g)
{
    for (int64_t i = 0; i < g->rows * g->columns; i++)
        free(g->text[i]);
    free(g->text);
    free(g->left);
}
