/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PRESENT_H
#define TR_REPORT_PRESENT_H

#include "report/columns.h"
#include "report/groups.h"
#include "report/record.h"
#include "report/table.h"

/* The tables of a report.  Each states its units, its formula and what was left out. */
struct tr_present {
    const struct tr_records *runs;
    int64_t warmup; /* iterations, or TR_WARMUP_AUTO */
    int formula;    /* TR_FLOPS_ of config/enums.def, of the model's operations; not AUTO */
    double peak;    /* TFLOP/s of a GPU; NAN: that of the card that the log names, if it does */
    const struct tr_columns *columns; /* of the table of runs */
    const struct tr_groups *groups;   /* of the table of groups; NULL: there is none */
};

/* A row for each run, in the columns that were chosen; runs that failed stay. */
void tr_present_runs(const struct tr_present *p, struct tr_table *t);

/* A row for each group of runs that have the same in the columns of --group-by: how many count, how
   many do not, medians over the runs with intervals from order statistics, and of the other columns
   what all of them have.  p->groups is not NULL. */
void tr_present_groups(const struct tr_present *p, struct tr_table *t);

/* All numbers of tr_summarize(), a row for each run. */
void tr_present_summary(const struct tr_present *p, struct tr_table *t);

/* A row for each plan that has times, beside what was measured in its layout.  TR_EDATA if there is
   no such plan. */
enum tr_status tr_present_planned(const struct tr_present *p, struct tr_table *t) TR_MUST_CHECK;

/* Is there a plan of a run that was measured? */
bool tr_planned_any(const struct tr_records *runs);

/* A row for each start of each run: from where, how far, why it ended. */
void tr_present_starts(const struct tr_present *p, struct tr_table *t);

/* A row for each run that was measured: where its time went, and its goodput. */
void tr_present_goodput(const struct tr_present *p, struct tr_table *t);

/* A row for each time a rank became slow, or was so no longer. */
void tr_present_slow(const struct tr_present *p, struct tr_table *t);

/* A row for each run and part of its iterations.  A run that cannot be broken down becomes a note;
   if none can, its status and sentence are returned. */
enum tr_status tr_present_breakdown(const struct tr_present *p, struct tr_table *t) TR_MUST_CHECK;

/* A row for each run against the smallest.  TR_EDATA if no run has a line that counts, TR_ECONFIG
   if a number of GPUs is not known. */
enum tr_status tr_present_scaling(const struct tr_present *p, struct tr_table *t) TR_MUST_CHECK;

/* The second run against the first, phase by phase.  TR_ECONFIG if there are not two. */
enum tr_status tr_present_comparison(const struct tr_present *p, struct tr_table *t) TR_MUST_CHECK;

/* A row for each iteration line. */
void tr_present_iterations(const struct tr_present *p, struct tr_table *t);

#endif
