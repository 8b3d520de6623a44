/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/table_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "report/record.h"
#include "util/file.h"

void tr_table_init(struct tr_table *t, const char *key, const char *title,
                   const struct tr_column *column, int columns)
{
    *t = (struct tr_table){.key = key, .title = title, .column = column, .columns = columns};
}

void tr_table_release(struct tr_table *t)
{
    for (int64_t i = 0; i < t->cells; i++)
        free(t->cell[i].text);
    for (int i = 0; i < t->notes; i++)
        free(t->note[i]);
    free(t->cell);
    free(t->note);
    memset(t, 0, sizeof *t);
}

static void add(struct tr_table *t, struct tr_cell cell)
{
    t->cell = tr_grow(t->cell, t->cells, sizeof *t->cell);
    t->cell[t->cells++] = cell;
}

static char *format(const char *fmt, va_list args)
{
    char *text;

    if (vasprintf(&text, fmt, args) < 0)
        tr_die(TR_ERESOURCE, "no memory left for a table");
    return text;
}

void tr_table_text(struct tr_table *t, const char *fmt, ...)
{
    struct tr_cell cell = {.kind = TR_CELL_TEXT};
    va_list args;

    va_start(args, fmt);
    cell.text = format(fmt, args);
    va_end(args);
    if (!cell.text[0])
        cell.kind = TR_CELL_NONE;
    add(t, cell);
}

void tr_table_real(struct tr_table *t, double x, int decimals)
{
    if (isnan(x))
        tr_table_none(t);
    else if (isinf(x))
        tr_table_text(t, "%s", x < 0.0 ? "-inf" : "inf");
    else
        add(t, (struct tr_cell){.kind = TR_CELL_REAL, .real = x, .decimals = decimals});
}

void tr_table_unit(struct tr_table *t, double x, int decimals, const char *unit)
{
    tr_table_real(t, x, decimals);
    t->cell[t->cells - 1].unit = unit;
}

void tr_table_scaled(struct tr_table *t, double x, int usual)
{
    double size = fabs(x);

    tr_table_real(t, x, usual + (size < 10.0) + (size < 1.0) + (size < 0.1));
}

void tr_table_none(struct tr_table *t)
{
    add(t, (struct tr_cell){.kind = TR_CELL_NONE});
}

void tr_table_note(struct tr_table *t, const char *fmt, ...)
{
    va_list args;

    t->note = tr_grow(t->note, t->notes, sizeof *t->note);
    va_start(args, fmt);
    t->note[t->notes++] = format(fmt, args);
    va_end(args);
}

/* ---- for people ---- */

