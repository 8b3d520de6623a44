/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world.h"

#include <math.h>
#include <stdlib.h>

#include "dp/dp.h"
#include "pipeline/sched.h"
#include "plan/formulas.h"
#include "sim/room.h"

const char *tr_sim_cause_name(enum tr_sim_cause cause)
{
    static const char *const names[] = {
#define CAUSE(symbol, name, what) name,
#include "sim/causes.def"
    };

    return names[cause];
}

/* What units are made from. */
struct maker {
    const struct tr_plan *plan;
    const struct tr_config *config;
    const struct tr_layout *layout;
    const struct tr_machine *machine;
    struct tr_cost cost;
    const struct tr_sim_like *like;
    struct tr_sim_world *world;
    struct tr_sim_links links;
};

/* ---- programs ---- */

static struct tr_sim_step *append(struct tr_sim_program *p, enum tr_sim_step_kind kind, int slot)
{
    p->step = tr_room_grow(p->step, p->steps, sizeof *p->step);
    p->step[p->steps] = (struct tr_sim_step){.kind = kind, .slot = slot};
    return &p->step[p->steps++];
}

static void exchange(struct tr_sim_program *p, int slot, int messages)
{
    for (int i = 0; i < messages; i++)
        append(p, TR_SIM_POST, slot);
    for (int i = 0; i < messages; i++)
        append(p, TR_SIM_AWAIT, slot);
}

static void delay(struct tr_sim_program *p, enum tr_sim_cause cause, double seconds)
{
    struct tr_sim_step *x = append(p, TR_SIM_DELAY, 0);

    x->cause = cause;
    x->seconds = seconds;
}

static void add_pass(struct tr_sim_program *p, const struct tr_instr *in,
                     const struct tr_cost_chunk *chunk)
{
    struct tr_sim_step *x = append(p, TR_SIM_PASS, 0);
    const struct tr_cost_chunk *c;

    x->pass = in->kind;
    x->chunk = in->at[0].chunk;
    x->micro = in->at[0].micro;
    c = &chunk[x->chunk];
    x->seconds = in->kind == TR_FWD ? c->forward : in->kind == TR_BWD ? c->backward : c->weights;
    x->tensor = in->kind == TR_FWD   ? c->tensor_forward
                : in->kind == TR_BWD ? c->tensor_backward
                                     : 0.0;
    p->passes++;
    if (x->tensor > 0.0) {
        const double seconds = x->tensor;

        append(p, TR_SIM_POST, TR_SIM_SUMS)->seconds = seconds;
        append(p, TR_SIM_AWAIT, TR_SIM_SUMS);
    }
}

static int slot_of(const struct tr_sched *s, int chunk, int leg)
{
    return tr_sched_side(s, chunk) * TR_LEGS + leg;
}

/* A rank that computes meanwhile is slowed down by what it sends. */
static void add_legs(const struct maker *k, struct tr_sim_program *p, const struct tr_sched *s,
                     const struct tr_instr *in)
{
    const bool slows =
        k->machine->overlap < 1.0 && tr_plan_messages_beside(k->config, &k->plan->shape);

    for (int leg = 0; leg < TR_LEGS; leg++) {
        if (!(in->legs >> leg & 1) || in->kind == TR_WAIT)
            continue;
        if (slows && in->kind == TR_START && (1u << leg & (TR_SEND_FWD | TR_SEND_BWD)))
            delay(p, TR_SIM_TRANSFER, (1.0 - k->machine->overlap) * tr_cost_transfer(&k->cost));
        append(p, TR_SIM_POST, slot_of(s, in->at[leg].chunk, leg));
    }
    for (int leg = 0; leg < TR_LEGS; leg++)
        if (in->legs >> leg & 1 && in->kind != TR_START)
            append(p, TR_SIM_AWAIT, slot_of(s, in->at[leg].chunk, leg));
}

/* Passes at the end of a step beside which gradients travel. */
static double passes_beside(const struct maker *k, double params)
{
    const struct tr_layout *l = k->layout;
    double during;

    (void)tr_cost_reduce(&k->cost, params, &during);
    if (!k->config->overlap_grad_reduce || k->layout->d < 2)
        return 0.0;
    return l->k > 1 ? during * (l->vee ? 1 : l->group) * l->k : during;
}

