/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_MERGE_H
#define TR_TOKEN_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "token/dict.h"

/* Scratch memory of a thread. */
struct tr_merge_room;

struct tr_merge_room *tr_merge_room_new(void);
void tr_merge_room_free(struct tr_merge_room *r);

/*
 * Join neighbours of ids[0 .. count), lowest rank first and of equals the leftmost, until no pair
 * applies; in place.  Returns how many are left.  `count` is less than 2^31; the time is
 * count · log(count).
 */
size_t tr_merge(const struct tr_pairs *pairs, struct tr_merge_room *room, int32_t *ids,
                size_t count);

#endif
