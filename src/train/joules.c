/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/joules.h"

#include <stdlib.h>

#include "util/log.h"

static enum tr_status open_mine(struct tr_joules *j)
{
    const struct tr_run *r = j->run;
    const struct tr_backend *on = r->queue.on;
    struct tr_energy_of of = {.folder = "/sys/class/powercap"};

    if (on->apart && r->config->gpu_oversubscribe)
        return TR_FAIL(TR_ECONFIG, "--log-energy counts a GPU for each rank, and with "
                                   "--gpu-oversubscribe ranks share them: leave one of them out");
    if (on->apart)
        of.gpu = on->uuid(r->device);
    else if (r->launch.local_rank != 0)
        return TR_OK;
    return tr_energy_open(&j->energy, &of);
}

enum tr_status tr_joules_open(struct tr_joules *j, struct tr_run *run)
{
    *j = (struct tr_joules){.run = NULL};
    if (!run->config->log_energy)
        return TR_OK;
    j->run = run;
    TR_TRY(tr_comm_agree(run->world, open_mine(j)));
    tr_print_rank0("> energy by %s: %s\n", tr_energy_name(j->energy.by),
                   tr_energy_what(j->energy.by));
    return TR_OK;
}

double tr_joules_take(struct tr_joules *j)
{
    struct tr_comm *world;
    double mine, sum = 0.0, *all;

    if (!j->run)
        return 0.0;
    world = j->run->world;
    mine = tr_energy_take(&j->energy);
    all = calloc((size_t)world->size, sizeof *all);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to add up the energy of %d ranks", world->size);
    world->via->gather_all(world, &mine, sizeof mine, all);
    for (int rank = 0; rank < world->size; rank++)
        sum += all[rank];
    free(all);
    return sum;
}

void tr_joules_leave(struct tr_joules *j)
{
    tr_energy_leave(&j->energy);
}

void tr_joules_enter(struct tr_joules *j)
{
    tr_energy_enter(&j->energy);
}
