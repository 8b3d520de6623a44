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
 * log may go on with the last run of the log before it; with `plans` what `trireme plan --json` and `trireme sim --json`
 * printed is a run, too (report/plan_file.h), of a folder in files whose names end in .json; other JSON there is left out.
 *
 * Appends to *out, which the caller releases in any case.  TR_EIO for what cannot be read; TR_EDATA for a file
 * that is no log, and for a folder that has none; TR_ECONFIG for a folder beyond the limits.
 */
enum { TR_LOGS_DEPTH = 16, TR_LOGS_MOST = 100000 };
enum tr_status tr_logs_read(const struct tr_words *words, bool join, bool plans,
                            struct tr_records *out) TR_MUST_CHECK;

/*
 * The files that `trireme plan --search --json` printed: the words that are no folders, and of each folder those whose names
 * end in .json.  Appends to *out, whose words and list the caller frees.  Errors as above; TR_EDATA for a
 * folder without any.
 */
bool tr_logs_is_folder(const char *word);
enum tr_status tr_logs_searches(const struct tr_words *words, struct tr_words *out) TR_MUST_CHECK;

#endif
