/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_LOG_H
#define TR_UTIL_LOG_H

#include <stdbool.h>

#include "util/attributes.h"

/*
 * Two streams.  stdout carries records, the lines that people parse; stderr carries diagnostics.
 * Every call makes exactly one write of whole lines, so that lines of different ranks are never
 * glued.  There is no colour and no carriage return here: util/meter.h has those, for terminals.
 */
enum tr_level { TR_LOG_ERROR, TR_LOG_WARNING, TR_LOG_INFO, TR_LOG_DEBUG };

/* Who speaks: the rank goes before each diagnostic when world > 1.  Call once after MPI is up.
   Before that, rank is 0 of 1. */
void tr_log_init(int rank, int world);

/* Show diagnostics up to `level`; TR_LOG_WARNING unless set otherwise.  Returns the level before. */
enum tr_level tr_log_level(enum tr_level level);

/*
 * From now on what this process prints is also appended to a file, a record for each line that is not empty, in the
 * format of Python's logging "asctime - name - levelname - message":
 *
 *     2026-11-24 01:23:45,678 - trireme - INFO - training ...
 *
 * INFO is what stdout has, and diagnostics are ERROR, WARNING, INFO and DEBUG.  Local time.  0, or errno: nothing
 * changes.  A file that cannot be written later is output that is lost.
 */
int tr_log_file(const char *path);

/* A diagnostic on stderr, "trireme: warning: ..."; a newline is added. */
void tr_log(enum tr_level level, const char *fmt, ...) TR_PRINTF(2, 3);

/* The same, from rank 0 only: for what all ranks know. */
void tr_log_rank0(enum tr_level level, const char *fmt, ...) TR_PRINTF(2, 3);

/* Text on stdout as it is, no newline added; one write for up to 1 MiB.  Any rank may call it. */
void tr_print(const char *fmt, ...) TR_PRINTF(1, 2);

/* The same from rank 0 only. */
void tr_print_rank0(const char *fmt, ...) TR_PRINTF(1, 2);

/* The same for what only a log with all details has, after tr_print_details(true). */
void tr_detail_rank0(const char *fmt, ...) TR_PRINTF(1, 2);
void tr_print_details(bool wanted);

/* The first two for what is said in every form of the log: tr_print_brief() does not silence them. */
void tr_notice(const char *fmt, ...) TR_PRINTF(1, 2);
void tr_notice_rank0(const char *fmt, ...) TR_PRINTF(1, 2);

/* Is the log of this process brief, which leaves out what tr_print() and tr_print_rank0() say?  Not
   unless it was set. */
void tr_print_brief(bool brief);
bool tr_print_is_brief(void);

/*
 * Output that was asked for and could not be written: the log, a file of numbers, a trace.  The first
 * sentence of this process is kept, and each is a warning.  Nothing ends here: whoever has something
 * to save does so, and main() exits with the code of TR_EIO in any case.  tr_print() calls it, once.
 */
void tr_output_lost(const char *fmt, ...) TR_PRINTF(1, 2);

/* That sentence, or NULL if all output was written so far.  Flushes stdout. */
const char *tr_output_missing(void);

#endif
