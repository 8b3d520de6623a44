/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_PACKING_H
#define TR_MODEL_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "config/dims.h"
#include "config/layout.h"
#include "util/status.h"

/*
 * Parameters of layers in chunks, as in PatrickStar (Fang et al., IEEE TPDS 2023): in the order in which the model has
 * them, one after the other, and one that does not fit in what is left of a chunk begins the next.  A model chunk of
 * a pipeline stage begins a new one, and what is in no layer, embeddings and the head, is in none.
 *
 * Masters, states, weights and gradients of a chunk are rows of the same elements.  The device has slots, for weights
 * and for gradients, each as large as the fullest chunk of the stage: for gradients one more than the chunks of one
 * layer, since some are reduced while others are written, and for weights as many as the memory has room for.  What is
 * left where all have a slot is for masters, states and summed gradients that stay with the device: those of the first
 * parts of the flat buffers (model/param.h).
 */
struct tr_packing {
    int64_t size;    /* elements of a chunk */
    int64_t largest; /* elements of the parameters in the fullest one, padding included */
    int64_t elems;   /* of all parameters in chunks */
    int chunks;
    int at_once;               /* chunks that the parameters of one layer are in, at most */
    int slots, gradient_slots; /* that there is room for; slots may be less than at_once, or 0 */
};

/* Chunks of `size` elements on pipeline stage `stage`; layout->chunks says how much memory there is.  Pure. */
void tr_packing_of(const struct tr_dims *dims, const struct tr_layout *l, int stage, int64_t size,
                   struct tr_packing *out);

/* Share of the elements of chunks, each as large as the fullest, that are parameters: in thousandths. */
int tr_packing_used(const struct tr_packing *p);

/* Bytes of the device that slots take when each layer of the stage has just what it needs. */
int64_t tr_packing_least(const struct tr_packing *p, const struct tr_chunking *c);

/* Sizes that are searched, ascending, into out[]: quarters of a layer up to four layers, then doubled. */
enum { TR_PACKING_SIZES = 48 };
int tr_packing_sizes(const struct tr_dims *dims, const struct tr_layout *l,
                     int64_t out[TR_PACKING_SIZES]);

/* layout->chunks.size, or where that is 0 the size that leaves room for one chunk more than a layer needs on each
   stage, uses most of its elements, and is the smallest of those; without such a one, that which needs least
   memory. */
int64_t tr_packing_size(const struct tr_dims *dims, const struct tr_layout *l);

struct tr_params;

/* How many of the first parts of `ps` have masters, states and summed gradients with the device, each sharded over
   `shards` replicas; never all of them.  0 without chunks.  Pure. */
int tr_packing_stays(const struct tr_params *ps, const struct tr_layout *l, int shards);

/* Whether all stages can work with what the options say: TR_ECONFIG with the smallest size or memory that does. */
enum tr_status tr_packing_check(const struct tr_dims *dims,
                                const struct tr_layout *l) TR_MUST_CHECK;

/* Which of `rows` parameters of each of `layers` layers, elems[rows] large, begin a chunk: begins[layers * rows].
   With size 0 those that begin a layer. */
void tr_packing_begins(const int64_t *elems, int rows, int64_t layers, int64_t size, bool *begins);

#endif
