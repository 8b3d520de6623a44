/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_COLUMNS_H
#define TR_REPORT_COLUMNS_H

#include "report/summary.h"
#include "report/table.h"

/* Columns of the table of runs, those of columns.def that were chosen, in this order. */
struct tr_columns {
    struct tr_column *head; /* [count], owned; their headers lie in `list` */
    int *which;             /* [count] rows of columns.def, owned */
    int count;
    char *list; /* owned */
};

/* `list` is "NAME[=HEADER],...", capital letters or not, in which the name of a preset stands for its columns.  TR_ECONFIG
   for a name that columns.def lacks, an empty header and a column that is there twice; the sentence names the
   option.  *out is released by the caller in any case. */
enum tr_status tr_columns_parse(const char *option, const char *list,
                                struct tr_columns *out) TR_MUST_CHECK;
void tr_columns_release(struct tr_columns *c);

/* Is that row of columns.def one of them? */
bool tr_columns_have(const struct tr_columns *c, int which);

/* Of a row of columns.def: its kind, and the column of the lower or upper end of its interval. */
enum tr_column_kind { TR_COLUMN_LABEL, TR_COLUMN_GIVEN, TR_COLUMN_MEASURED };
enum tr_column_kind tr_column_kind_of(int which);
struct tr_column tr_column_bound(int which, bool high);

/* The cells of a run of `all`, and, once all are there, the sentence on units and formulas of columns that are not empty. */
void tr_columns_row(const struct tr_columns *c, const struct tr_records *all,
                    const struct tr_record *r, const struct tr_summary *s, struct tr_table *t);
void tr_columns_note(const struct tr_columns *c, struct tr_table *t);

#endif
