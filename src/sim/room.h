/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_ROOM_H
#define TR_SIM_ROOM_H

#include <stddef.h>

/* Zeroed memory of `count` elements (of one, where that is 0), to be freed; ends the program where there is none. */
void *tr_room(int count, size_t size);

/* Room for one element more than `count`, the last of which are not set; it doubles at powers of two. */
void *tr_room_grow(void *old, int count, size_t size);

#endif
