/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/fabric.h"

#include <math.h>
#include <stdlib.h>

#include "sim/room.h"

/* ---- links ---- */

static void add_level(struct tr_sim_links *x, enum tr_net_kind kind, int64_t ranks, double gbs,
                      int world)
{
    if (ranks < 1 || gbs <= 0.0 || (kind > TR_NET_NODE && ranks >= world))
        return;
    x->level[kind].ranks = (int)ranks;
    x->level[kind].first = x->net->links;
    for (int i = 0; i < 2 * ((world + (int)ranks - 1) / (int)ranks); i++)
        (void)tr_net_add_link(x->net, kind, 1e9 * gbs);
}

void tr_sim_links_open(struct tr_net *net, const struct tr_machine *m,
                       const struct tr_sim_fabric *f, int world, struct tr_sim_links *out)
{
    const int64_t node = m->gpus_per_node, leaf = node * f->leaf_nodes,
                  pod = leaf * f->spine_leaves;

    *out = (struct tr_sim_links){.net = net, .node = m->gpus_per_node};
    add_level(out, TR_NET_GPU, 1, m->node_link, world);
    add_level(out, TR_NET_RAIL, 1, f->rail, world);
    add_level(out, TR_NET_NODE, node, (double)node * m->net_link, world);
    add_level(out, TR_NET_LEAF, leaf, (double)leaf * m->net_link / fmax(1.0, f->leaf_over), world);
    add_level(out, TR_NET_SPINE, pod,
              (double)pod * m->net_link / fmax(1.0, f->leaf_over) / fmax(1.0, f->spine_over),
              world);
}

/* Whether a message between these ranks goes over that level. */
static bool crosses(const struct tr_sim_links *x, enum tr_net_kind kind, int from, int to)
{
    const bool inside = from / x->node == to / x->node;

    if (kind == TR_NET_GPU || inside)
        return kind == TR_NET_GPU && inside;
    return x->level[kind].ranks > 0 && from / x->level[kind].ranks != to / x->level[kind].ranks;
}

void tr_sim_links_path(const struct tr_sim_links *x, int flow, int from, int to, double weight)
{
    for (int kind = 0; kind < TR_NET_KINDS; kind++) {
        const int ranks = x->level[kind].ranks, first = x->level[kind].first;

        if (weight <= 0.0 || !crosses(x, (enum tr_net_kind)kind, from, to))
            continue;
        tr_net_add_use(x->net, first + 2 * (from / ranks), flow, weight);
        tr_net_add_use(x->net, first + 2 * (to / ranks) + 1, flow, weight);
    }
}

/* ---- groups ---- */

static int member(const struct tr_sim_group *g, int i)
{
    return g->first + i * g->stride;
}

/* The first member on each node, and behind the last one their number; to be freed. */
static int *starts_of(const struct tr_sim_group *g, int node, int *nodes)
{
    int *start = tr_room(g->ranks + 1, sizeof *start);

    *nodes = 0;
    for (int i = 0; i < g->ranks; i++)
        if (i == 0 || member(g, i) / node != member(g, i - 1) / node)
            start[(*nodes)++] = i;
    start[*nodes] = g->ranks;
    return start;
}

struct tr_sim_spread tr_sim_spread_of(const struct tr_sim_group *g, int node)
{
    struct tr_sim_spread s = {.least = g->ranks};
    int *start = starts_of(g, node, &s.nodes);

    for (int i = 0; i < s.nodes; i++) {
        const int here = start[i + 1] - start[i];

        s.least = here < s.least ? here : s.least;
        s.most = here > s.most ? here : s.most;
    }
    free(start);
    return s;
}

/* ---- trees ---- */

/* Node 0 is the root of tree 0; below it, a number with more zeros at its end is nearer to the root. */
static int parent_of(int node, int n)
{
    const int low = node & -node, up = (node ^ low) | 2 * low;

    return node == 0 ? -1 : up < n ? up : node ^ low;
}

/* Tree 1 is tree 0 from the other end, so that its leaves have even numbers; of an odd number of nodes, from the next one
   on. */
