/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/room.h"
#include "sim/world.h"

/* Colours of units, flows and links: those that may be alike have the same. */
struct colours {
    const struct tr_sim_world *v;
    uint64_t *unit, *flow, *link, *sum;
};

/* A hash of two words: the finalizer of MurmurHash3 (Appleby, public domain constants). */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + UINT64_C(0x632be59bd9b4e019));

    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* What is known of each by itself. */
static void begin(struct colours *c)
{
    const struct tr_sim_world *v = c->v;

    for (int i = 0; i < v->units; i++)
        c->unit[i] = mix(mix((uint64_t)v->unit[i].stage, bits_of(v->unit[i].slowest)),
                         bits_of(v->unit[i].mean));
    for (int i = 0; i < v->net.flows; i++) {
        const struct tr_sim_channel *x = &v->channel[i];

        c->flow[i] = mix(bits_of(v->net.flow[i].limit), (uint64_t)x->volumes);
        for (int j = 0; j < TR_SIM_VOLUMES; j++)
            c->flow[i] = mix(mix(c->flow[i], bits_of(x->latency[j])), bits_of(x->volume[j]));
    }
    for (int i = 0; i < v->net.links; i++)
        c->link[i] = mix((uint64_t)v->net.link[i].kind, bits_of(v->net.link[i].capacity));
}

/* Flows by the units that have them, those before and behind them and the links that can hold them up, then units and links by their flows.  Sums do not
   depend on an order. */
static void refine_flows(struct colours *c)
{
    enum { BEFORE = TR_SIM_SLOTS, BEHIND };
    const struct tr_sim_world *v = c->v;

    memset(c->sum, 0, (size_t)v->net.flows * sizeof *c->sum);
    for (int i = 0; i < v->units; i++)
        for (int slot = 0; slot < TR_SIM_SLOTS; slot++)
            if (v->unit[i].flow[slot] >= 0)
                c->sum[v->unit[i].flow[slot]] += mix(c->unit[i], (uint64_t)slot);
    for (int i = 0; i < v->net.uses; i++)
        if (v->net.link[v->net.use[i].link].binds)
            c->sum[v->net.use[i].flow] +=
                mix(c->link[v->net.use[i].link], bits_of(v->net.use[i].weight));
    for (int i = 0; i < v->net.flows; i++)
        if (v->channel[i].next >= 0) {
            c->sum[i] += mix(c->flow[v->channel[i].next], BEHIND);
            c->sum[v->channel[i].next] += mix(c->flow[i], BEFORE);
        }
    for (int i = 0; i < v->net.flows; i++)
        c->flow[i] = mix(c->flow[i], c->sum[i]);
}

static void refine_units_and_links(struct colours *c)
{
    const struct tr_sim_world *v = c->v;

    for (int i = 0; i < v->units; i++)
        for (int slot = 0; slot < TR_SIM_SLOTS; slot++)
            if (v->unit[i].flow[slot] >= 0)
                c->unit[i] = mix(c->unit[i], c->flow[v->unit[i].flow[slot]]);
    memset(c->sum, 0, (size_t)v->net.links * sizeof *c->sum);
    for (int i = 0; i < v->net.uses; i++)
        c->sum[v->net.use[i].link] +=
            mix(c->flow[v->net.use[i].flow], bits_of(v->net.use[i].weight));
    for (int i = 0; i < v->net.links; i++)
        c->link[i] = mix(c->link[i], c->sum[i]);
}

