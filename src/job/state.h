/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_STATE_H
#define TR_JOB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * SAVE/state: where a run stands, for job scripts and people who have no job.  A JSON object with one
 * member on each line, in the order of this table, so that jq and sed read it alike; replaced whole, so
 * that nobody reads a half.
 *
 * FIELD(kind, name, size)
 *      TEXT    char[size]
 *      WHOLE   int64_t; null in the file where it is negative
 *      REAL    double
 *      TIME    int64_t, seconds since 1970; in the file as 2026-11-20T14:19:03Z, null where negative
 */
#define TR_STATE_OF(FIELD)                                                                  \
    FIELD(TEXT, state, 16)       /* running, finished, stopped or failed */                 \
    FIELD(TEXT, reason, 1024)    /* why it is not running; "" while it is */                \
    FIELD(TEXT, suspect, 256)    /* hosts that a failure points at; mostly "" */            \
    FIELD(TEXT, slow_ranks, 512) /* ranks that are slow now, with "; " between */           \
    FIELD(TEXT, next, 16)        /* what a chain of jobs should do: go-on, done, look */    \
    FIELD(WHOLE, exit_code, 0)   /* of the program; null while it runs */                   \
    FIELD(WHOLE, iteration, 0)   /* done so far */                                          \
    FIELD(WHOLE, train_iters, 0) /* of the whole run */                                     \
    FIELD(WHOLE, checkpoint, 0)  /* iteration of the newest checkpoint in the folder */     \
    FIELD(WHOLE, start, 0)       /* how often the run was started, this time included */    \
    FIELD(TEXT, job, 64)         /* number of the Slurm job, "" outside Slurm */            \
    FIELD(TEXT, array, 64)       /* "4700_3": element 3 of job array 4700; "" if in none */ \
    FIELD(WHOLE, restart, 0)     /* how often Slurm had requeued the job */                 \
    FIELD(TIME, job_ends, 0)     /* its time limit, where known */                          \
    FIELD(WHOLE, ranks, 0)                                                                  \
    FIELD(WHOLE, nodes, 0)                                                                  \
    FIELD(TEXT, hosts, 1024) /* as Slurm writes them, else names with commas */             \
    FIELD(TEXT, host, 256)   /* of rank 0, and its process */                               \
    FIELD(WHOLE, pid, 0)                                                                    \
    FIELD(TIME, started, 0)                                                                 \
    FIELD(TIME, updated, 0)           /* when this was written */                           \
    FIELD(REAL, iteration_seconds, 0) /* longest iteration of this start, and */            \
    FIELD(REAL, save_seconds, 0)      /* longest save; 0 before the first */

struct tr_state {
#define TR_STATE_TEXT(name, size) char name[size];
#define TR_STATE_WHOLE(name, size) int64_t name;
#define TR_STATE_TIME(name, size) int64_t name;
#define TR_STATE_REAL(name, size) double name;
#define FIELD(kind, name, size) TR_STATE_##kind(name, size)
    TR_STATE_OF(FIELD)
#undef FIELD
#undef TR_STATE_TEXT
#undef TR_STATE_WHOLE
#undef TR_STATE_TIME
#undef TR_STATE_REAL
};

/* Write it to FOLDER/state; `updated` is set to now.  TR_EIO. */
enum tr_status tr_state_write(const char *folder, struct tr_state *s) TR_MUST_CHECK;

/* *found is false, and TR_OK, if there is none.  TR_EDATA if it is not such an object; members that are
   not in the table are ignored, and those that are missing are empty, null or 0. */
enum tr_status tr_state_read(const char *folder, struct tr_state *s, bool *found) TR_MUST_CHECK;

/* Make its texts fit for a terminal or a log: tr_printable() for each. */
void tr_state_printable(struct tr_state *s);

/* What a chain should do after an end in which the program exits with `exit_code`, not 0. */
const char *tr_state_next(int exit_code);

/* If FOLDER/state says "running", make it say "failed", with this exit code, reason and
   tr_suspected().  For a process about to end, of whatever rank: says nothing if it cannot. */
void tr_state_fail(const char *folder, int exit_code, const char *reason);

#endif
