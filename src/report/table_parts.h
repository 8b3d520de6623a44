/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_TABLE_PARTS_H
#define TR_REPORT_TABLE_PARTS_H

#include "report/table.h"

/* What the writers of tables share: table.c, table_html.c, table_latex.c. */

int64_t tr_table_rows(const struct tr_table *t);

/* What people see of a cell; owned by the caller. */
char *tr_cell_text(const struct tr_cell *c);

/* The texts of a table, the first row of which is the heading: without columns in which there is nothing, and
   turned if the table is to be seen so. */
struct tr_table_grid {
    int64_t rows, columns;
    char **text; /* [rows * columns], owned */
    bool *left;  /* [columns]: it holds texts */
};

struct tr_table_grid tr_table_grid_of(const struct tr_table *t);
void tr_table_grid_release(struct tr_table_grid *g);

/* A page of HTML begins and ends; what is in between is tables, and texts in which nothing is markup. */
void tr_html_begin(const char *title, FILE *f);
void tr_html_text(const char *s, FILE *f);
/* A paragraph, in which `words` between backticks are code. */
void tr_html_sentence(const char *s, FILE *f);
void tr_html_end(FILE *f);

void tr_table_html(const struct tr_table *t, FILE *f);
void tr_table_latex(const struct tr_table *t, FILE *f);

#endif
