/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/shuffle.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "config/config.h"
#include "util/rng.h"

struct drawn {
    uint32_t draw;
    int shape;
};

static uint64_t hash(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

static int ascending(const void *a, const void *b)
{
    const struct drawn *x = a, *y = b;

    if (x->draw != y->draw)
        return x->draw < y->draw ? -1 : 1;
    return x->shape - y->shape;
}

bool tr_sweep_shuffles(const struct tr_sweep *w)
{
    return w->repeats > 1 || w->seed != TR_UNSET_INT;
}

void tr_sweep_shuffle(const struct tr_sweep *w, const struct tr_sweep_space *space, int64_t repeat,
                      int *order)
{
    const uint64_t seed = w->seed == TR_UNSET_INT ? 0 : (uint64_t)w->seed;
    const struct tr_rng r = tr_rng_key(seed, TR_STREAM_SWEEP, 0, repeat);
    struct drawn *all = calloc((size_t)space->runs + 1, sizeof *all);

    TR_ASSERT(all);
    for (int i = 0; i < space->runs; i++)
        all[i] =
            (struct drawn){tr_sweep_shuffles(w) ? tr_rng_u32(r, hash(space->shape[i].name)) : 0, i};
    qsort(all, (size_t)space->runs, sizeof *all, ascending);
    for (int i = 0; i < space->runs; i++)
        order[i] = all[i].shape;
    free(all);
}
