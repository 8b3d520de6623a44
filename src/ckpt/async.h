/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_ASYNC_H
#define TR_CKPT_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"

/*
 * Asynchronous checkpoints (--async-save): training waits while each rank copies what it writes into memory of the
 * host, and goes on while a thread writes the copy.  The file is the one that tr_ckpt_save() writes, and as there it
 * is complete or absent: it gets its name once all ranks have flushed their parts.
 *
 * The calls that ranks make together are all on the caller's thread, in the functions below; the thread itself writes,
 * adds up checksums and flushes.  Rows that tensor parallelism divides are therefore not gathered: each rank writes
 * its part of each row.
 */
struct tr_ckpt_async;

/* Elements (floats) that a copy takes on this rank: weights and, with `states`, those of the optimizer.  Pure; what
   `tensors` points to need not be there yet. */
int64_t tr_ckpt_async_elems(const struct tr_grid *grid, const struct tr_dims *dims,
                            const struct tr_ckpt_tensors *tensors, bool states);

/*
 * Begin, as tr_ckpt_save() and with its failures; none is under way.  Collective.  `room` has
 * `elems` floats, tr_ckpt_async_elems() at least, borrowed until the end, as are grid and dir; all else may change or go when this returns.  The sidecar files
 * are written before.  On success *out is the save that is under way.
 */
enum tr_status tr_ckpt_async_begin(struct tr_grid *grid, const char *dir,
                                   const struct tr_ckpt_state *state,
                                   const struct tr_ckpt_tensors *tensors,
                                   const struct tr_shape *shape, const char *config_json,
                                   const char *source, int keep_last,
                                   const struct tr_ckpt_sidecar *sidecars, float *room,
                                   int64_t elems, struct tr_ckpt_async **out) TR_MUST_CHECK;

/*
 * Whether it is over, so that tr_ckpt_async_end() waits for nothing.  Collective and the same on all ranks: call it now
 * and then, since it also leads from one step to the next: all have written, sums are added up, rank 0's thread gives
 * the folder its name and removes older ones.
 */
bool tr_ckpt_async_over(struct tr_ckpt_async *a);

/* Wait until it is, and release it.  Collective, the same status on all ranks, with failures as tr_ckpt_save(). */
enum tr_status tr_ckpt_async_end(struct tr_ckpt_async *a) TR_MUST_CHECK;

#endif
