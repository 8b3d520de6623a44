/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_ENERGY_H
#define TR_TELEMETRY_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * Joules that this process counts, by a row of telemetry/energy.def.
 *
 * RAPL: the zones of Linux' powercap folder, intel-rapl:N and below, that are named package-N or dram: a package has its
 * cores in it, and no memory.  energy_uj, microjoules, begins again at 0 after max_energy_range_uj; a counter has to be
 * read more often than it does, which takes a minute at the very least.
 *
 * NVML: nvmlDeviceGetTotalEnergyConsumption(), millijoules since the driver was loaded, of GPUs since Volta.  The
 * library is looked for when it is wanted and not before.
 */
enum tr_energy_by {
#define SOURCE(symbol, name, apart, what) TR_ENERGY_##symbol,
#include "telemetry/energy.def"
    TR_ENERGY_SOURCES
};

struct tr_energy_of {
    const char *gpu;    /* UUID of the GPU to count, or NULL: the node */
    const char *folder; /* "/sys/class/powercap" */
};

struct tr_energy {
    enum tr_energy_by by;
    int counters; /* 0: closed, or not this process' to count */
    struct tr_energy_counter {
        char path[160];
        void *gpu;    /* NVML's handle */
        double range; /* joules after which it begins again; 0: never */
        double last;  /* joules */
    } counter[32];
    double joules; /* since it was taken, without what was left out */
};

/* The source for that; *e counts from now on.  TR_ERESOURCE with a sentence when there is none that can be read. */
enum tr_status tr_energy_open(struct tr_energy *e, const struct tr_energy_of *of) TR_MUST_CHECK;

/* Joules since it was last taken. */
double tr_energy_take(struct tr_energy *e);

/* What is used from leave() to enter() does not count. */
void tr_energy_leave(struct tr_energy *e);
void tr_energy_enter(struct tr_energy *e);

/* The name of a source, and what it counts. */
const char *tr_energy_name(enum tr_energy_by by);
const char *tr_energy_what(enum tr_energy_by by);

#endif
