/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_MAP_H
#define TR_CKPT_MAP_H

#include <stdint.h>

#include "ckpt/ckpt.h"
#include "ckpt/schema.h"

/*
 * Which elements of which tensor of the file lie where in the buffers of one rank.  Pure.
 *
 * The file holds every parameter of the model once, in the order embeddings, layers, head; `whole`
 * lists them.  A tensor's number is its place in that list.
 */
enum tr_ckpt_kind {
#define KIND(symbol, group, field) TR_CKPT_##symbol,
    TR_CKPT_KINDS_OF(KIND)
#undef KIND
    TR_CKPT_KINDS
};

/* Name of the group of that kind; static. */
const char *tr_ckpt_group(int kind);

/* A parameter of this rank and the tensor that it is a piece of. */
struct tr_ckpt_piece {
    const struct tr_param *param;
    int tensor;
    int64_t rows;               /* of the local part that exist in the file, from row 0 */
    int64_t before;             /* elements that the pieces before this one store */
};

struct tr_ckpt_map {
    struct tr_params whole;     /* as one rank would hold the model; owned */
    int count;                  /* pieces of this rank, in the order of the file */
    struct tr_ckpt_piece *list; /* owned */
    int64_t stored;             /* elements per kind that this tensor rank and stage store */
    int tp;
};

/* The parameters of the whole model in the order of the file.  Release as any list. */
void tr_ckpt_list_whole(const struct tr_shape *s, struct tr_params *out);

/* `params` is borrowed. */
void tr_ckpt_map_build(const struct tr_shape *s, const struct tr_params *params, int tp,
                       struct tr_ckpt_map *out);
void tr_ckpt_map_release(struct tr_ckpt_map *m);

/* Number of the piece's tensor among those of all kinds: kind * whole.count + tensor. */
int tr_ckpt_number(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece);

/* True if this tensor rank and stage store the piece: no copies, and what is not cut only on
   tensor rank 0. */
bool tr_ckpt_stores(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece);

/*
 * Rows *lo .. *hi - 1 of the piece that replica `dp` of `d` writes.  The replicas hold equal
 * values, so each writes a d-th of what its tensor rank and stage store, and one contiguous part
 * of it, so that in the file too neighbours meet in few places.
 */
void tr_ckpt_share(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece,
                   int kind, int dp, int d, int64_t *lo, int64_t *hi);

/* Elements that lie together both in the buffer and in the tensor: `count` runs of `elems`, run i
   from local + i * local_step of the parameter and whole + i * whole_step of the tensor. */
struct tr_ckpt_runs {
    int64_t count, elems;
    int64_t local, local_step, whole, whole_step;
};

/* Rows lo .. hi - 1 of the local part of `p`. */
struct tr_ckpt_runs tr_ckpt_runs_of(const struct tr_param *p, int64_t lo, int64_t hi);

/* The checksum (ckpt/sum.h) of those rows; `x` is the first element of the local part. */
uint64_t tr_ckpt_sum_rows(const struct tr_param *p, const float *x, int64_t lo, int64_t hi);

/* Over the ranks of `c`: `bytes` (a multiple of 4) from rank 0 to all, and the sum modulo 2^64
   of n numbers.  Collective. */
void tr_ckpt_tell(struct tr_comm *c, void *data, size_t bytes);
void tr_ckpt_add(struct tr_comm *c, uint64_t *x, int n);

#endif
