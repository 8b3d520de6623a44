/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/launch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct facts {
    char host[64];
    cpu_set_t mask;
};

void tr_launch_read(struct tr_comm *world, struct tr_launch *out)
{
    struct facts mine, *all = calloc((size_t)world->size, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    memset(&mine, 0, sizeof mine);
    gethostname(mine.host, sizeof mine.host - 1);
    /* More than 1024 processors: the mask does not fit, and one core is the safe guess. */
    if (sched_getaffinity(0, sizeof mine.mask, &mine.mask) != 0)
        CPU_SET(0, &mine.mask);
    world->via->gather_all(world, &mine, sizeof mine, all);

    memset(out, 0, sizeof *out);
    out->cores = CPU_COUNT(&mine.mask);
    for (int r = 0; r < world->size; r++) {
        int first = 0;

        while (strcmp(all[first].host, all[r].host) != 0)
            first++;
        out->nodes += first == r;
        if (strcmp(all[r].host, mine.host) != 0)
            continue;
        out->local_rank += r < world->rank;
        out->local_size++;
        out->sharers += CPU_EQUAL(&all[r].mask, &mine.mask) != 0;
    }
    free(all);
}

int tr_launch_threads(const struct tr_launch *l)
{
    int threads = l->cores / l->sharers;

    return threads > 0 ? threads : 1;
}
