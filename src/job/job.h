/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_JOB_H
#define TR_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/*
 * What Slurm says about the job that this process belongs to.  Nothing here is collective and nothing
 * fails: outside Slurm, or where it does not answer, a fact is unknown.
 */
struct tr_job {
    const char *id, *step; /* of the environment, borrowed; NULL outside Slurm */
    const char *nodes;     /* "n[1-4]", those of the step where it has fewer; NULL likewise */
    char array[64];        /* "4700_3" for element 3 of array 4700; "" if it is in none */
    int64_t restart;       /* how often the job was requeued */
};

/* Reads SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, SLURM_ARRAY_JOB_ID,
   SLURM_ARRAY_TASK_ID and SLURM_RESTART_COUNT. */
void tr_job_find(struct tr_job *job);

/*
 * When the job reaches its time limit, in seconds since 1970; TR_JOB_NO_END where that is not known or
 * there is no limit.  SLURM_JOB_END_TIME says it (Slurm 23.02 and newer); without it `squeue` is asked,
 * once, for at most `patience` seconds, after which it is ended.  So a limit that is changed while the
 * job runs stays unknown.  One rank calls this, early: it starts a process.  `how`, static storage,
 * says where it is from, or why it is not known.
 */
enum { TR_JOB_NO_END = -1 };
int64_t tr_job_end(const struct tr_job *job, time_t now, double patience, const char **how);

/* Seconds of "D-HH:MM:SS", "HH:MM:SS" or "MM:SS", as squeue's %L shows the time left.  TR_JOB_NO_END
   for anything else: UNLIMITED, NOT_SET, INVALID. */
int64_t tr_job_seconds(const char *text);

#endif
