/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world.h"

#include <math.h>
#include <stdlib.h>

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
    struct tr_sim_world *world;
    struct level {
        int ranks, first; /* ranks under one link, or 0; number of the first link */
    } level[TR_NET_KINDS];
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
}

static int slot_of(const struct tr_sched *s, int chunk, int leg)
{
    return tr_sched_side(s, chunk) * TR_LEGS + leg;
}

static void add_legs(struct tr_sim_program *p, const struct tr_sched *s, const struct tr_instr *in)
{
    for (int leg = 0; leg < TR_LEGS; leg++)
        if (in->legs >> leg & 1 && in->kind != TR_WAIT)
            append(p, TR_SIM_POST, slot_of(s, in->at[leg].chunk, leg));
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

/* What follows the passes. */
static void add_end(const struct maker *k, struct tr_sim_program *p, int stage, bool posted)
{
    const double params = (double)k->plan->stage[stage].params;
    const struct tr_layout *l = k->layout;
    const bool end = tr_layout_has_embedding(l, stage) || tr_layout_has_head(l, stage);

    if (l->d > 1) {
        if (!posted)
            append(p, TR_SIM_POST, TR_SIM_REPLICAS);
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
            add_legs(p, &list, in);
    }
    add_end(k, p, stage, posted);
    tr_sched_release(&list);
    free(chunk);
}

/* ---- network ---- */

static int rank_of(const struct maker *k, int stage, int replica)
{
    return stage * tr_layout_pipeline_stride(k->layout) +
           replica * tr_layout_data_stride(k->layout);
}

static void add_level(struct maker *k, enum tr_net_kind kind, int64_t ranks, double gbs)
{
    struct level *v = &k->level[kind];

    if (ranks < 1 || gbs <= 0.0 || (kind > TR_NET_NODE && ranks >= k->layout->world))
        return;
    v->ranks = (int)ranks;
    v->first = k->world->net.links;
    for (int i = 0; i < 2 * ((k->layout->world + v->ranks - 1) / v->ranks); i++)
        (void)tr_net_add_link(&k->world->net, kind, 1e9 * gbs);
}

static void add_levels(struct maker *k, const struct tr_sim_fabric *f)
{
    const struct tr_machine *m = k->machine;
    const int64_t node = m->gpus_per_node, leaf = node * f->leaf_nodes,
                  pod = leaf * f->spine_leaves;

    add_level(k, TR_NET_GPU, 1, m->node_link);
    add_level(k, TR_NET_RAIL, 1, f->rail);
    add_level(k, TR_NET_NODE, node, (double)node * m->net_link);
    add_level(k, TR_NET_LEAF, leaf, (double)leaf * m->net_link / fmax(1.0, f->leaf_over));
    add_level(k, TR_NET_SPINE, pod,
              (double)pod * m->net_link / fmax(1.0, f->leaf_over) / fmax(1.0, f->spine_over));
}

/* Whether a message between these ranks goes over that level. */
static bool crosses(const struct maker *k, enum tr_net_kind kind, int from, int to)
{
    const int node = k->machine->gpus_per_node;
    const bool inside = from / node == to / node;

    if (kind == TR_NET_GPU || inside)
        return kind == TR_NET_GPU && inside;
    return k->level[kind].ranks > 0 && from / k->level[kind].ranks != to / k->level[kind].ranks;
}

static void add_path(const struct maker *k, int flow, int from, int to)
{
    for (int kind = 0; kind < TR_NET_KINDS; kind++) {
        const struct level *v = &k->level[kind];

        if (!crosses(k, (enum tr_net_kind)kind, from, to))
            continue;
        tr_net_add_use(&k->world->net, v->first + 2 * (from / v->ranks), flow, 1.0);
        tr_net_add_use(&k->world->net, v->first + 2 * (to / v->ranks) + 1, flow, 1.0);
    }
}

/* A flow of each tensor rank of `from` to that of `to`. */
static void add_paths(const struct maker *k, int flow, int from, int to)
{
    for (int t = 0; t < k->layout->w; t++)
        add_path(k, flow, from + t, to + t);
}

static struct tr_sim_channel *add_channel(const struct maker *k, double limit)
{
    struct tr_sim_world *v = k->world;
    struct tr_sim_channel *c;

    v->channel = tr_room_grow(v->channel, v->net.flows, sizeof *v->channel);
    c = &v->channel[tr_net_add_flow(&v->net, limit)];
    *c = (struct tr_sim_channel){.volumes = 1};
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

    c->latency = link.wait + m.gather;
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

/* Of the gradients all but the last bucket, that bucket, and the weights: as bytes on each link of the ring. */
static void volumes(const struct maker *k, int stage, double rate, struct tr_sim_channel *c)
{
    const double params = (double)k->plan->stage[stage].params;
    double during, ahead, forward = 0.0;
    const double there = tr_cost_reduce(&k->cost, params, &during);
    const bool beside = k->config->overlap_grad_reduce && during > 0.0;
    const double bucket = beside ? tr_plan_last_bucket(k->config, there, params) : there;
    double back = tr_cost_gather(&k->cost, params, &ahead);

    for (int chunk = 0; chunk < k->layout->k; chunk++) {
        const struct tr_cost_chunk x = tr_cost_chunk(&k->cost, stage, chunk);

        forward += x.forward + x.tensor_forward;
    }
    forward *= k->layout->k > 1 && !k->layout->vee ? k->layout->group : 1;
    if (ahead > 0.0)
        back = tr_plan_exposed(k->config, back, ahead * forward, params);
    c->volumes = 3;
    c->volume[0] = rate * (there - bucket);
    c->volume[1] = rate * bucket;
    c->volume[2] = rate * back;
}

/* A ring of the replicas of a stage, for each tensor rank. */
static void add_replicas(const struct maker *k, int stage)
{
    const double rate = tr_cost_link_of(&k->cost, TR_COST_REPLICAS).rate;
    const struct tr_layout *l = k->layout;
    const int flow = k->world->net.flows;

    volumes(k, stage, rate, add_channel(k, rate));
    for (int replica = 0; replica < l->d; replica++) {
        add_paths(k, flow, rank_of(k, stage, replica), rank_of(k, stage, (replica + 1) % l->d));
        join(k, unit_of(k, stage, replica), TR_SIM_REPLICAS, flow);
    }
}

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

/* ---- units ---- */

static double factor_of(int rank, const struct tr_sim_speed *speed, int speeds)
{
    double factor = 1.0;

    for (int i = 0; i < speeds; i++)
        if (rank >= speed[i].first && rank <= speed[i].last)
            factor = speed[i].factor;
    return factor;
}

static void add_unit(const struct maker *k, int stage, int replica,
                     const struct tr_sim_speed *speed, int speeds)
{
    struct tr_sim_unit *u = &k->world->unit[unit_of(k, stage, replica)];

    *u = (struct tr_sim_unit){
        .stage = stage, .replica = replica, .rank = rank_of(k, stage, replica), .members = 1.0};
    for (int t = 0; t < k->layout->w; t++) {
        const double factor = factor_of(u->rank + t, speed, speeds);

        k->world->factor[unit_of(k, stage, replica) * k->layout->w + t] = factor;
        u->slowest = fmax(u->slowest, factor);
        u->mean += factor / k->layout->w;
    }
    for (int slot = 0; slot < TR_SIM_SLOTS; slot++)
        u->flow[slot] = -1;
}

void tr_sim_world_open(const struct tr_plan *p, const struct tr_sim_fabric *fabric,
                       const struct tr_sim_speed *speed, int speeds, struct tr_sim_world *out)
{
    const struct tr_layout *l = &p->shape.layout;
    struct maker k = {
        .plan = p, .config = &p->config, .layout = l, .machine = &p->machine, .world = out};

    *out = (struct tr_sim_world){.units = l->p * l->d, .stages = l->p, .w = l->w};
    out->unit = tr_room(out->units, sizeof *out->unit);
    out->factor = tr_room(l->world, sizeof *out->factor);
    out->program = tr_room(l->p, sizeof *out->program);
    tr_cost_init(&k.cost, &p->shape, &p->machine);
    add_levels(&k, fabric);
    for (int stage = 0; stage < l->p; stage++) {
        add_program(&k, stage);
        for (int replica = 0; replica < l->d; replica++)
            add_unit(&k, stage, replica, speed, speeds);
        if (l->d > 1)
            add_replicas(&k, stage);
    }
    add_pipeline(&k);
    for (int replica = 0; replica < l->d && tr_cost_tied(&k.cost) > 0.0; replica++)
        add_tied(&k, replica);
    add_norm(&k);
    tr_net_index(&out->net);
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
