/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_GROUPS_H
#define TR_REPORT_GROUPS_H

#include "report/columns.h"

/*
 * The columns of a table with a row for each group of runs: those that tell the groups apart, "runs" and
 * "failed", then the other columns of the table of runs.  Of a measured one there are three: the median,
 * and the ends of its interval, "NAME_low" and "NAME_high".
 */
struct tr_groups {
    struct tr_columns by, shown; /* a column of both is only in the table's first part */
    struct tr_column *head;      /* [columns], owned */
    int columns;
};

/* `by` is the list of --group-by, `shown` that of --columns.  TR_ECONFIG as tr_columns_parse(), and for a measured column
   in `by`.  *out is released by the caller in any case. */
enum tr_status tr_groups_parse(const char *by, const char *shown,
                               struct tr_groups *out) TR_MUST_CHECK;
void tr_groups_release(struct tr_groups *g);

#endif
