/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/collective.h"

#include <math.h>

const char *tr_sim_algorithm_name(enum tr_sim_algorithm algorithm)
{
    static const char *const names[] = {
#define ALGORITHM(symbol, name, what) name,
#include "sim/algorithms.def"
    };

    return names[algorithm];
}

double tr_sim_collective_seconds(const struct tr_sim_collective *c)
{
    double sum = 0.0;

    for (int i = 0; i < c->phases; i++)
        sum += c->phase[i].latency + c->phase[i].volume / c->phase[i].limit;
    return sum;
}

static int lanes(const struct tr_sim_place *p)
{
    return p->spread.nodes > 1 ? p->spread.least : 1;
}

struct tr_sim_collective tr_sim_collective_planned(const struct tr_sim_place *p, double seconds)
{
    const double limit = p->rate / lanes(p);

    return (struct tr_sim_collective){
        1, {{.way = TR_SIM_WAY_RING, .volume = limit * seconds, .limit = limit}}};
}

/* Both halves of an all-reduce, or one of them. */
static double halves(enum tr_work_collective_kind kind)
{
    return kind == TR_WORK_ALL_REDUCE ? 2.0 : 1.0;
}

static struct tr_sim_collective ring(const struct tr_sim_place *p,
                                     enum tr_work_collective_kind kind, double bytes)
{
    const double n = p->ranks, nodes = p->spread.nodes;
    const struct tr_sim_phase all = {
        .way = TR_SIM_WAY_RING,
        .latency = halves(kind) * ((n - nodes) * p->inside.wait + (nodes - 1.0) * p->adapter.wait),
        .volume = halves(kind) * (n - 1.0) / n * bytes / lanes(p),
        .limit = p->rate / lanes(p),
    };

    return (struct tr_sim_collective){1, {all}};
}

/* A link of a tree carries half of the bytes of a lane, up and down; a GPU has a part of the chains of all lanes. */
static struct tr_sim_collective tree(const struct tr_sim_place *p, double bytes)
{
    const double each = p->spread.least, chains = 4.0 * (each - 1.0);
    const double between = p->adapter.rate / tr_sim_tree_load(p->spread.nodes);
    const struct tr_sim_phase all = {
        .way = TR_SIM_WAY_TREES,
        .latency = 2.0 * ((p->spread.most - 1) * p->inside.wait +
                          tr_sim_tree_depth(p->spread.nodes) * p->adapter.wait),
        .volume = 0.5 * bytes / each,
        .limit = chains > 0.0 ? fmin(between, p->inside.rate / chains) : between,
    };

    return (struct tr_sim_collective){1, {all}};
}

/* Phases that a reduce-scatter or an all-gather lacks have no bytes. */
static struct tr_sim_collective hierarchical(const struct tr_sim_place *p,
                                             enum tr_work_collective_kind kind, double bytes)
{
    const double each = p->spread.least, nodes = p->spread.nodes;
    const struct tr_sim_phase nothing = {.way = TR_SIM_WAY_INSIDE, .limit = p->inside.rate};
    const struct tr_sim_phase inside = {
        .way = TR_SIM_WAY_INSIDE,
        .latency = (each - 1.0) * p->inside.wait,
        .volume = (each - 1.0) / each * bytes,
        .limit = p->inside.rate,
    };
    const struct tr_sim_phase across = {
        .way = TR_SIM_WAY_ACROSS,
        .latency = halves(kind) * (nodes - 1.0) * p->adapter.wait,
        .volume = halves(kind) * (nodes - 1.0) / nodes * bytes / each,
        .limit = p->adapter.rate,
    };

    return (struct tr_sim_collective){3,
                                      {kind == TR_WORK_ALL_GATHER ? nothing : inside, across,
                                       kind == TR_WORK_REDUCE_SCATTER ? nothing : inside}};
}

/* What it is where the group, or the collective, has no such algorithm. */
static enum tr_sim_algorithm possible(enum tr_sim_algorithm algorithm, const struct tr_sim_place *p,
                                      enum tr_work_collective_kind kind)
{
    const struct tr_sim_spread *s = &p->spread;
    const bool trees = kind == TR_WORK_ALL_REDUCE && s->nodes > 1;
    const bool levels = s->nodes > 1 && s->least == s->most && s->least > 1;

    if ((algorithm == TR_SIM_TREE && !trees) || (algorithm == TR_SIM_HIERARCHICAL && !levels))
        return TR_SIM_RING;
    return algorithm;
}

static struct tr_sim_collective made(enum tr_sim_algorithm algorithm, const struct tr_sim_place *p,
                                     enum tr_work_collective_kind kind, double bytes)
{
    return algorithm == TR_SIM_TREE           ? tree(p, bytes)
           : algorithm == TR_SIM_HIERARCHICAL ? hierarchical(p, kind, bytes)
                                              : ring(p, kind, bytes);
}

enum tr_sim_algorithm tr_sim_algorithm_for(enum tr_sim_algorithm algorithm,
                                           const struct tr_sim_place *p,
                                           enum tr_work_collective_kind kind, double bytes)
{
    enum tr_sim_algorithm best = TR_SIM_RING;
    double least = INFINITY;

    if (algorithm != TR_SIM_AUTO)
        return possible(algorithm, p, kind);
    for (int i = TR_SIM_RING; i < TR_SIM_AUTO; i++) {
        const enum tr_sim_algorithm a = possible((enum tr_sim_algorithm)i, p, kind);
        const struct tr_sim_collective c = made(a, p, kind, bytes);

        if (tr_sim_collective_seconds(&c) < least) {
            least = tr_sim_collective_seconds(&c);
            best = a;
        }
    }
    return best;
}

struct tr_sim_collective tr_sim_collective_of(enum tr_sim_algorithm algorithm,
                                              const struct tr_sim_place *p,
                                              enum tr_work_collective_kind kind, double bytes)
{
    return made(tr_sim_algorithm_for(algorithm, p, kind, bytes), p, kind, bytes);
}
