/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/joules.h"

#include <stdlib.h>

#include "util/log.h"

static enum tr_status open_mine(struct tr_joules *j, int by)
{
    const struct tr_run *r = j->run;
    const struct tr_backend *on = r->queue.on;
    const enum tr_energy_reader reader = tr_energy_reader(by);
    const struct tr_energy_of of = {
        .by = by, .gpu = on->apart ? on->uuid(r->device) : NULL, .sys = "/sys"};

    if (reader == TR_ENERGY_RANK && r->config->gpu_oversubscribe)
        return TR_FAIL(TR_ECONFIG, "--log-energy counts a GPU for each rank, and with "
                                   "--gpu-oversubscribe ranks share them: leave one of them out");
    if ((reader == TR_ENERGY_NODE && r->launch.local_rank != 0) ||
        (reader == TR_ENERGY_JOB && r->world->rank != 0))
        return TR_OK;
    return tr_energy_open(&j->energy, &of);
}

enum tr_status tr_joules_open(struct tr_joules *j, struct tr_run *run)
{
    const struct tr_config *c = run->config;
    const int by = tr_energy_source(c->energy_source, run->queue.on->apart);

    *j = (struct tr_joules){.run = NULL};
    if (!c->log_energy && c->energy_source != TR_ENERGY_AUTO)
        return TR_FAIL(TR_ECONFIG, "--energy-source says what --log-energy counts by, and without "
                                   "that nothing is counted: add it, or remove --energy-source");
    if (!c->log_energy)
        return TR_OK;
    j->run = run;
    j->energy.by = by;
    TR_TRY(tr_comm_agree(run->world, open_mine(j, by)));
    tr_print_rank0("> energy by %s: %s\n", tr_energy_name(by), tr_energy_what(by));
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
