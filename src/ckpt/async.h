/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_ASYNC_H
#define TR_CKPT_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"

/*
 * Asynchronous checkpoints (--async-save): each rank copies what it writes into memory of the host, and a thread writes
 * the copy while training goes on.  The file is the one that tr_ckpt_save() writes, and as there it is complete or
 * absent: it gets its name once all ranks have flushed their parts.
 *
 * Training goes on before all is copied where it says what it will change (tr_ckpt_tensors.claimed): the thread copies
 * during the next forward and backward pass, and the optimizer claims elements before it changes them
 * (ckpt/snapshot.h).  Of what lies in files the thread copies nothing: all that is claimed is in memory then, and the rest
 * is copied when the checkpoint is to end.  Where a device has memory of its own all is copied on its queue before
 * tr_ckpt_async_begin() returns.
 *
 * The calls that ranks make together are all on the caller's thread, in the functions below; the thread itself copies,
 * makes the folder and the index (that of rank 0), writes, adds up checksums and flushes.  Rows that tensor parallelism
 * divides are therefore not gathered: each rank writes its part of each row.
 */
struct tr_ckpt_async;

/* Elements (floats) that a copy takes on this rank: weights and, with `states`, those of the optimizer.  Pure; what
   `tensors` points to need not be there yet. */
int64_t tr_ckpt_async_elems(const struct tr_grid *grid, const struct tr_dims *dims,
                            const struct tr_ckpt_tensors *tensors, bool states);

/*
 * Begin, as tr_ckpt_save(); none is under way.  Collective.  `room` has `elems` floats, tr_ckpt_async_elems() at least,
 * borrowed until the end, as are grid, dir and tensors->params; state, shape and texts may change or go when this
 * returns, and so may the tensors, unless they are claimed.  Sidecar files are written before, and a failure of that is
 * this function's; others come later.  On success *out is the save that is under way.
 */
enum tr_status tr_ckpt_async_begin(struct tr_grid *grid, const char *dir,
                                   const struct tr_ckpt_state *state,
                                   const struct tr_ckpt_tensors *tensors,
                                   const struct tr_shape *shape, const char *config_json,
                                   const char *source, int keep_last,
                                   const struct tr_ckpt_sidecar *sidecars, float *room,
                                   int64_t elems, struct tr_ckpt_async **out) TR_MUST_CHECK;

/* Elements at .. at + count - 1 of a compact buffer (struct tr_ckpt_tensors) are about to change, weights or states: what
   of them is not copied yet is, on return.  `async` is a struct tr_ckpt_async.  Not collective. */
void tr_ckpt_async_claim(void *async, int64_t at, int64_t count);

/* Seconds that this rank's training waited since it began: for what it claimed, and from one step to the next. */
double tr_ckpt_async_waited(const struct tr_ckpt_async *a);

/*
 * Whether it is over, so that tr_ckpt_async_end() waits for nothing.  Collective and the same on all ranks: call it now
 * and then, since it also leads from one step to the next: all have copied, and the file is there and is opened; all
 * have written, and sums are added up; rank 0's thread gives the folder its name and removes older ones.  What lies in
 * files is copied when it is claimed, so then it takes an update; tr_ckpt_async_end() does without.
 */
bool tr_ckpt_async_over(struct tr_ckpt_async *a);

/* Wait until it is, and release it.  Collective, the same status on all ranks, with failures as tr_ckpt_save(). */
enum tr_status tr_ckpt_async_end(struct tr_ckpt_async *a) TR_MUST_CHECK;

#endif
