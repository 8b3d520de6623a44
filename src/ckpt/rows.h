/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_ROWS_H
#define TR_CKPT_ROWS_H

#include <stdint.h>

#include "ckpt/map.h"
#include "comm/grid.h"
#include "util/status.h"
#include "util/writeback.h"

/*
 * Saving tensors that tensor parallelism shards along columns: each tensor rank holds a part of
 * every row, so in the file its elements are runs of a part of a row, a row apart.  Written as such
 * they take a call for each, of a kilobyte or so, into pages that other ranks write to.  Instead
 * the tensor ranks gather a block of rows at a time, and each of them writes some of these rows
 * whole.
 */
struct tr_ckpt_rows {
    struct tr_comm *tp; /* borrowed; NULL for one rank */
    float *parts;       /* a block: what each rank holds of it, in the order of ranks */
    float *whole;       /* the rows that this rank writes */
    int64_t most;       /* elements of a block on one rank */
};

/* `g` is borrowed. */
void tr_ckpt_rows_open(struct tr_grid *g, const struct tr_ckpt_map *m, struct tr_ckpt_rows *out);
void tr_ckpt_rows_close(struct tr_ckpt_rows *r);

/*
 * Rows first .. end - 1 of the tensor of `piece`, which begins `offset` bytes into the file; the piece holds this rank's
 * part of them.  Collective over the tensor ranks, with the same tensor and rows.  After an error, this
 * time's or one that *error had before, a rank writes no more, but takes part; *error is an errno.
 * The checksum of what the piece holds of them is added to *sum.
 */
void tr_ckpt_rows_write(struct tr_ckpt_rows *r, const struct tr_ckpt_map *m, int kind,
                        const struct tr_ckpt_piece *piece, int64_t first, int64_t end,
                        struct tr_writeback *to, int64_t offset, uint64_t *sum, int *error);

#endif
