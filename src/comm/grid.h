/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_GRID_H
#define TR_COMM_GRID_H

#include <stdbool.h>

#include "comm/comm.h"
#include "config/layout.h"
#include "util/status.h"

/*
 * Which rank does what.  Tensor parallelism is fastest, so that the ranks of a tensor-parallel group are
 * neighbours and share a node.  Then come, as Megatron-LM has it, replicas, or with
 * --use-tp-pp-dp-mapping pipeline stages, so that a replica is a block of neighbours:
 *     rank = tp + W * (dp + D * pp)        or        rank = tp + W * (pp + P * dp)
 * with W * D * P = size of the world.  In both the first rank is the first of the first stage, and the last
 * rank the last of the last stage.
 */
struct tr_place {
    int tp, dp, pp;
};

/* Pure; for any size.  The second is the inverse of the first.  Of the layout they read sizes and order. */
struct tr_place tr_grid_place(const struct tr_layout *l, int rank);
int tr_grid_rank(const struct tr_layout *l, struct tr_place at);

/* The same number for a place in either order of ranks, 0 .. W * D * P - 1: for files that ranks write
   and that ranks at the same place read. */
int tr_grid_number(const struct tr_layout *l, struct tr_place at);

/* The last rank of the stage that has the head: it has the loss, and writes the log. */
int tr_grid_log_rank(const struct tr_layout *l);

struct tr_grid {
    int w, p, d;
    struct tr_place at;
    bool has_embedding, has_head; /* its stage */
    struct tr_comm *world;        /* borrowed */
    struct tr_comm tp;            /* same dp and pp; its rank is at.tp */
    struct tr_comm dp;            /* same tp and pp */
    struct tr_comm pp;            /* same tp and dp; its rank is at.pp */
    struct tr_comm mp;            /* model parallel: all ranks with the same dp; for the norm */
    struct tr_comm embed; /* the stages of one pp group with the embedding and the head; size 0 on
                              other stages, size 1 where one has both */
};

/* Split the world.  Collective over it; TR_ECONFIG when w * p * d of the layout is not its size. */
enum tr_status tr_grid_open(struct tr_comm *world, const struct tr_layout *l,
                            struct tr_grid *out) TR_MUST_CHECK;
void tr_grid_close(struct tr_grid *g);

/* The grid as rank `rank` of that layout would see it, with no transport behind its groups and no world:
   to work out what such a rank needs. */
void tr_grid_dry(const struct tr_layout *l, int rank, struct tr_grid *out);

#endif
