/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_PLACE_H
#define TR_SWEEP_PLACE_H

#include <stdint.h>
#include <time.h>

#include "config/words.h"
#include "sweep/sweep.h"

/* Where a sweep runs. */
struct tr_sweep_place {
    const char *job;   /* of Slurm; NULL outside */
    const char *nodes; /* their list, or the name of this host */
    int tasks;         /* of the job; 0 outside, or where it does not say */
    int per_node;      /* ranks on a node; 0: all on one */
    int64_t end;       /* of the job, seconds since 1970, or TR_JOB_NO_END */
    const char *how;   /* where the end is from, or why it is not known */
    char host[256];
};

/* TR_ECONFIG where several of this process were started.  May start squeue, once. */
enum tr_status tr_sweep_place_find(const struct tr_sweep *w,
                                   struct tr_sweep_place *out) TR_MUST_CHECK;

/* Nodes that so many ranks stand on. */
int tr_sweep_nodes(const struct tr_sweep_place *p, int ranks);

/* Variables that srun, mpiexec and the ranks they start have to know, set where they are not. */
void tr_sweep_environment(const struct tr_sweep_place *p, int ranks);

/* The words that start `ranks` ranks of a program, added to `a`: --launcher, or srun inside a job and
   mpiexec outside.  `name` is that of the run.  TR_ECONFIG for a launcher of no words. */
enum tr_status tr_sweep_launcher(const struct tr_sweep *w, const struct tr_sweep_place *p,
                                 int ranks, const char *name, struct tr_args *a) TR_MUST_CHECK;

#endif
