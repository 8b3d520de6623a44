/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/route.h"

#include "util/status.h"

int tr_route_number(struct tr_route r, struct tr_vstage at)
{
    const bool back = r.vee && at.chunk == 1;

    return at.chunk * r.ranks + (back ? r.ranks - 1 - at.rank : at.rank);
}

struct tr_vstage tr_route_at(struct tr_route r, int number)
{
    const int chunk = number / r.ranks, rank = number % r.ranks;
    const bool back = r.vee && chunk == 1;

    TR_ASSERT(number >= 0 && number < r.ranks * r.chunks);
    return (struct tr_vstage){back ? r.ranks - 1 - rank : rank, chunk};
}

bool tr_route_is_first(struct tr_route r, struct tr_vstage at)
{
    return tr_route_number(r, at) == 0;
}

bool tr_route_is_last(struct tr_route r, struct tr_vstage at)
{
    return tr_route_number(r, at) == r.ranks * r.chunks - 1;
}

int tr_route_peer(struct tr_route r, struct tr_vstage at, int step)
{
    const int number = tr_route_number(r, at) + step;

    return number < 0 || number >= r.ranks * r.chunks ? -1 : tr_route_at(r, number).rank;
}