static struct tr_sched list_of(const struct maker *k, int stage)
{
    struct tr_sched list = tr_plan_list(&k->plan->shape, stage, k->plan->shape.batches.micros);

    list.overlap = k->config->overlap_p2p_communication;
    if (tr_sched_build(&list) != TR_OK)
        tr_die(TR_ERESOURCE, "%s", tr_last_error());
    return list;
}

/* ---- network ---- */

static int rank_of(const struct maker *k, int stage, int replica)
{
    return stage * tr_layout_pipeline_stride(k->layout) +
           replica * tr_layout_data_stride(k->layout);
}

/* A flow of each tensor rank of `from` to that of `to`. */
static void add_paths(const struct maker *k, int flow, int from, int to)
{
    for (int t = 0; t < k->layout->w; t++)
        tr_sim_links_path(&k->links, flow, from + t, to + t, 1.0);
}

static struct tr_sim_channel *add_channel(const struct maker *k, double limit)
{
    struct tr_sim_world *v = k->world;
    struct tr_sim_channel *c;

    v->channel = tr_room_grow(v->channel, v->net.flows, sizeof *v->channel);
    c = &v->channel[v->net.flows];
    *c = (struct tr_sim_channel){.first = v->net.flows, .next = -1, .volumes = 1};
    (void)tr_net_add_flow(&v->net, limit);
    return c;
}

/* ---- exchanges ---- */

static int unit_of(const struct maker *k, int stage, int replica)
{
    return stage * k->layout->d + replica;
}

static void join(const struct maker *k, int unit, int slot, int flow)
{
    k->world->unit[unit].flow[slot] = flow;
    k->world->channel[flow].parties++;
}

/* Inside a node, stages have its links, wherever others of the group stand. */
static struct tr_cost_link between(const struct maker *k, int from, int to)
{
    const int node = k->machine->gpus_per_node;

    if (from / node == to / node && from != to)
        return (struct tr_cost_link){1e9 * k->machine->node_link, 1e-6 * k->machine->node_us};
    return tr_cost_link_of(&k->cost, TR_COST_STAGES);
}

/* Messages from a stage to another, in one direction. */
static void add_messages(const struct maker *k, int from, int to, int replica, int send,
                         int receive)
{
    const struct tr_cost_message m = tr_cost_message(&k->cost);
    const int a = rank_of(k, from, replica), b = rank_of(k, to, replica);
    const struct tr_cost_link link = between(k, a, b);
    const int flow = k->world->net.flows;
    struct tr_sim_channel *c = add_channel(k, link.rate);

    c->latency[0] = link.wait + m.gather;
    c->volume[0] = m.bytes;
    add_paths(k, flow, a, b);
    join(k, unit_of(k, from, replica), send, flow);
    join(k, unit_of(k, to, replica), receive, flow);
}

/* Both directions between a chunk, or all of a side, and what comes after it. */
static void add_neighbours(const struct maker *k, struct tr_vstage at)
{
    const struct tr_route route = tr_layout_route(k->layout);
    const struct tr_sched list = {.vee = k->layout->vee};
    struct tr_vstage next;

    if (tr_route_peer(route, at, 1) < 0 || tr_route_peer(route, at, 1) == at.rank)
        return;
    next = tr_route_at(route, tr_route_number(route, at) + 1);
    for (int replica = 0; replica < k->layout->d; replica++) {
        add_messages(k, at.rank, next.rank, replica, slot_of(&list, at.chunk, 0),
                     slot_of(&list, next.chunk, 1));
        add_messages(k, next.rank, at.rank, replica, slot_of(&list, next.chunk, 2),
                     slot_of(&list, at.chunk, 3));
    }
}

static void add_pipeline(const struct maker *k)
{
    const struct tr_layout *l = k->layout;

    for (int stage = 0; stage < l->p; stage++)
        for (int chunk = 0; chunk < (l->vee ? TR_SIDES : 1); chunk++)
            add_neighbours(k, (struct tr_vstage){stage, chunk});
}

