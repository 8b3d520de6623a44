/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PLAN_FILE_H
#define TR_REPORT_PLAN_FILE_H

#include "report/record.h"

/* What `trireme plan --json`, `trireme sim --json` and `trireme plan --search --json` printed, read from a file, or as "-"
   from the standard input. */

/* Does the file begin with '{', as no log does?  False for one that cannot be read.  The standard input is still all
   there afterwards. */
bool tr_plan_file_is(const char *path);

/* What it is, for files of a folder, which may be something else: a larger file is, say, a trace, and is not read.  Of one that is no JSON tr_last_error() says why. */
enum { TR_PLAN_FILE_BYTES = 16 << 20 };
enum tr_plan_file {
    TR_PLAN_FILE_OTHER,
    TR_PLAN_FILE_BROKEN,
    TR_PLAN_FILE_RUN,
    TR_PLAN_FILE_SEARCH
};
enum tr_plan_file tr_plan_file_kind(const char *path);

/*
 * A plan or a simulation as a run that was not measured: its options, its layout and one iteration with its parts; the
 * time of a simulation is its median.  Of a plan also, for the first rank of each stage, what a log
 * calls "max allocated": all but the context of the device, NCCL and scratch memory of kernels.
 * TR_EIO if it cannot be read, TR_EDATA if it is neither.
 */
enum tr_status tr_plan_file_read(const char *path, struct tr_records *out) TR_MUST_CHECK;

/* A run of the front of `trireme plan --search --json`. */
struct tr_front_run {
    double gpus, batch;
    double seconds, bytes; /* of an iteration; of the fullest rank */
    double gpu_hours;
};

struct tr_front {
    struct tr_front_run *run; /* [count], owned */
    int count;
    enum tr_processor processor;
    bool hours_of_run; /* else those of 10^9 tokens */
};

/* Errors as above; the front is released by the caller with free(out->run) in any case. */
enum tr_status tr_front_read(const char *path, struct tr_front *out) TR_MUST_CHECK;

#endif
