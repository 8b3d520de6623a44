/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/room.h"

const char *tr_net_name(enum tr_net_kind kind)
{
    static const char *const names[] = {
#define LINK(symbol, name, what) name,
#include "sim/links.def"
    };

    return names[kind];
}

int tr_net_add_link(struct tr_net *n, enum tr_net_kind kind, double capacity)
{
    n->link = tr_room_grow(n->link, n->links, sizeof *n->link);
    n->link[n->links] = (struct tr_net_link){.kind = kind, .capacity = capacity, .members = 1.0};
    return n->links++;
}

int tr_net_add_flow(struct tr_net *n, double limit)
{
    n->flow = tr_room_grow(n->flow, n->flows, sizeof *n->flow);
    n->flow[n->flows] = (struct tr_net_flow){.limit = limit};
    return n->flows++;
}

void tr_net_add_use(struct tr_net *n, int link, int flow, double weight)
{
    n->use = tr_room_grow(n->use, n->uses, sizeof *n->use);
    n->use[n->uses++] = (struct tr_net_use){link, flow, weight};
}

static int by_link(const void *a, const void *b)
{
    const struct tr_net_use *x = a, *y = b;

    return x->link != y->link ? (x->link > y->link) - (x->link < y->link)
                              : (x->flow > y->flow) - (x->flow < y->flow);
}

static void merge(struct tr_net *n)
{
    int kept = 0;

    if (n->uses > 0)
        qsort(n->use, (size_t)n->uses, sizeof *n->use, by_link);
    for (int i = 0; i < n->uses; i++) {
        if (kept > 0 && by_link(&n->use[kept - 1], &n->use[i]) == 0)
            n->use[kept - 1].weight += n->use[i].weight;
        else
            n->use[kept++] = n->use[i];
    }
    n->uses = kept;
}

/* Where the uses of each link, and of each flow, begin. */
static void ranges(struct tr_net *n)
{
    int *next = tr_room(n->flows + 1, sizeof *next);

    n->of_link = tr_room(n->links + 1, sizeof *n->of_link);
    n->of_flow = tr_room(n->flows + 1, sizeof *n->of_flow);
    n->by_flow = tr_room(n->uses, sizeof *n->by_flow);
    for (int i = 0; i < n->uses; i++) {
        n->of_link[n->use[i].link + 1]++;
        n->of_flow[n->use[i].flow + 1]++;
    }
    for (int i = 0; i < n->links; i++)
        n->of_link[i + 1] += n->of_link[i];
    for (int i = 0; i < n->flows; i++)
        n->of_flow[i + 1] += n->of_flow[i];
    memcpy(next, n->of_flow, ((size_t)n->flows + 1) * sizeof *next);
    for (int i = 0; i < n->uses; i++)
        n->by_flow[next[n->use[i].flow]++] = i;
    free(next);
}

static void find_binding(struct tr_net *n)
{
    for (int l = 0; l < n->links; l++) {
        double wanted = 0.0;

        for (int u = n->of_link[l]; u < n->of_link[l + 1]; u++)
            wanted += n->use[u].weight * n->flow[n->use[u].flow].limit;
        n->link[l].binds = wanted > n->link[l].capacity * (1.0 + 1e-9);
    }
}

void tr_net_index(struct tr_net *n)
{
    merge(n);
    ranges(n);
    find_binding(n);
    n->queue = tr_room(n->flows, sizeof *n->queue);
    n->near = tr_room(n->links, sizeof *n->near);
    n->seen_link = tr_room(n->links, sizeof *n->seen_link);
    n->seen_flow = tr_room(n->flows, sizeof *n->seen_flow);
    n->taken = tr_room(n->links, sizeof *n->taken);
    n->weight = tr_room(n->links, sizeof *n->weight);
    n->frozen = tr_room(n->links, sizeof *n->frozen);
    n->fixed = tr_room(n->flows, sizeof *n->fixed);
}

void tr_net_release(struct tr_net *n)
{
    void *all[] = {n->link, n->flow,  n->use,       n->of_link,   n->of_flow, n->by_flow, n->queue,
                   n->near, n->taken, n->seen_link, n->seen_flow, n->weight,  n->frozen,  n->fixed};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *n = (struct tr_net){.links = 0};
}

static void see_flow(struct tr_net *n, int f, int *flows)
{
    if (n->seen_flow[f] == n->mark)
        return;
    n->seen_flow[f] = n->mark;
    n->queue[(*flows)++] = f;
}