/* ---- collectives ---- */

/* Of a group whose plan has the link `to`. */
static struct tr_sim_place place_of(const struct maker *k, const struct tr_sim_group *g,
                                    struct tr_cost_link to)
{
    const struct tr_machine *m = k->machine;
    const double node = m->gpus_per_node, mine = g->stride < node ? node / g->stride : 1.0;
    const struct tr_sim_spread spread = tr_sim_spread_of(g, m->gpus_per_node);

    return (struct tr_sim_place){
        .ranks = g->ranks,
        .spread = spread,
        .inside = {1e9 * m->node_link, 1e-6 * m->node_us},
        .adapter = {1e9 * m->net_link * mine / spread.least, 1e-6 * m->net_us},
        .rate = to.rate,
    };
}

static struct tr_sim_group replicas_of(const struct maker *k, int stage)
{
    return (struct tr_sim_group){rank_of(k, stage, 0), tr_layout_data_stride(k->layout),
                                 k->layout->d};
}

/* A channel for each phase, one behind the other, for `ranks` groups side by side.  Returns the first. */
static int add_collective(const struct maker *k, const struct tr_sim_collective *c,
                          struct tr_sim_group g, int ranks)
{
    const int first = k->world->net.flows;

    for (int i = 0; i < c->phases; i++) {
        struct tr_sim_channel *x = add_channel(k, c->phase[i].limit);

        x->first = first;
        x->next = i + 1 < c->phases ? first + i + 1 : -1;
        for (int t = 0; t < ranks; t++) {
            const struct tr_sim_group one = {g.first + t, g.stride, g.ranks};

            tr_sim_links_way(&k->links, first + i, &one, c->phase[i].way);
        }
    }
    return first;
}

/* Message j is so many of these collectives. */
static void set_message(const struct maker *k, int first, const struct tr_sim_collective *c, int j,
                        double count)
{
    for (int i = 0; i < c->phases; i++) {
        struct tr_sim_channel *x = &k->world->channel[first + i];

        x->volumes = TR_SIM_VOLUMES;
        x->latency[j] = count * c->phase[i].latency;
        x->volume[j] = count * c->phase[i].volume;
    }
}

/* What replicas exchange: a bucket of gradients, one of weights, and how many of each there are. */
struct exchanges {
    struct tr_sim_collective reduce, gather;
    double reduces, gathers, buckets;
};

static struct exchanges planned_exchanges(const struct maker *k, const struct tr_sim_place *place,
                                          double params)
{
    double during;
    const double there = tr_cost_reduce(&k->cost, params, &during);
    const double back = tr_cost_gather(&k->cost, params, &during);
    const double buckets = 1.0 / tr_plan_last_bucket(k->config, 1.0, params);

    return (struct exchanges){.reduce = tr_sim_collective_planned(place, there / buckets),
                              .gather = tr_sim_collective_planned(place, back / buckets),
                              .reduces = buckets,
                              .gathers = buckets,
                              .buckets = buckets};
}

static enum tr_work_collective_kind kind_of(const struct tr_dp_leg *l)
{
    return l->kind == TR_DP_LEG_ALLREDUCE        ? TR_WORK_ALL_REDUCE
           : l->kind == TR_DP_LEG_REDUCE_SCATTER ? TR_WORK_REDUCE_SCATTER
                                                 : TR_WORK_ALL_GATHER;
}

