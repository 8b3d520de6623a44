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
enum tr_ckpt_kind { TR_CKPT_MODEL, TR_CKPT_STATE, TR_CKPT_KINDS = TR_CKPT_STATE + TR_STATES };

/* Name of the group of that kind; static. */
const char *tr_ckpt_group(int kind);

/* Elements lo .. end - 1 of the local part of a parameter, which this rank holds and which lie
   together in its buffers. */
struct tr_ckpt_piece {
    const struct tr_param *param;
    int tensor;          /* that it is a piece of */
    int64_t lo, hi, end; /* lo .. hi - 1 are in the file; from hi on there is padding */
    int64_t at;          /* place of element lo in a compact buffer */
    int64_t before;      /* elements that the pieces before this one store, but for those whose rows
                            alternate among tensor ranks */
};

/* Elements that are on the host at once, where they are on their way between a device and the file. */
enum { TR_CKPT_BOUNCE = 1 << 20 };

struct tr_ckpt_map {
    struct tr_params whole;                 /* as one rank would hold the model; owned */
    int kinds;                              /* 1 for weights only, or TR_CKPT_KINDS */
    struct tr_tensor buffer[TR_CKPT_KINDS]; /* borrowed */
    struct tr_queue *q;                     /* NULL if the host has them at hand */
    void (*access)(void *ctx, int kind, int64_t at, int64_t count, float *x, bool put);
    void (*peek)(void *ctx, int kind, int64_t at, int64_t count, float *to);
    int64_t (*tile_end)(void *ctx, int64_t at);
    void *ctx;     /* as in struct tr_ckpt_tensors */
    float *bounce; /* [TR_CKPT_BOUNCE] if it has not; owned */
    bool value_flat, sharded;
    int count;                  /* pieces of this rank, in the order of the file */
    struct tr_ckpt_piece *list; /* owned */
    int64_t stored;             /* elements per kind that the pieces store, as in `before` */
    int tp;
};

/* The parameters of the whole model in the order of the file.  Release as any list. */
void tr_ckpt_list_whole(const struct tr_dims *dims, struct tr_params *out);

/* What `tensors` points to is borrowed. */
void tr_ckpt_map_build(const struct tr_dims *dims, const struct tr_ckpt_tensors *tensors, int tp,
                       struct tr_ckpt_map *out);
void tr_ckpt_map_release(struct tr_ckpt_map *m);

/* Number of the tensor of which `p` is a part. */
int tr_ckpt_find_tensor(const struct tr_ckpt_map *m, const struct tr_param *p);

/* Number of the piece's tensor among those of all kinds: kind * whole.count + tensor. */
int tr_ckpt_number(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece);

/*
 * Elements lo .. hi - 1 of the piece in the buffer of that kind, for the host: to read with get();
 * to be written at room(), and to belong to the buffer after put().  They are in the buffer itself,
 * or, with a device that has its own memory, in one place that the next call uses again.  There
 * they must be few at a time: elements from `lo` on are done up to tr_ckpt_upto(), which is `hi` or
 * less.
 */
int64_t tr_ckpt_upto(const struct tr_ckpt_map *m, int64_t lo, int64_t hi);
const float *tr_ckpt_get(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                         int64_t lo, int64_t hi);
/* The same elements into memory of the host at `to`, however many. */
void tr_ckpt_copy(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                  int64_t lo, int64_t hi, float *to);
float *tr_ckpt_room(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                    int64_t lo);
void tr_ckpt_put(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                 int64_t lo, int64_t hi);

/* Whether any thread of the host has them at hand; and what tr_ckpt_copy() does, by the calling thread alone. */
bool tr_ckpt_at_hand(const struct tr_ckpt_map *m);
void tr_ckpt_peek(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                  int64_t lo, int64_t hi, float *to);

/* What of the piece is in no file: zeros. */
void tr_ckpt_pad(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece);

/* True if this tensor rank and stage store the piece: no copies, and what is not sharded only on
   tensor rank 0. */
bool tr_ckpt_stores(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece);

/* True if each tensor rank holds a part of each row: the tensor is sharded along columns. */
bool tr_ckpt_alternates(const struct tr_param *p);

/*
 * Elements *lo .. *hi - 1 of the piece that replica `dp` of `d` writes.  With the distributed
 * optimizer (ZeRO-1) that is its shard.  Elsewhere replicas hold equal values, so each writes a
 * d-th of what its tensor rank and stage store, and one contiguous part of it, so that in the file
 * too neighbours meet in few places.  Where rows alternate it is a d-th of each tensor, in whole
 * rows, the same on all tensor ranks.
 */
void tr_ckpt_share(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece, int kind, int dp,
                   int d, int64_t *lo, int64_t *hi);

/* Elements that lie together both in the local part and in the tensor. */
struct tr_ckpt_run {
    int64_t whole, elems; /* number of the first in the whole tensor, and how many */
};

/* The longest run that begins at element `at` of the local part of `p`, and ends before `end`. */
struct tr_ckpt_run tr_ckpt_run_at(const struct tr_param *p, int64_t at, int64_t end);

/* The checksum (ckpt/sum.h) of elements lo .. hi - 1 of the local part; `x` is the first one. */
uint64_t tr_ckpt_sum_elems(const struct tr_param *p, const float *x, int64_t lo, int64_t hi);

/* Over the ranks of `c`: `bytes` (a multiple of 4) from rank 0 to all, a text or NULL, which others get to own, and
   the sum modulo 2^64 of n numbers.  Collective. */
void tr_ckpt_tell(struct tr_comm *c, void *data, size_t bytes);
void tr_ckpt_tell_text(struct tr_comm *c, char **text);
void tr_ckpt_add(struct tr_comm *c, uint64_t *x, int n);

#endif
