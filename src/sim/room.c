/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/room.h"

#include <stdlib.h>

#include "util/status.h"

void *tr_room(int count, size_t size)
{
    void *x = calloc(count > 0 ? (size_t)count : 1, size);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for a simulation: take fewer ranks");
    return x;
}

void *tr_room_grow(void *old, int count, size_t size)
{
    void *x = old;

    if ((count & (count - 1)) == 0)
        x = realloc(old, (count > 0 ? 2 * (size_t)count : 1) * size);
    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for a simulation: take fewer ranks");
    return x;
}
