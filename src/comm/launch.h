/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_LAUNCH_H
#define TR_COMM_LAUNCH_H

#include "comm/comm.h"

/* What this process was given by whoever started it. */
struct tr_launch {
    int local_rank, local_size; /* among the ranks on this host */
    int nodes;                  /* hosts in the world */
    int cores;                  /* in the affinity mask of this process */
    int sharers;                /* ranks of this host with that very mask: 1 when ranks are bound */
};

/* Collective over `world`. */
void tr_launch_read(struct tr_comm *world, struct tr_launch *out);

/* Threads that a rank should work with: its cores shared fairly among those that share them, at
   least 1. */
int tr_launch_threads(const struct tr_launch *l);

#endif
