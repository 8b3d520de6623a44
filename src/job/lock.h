/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_LOCK_H
#define TR_JOB_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include "job/job.h"
#include "util/status.h"

/*
 * One writer per run: rank 0 holds a lock on the file `lock` in the folder of --save.  The kernel lets go
 * of it however the process ends, so a killed job leaves nothing to clean up.  The file says who holds
 * it, for people; it stays, empty, when nobody does.  Whoever may read a file may lock it, so only its
 * owner, and its group where that may write it, may open this one.
 */
struct tr_lock {
    int fd;                /* -1: none is held */
    char *path;            /* owned */
    int64_t device, inode; /* of the file that is held */
};

/*
 * Take it.  TR_ERESOURCE with a sentence that names job, host, process and since when, if another
 * process has it.  Before that it waits two seconds, for a process that is just ending, and two
 * minutes where an earlier start of the same Slurm job has it: a file server may take that long to find
 * out that a node is gone.  TR_EIO if the file cannot be opened, is no regular file or a link, TR_ERESOURCE
 * if it is that of a stranger.  Where the file system has no locks, a warning, and TR_OK.  Not
 * collective.
 */
enum tr_status tr_lock_take(const char *folder, const struct tr_job *job,
                            struct tr_lock *out) TR_MUST_CHECK;

/* Is the file that is held still the one of that name?  TR_ERESOURCE with a sentence if it was removed or
   replaced: a second run may have begun.  TR_OK where none is held, for there are no locks then. */
enum tr_status tr_lock_check(const struct tr_lock *lock, const char *folder) TR_MUST_CHECK;
void tr_lock_release(struct tr_lock *lock);

/* Does somebody hold it?  UNKNOWN where there is no such file, or no locks.  `by` is filled with who,
   "job 4711, host n1, process 123, since ...", if HELD. */
enum tr_lock_view { TR_LOCK_UNKNOWN, TR_LOCK_FREE, TR_LOCK_HELD };
enum tr_lock_view tr_lock_look(const char *folder, char *by, size_t size);

#endif
