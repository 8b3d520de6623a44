/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_ENERGY_H
#define TR_TELEMETRY_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "util/status.h"

/*
 * Joules that this process counts, by a row of config/energy.def.
 *
 * NVML: nvmlDeviceGetTotalEnergyConsumption(), millijoules since the driver was loaded, of GPUs since Volta.  The
 * library is looked for when it is wanted and not before.
 *
 * RAPL: the zones of Linux' powercap folder, intel-rapl:N and below, that are named package-N or dram: a package has its
 * cores in it, and no memory.  energy_uj, microjoules, begins again at 0 after max_energy_range_uj; a counter has to be
 * read more often than it does, which takes a minute at the very least.
 *
 * pm_counters: `energy` of the folder cray/pm_counters of HPE Cray's nodes, joules since the node was started; what
 * Slurm's acct_gather_energy/pm_counters reads.
 *
 * Slurm: ConsumedEnergyRaw of `sstat`, joules of all nodes since the job step began, which Slurm samples every
 * JobAcctGatherFrequency=energy=N seconds.
 */
enum tr_energy_reader { TR_ENERGY_RANK, TR_ENERGY_NODE, TR_ENERGY_JOB };

struct tr_energy_of {
    int by;          /* a row of config/energy.def */
    const char *gpu; /* UUID of the GPU of this rank, or NULL */
    const char *sys; /* "/sys" */
};

struct tr_energy {
    int by;       /* a row of config/energy.def */
    int counters; /* 0: closed, or not this process' to count */
    struct tr_energy_counter {
        char path[160];
        void *gpu;    /* NVML's handle */
        double range; /* joules after which it begins again; 0: never */
        double last;  /* joules */
    } counter[32];
    double joules; /* since it was taken, without what was left out */
};

/* *e counts from now on.  TR_ERESOURCE with a sentence when there is nothing that can be read. */
enum tr_status tr_energy_open(struct tr_energy *e, const struct tr_energy_of *of) TR_MUST_CHECK;

/* Joules since it was last taken. */
double tr_energy_take(struct tr_energy *e);

/* What is used from leave() to enter() does not count. */
void tr_energy_leave(struct tr_energy *e);
void tr_energy_enter(struct tr_energy *e);

/* The source that --energy-source means, for ranks that compute on GPUs or not. */
int tr_energy_source(int chosen, bool gpus);

/* The name of a source, what it counts, and who reads it. */
const char *tr_energy_name(int by);
const char *tr_energy_what(int by);
enum tr_energy_reader tr_energy_reader(int by);

#endif
