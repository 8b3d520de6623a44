/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_JOULES_H
#define TR_TRAIN_JOULES_H

#include "telemetry/energy.h"
#include "train/run.h"

/* --log-energy: what all ranks use for training, as those count it who read the counters of --energy-source. */
struct tr_joules {
    struct tr_run *run; /* borrowed; NULL: nobody counts */
    struct tr_energy energy;
};

/* Before the first iteration.  Collective over the world; TR_ECONFIG or TR_ERESOURCE on all ranks. */
enum tr_status tr_joules_open(struct tr_joules *j, struct tr_run *run) TR_MUST_CHECK;

/* Joules of all ranks since the last call; 0 where nobody counts.  Collective over the world. */
double tr_joules_take(struct tr_joules *j);

/* Evaluation and saving, between leave() and enter(), are not training. */
void tr_joules_leave(struct tr_joules *j);
void tr_joules_enter(struct tr_joules *j);

#endif