int tr_sim_tree_parent(int tree, int node, int n)
{
    int up;

    if (tree == 0)
        return parent_of(node, n);
    up = parent_of(n % 2 == 0 ? n - 1 - node : (node + n - 1) % n, n);
    return up < 0 ? -1 : n % 2 == 0 ? n - 1 - up : (up + 1) % n;
}

int tr_sim_tree_depth(int n)
{
    int depth = 0;

    while (1 << depth < n)
        depth++;
    return depth;
}

int tr_sim_tree_load(int n)
{
    int *links = tr_room(n, sizeof *links), most = 0;

    for (int tree = 0; tree < 2; tree++)
        for (int i = 0; i < n; i++) {
            const int up = tr_sim_tree_parent(tree, i, n);

            if (up >= 0) {
                links[i]++;
                links[up]++;
            }
        }
    for (int i = 0; i < n; i++)
        most = links[i] > most ? links[i] : most;
    free(links);
    return most;
}

/* ---- collectives ---- */

struct walk {
    const struct tr_sim_links *x;
    const struct tr_sim_group *g;
    int flow, nodes, *start, each; /* rings, or pairs of trees */
};

static int length(const struct walk *w, int node)
{
    return w->start[node + 1] - w->start[node];
}

/* From the i-th member of a node, cyclically, to the j-th of another. */
static void hop(const struct walk *w, int from, int i, int to, int j, double weight)
{
    const int a = w->start[from] + (i + length(w, from)) % length(w, from);
    const int b = w->start[to] + (j + length(w, to)) % length(w, to);

    if (a != b)
        tr_sim_links_path(w->x, w->flow, member(w->g, a), member(w->g, b), weight);
}

/* Ring j comes to the j-th member of each node, passes through the others and leaves by the one before. */
static void rings(const struct walk *w)
{
    for (int node = 0; node < w->nodes; node++) {
        const int n = length(w, node), next = (node + 1) % w->nodes;

        for (int i = 0; i < n; i++)
            hop(w, node, i, node, i + 1,
                w->nodes == 1 ? 1.0 : w->each - ((i + 1) % n < w->each ? 1.0 : 0.0));
        for (int j = 0; j < w->each && w->nodes > 1; j++)
            hop(w, node, j - 1, next, j, 1.0);
    }
}

/* Pair j goes between the j-th members of nodes; inside, up the chain that ends there, and down again. */
static void trees(const struct walk *w)
{
    for (int node = 0; node < w->nodes; node++) {
        for (int i = 0; i < length(w, node); i++) {
            const double chains = 2.0 * (w->each - (i < w->each ? 1.0 : 0.0));

            hop(w, node, i, node, i + 1, chains);
            hop(w, node, i + 1, node, i, chains);
        }
        for (int tree = 0; tree < 2; tree++) {
            const int up = tr_sim_tree_parent(tree, node, w->nodes);

            for (int j = 0; j < w->each && up >= 0; j++) {
                hop(w, node, j, up, j, 1.0);
                hop(w, up, j, node, j, 1.0);
            }
        }
    }
}

static void inside(const struct walk *w)
{
    for (int node = 0; node < w->nodes; node++)
        for (int i = 0; i < length(w, node); i++)
            hop(w, node, i, node, i + 1, 1.0);
}

static void across(const struct walk *w)
{
    for (int node = 0; node < w->nodes; node++)
        for (int j = 0; j < w->each; j++)
            hop(w, node, j, (node + 1) % w->nodes, j, 1.0);
}

void tr_sim_links_way(const struct tr_sim_links *x, int flow, const struct tr_sim_group *g,
                      enum tr_sim_way way)
{
    static void (*const go[])(const struct walk *) = {[TR_SIM_WAY_RING] = rings,
                                                      [TR_SIM_WAY_TREES] = trees,
                                                      [TR_SIM_WAY_INSIDE] = inside,
                                                      [TR_SIM_WAY_ACROSS] = across};
    struct walk w = {.x = x, .g = g, .flow = flow, .each = tr_sim_spread_of(g, x->node).least};

    w.start = starts_of(g, x->node, &w.nodes);
    go[way](&w);
    free(w.start);
}