static int by_colour(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The number of colours; and where `sorted` is wanted, which is freed by the caller, all of them. */
static int distinct(const uint64_t *colour, int n, uint64_t **sorted)
{
    uint64_t *all = tr_room(n, sizeof *all);
    int count = 0;

    memcpy(all, colour, (size_t)n * sizeof *all);
    qsort(all, (size_t)n, sizeof *all, by_colour);
    for (int i = 0; i < n; i++)
        if (count == 0 || all[count - 1] != all[i])
            all[count++] = all[i];
    if (sorted)
        *sorted = all;
    else
        free(all);
    return count;
}

static int count_all(const struct colours *c)
{
    return distinct(c->unit, c->v->units, NULL) + distinct(c->flow, c->v->net.flows, NULL) +
           distinct(c->link, c->v->net.links, NULL);
}

static void refine(struct colours *c)
{
    int before = 0, now = count_all(c);

    while (now > before) {
        before = now;
        refine_flows(c);
        refine_units_and_links(c);
        now = count_all(c);
    }
}

/* Class numbers of elements, in the order of the first of each, so that a world without alike ones keeps its own. */
struct partition {
    int classes;
    int *of;    /* [elements] */
    int *first; /* [classes] */
    double *members;
};

static struct partition partition_of(const uint64_t *colour, int n)
{
    struct partition p = {.of = tr_room(n, sizeof *p.of)};
    uint64_t *sorted;
    const int count = distinct(colour, n, &sorted);
    int *number = tr_room(count, sizeof *number);

    p.first = tr_room(count, sizeof *p.first);
    p.members = tr_room(count, sizeof *p.members);
    for (int i = 0; i < n; i++) {
        const uint64_t *at = bsearch(&colour[i], sorted, (size_t)count, sizeof *sorted, by_colour);
        int *k = &number[at - sorted];

        if (*k == 0) {
            p.first[p.classes] = i;
            *k = ++p.classes;
        }
        p.of[i] = *k - 1;
        p.members[*k - 1]++;
    }
    free(number);
    free(sorted);
    return p;
}

static void close_partition(struct partition *p)
{
    free(p->of);
    free(p->first);
    free(p->members);
}

static void add_net(const struct tr_sim_world *full, const struct partition *flows,
                    const struct partition *links, struct tr_sim_world *out)
{
    const struct tr_net *n = &full->net;

    for (int i = 0; i < flows->classes; i++) {
        const int first = flows->first[i];

        (void)tr_net_add_flow(&out->net, n->flow[first].limit);
        out->channel[i] = full->channel[first];
        out->channel[i].parties = 0;
        out->channel[i].first = flows->of[out->channel[i].first];
        if (out->channel[i].next >= 0)
            out->channel[i].next = flows->of[out->channel[i].next];
    }
    for (int i = 0; i < links->classes; i++) {
        const int first = links->first[i];

        (void)tr_net_add_link(&out->net, n->link[first].kind, n->link[first].capacity);
        out->net.link[i].members = links->members[i];
        for (int u = n->of_link[first]; u < n->of_link[first + 1]; u++)
            tr_net_add_use(&out->net, i, flows->of[n->use[u].flow], n->use[u].weight);
    }
    tr_net_index(&out->net);
}

static void add_units(const struct tr_sim_world *full, const struct partition *units,
                      const struct partition *flows, struct tr_sim_world *out)
{
    for (int i = 0; i < units->classes; i++) {
        struct tr_sim_unit *u = &out->unit[i];

        *u = full->unit[units->first[i]];
        u->members = units->members[i];
        for (int slot = 0; slot < TR_SIM_SLOTS; slot++)
            if (u->flow[slot] >= 0) {
                u->flow[slot] = flows->of[u->flow[slot]];
                out->channel[u->flow[slot]].parties++;
            }
    }
}

void tr_sim_classes(const struct tr_sim_world *full, struct tr_sim_world *out)
{
    const int flows = full->net.flows, links = full->net.links;
    struct colours c = {.v = full,
                        .unit = tr_room(full->units, sizeof *c.unit),
                        .flow = tr_room(flows, sizeof *c.flow),
                        .link = tr_room(links, sizeof *c.link),
                        .sum = tr_room(flows > links ? flows : links, sizeof *c.sum)};
    struct partition unit, flow, link;

    begin(&c);
    refine(&c);
    unit = partition_of(c.unit, full->units);
    flow = partition_of(c.flow, flows);
    link = partition_of(c.link, links);
    *out = (struct tr_sim_world){.units = unit.classes,
                                 .stages = full->stages,
                                 .w = full->w,
                                 .program = full->program,
                                 .borrowed = true,
                                 .unit = tr_room(unit.classes, sizeof *out->unit),
                                 .channel = tr_room(flow.classes, sizeof *out->channel)};
    add_net(full, &flow, &link, out);
    add_units(full, &unit, &flow, out);
    out->class_of = unit.of;
    unit.of = NULL;
    close_partition(&unit);
    close_partition(&flow);
    close_partition(&link);
    free(c.unit);
    free(c.flow);
    free(c.link);
    free(c.sum);
}