/* Weights go by the algorithm of gradients, over the same channels. */
static struct exchanges exchanges_of(const struct maker *k, const struct tr_sim_place *place,
                                     double params)
{
    const struct tr_dp_cost c = tr_dp_cost(&k->plan->shape, params, k->cost.grad, k->cost.elem);
    struct exchanges x = planned_exchanges(k, place, params);
    enum tr_sim_algorithm a = k->like->algorithm;
    const struct tr_sim_curve *v = k->like->curve;
    const double bytes = c.reduce.bytes / x.buckets, weights = c.gather.bytes / x.buckets;

    if (a == TR_SIM_PLANNED && (!v || v->tensor))
        return x;
    x.reduces *= c.reduce.kind == TR_DP_LEG_ALLREDUCE ? 0.5 * c.reduce.passes : c.reduce.passes;
    x.gathers *= c.gather.passes;
    if (a == TR_SIM_PLANNED) {
        x.reduce =
            tr_sim_collective_planned(place, tr_sim_curve_seconds(v, kind_of(&c.reduce), bytes));
        if (weights > 0.0)
            x.gather = tr_sim_collective_planned(
                place, tr_sim_curve_seconds(v, TR_WORK_ALL_GATHER, weights));
        return x;
    }
    a = tr_sim_algorithm_for(a, place, kind_of(&c.reduce), bytes);
    k->world->replicas_by = a;
    x.reduce = tr_sim_collective_of(a, place, kind_of(&c.reduce), bytes);
    x.gather = tr_sim_collective_of(a, place, TR_WORK_ALL_GATHER, weights);
    return x;
}

/* That all collectives of its group are on the curve. */
static enum tr_status check_curve(const struct tr_plan *p, const struct tr_sim_curve *v,
                                  const struct tr_dp_cost *c, const struct tr_cost *x)
{
    const struct tr_layout *l = &p->shape.layout;
    bool all = true;

    if (v->ranks != (v->tensor ? l->w : l->d))
        return TR_FAIL(TR_ECONFIG,
                       "--collective-curve is of %d ranks, and there are %d %s in a group: "
                       "measure as many, or simulate another layout",
                       v->ranks, v->tensor ? l->w : l->d, v->tensor ? "tensor ranks" : "replicas");
    for (int part = TR_WORK_EMBED; part <= TR_WORK_HEAD && v->tensor; part++)
        for (int i = 0; i < x->work[part].collectives; i++)
            all = all && v->of[x->work[part].collective[i].kind].points > 0;
    if (!v->tensor)
        all = v->of[kind_of(&c->reduce)].points > 0 &&
              (c->gather.bytes <= 0.0 || v->of[TR_WORK_ALL_GATHER].points > 0);
    if (!all)
        return TR_FAIL(TR_ECONFIG, "--collective-curve lacks a call that its group makes in this "
                                   "layout: measure with --call all");
    return TR_OK;
}

enum tr_status tr_sim_world_check(const struct tr_plan *p, const struct tr_sim_like *like)
{
    const struct tr_layout *l = &p->shape.layout;
    const bool plan = like->algorithm == TR_SIM_PLANNED;
    struct tr_dp_cost c;
    struct tr_cost x;

    tr_cost_init(&x, &p->shape, &p->machine);
    c = tr_dp_cost(&p->shape, 1.0, x.grad, x.elem);
    if (like->curve && !plan)
        return TR_FAIL(TR_ECONFIG,
                       "--collective-curve has measured times and --collectives %s computes them: "
                       "leave one of them out",
                       tr_sim_algorithm_name(like->algorithm));
    if (l->d > 1 && (!plan || (like->curve && !like->curve->tensor)) &&
        (c.reduce.kind == TR_DP_LEG_OTHER || c.outer.group > 0 ||
         (c.gather.bytes > 0.0 && c.gather.kind == TR_DP_LEG_OTHER) || p->shape.offload.gradients ||
         p->shape.offload.weights))
        return TR_FAIL(TR_ECONFIG,
                       "--collectives %s is for replicas that sum all gradients at once over all "
                       "of them; these have other messages, hybrid sharding or memory of the "
                       "host in between: take --collectives plan, without a curve of replicas",
                       tr_sim_algorithm_name(like->algorithm));
    return like->curve ? check_curve(p, like->curve, &c, &x) : TR_OK;
}

/* Seconds of the passes of a kind beside which weights or gradients travel: those of one micro-batch, or of a group. */
static double passes_of(const struct maker *k, int stage, enum tr_instr_kind kind)
{
    double sum = 0.0;

    for (int chunk = 0; chunk < k->layout->k; chunk++) {
        const struct tr_cost_chunk x = tr_cost_chunk(&k->cost, stage, chunk);

        sum += kind == TR_FWD   ? x.forward + x.tensor_forward
               : kind == TR_BWD ? x.backward + x.tensor_backward
                                : x.weights;
    }
    return sum * (k->layout->k > 1 && !k->layout->vee ? k->layout->group : 1);
}

