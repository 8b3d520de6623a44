/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_RUN_FOLDER_H
#define TR_JOB_RUN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "config/config.h"
#include "job/ctl.h"
#include "job/job.h"
#include "job/lock.h"
#include "job/state.h"
#include "job/stop.h"

/*
 * The run folder: the lock, the state and the external requests in the folder of --save
 * (job/lock.h, job/state.h, job/ctl.h), and what Slurm knows of the job.  Without --save there is
 * no folder, and nothing of it happens but the header of the log.
 *
 * Collective over the world: open, over, begin, may_save.  The others are called by all ranks too, do their work
 * on rank 0, and communicate nothing.  What cannot be written after the start is a warning, once: it
 * is a record, and training goes on.
 */
struct tr_run_folder {
    const char *folder;    /* borrowed; NULL: no --save */
    struct tr_comm *world; /* borrowed */
    bool owns;             /* this run has the lock, or there are no locks: all ranks know */
    struct tr_lock lock;   /* the rest is of rank 0 */
    struct tr_job job;
    struct tr_state state;
    char (*host)[TR_HOST_BYTES]; /* [world->size], of each rank; owned */
    bool was_finished;           /* the last start finished the run */
    int64_t was_iters;           /* of how many iterations */
    int64_t from;                /* iteration that the header of the log names; -1: the beginning */
    double look_at, write_at;    /* tr_now() from which it looks or writes again */
    unsigned deaf; /* requests that cannot be taken away, and so are not heard again */
    bool warned;
};

/* Take the folder: make it, lock it, read the state of the last start.  TR_ERESOURCE if another run
   writes there, TR_EIO if it cannot be written.  Close it in any case. */
enum tr_status tr_run_folder_open(struct tr_run_folder *k, const struct tr_config *c,
                                  struct tr_comm *world) TR_MUST_CHECK;

/*
 * Is there nothing to do?  True, and a line in the log, when somebody asked for `stop`, or when the run
 * was finished: the state says so, its checkpoint has all iterations of `shape`, and --load names the
 * folder of --save and asks for nothing special.  So the surplus jobs of a chain end at once.
 */
bool tr_run_folder_over(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters);

/* Training is about to be set up: prints the header of this start and how the last one ended, finds out when the job ends and puts
   it into *stop, with the time that saving took the last start; the state is "running". */
void tr_run_folder_begin(struct tr_run_folder *k, const struct tr_config *c, int64_t train_iters,
                         struct tr_stop *stop);

/* Bits of enum tr_ask; 0 on all ranks but rank 0.  Looks at most once a second. */
unsigned tr_run_folder_asked(struct tr_run_folder *k, double now);

/* Say in the log what was asked for, by whom; and, when it is done, take the request away. */
void tr_run_folder_acknowledge(struct tr_run_folder *k, enum tr_ask ask, int64_t iteration);
void tr_run_folder_done(struct tr_run_folder *k, enum tr_ask ask);

/* Which rank heard which signal, or lost what started it. */
void tr_run_folder_heard(const struct tr_run_folder *k, const struct tr_answer *a,
                         int64_t iteration);

/* Write the state, with where the run stands and how long things took: at most once a second and for
   at most a fiftieth of the time, or `now_or_never`. */
void tr_run_folder_note(struct tr_run_folder *k, const struct tr_stop *stop, int64_t iteration,
                        bool now_or_never);

/* The ranks that are slow from now on, for the state, which tr_run_folder_note() writes. */
void tr_run_folder_slow(struct tr_run_folder *k, const char *text);

/* What was loaded; a line in the log if the newest checkpoint could not be used and it is an older one. */
void tr_run_folder_loaded(struct tr_run_folder *k, int64_t iteration);

/* Is the folder still this run's alone?  Collective; to be asked before each save.  TR_ERESOURCE if the
   lock was removed or replaced: from then on nothing is written into the folder. */
enum tr_status tr_run_folder_may_save(struct tr_run_folder *k) TR_MUST_CHECK;

/* A checkpoint of that iteration is complete, which is a measured one. */
void tr_run_folder_saved(struct tr_run_folder *k, int64_t iteration, const struct tr_stop *stop);

/* How the run ends, for the state: as asked or done, or with a failure, whose sentence is
   tr_last_error(). */
void tr_run_folder_leave(struct tr_run_folder *k, const struct tr_answer *a);
void tr_run_folder_fail(struct tr_run_folder *k, enum tr_status s);

/* Writes the state for the last time, drops requests that nobody will answer, gives the lock back. */
void tr_run_folder_close(struct tr_run_folder *k);

#endif
