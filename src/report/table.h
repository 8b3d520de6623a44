/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_TABLE_H
#define TR_REPORT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/processor.h"
#include "util/status.h"

/*
 * A table of texts and numbers, and how it is written: for people, for documents, for programs.
 * Cells are added from left to right, row by row.  Numbers have a point whatever the locale,
 * because this program never leaves that of C; programs get all digits, people those that count.
 */
enum tr_table_format {
    TR_TABLE_TEXT, /* columns in line */
    TR_TABLE_MARKDOWN,
    TR_TABLE_CSV,  /* RFC 4180, one table after the other, an empty line between; no notes */
    TR_TABLE_JSON, /* {"schema": 1, "NAME": {"rows": [{...}], "notes": [...]}, ...}; nothing is null
                    */
    TR_TABLE_HTML, /* a page that needs no other file */
    TR_TABLE_LATEX /* floats with the package booktabs, numbers aligned at their points; notes are comments */
};

struct tr_column {
    const char *key, *name; /* for programs, and for people, unit included */
};

struct tr_cell {
    enum { TR_CELL_NONE, TR_CELL_TEXT, TR_CELL_REAL } kind;
    char *text; /* owned */
    double real;
    int decimals;     /* that people see; negative: so many in scientific notation */
    const char *unit; /* behind the number, for programs too; NULL: none.  Borrowed */
};

struct tr_table {
    const char *key, *title;
    enum tr_processor processor; /* of its runs: its noun stands for "{GPU}" in names of columns */
    bool across; /* people see a row as a column: there are more columns than rows */
    const struct tr_column *column;
    int columns;
    struct tr_cell *cell;
    int64_t cells;
    char **note; /* owned; sentences about it */
    int notes;
};

/* An empty table; `column` and the texts are borrowed for its life. */
void tr_table_init(struct tr_table *t, const char *key, const char *title,
                   const struct tr_column *column, int columns);
void tr_table_release(struct tr_table *t);

/* The next cell.  A number that is NAN is an empty cell, one that is infinite a text. */
void tr_table_text(struct tr_table *t, const char *fmt, ...) TR_PRINTF(2, 3);
void tr_table_real(struct tr_table *t, double x, int decimals);
/* With more digits the smaller it is, `usual` from 10 on, so that a small number has some that count. */
void tr_table_scaled(struct tr_table *t, double x, int usual);
/* With its unit, as in "430ms". */
void tr_table_unit(struct tr_table *t, double x, int decimals, const char *unit);
void tr_table_none(struct tr_table *t);

/* Is there nothing in a column?  People do not see it then. */
bool tr_table_is_empty(const struct tr_table *t, int column);

void tr_table_note(struct tr_table *t, const char *fmt, ...) TR_PRINTF(2, 3);

/* Write tables that have rows. */
void tr_tables_write(const struct tr_table *t, int count, enum tr_table_format format, FILE *f);

#endif
