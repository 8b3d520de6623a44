/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_FABRIC_H
#define TR_SIM_FABRIC_H

#include "config/machine.h"
#include "sim/net.h"

/* The network beyond nodes.  0: no such level, or as quick as all below it. */
struct tr_sim_fabric {
    double rail;                  /* GB/s of one GPU's network adapter */
    int leaf_nodes, spine_leaves; /* nodes under a leaf switch; leaf switches of a pod */
    double leaf_over, spine_over; /* oversubscription, at least 1 */
};

/* The links of all ranks in a net, and which of them lie between two ranks. */
struct tr_sim_links {
    struct tr_net *net; /* borrowed */
    int node;           /* ranks of a node */
    struct {
        int ranks, first; /* ranks under one link, or 0; number of the first link */
    } level[TR_NET_KINDS];
};
void tr_sim_links_open(struct tr_net *net, const struct tr_machine *m,
                       const struct tr_sim_fabric *f, int world, struct tr_sim_links *out);

/* A flow takes `weight` times its rate from `from` to `to`. */
void tr_sim_links_path(const struct tr_sim_links *x, int flow, int from, int to, double weight);

/* Ranks first, first + stride, ..., which stand in the order of nodes. */
struct tr_sim_group {
    int first, stride, ranks;
};

/* The nodes of a group, and how many members the one with least has, and the one with most. */
struct tr_sim_spread {
    int nodes, least, most;
};
struct tr_sim_spread tr_sim_spread_of(const struct tr_sim_group *g, int node);

/*
 * The links of a collective, for a flow whose rate is that of one ring, or of one tree.  There are as many rings as the
 * node with least members has, each of which enters and leaves nodes by adapters of its own, and as many pairs of trees.
 */
enum tr_sim_way {
    TR_SIM_WAY_RING,   /* through all members of all nodes */
    TR_SIM_WAY_TREES,  /* of nodes, up and down at once, from chains of the members of each */
    TR_SIM_WAY_INSIDE, /* a ring in each node */
    TR_SIM_WAY_ACROSS  /* a ring of the members with the same place in their nodes */
};
void tr_sim_links_way(const struct tr_sim_links *x, int flow, const struct tr_sim_group *g,
                      enum tr_sim_way way);

/*
 * Two trees of n nodes in which no node passes on much more than others, since a node with two children in one is a leaf
 * in the other (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009;
 * NCCL's are the same).  The parent of a node in tree 0 or 1, or -1; the steps from the farthest leaf to a root; and the
 * links, of both trees together, of the node that has most.
 */
int tr_sim_tree_parent(int tree, int node, int n);
int tr_sim_tree_depth(int n);
int tr_sim_tree_load(int n);

#endif
