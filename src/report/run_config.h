/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_RUN_CONFIG_H
#define TR_REPORT_RUN_CONFIG_H

#include "config/config.h"
#include "plan/calibrate.h"
#include "report/record.h"

/*
 * The options with which `trireme plan` plans a run, by its log: those of its arguments that change what an iteration
 * takes (run_args.def), what other lines say of layout, model and batch, fp16 where its loss is scaled, and `typed`
 * (words of `trireme train`), which count more than what the log says.  An option that this program refuses is left
 * out, with a warning.
 *
 * TR_EDATA names the first option that is needed and that nobody says; TR_ECONFIG for words that will not do.  *out is
 * released by the caller in any case.
 */
enum tr_status tr_record_config(const struct tr_record *r, const struct tr_args *typed,
                                struct tr_config *out) TR_MUST_CHECK;

/*
 * The runs of some logs, as they are calibrated by.  A run's time is the median of the lines that count
 * (report/summary.h), of those with its last batch size; timers count where it has them.
 */
struct tr_measured_runs {
    struct tr_records logs;   /* owned */
    struct tr_config *config; /* [logs.count], owned */
    struct tr_measured *run;  /* [count], owned; they borrow from both */
    int count;
    char date[TR_MACHINE_TEXT]; /* the last day that they name, "YYYY-MM-DD", or "" */
};

/*
 * Read them, files and folders as report/logs.h has it.  A run that cannot be used is left out, with a
 * warning.  Errors are those of tr_logs_read(); TR_EDATA too if no run is left, or if one ran on a GPU
 * that is not that of `m`.  *out is released by the caller in any case.
 */
enum tr_status tr_measured_runs_read(const struct tr_words *paths, const struct tr_args *typed,
                                     const struct tr_machine *m,
                                     struct tr_measured_runs *out) TR_MUST_CHECK;
void tr_measured_runs_release(struct tr_measured_runs *r);

#endif
