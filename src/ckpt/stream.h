/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_STREAM_H
#define TR_CKPT_STREAM_H

#include <stdint.h>

#include "comm/comm.h"
#include "config/dims.h"
#include "model/param.h"
#include "util/status.h"

/*
 * A checkpoint of weights alone, written piece by piece, so that the model need not fit in memory: iteration 0 of
 * folder `dir`, in the format of every other checkpoint.  All ranks of a group write to one file at the same time,
 * each its own pieces, and the file is the same whoever writes which.
 */
struct tr_ckpt_stream;

/*
 * Begin: make `dir` where it is missing, and a temporary folder in it with a file of the final length.  `config`
 * describes the options as in tr_ckpt_save(), `source` where the weights come from, one line.  What an earlier one
 * that was killed left in `dir` stays, with a warning.  Collective over `world`, which is borrowed until the end; the
 * same status on all ranks: TR_ECONFIG if `dir` has checkpoints, TR_EIO if it cannot be written or has no room,
 * TR_ERESOURCE; then *out is NULL and nothing is left.
 */
enum tr_status tr_ckpt_stream_open(struct tr_comm *world, const char *dir,
                                   const struct tr_dims *dims, const char *config,
                                   const char *source, struct tr_ckpt_stream **out) TR_MUST_CHECK;

/* The parameters in the order of the file. */
const struct tr_params *tr_ckpt_stream_params(const struct tr_ckpt_stream *w);

/* Elements first .. first + n - 1 of parameter number `tensor`; each once by one of the ranks, in any order.  Not
   collective.  TR_EIO. */
enum tr_status tr_ckpt_stream_put(struct tr_ckpt_stream *w, int tensor, int64_t first,
                                  const float *x, int64_t n) TR_MUST_CHECK;

/* The same, while the caller goes on: x stays as it is until the next call of this function or of _close() has
   returned.  The failure may be that of the call before. */
enum tr_status tr_ckpt_stream_put_aside(struct tr_ckpt_stream *w, int tensor, int64_t first,
                                        const float *x, int64_t n) TR_MUST_CHECK;

/* End; collective.  With `so_far` TR_OK on all ranks checksums are added up, the file is flushed, and the folder gets
   its name and becomes the newest; after a failure of one, then or before, all that was made is removed.  Returns the
   failure, the same on all ranks. */
enum tr_status tr_ckpt_stream_close(struct tr_ckpt_stream *w, enum tr_status so_far) TR_MUST_CHECK;

#endif
