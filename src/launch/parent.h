/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_PARENT_H
#define TR_LAUNCH_PARENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The process on this host that a launcher started this one from: mpiexec or its daemon, or that of
 * a job step.  When it is killed it takes nobody along, and the ranks would compute on, out of
 * reach of whoever stopped them.
 */
struct tr_parent {
    pid_t pid;     /* 0: none is known, and it is never gone */
    uint64_t born; /* as /proc counts: a number may come again */
};

/* Find it: the nearest of the processes above this one that has the name of a launcher.  None where
   the environment is not that of a launcher (a shell that ends is none), or where /proc does not
   show it. */
bool tr_parent_find(struct tr_parent *out);

/* Does somebody watch what the launcher of this process prints: is its stdout a terminal?  It is on
   this host, or one of its own processes there.  srun is no parent of its ranks, and found by the
   port that SLURM_SRUN_COMM_PORT names.  False where nobody can tell, as where srun runs on another
   host. */
bool tr_parent_watched(void);

/* Has it ended? */
bool tr_parent_gone(const struct tr_parent *p);

/*
 * From now on this process, after MPI_Init, lives on when its launcher is gone.  Open MPI's ranks
 * would end at once, in the middle of whatever they do, because their connection by PMIx is lost;
 * and a line for a log that nobody reads any more would end them as well.  For runs on one host: on
 * others the launcher's daemons end their ranks anyhow.  Afterwards MPI moves messages as before,
 * and cannot be finalized.
 */
void tr_parent_outlive(void);

#endif