static void see_link(struct tr_net *n, int l, int *links, int *flows)
{
    if (!n->link[l].binds || n->seen_link[l] == n->mark)
        return;
    n->seen_link[l] = n->mark;
    n->near[(*links)++] = l;
    for (int u = n->of_link[l]; u < n->of_link[l + 1]; u++)
        if (n->flow[n->use[u].flow].active)
            see_flow(n, n->use[u].flow, flows);
}

/* Flows and links that depend on the changed ones, in n->queue and n->near. */
static int reach(struct tr_net *n, const int *changed, int count, int *links)
{
    int flows = 0;

    n->mark++;
    *links = 0;
    for (int i = 0; i < count; i++)
        see_flow(n, changed[i], &flows);
    for (int i = 0; i < flows; i++) {
        const int f = n->queue[i];

        for (int k = n->of_flow[f]; k < n->of_flow[f + 1]; k++)
            see_link(n, n->use[n->by_flow[k]].link, links, &flows);
    }
    return flows;
}

static double level_of(const struct tr_net *n, int l)
{
    return n->weight[l] > 0.0 ? fmax(0.0, n->link[l].capacity - n->taken[l]) / n->weight[l]
                              : INFINITY;
}

static double lowest(const struct tr_net *n, int flows, int links)
{
    double level = INFINITY;

    for (int i = 0; i < flows; i++)
        if (!n->fixed[n->queue[i]])
            level = fmin(level, n->flow[n->queue[i]].limit);
    for (int i = 0; i < links; i++)
        level = fmin(level, level_of(n, n->near[i]));
    return level;
}

static bool held(const struct tr_net *n, int f, double level)
{
    if (n->flow[f].limit <= level)
        return true;
    for (int k = n->of_flow[f]; k < n->of_flow[f + 1]; k++) {
        const int l = n->use[n->by_flow[k]].link;

        if (n->link[l].binds && level_of(n, l) <= level)
            return true;
    }
    return false;
}

static void prepare(struct tr_net *n, int flows, int links)
{
    for (int i = 0; i < links; i++)
        n->taken[n->near[i]] = n->weight[n->near[i]] = n->frozen[n->near[i]] = 0.0;
    for (int i = 0; i < flows; i++)
        n->fixed[n->queue[i]] = !n->flow[n->queue[i]].active;
    for (int i = 0; i < links; i++)
        for (int u = n->of_link[n->near[i]]; u < n->of_link[n->near[i] + 1]; u++)
            if (n->flow[n->use[u].flow].active)
                n->weight[n->near[i]] += n->use[u].weight;
}

static void freeze(struct tr_net *n, int f)
{
    n->fixed[f] = true;
    for (int k = n->of_flow[f]; k < n->of_flow[f + 1]; k++)
        n->frozen[n->use[n->by_flow[k]].link] += n->use[n->by_flow[k]].weight;
}

/* One level: those that it holds are taken out of their links.  Weights are whole numbers, so that the order of flows
   does not matter. */
static int fill(struct tr_net *n, int flows, int links, double level, int *held_now)
{
    int count = 0;

    for (int i = 0; i < flows; i++)
        if (!n->fixed[n->queue[i]] && held(n, n->queue[i], level))
            held_now[count++] = n->queue[i];
    for (int i = 0; i < count; i++)
        freeze(n, held_now[i]);
    for (int i = 0; i < links; i++) {
        const int l = n->near[i];

        n->taken[l] += n->frozen[l] * level;
        n->weight[l] -= n->frozen[l];
        n->frozen[l] = 0.0;
    }
    return count;
}

void tr_net_share(struct tr_net *n, const int *changed, int count,
                  void (*moved)(void *at, int flow, double rate), void *at)
{
    int links, left = 0, flows = reach(n, changed, count, &links);
    int *now = tr_room(flows, sizeof *now);

    prepare(n, flows, links);
    for (int i = 0; i < flows; i++)
        left += !n->fixed[n->queue[i]];
    while (left > 0) {
        const double level = lowest(n, flows, links);
        const int held_now = fill(n, flows, links, level, now);

        for (int i = 0; i < held_now; i++)
            if (n->flow[now[i]].rate < level || n->flow[now[i]].rate > level)
                moved(at, now[i], level);
        left -= held_now;
    }
    free(now);
}

void tr_net_count(struct tr_net *n, int flow, double bytes)
{
    for (int k = n->of_flow[flow]; k < n->of_flow[flow + 1]; k++)
        n->link[n->use[n->by_flow[k]].link].bytes += n->use[n->by_flow[k]].weight * bytes;
}