static struct exchanges exchanges_at(const struct maker *k, int stage)
{
    const struct tr_sim_group g = replicas_of(k, stage);
    const struct tr_sim_place place = place_of(k, &g, tr_cost_link_of(&k->cost, TR_COST_REPLICAS));

    return exchanges_of(k, &place, (double)k->plan->stage[stage].params);
}

/* What gradients that travel beside passes take of their time, as much as passes take of that of the gradients. */
static double slowed(const struct maker *k, int stage)
{
    const double params = (double)k->plan->stage[stage].params;
    const bool split = tr_sched_splits((enum tr_sched_kind)k->layout->schedule);
    struct exchanges x;
    double during;

    if (!k->config->overlap_grad_reduce || k->machine->overlap >= 1.0)
        return 0.0;
    (void)tr_cost_reduce(&k->cost, params, &during);
    x = exchanges_at(k, stage);
    return (1.0 - k->machine->overlap) *
           tr_plan_hidden(k->config, x.reduces * tr_sim_collective_seconds(&x.reduce),
                          during * passes_of(k, stage, split ? TR_WGT : TR_BWD), params);
}

/* Of the gradients all but the last bucket, that bucket, and the weights. */
static int add_exchanges(const struct maker *k, int stage, const struct exchanges *x, double params)
{
    double during, ahead, seconds = x->gathers * tr_sim_collective_seconds(&x->gather);
    const int first = add_collective(k, &x->reduce, replicas_of(k, stage), k->layout->w);
    double last = x->reduces, gathers = x->gathers;

    (void)tr_cost_reduce(&k->cost, params, &during);
    (void)tr_cost_gather(&k->cost, params, &ahead);
    if (k->config->overlap_grad_reduce && during > 0.0)
        last /= x->buckets;
    if (ahead > 0.0 && seconds > 0.0)
        gathers *= tr_plan_exposed(k->config, k->machine, seconds,
                                   ahead * passes_of(k, stage, TR_FWD), params) /
                   seconds;
    set_message(k, first, &x->reduce, 0, x->reduces - last);
    k->world->channel[first].latency[0] += slowed(k, stage);
    set_message(k, first, &x->reduce, 1, last);
    set_message(k, first, &x->gather, 2, gathers);
    return first;
}

static void add_replicas(const struct maker *k, int stage)
{
    const struct exchanges x = exchanges_at(k, stage);
    const int first = add_exchanges(k, stage, &x, (double)k->plan->stage[stage].params);

    for (int replica = 0; replica < k->layout->d; replica++)
        join(k, unit_of(k, stage, replica), TR_SIM_REPLICAS, first);
}

/* ---- sums inside layers ---- */

static struct tr_sim_place tensor_place(const struct maker *k, struct tr_sim_group *g, int first)
{
    *g = (struct tr_sim_group){first, 1, k->layout->w};
    return place_of(k, g, tr_cost_link_of(&k->cost, TR_COST_TENSOR));
}

static double sum_seconds(const void *at, const struct tr_work_collective *m)
{
    const struct maker *k = at;
    struct tr_sim_collective c;
    struct tr_sim_place place;
    struct tr_sim_group g;

    if (k->like->algorithm == TR_SIM_PLANNED)
        return tr_sim_curve_seconds(k->like->curve, m->kind, m->bytes);
    place = tensor_place(k, &g, 0);
    c = tr_sim_collective_of(k->like->algorithm, &place, m->kind, m->bytes);
    return tr_sim_collective_seconds(&c);
}

/* The first sum of a layer stands for all: of a second of sums its phases have the same parts as of that. */
static struct tr_sim_collective sum_of(const struct maker *k, const struct tr_sim_place *place)
{
    const struct tr_work_collective *m = &k->cost.work[TR_WORK_LAYER].collective[0];
    struct tr_sim_collective c;
    double seconds;

