/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SNAPSHOT_H
#define TR_CKPT_SNAPSHOT_H

#include <pthread.h>
#include <stdint.h>

#include "ckpt/saving.h"

/*
 * A copy, in memory of the host, of what a rank writes into a checkpoint, made while training goes on: copy on write.
 * What is copied is cut into regions, and each is copied once, by whoever takes it first: a thread that goes from one
 * to the next, or the thread that is about to change some elements.  That one claims them before: it copies the regions
 * with them that nobody has taken, and waits for those that are being copied.  So the copy has the numbers of the moment at
 * which it was opened, as long as nothing is changed that was not claimed.
 *
 * Elements are numbered as in a compact buffer (struct tr_ckpt_tensors): those that the rank owns, which have one number
 * for weights and all states.  Regions are in that order, in which the optimizer changes them.
 */
enum { TR_CKPT_REGION = 1 << 20 }; /* elements at most */

struct tr_ckpt_region {
    int64_t first, count; /* element numbers */
    const struct tr_ckpt_piece *piece;
    int kind;
    int64_t lo; /* the first one in the piece */
    float *to;
    enum { TR_REGION_WAITS, TR_REGION_TAKEN, TR_REGION_COPIED } state;
};

struct tr_ckpt_snapshot {
    const struct tr_ckpt_map *map; /* borrowed */
    int count;
    struct tr_ckpt_region *region; /* [count], owned, ascending */
    pthread_mutex_t lock;          /* of each state, and of */
    int left;                      /* regions that are not copied yet */
    pthread_cond_t copied;
};

/* Of what this rank writes, into `room`, the parts of all pieces one after the other; `elems` has room enough.  Both are
   borrowed, as is `v`. */
void tr_ckpt_snapshot_open(struct tr_ckpt_snapshot *s, const struct tr_ckpt_saving *v, float *room,
                           int64_t elems);

/* Nobody copies any more. */
void tr_ckpt_snapshot_close(struct tr_ckpt_snapshot *s);

/* On a thread of its own: copy what nobody has taken, where the host has it at hand (tr_ckpt_at_hand()).  On return
   others may still copy what they took. */
void tr_ckpt_snapshot_run(struct tr_ckpt_snapshot *s);

/* On the thread that has the device's queue: elements at .. at + count - 1 are copied on return, of weights and
   states.  False where they had been before. */
bool tr_ckpt_snapshot_claim(struct tr_ckpt_snapshot *s, int64_t at, int64_t count);

/* The same of all elements; and whether they are copied. */
void tr_ckpt_snapshot_all(struct tr_ckpt_snapshot *s);
bool tr_ckpt_snapshot_done(struct tr_ckpt_snapshot *s);

#endif
