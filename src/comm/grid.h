/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_GRID_H
#define TR_COMM_GRID_H

#include <stdbool.h>

#include "comm/comm.h"
#include "util/status.h"

/*
 * Which rank does what.  Megatron's map, tensor parallelism fastest, pipeline slowest, so that the
 * ranks of a tensor-parallel group are neighbours and share a node:
 *     rank = tp + W * (dp + D * pp)        W * D * P = size of the world
 */
struct tr_place {
    int tp, dp, pp;
};

/* Pure; for any size.  The second is the inverse of the first. */
struct tr_place tr_grid_place(int rank, int w, int d);
int tr_grid_rank(struct tr_place at, int w, int d);

struct tr_grid {
    int w, p, d;
    struct tr_place at;
    bool first_stage, last_stage;
    struct tr_comm *world; /* borrowed */
    struct tr_comm tp;     /* same dp and pp; its rank is at.tp */
    struct tr_comm dp;     /* same tp and pp */
    struct tr_comm pp;     /* same tp and dp; its rank is at.pp */
    struct tr_comm mp;     /* model parallel: all ranks with the same dp; for the norm */
    struct tr_comm embed;  /* first and last stage of one pp group; size 0 on other stages,
                              size 1 when P is 1 */
};

/* Split the world.  Collective over it; TR_ECONFIG when w * p * d is not its size. */
enum tr_status tr_grid_open(struct tr_comm *world, int w, int p, int d,
                            struct tr_grid *out) TR_MUST_CHECK;
void tr_grid_close(struct tr_grid *g);

/* The grid as rank `rank` of w * p * d would see it, with no transport behind its groups and no world:
   to work out what such a rank needs. */
void tr_grid_dry(int w, int p, int d, int rank, struct tr_grid *out);

#endif