    if (k->like->algorithm == TR_SIM_PLANNED)
        return tr_sim_collective_planned(place, 1.0);
    k->world->tensor_by = tr_sim_algorithm_for(k->like->algorithm, place, m->kind, m->bytes);
    c = tr_sim_collective_of(k->world->tensor_by, place, m->kind, m->bytes);
    seconds = tr_sim_collective_seconds(&c);
    for (int i = 0; i < c.phases; i++) {
        struct tr_sim_phase *x = &c.phase[i];

        x->volume = (x->latency * x->limit + x->volume) / seconds;
    }
    return c;
}

static void add_sums(const struct maker *k, int stage, int replica)
{
    struct tr_sim_group g;
    const struct tr_sim_place place = tensor_place(k, &g, rank_of(k, stage, replica));
    const struct tr_sim_collective c = sum_of(k, &place);
    const int first = add_collective(k, &c, g, 1);

    for (int i = 0; i < c.phases; i++) {
        struct tr_sim_channel *x = &k->world->channel[first + i];

        x->volumes = 0;
        x->volume[0] = c.phase[i].volume;
    }
    join(k, unit_of(k, stage, replica), TR_SIM_SUMS, first);
}

/* Whether others can hold up the sums of a unit. */
static bool held_up(const struct tr_sim_world *v, const struct tr_sim_unit *u)
{
    const struct tr_net *n = &v->net;

    for (int f = u->flow[TR_SIM_SUMS]; f >= 0; f = v->channel[f].next)
        for (int i = n->of_flow[f]; i < n->of_flow[f + 1]; i++)
            if (n->link[n->use[n->by_flow[i]].link].binds)
                return true;
    return false;
}

/* ---- exchanges of two ---- */

static void add_tied(const struct maker *k, int replica)
{
    const int last = tr_layout_head_stage(k->layout), flow = k->world->net.flows;
    const int a = rank_of(k, 0, replica), b = rank_of(k, last, replica);
    const double rate = tr_cost_link_of(&k->cost, TR_COST_STAGES).rate;

    add_channel(k, rate)->volume[0] = rate * tr_cost_tied(&k->cost);
    add_paths(k, flow, a, b);
    add_paths(k, flow, b, a);
    join(k, unit_of(k, 0, replica), TR_SIM_TIED, flow);
    join(k, unit_of(k, last, replica), TR_SIM_TIED, flow);
}

/* The norm of gradients, for which all ranks wait for one another; its few bytes take no time. */
static void add_norm(const struct maker *k)
{
    const int flow = k->world->net.flows;

    (void)add_channel(k, 1.0);
    for (int i = 0; i < k->world->units; i++)
        join(k, i, TR_SIM_NORM, flow);
}

/* ---- what a unit does ---- */

/* What follows the passes, beside which gradients travelled if they were posted. */
static void add_end(const struct maker *k, struct tr_sim_program *p, int stage, bool posted)
{
    const double params = (double)k->plan->stage[stage].params;
    const struct tr_layout *l = k->layout;
    const bool end = tr_layout_has_embedding(l, stage) || tr_layout_has_head(l, stage);

    if (l->d > 1) {
        if (!posted)
            append(p, TR_SIM_POST, TR_SIM_REPLICAS);
        else if (k->machine->overlap < 1.0)
            delay(p, TR_SIM_REDUCE, slowed(k, stage));
        append(p, TR_SIM_POST, TR_SIM_REPLICAS);
        append(p, TR_SIM_AWAIT, TR_SIM_REPLICAS);
        append(p, TR_SIM_AWAIT, TR_SIM_REPLICAS);
    }
    if (end && tr_cost_tied(&k->cost) > 0.0)
        exchange(p, TR_SIM_TIED, 1);
    exchange(p, TR_SIM_NORM, 1);
    delay(p, TR_SIM_OPTIMIZER, tr_cost_optimizer(&k->cost, params));
    if (l->d > 1)
        exchange(p, TR_SIM_REPLICAS, 1);
    delay(p, TR_SIM_REST, 1e-3 * k->machine->step_ms);
}

