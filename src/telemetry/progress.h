/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_PROGRESS_H
#define TR_TELEMETRY_PROGRESS_H

#include <stdint.h>
#include <time.h>

/*
 * --log-progress: a file progress.txt in the folder of the checkpoints that goes on from job to job,
 * with the lines of Megatron Core:
 *
 *   2026-11-20 14:19:03<tab>Job ID: 4711<tab># GPUs: 16<tab>Starting job
 *   ...<tab>Saved checkpoint<tab>Iteration: 100<tab>Job throughput: 23.2 TFLOP/s/GPU<tab>Cumulative
 *   throughput: 22.9 TFLOP/s/GPU<tab>Floating-point operations: 1.24e+16<tab>Tokens (in billions): 0.41
 *
 * all of one checkpoint on one line.  "Job" is since this process began, "cumulative" since the first
 * job in a row with the same number of ranks began, the time between jobs included.  The job's number
 * is that of Slurm.  One rank calls these functions.  A line that cannot be
 * written is output that is lost (util/log.h).
 */
struct tr_progress {
    char *path; /* owned; NULL: nothing is written */
    int ranks;
    int64_t seq;                     /* tokens in a sample */
    double flops;                    /* operations of a sample */
    time_t began, first;             /* of this job, of the first one in the row */
    double begin_flops, first_flops; /* done by then */
};

/* Write that the job begins with `consumed` samples done.  Makes `folder` if there is none. */
void tr_progress_open(struct tr_progress *p, const char *folder, int ranks, int64_t seq,
                      double flops, int64_t consumed, time_t now);
void tr_progress_close(struct tr_progress *p);

/* Write that a checkpoint was saved. */
void tr_progress_saved(const struct tr_progress *p, int64_t iteration, int64_t consumed,
                       time_t now);

#endif
