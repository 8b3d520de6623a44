/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of one rank, in a block: enough that a call writes megabytes. */
enum { BLOCK = TR_CKPT_BOUNCE };

static float *need(int64_t elems)
{
    float *x = malloc((size_t)elems * sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left to gather rows of a checkpoint's tensors");
    return x;
}

void tr_ckpt_rows_open(struct tr_grid *g, const struct tr_ckpt_map *m, struct tr_ckpt_rows *out)
{
    memset(out, 0, sizeof *out);
    if (g->w == 1)
        return;
    out->tp = &g->tp;
    out->most = BLOCK;
    for (int i = 0; i < m->count; i++)
        if (tr_ckpt_alternates(m->list[i].param) && m->list[i].param->local[1] > out->most)
            out->most = m->list[i].param->local[1];
    out->parts = need(out->most * g->w);
    /* At most one row more than this rank's part of a block, and a row is at most that long. */
    out->whole = need(out->most * (g->w + 1));
}

void tr_ckpt_rows_close(struct tr_ckpt_rows *r)
{
    free(r->parts);
    free(r->whole);
    memset(r, 0, sizeof *r);
}

/* Rows of a block, of `rows` of them, from which on rank `rank` writes. */
static int64_t row_of(const struct tr_ckpt_rows *r, int64_t rows, int rank)
{
    return rows * rank / r->tp->size;
}

/* What all ranks hold of `rows` rows from `row` on; the checksum is of what this one holds. */
static uint64_t gather(struct tr_ckpt_rows *r, const struct tr_ckpt_map *m, int kind,
                       const struct tr_ckpt_piece *piece, int64_t row, int64_t rows)
{
    const int64_t cols = piece->param->local[1], n = rows * cols, from = row * cols;
    struct tr_tensor all = tr_tensor_1(r->parts, TR_F32, n * r->tp->size);
    float *mine = r->parts + n * r->tp->rank;

    for (int64_t at = from, end; at < from + n; at = end) {
        end = tr_ckpt_upto(m, at, from + n);
        memcpy(mine + at - from, tr_ckpt_get(m, kind, piece, at, end),
               (size_t)(end - at) * sizeof *mine);
    }
    r->tp->via->allgather(r->tp, NULL, &all);
    return tr_ckpt_sum_elems(piece->param, mine, from, from + n);
}

/* This rank's complete rows of a block of `rows` rows; the block begins with row `row`. */
static int write_mine(struct tr_ckpt_rows *r, int64_t cols, int64_t row, int64_t rows,
                      struct tr_writeback *to, int64_t offset)
{
    const int w = r->tp->size;
    const int64_t first = row_of(r, rows, r->tp->rank), end = row_of(r, rows, r->tp->rank + 1);
    const int64_t bytes = cols * w * (int64_t)sizeof *r->whole;

    for (int64_t i = first; i < end; i++)
        for (int rank = 0; rank < w; rank++)
            memcpy(r->whole + ((i - first) * w + rank) * cols, r->parts + (rank * rows + i) * cols,
                   (size_t)cols * sizeof *r->whole);
    return tr_writeback_put(to, r->whole, (end - first) * bytes, offset + (row + first) * bytes);
}

void tr_ckpt_rows_write(struct tr_ckpt_rows *r, const struct tr_ckpt_map *m, int kind,
                        const struct tr_ckpt_piece *piece, int64_t first, int64_t end,
                        struct tr_writeback *to, int64_t offset, uint64_t *sum, int *error)
{
    const int64_t cols = piece->param->local[1], most = r->most / cols;

    for (int64_t row = first, rows; row < end; row += rows) {
        rows = end - row < most ? end - row : most;
        *sum += gather(r, m, kind, piece, row, rows);
        if (*error == 0 && write_mine(r, cols, row, rows, to, offset) != 0)
            *error = errno;
    }
}
