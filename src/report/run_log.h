/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_RUN_LOG_H
#define TR_REPORT_RUN_LOG_H

#include <stdio.h>

#include "report/record.h"

/*
 * Reads what training printed, in one pass and memory that grows with the iteration lines alone:
 * logs of trireme in all values of --log-format, of Megatron-LM since 2021, of Megatron-DeepSpeed,
 * with whatever srun, shells and libraries have put between the lines or before them.
 *
 * A log may hold several starts.  A start goes on with the run before it if the shape is the same
 * and it either resumed or the one before it was broken off; iterations that it does again count
 * once, as it did them, and what was lost so is counted.  Otherwise it begins another run, as in a
 * log of several runs one after the other.
 *
 * What is not as it should be, lines without an end, glued, of bytes that are no text, is read as
 * far as it makes sense and counted in out->odd.  No input makes the reader fail otherwise or take
 * more than linear time.
 */
enum tr_log_join {
    TR_LOG_APART,  /* the log begins a run of its own */
    TR_LOG_GOES_ON /* it may go on with the last run of the log before */
};

/* Append the runs of a log to *out; "-" is the standard input.  TR_EIO if it cannot be read,
   TR_EDATA if nothing in it is a line of training.  *out is released by the caller in any case. */
enum tr_status tr_log_read(const char *path, enum tr_log_join join,
                           struct tr_records *out) TR_MUST_CHECK;

/* The same of an open file, which stays open; `name` is for sentences and the runs. */
enum tr_status tr_log_read_stream(FILE *f, const char *name, enum tr_log_join join,
                                  struct tr_records *out) TR_MUST_CHECK;

#endif
