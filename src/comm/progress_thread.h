/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_PROGRESS_THREAD_H
#define TR_COMM_PROGRESS_THREAD_H

#include <stdbool.h>

#include "util/status.h"

/*
 * A thread that lets transfers make progress while the rank computes; internal to comm/.  MPI
 * moves data only inside its calls, so a transfer that was started before a long computation would
 * be where it was after it.  The thread calls `move` now and then as long as transfers are under
 * way and the rank itself is elsewhere.  Calls of the two never overlap: the rank's stand between
 * enter() and leave().
 *
 * The same thread calls `tick` about twice a second, whatever the rank does.
 *
 * All functions do nothing when given NULL: then transfers progress when the rank calls, and only
 * then.
 */
struct tr_progress_thread;

/* TR_ERESOURCE when there is no room for a thread. */
enum tr_status tr_progress_thread_open(void (*move)(void *ctx), void (*tick)(void *ctx), void *ctx,
                                       struct tr_progress_thread **out) TR_MUST_CHECK;
void tr_progress_thread_close(struct tr_progress_thread *x);

/* Not nested. */
void tr_progress_thread_enter(struct tr_progress_thread *x);
void tr_progress_thread_leave(struct tr_progress_thread *x);

/* enter() for a thread that ends the process and may be between the two: false when the other one does
   not leave for a second. */
bool tr_progress_thread_enter_anyhow(struct tr_progress_thread *x);

/* Between the two: `change` more transfers are under way. */
void tr_progress_thread_count(struct tr_progress_thread *x, int change);

#endif