static void add_program(const struct maker *k, int stage)
{
    struct tr_sim_program *p = &k->world->program[stage];
    struct tr_cost_chunk *chunk = tr_room(k->layout->k, sizeof *chunk);
    struct tr_sched list = list_of(k, stage);
    const double beside = passes_beside(k, (double)k->plan->stage[stage].params);
    const enum tr_instr_kind last = list.split ? TR_WGT : TR_BWD;
    int left = k->layout->k * k->plan->shape.batches.micros;
    bool posted = false;

    for (int c = 0; c < k->layout->k; c++)
        chunk[c] = tr_cost_chunk(&k->cost, stage, c);
    for (int i = 0; i < list.n; i++) {
        const struct tr_instr *in = &list.list[i];

        if (in->kind == last && !posted && left-- <= beside) {
            append(p, TR_SIM_POST, TR_SIM_REPLICAS);
            posted = true;
        }
        if (tr_instr_computes(in))
            add_pass(p, in, chunk);
        else
            add_legs(k, p, &list, in);
    }
    add_end(k, p, stage, posted);
    tr_sched_release(&list);
    free(chunk);
}

/* ---- units ---- */

static double factor_of(int rank, const struct tr_sim_speed *speed, int speeds)
{
    double factor = 1.0;

    for (int i = 0; i < speeds; i++)
        if (rank >= speed[i].first && rank <= speed[i].last)
            factor = speed[i].factor;
    return factor;
}

static void add_unit(const struct maker *k, int stage, int replica)
{
    struct tr_sim_unit *u = &k->world->unit[unit_of(k, stage, replica)];

    *u = (struct tr_sim_unit){
        .stage = stage, .replica = replica, .rank = rank_of(k, stage, replica), .members = 1.0};
    for (int t = 0; t < k->layout->w; t++) {
        const double factor = factor_of(u->rank + t, k->like->speed, k->like->speeds);

        k->world->factor[unit_of(k, stage, replica) * k->layout->w + t] = factor;
        u->slowest = fmax(u->slowest, factor);
        u->mean += factor / k->layout->w;
    }
    for (int slot = 0; slot < TR_SIM_SLOTS; slot++)
        u->flow[slot] = -1;
}

static void add_stage(const struct maker *k, int stage)
{
    const struct tr_layout *l = k->layout;

    add_program(k, stage);
    for (int replica = 0; replica < l->d; replica++) {
        add_unit(k, stage, replica);
        if (l->w > 1)
            add_sums(k, stage, replica);
    }
    if (l->d > 1)
        add_replicas(k, stage);
}

void tr_sim_world_open(const struct tr_plan *p, const struct tr_sim_like *like,
                       struct tr_sim_world *out)
{
    const struct tr_layout *l = &p->shape.layout;
    struct maker k = {.plan = p,
                      .config = &p->config,
                      .layout = l,
                      .machine = &p->machine,
                      .like = like,
                      .world = out};

    *out = (struct tr_sim_world){.units = l->p * l->d, .stages = l->p, .w = l->w};
    out->unit = tr_room(out->units, sizeof *out->unit);
    out->factor = tr_room(l->world, sizeof *out->factor);
    out->program = tr_room(l->p, sizeof *out->program);
    tr_cost_init(&k.cost, &p->shape, &p->machine);
    if (like->algorithm != TR_SIM_PLANNED || (like->curve && like->curve->tensor)) {
        k.cost.message = sum_seconds;
        k.cost.at = &k;
    }
    tr_sim_links_open(&out->net, &p->machine, &like->fabric, l->world, &k.links);
    for (int stage = 0; stage < l->p; stage++)
        add_stage(&k, stage);
    add_pipeline(&k);
    for (int replica = 0; replica < l->d && tr_cost_tied(&k.cost) > 0.0; replica++)
        add_tied(&k, replica);
    add_norm(&k);
    tr_net_index(&out->net);
    for (int i = 0; i < out->units; i++)
        out->unit[i].shares = held_up(out, &out->unit[i]);
}

void tr_sim_world_release(struct tr_sim_world *v)
{
    for (int i = 0; i < v->stages && !v->borrowed; i++)
        free(v->program[i].step);
    if (!v->borrowed)
        free(v->program);
    free(v->factor);
    free(v->class_of);
    free(v->unit);
    free(v->channel);
    tr_net_release(&v->net);
}
