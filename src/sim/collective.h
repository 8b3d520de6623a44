/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_COLLECTIVE_H
#define TR_SIM_COLLECTIVE_H

#include "plan/cost.h"
#include "sim/fabric.h"

enum tr_sim_algorithm {
#define ALGORITHM(symbol, name, what) TR_SIM_##symbol,
#include "sim/algorithms.def"
    TR_SIM_ALGORITHMS
};
const char *tr_sim_algorithm_name(enum tr_sim_algorithm algorithm);

/* Where the ranks of a group stand, and their links: inside a node, of one network adapter while all are used, and the
   rate of all rings of a node together, which is the plan's (plan/cost.h). */
struct tr_sim_place {
    int ranks;
    struct tr_sim_spread spread;
    struct tr_cost_link inside, adapter;
    double rate;
};

/* Phases of a collective, one after the other, each with flows of its own (sim/fabric.h): bytes and B/s of one ring, or
   of one tree.  Alone it takes the sum of latency + volume / limit. */
struct tr_sim_phase {
    enum tr_sim_way way;
    double latency, volume, limit;
};
enum { TR_SIM_PHASES = 3 };
struct tr_sim_collective {
    int phases;
    struct tr_sim_phase phase[TR_SIM_PHASES];
};
double tr_sim_collective_seconds(const struct tr_sim_collective *c);

/* The ring of the plan, in so many seconds. */
struct tr_sim_collective tr_sim_collective_planned(const struct tr_sim_place *p, double seconds);

/*
 * What `algorithm`, not PLANNED, does with an all-reduce, reduce-scatter or all-gather of `bytes`, of n ranks on N nodes
 * with g on each.  A step takes the latency of the slowest link in it, and all bytes are on their way at once, so that
 * with B bytes and r the rate of a node (inside: of a GPU) these are added:
 *
 *     ring           2 (n - 1) / n B / r        2 (n - N) steps inside nodes, 2 (N - 1) between them
 *     tree           2 B / r                    2 (g - 1) and 2 log2(N)
 *     hierarchical   2 (g - 1) / g B / inside   2 (g - 1)
 *                    2 (N - 1) / N B / r        2 (N - 1)
 *
 * Half of that is a reduce-scatter, or an all-gather.  These have no trees, as in NCCL, and take a ring; so does a tree of
 * one node, and hierarchical on one node, with one rank on each, or with other numbers of ranks on each.  Trees of two or
 * three nodes take less.
 * Steps are counted as in the tuning model of NCCL (src/graph/tuning.cc), whose factors for protocols are left out.
 */
struct tr_sim_collective tr_sim_collective_of(enum tr_sim_algorithm algorithm,
                                              const struct tr_sim_place *p,
                                              enum tr_work_collective_kind kind, double bytes);

/* The same, with AUTO replaced by what takes least time. */
enum tr_sim_algorithm tr_sim_algorithm_for(enum tr_sim_algorithm algorithm,
                                           const struct tr_sim_place *p,
                                           enum tr_work_collective_kind kind, double bytes);

#endif
