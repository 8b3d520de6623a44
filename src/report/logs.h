/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_LOGS_H
#define TR_REPORT_LOGS_H

#include "config/option.h"
#include "report/record.h"

/*
 * Read the logs that a command line names: files, "-", and folders.
 *
 * Of a folder these are the files in it and in the folders below it whose names end in .log, .out or .txt, in
 * the order of their names, numbers by their value (run-9 before run-10).  Hidden names, links to folders and files
 * without a line of training are left out.  At most TR_LOGS_DEPTH folders inside of each other and TR_LOGS_MOST
 * names are looked at.
 *
 * A run is named by its path, without the folders that all words share; of a single folder that is
 * the path below it.  What a log has that is not as it should be becomes a warning.  With `join` each
 * log may go on with the last run of the log before it; with `plans` a file that `trireme plan --json` printed is
 * one, too (report/plan_file.h).
 *
 * Appends to *out, which the caller releases in any case.  TR_EIO for what cannot be read; TR_EDATA for a file
 * that is no log, and for a folder that has none; TR_ECONFIG for a folder beyond the limits.
 */
enum { TR_LOGS_DEPTH = 16, TR_LOGS_MOST = 100000 };
enum tr_status tr_logs_read(const struct tr_words *words, bool join, bool plans,
                            struct tr_records *out) TR_MUST_CHECK;

#endif