/* Characters of UTF-8, not bytes. */
static int width_of(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static int column_width(const struct tr_table_grid *g, int64_t column)
{
    int widest = 0;

    for (int64_t r = 0; r < g->rows; r++) {
        int n = width_of(g->text[r * g->columns + column]);

        widest = n > widest ? n : widest;
    }
    return widest;
}

static void pad(FILE *f, int n)
{
    for (int i = 0; i < n; i++)
        fputc(' ', f);
}

static void write_aligned(const struct tr_table_grid *g, int64_t row, const int *width,
                          const char *before, const char *between, const char *after, FILE *f)
{
    fputs(before, f);
    for (int64_t c = 0; c < g->columns; c++) {
        const char *s = g->text[row * g->columns + c];
        int blanks = width[c] - width_of(s);

        fputs(c ? between : "", f);
        pad(f, g->left[c] ? 0 : blanks);
        fputs(s, f);
        pad(f, g->left[c] && (c + 1 < g->columns || *after) ? blanks : 0);
    }
    fprintf(f, "%s\n", after);
}

static int *widths(const struct tr_table_grid *g, int least)
{
    int *width = calloc((size_t)g->columns + 1, sizeof *width);

    TR_ASSERT(width);
    for (int64_t c = 0; c < g->columns; c++) {
        width[c] = column_width(g, c);
        width[c] = width[c] < least ? least : width[c];
    }
    return width;
}

static void write_text(const struct tr_table *t, FILE *f)
{
    struct tr_table_grid g = tr_table_grid_of(t);
    int *width = widths(&g, 0);

    fprintf(f, "%s\n\n", t->title);
    for (int64_t r = 0; r < g.rows; r++)
        write_aligned(&g, r, width, "  ", "  ", "", f);
    if (t->notes)
        fputc('\n', f);
    for (int i = 0; i < t->notes; i++)
        fprintf(f, "  %s\n", t->note[i]);
    free(width);
    tr_table_grid_release(&g);
}

static void write_markdown(const struct tr_table *t, FILE *f)
{
    struct tr_table_grid g = tr_table_grid_of(t);
    int *width = widths(&g, 3);

    fprintf(f, "## %s\n\n", t->title);
    write_aligned(&g, 0, width, "| ", " | ", " |", f);
    for (int64_t c = 0; c < g.columns; c++) {
        fputs(c ? " | " : "| ", f);
        for (int i = 0; i < width[c] - 1; i++)
            fputc('-', f);
        fputc(g.left[c] ? '-' : ':', f);
    }
    fputs(" |\n", f);
    for (int64_t r = 1; r < g.rows; r++)
        write_aligned(&g, r, width, "| ", " | ", " |", f);
    for (int i = 0; i < t->notes; i++)
        fprintf(f, "%s- %s\n", i ? "" : "\n", t->note[i]);
    free(width);
    tr_table_grid_release(&g);
}

/* ---- for programs ---- */

static void put_csv(const char *s, FILE *f)
{
    if (!s[strcspn(s, ",\"\n\r")]) {
        fputs(s, f);
        return;
    }
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static void write_csv(const struct tr_table *t, FILE *f)
{
    for (int c = 0; c < t->columns; c++)
        fprintf(f, "%s%s", c ? "," : "", t->column[c].key);
    fputs("\r\n", f);
    for (int64_t i = 0; i < t->cells; i++) {
        const struct tr_cell *c = &t->cell[i];

        if (i % t->columns)
            fputc(',', f);
        if (c->kind == TR_CELL_TEXT)
            put_csv(c->text, f);
        else if (c->kind == TR_CELL_REAL && c->unit)
            fprintf(f, "%.*f%s", c->decimals, c->real, c->unit);
        else if (c->kind == TR_CELL_REAL)
            fprintf(f, "%.10g", c->real);
        if (i % t->columns == t->columns - 1)
            fputs("\r\n", f);
    }
}

static json_t *json_cell(const struct tr_cell *c)
{
    if (c->kind == TR_CELL_TEXT || c->unit) {
        char *shown = tr_cell_text(c);
        json_t *text = json_string(shown);

        free(shown);
        /* NULL for bytes that are no UTF-8. */
        return text ? text : json_string("?");
    }
    if (c->real >= -0x1p53 && c->real <= 0x1p53 && rint(c->real) == c->real)
        return json_integer((json_int_t)c->real);
    return json_real(c->real);
}

static json_t *json_of(const struct tr_table *t)
{
    json_t *rows = json_array(), *notes = json_array(), *all = json_object();

    for (int64_t r = 0; r < tr_table_rows(t); r++) {
        json_t *row = json_object();

        for (int c = 0; c < t->columns; c++)
            if (t->cell[r * t->columns + c].kind != TR_CELL_NONE)
                json_object_set_new(row, t->column[c].key, json_cell(&t->cell[r * t->columns + c]));
        json_array_append_new(rows, row);
    }
    for (int i = 0; i < t->notes; i++)
        json_array_append_new(notes, json_string(t->note[i]));
    json_object_set_new(all, "rows", rows);
    json_object_set_new(all, "notes", notes);
    return all;
}

static void write_json(const struct tr_table *t, int count, FILE *f)
{
    json_t *all = json_object();

    json_object_set_new(all, "schema", json_integer(1));
    for (int i = 0; i < count; i++)
        if (t[i].cells > 0)
            json_object_set_new(all, t[i].key, json_of(&t[i]));
    json_dumpf(all, f, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    fputc('\n', f);
    json_decref(all);
}

void tr_tables_write(const struct tr_table *t, int count, enum tr_table_format format, FILE *f)
{
    static void (*const write[])(const struct tr_table *table, FILE *to) = {
        [TR_TABLE_TEXT] = write_text,      [TR_TABLE_MARKDOWN] = write_markdown,
        [TR_TABLE_CSV] = write_csv,        [TR_TABLE_HTML] = tr_table_html,
        [TR_TABLE_LATEX] = tr_table_latex,
    };
    int written = 0;

    if (format == TR_TABLE_JSON) {
        write_json(t, count, f);
        return;
    }
    if (format == TR_TABLE_HTML)
        tr_html_begin("trireme report", f);
    if (format == TR_TABLE_LATEX)
        fputs("% \\usepackage{booktabs}\n", f);
    for (int i = 0; i < count; i++) {
        if (t[i].cells == 0)
            continue;
        if (written++)
            fputs(format == TR_TABLE_CSV ? "\r\n" : "\n", f);
        write[format](&t[i], f);
    }
    if (format == TR_TABLE_HTML)
        tr_html_end(f);
}
