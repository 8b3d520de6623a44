/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>

#include "sim/room.h"
#include "util/rng.h"
#include "util/status.h"

/* Messages of a channel that a party may have posted ahead of the others. */
enum { AHEAD = 8, DRAWS = 4, NOBODY = -1 };

struct actor {
    int at, pass;                       /* next step; passes begun */
    int awaited[TR_SIM_SLOTS];          /* messages that were waited for, */
    int posted[TR_SIM_SLOTS];           /*   and posted */
    double since;                       /* it waits from then on */
    int next;                           /* that waits for the same channel */
    double slowest[DRAWS], mean[DRAWS]; /* of the passes that were drawn last */
};

struct lane {
    int posts[AHEAD], begun, done;
    bool busy;
    double began, since, left; /* of the message under way; `left` bytes at `since` */
    double times;              /* what was posted with it, where its volume depends on that */
    unsigned version;          /* of the event that ends it */
    int waiting;               /* first of the actors */
};

enum event_kind { RESUME, ARRIVES, ENDS };

struct event {
    double time;
    enum event_kind kind;
    int id;
    unsigned version;
};

struct engine {
    struct tr_sim_world *v;
    const struct tr_sim_how *how;
    struct tr_sim_result *out;
    struct actor *actor;
    struct lane *lane;
    struct event *heap;
    int events, *changed, changes;
    double now;
};

/* ---- events ---- */

static void push(struct engine *e, double time, enum event_kind kind, int id, unsigned version)
{
    const struct event x = {.time = time, .kind = kind, .id = id, .version = version};
    int i = e->events;

    e->heap = tr_room_grow(e->heap, e->events++, sizeof *e->heap);
    for (; i > 0 && e->heap[(i - 1) / 2].time > time; i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = x;
}

static struct event pop(struct engine *e)
{
    const struct event top = e->heap[0], x = e->heap[--e->events];
    int i = 0;

    for (int child; (child = 2 * i + 1) < e->events; i = child) {
        if (child + 1 < e->events && e->heap[child + 1].time < e->heap[child].time)
            child++;
        if (e->heap[child].time >= x.time)
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = x;
    return top;
}

/* ---- what ranks spend ---- */

static void spend(struct engine *e, int unit, enum tr_sim_cause cause, double begin, double end,
                  const struct tr_sim_step *pass, int slot)
{
    struct tr_sim_result *r = e->out;

    r->spent[unit][cause] += end - begin;
    if (!e->how->watch || !e->how->watch[unit] || end <= begin)
        return;
    r->span = tr_room_grow(r->span, r->spans, sizeof *r->span);
    r->span[r->spans++] = (struct tr_sim_span){.unit = unit,
                                               .chunk = pass ? pass->chunk : 0,
                                               .micro = pass ? pass->micro : -1,
                                               .pass = pass ? pass->pass : TR_FWD,
                                               .cause = cause,
                                               .slot = slot,
                                               .begin = begin,
                                               .end = end};
}

/* ---- channels ---- */

static void advance(struct engine *e, int unit);

/* The time since a message began is that of links; before, somebody was not there. */
static void waited(struct engine *e, int unit, int slot, double began)
{
    const enum tr_sim_cause absent = slot == TR_SIM_REPLICAS ? TR_SIM_SLOWER
                                     : slot == TR_SIM_SUMS   ? TR_SIM_TENSOR
                                                             : TR_SIM_BUBBLE;
    const enum tr_sim_cause moves = slot < TR_SIM_REPLICAS ? TR_SIM_TRANSFER
                                    : slot == TR_SIM_SUMS  ? TR_SIM_TENSOR
                                                           : TR_SIM_REDUCE;
    const double since = e->actor[unit].since, moved = fmin(fmax(began, since), e->now);

    spend(e, unit, absent, since, moved, NULL, slot);
    spend(e, unit, moves, moved, e->now, NULL, slot);
}

static int message_of(const struct engine *e, int flow)
{
    const int j = e->lane[flow].begun - 1, last = e->v->channel[flow].volumes - 1;

    return j < last ? j : last > 0 ? last : 0;
}

/* A message enters a phase. */
static void enter(struct engine *e, int flow)
{
    struct lane *l = &e->lane[flow];

    l->begun++;
    l->busy = true;
    l->began = e->now;
    push(e, e->now + e->v->channel[flow].latency[message_of(e, flow)], ARRIVES, flow, 0);
}

static void begin_next(struct engine *e, int flow)
{
    struct lane *l = &e->lane[flow];
    int *posts = &l->posts[l->begun % AHEAD];

    if (l->busy || *posts < e->v->channel[flow].parties)
        return;
    *posts = 0;
    enter(e, flow);
}

static void arrived(struct engine *e, int flow)
{
    struct lane *l = &e->lane[flow];
    int unit = l->waiting;

    l->busy = false;
    l->done++;
    l->waiting = NOBODY;
    while (unit != NOBODY) {
        const int next = e->actor[unit].next;

        advance(e, unit);
        unit = next;
    }
    begin_next(e, flow);
}

static void finish(struct engine *e, int flow)
{
    const struct tr_sim_channel *c = &e->v->channel[flow];

    if (c->next >= 0)
        enter(e, c->next);
    else
        arrived(e, c->first);
}

static double volume_of(const struct engine *e, int flow)
{
    const struct tr_sim_channel *c = &e->v->channel[flow];

    return c->volumes > 0 ? c->volume[message_of(e, flow)] : e->lane[c->first].times * c->volume[0];
}

static void set_active(struct engine *e, int flow, bool active)
{
    e->v->net.flow[flow].active = active;
    e->v->net.flow[flow].rate = 0.0;
    e->changed[e->changes++] = flow;
}

static void arrives(struct engine *e, int flow)
{
    struct lane *l = &e->lane[flow];
    const double bytes = volume_of(e, flow);

    tr_net_count(&e->v->net, flow, bytes);
    if (bytes <= 0.0) {
        finish(e, flow);
        return;
    }
    l->left = bytes;
    l->since = e->now;
    set_active(e, flow, true);
}

static void moved(void *at, int flow, double rate)
{
    struct engine *e = at;
    struct lane *l = &e->lane[flow];
    struct tr_net_flow *f = &e->v->net.flow[flow];

    l->left = fmax(0.0, l->left - f->rate * (e->now - l->since));
    l->since = e->now;
    f->rate = rate;
    push(e, e->now + l->left / rate, ENDS, flow, ++l->version);
}

/* ---- groups ---- */

/* Times of the next passes of a group: each rank draws its own. */
static void draw(struct engine *e, int unit, struct actor *a)
{
    const struct tr_sim_unit *u = &e->v->unit[unit];
    const int w = e->v->w;

    for (int i = 0; i < DRAWS; i++)
        a->slowest[i] = e->how->jitter > 0.0 ? 0.0 : u->slowest, a->mean[i] = u->mean;
    for (int t = 0; t < w && e->how->jitter > 0.0; t++) {
        const struct tr_rng key =
            tr_rng_key(e->how->seed, TR_STREAM_SIM_PASS, e->how->draw, u->rank + t);
        float z[DRAWS];

        tr_rng_normal(key, (uint64_t)a->pass, DRAWS, z);
        for (int i = 0; i < DRAWS; i++) {
            const double x = e->v->factor[unit * w + t] * exp(e->how->jitter * (double)z[i]);

            a->slowest[i] = fmax(a->slowest[i], x);
            a->mean[i] = (t > 0 ? a->mean[i] : 0.0) + x / w;
        }
    }
}

/* The bytes of sums that take their time and are no flows. */
static void count_sums(struct engine *e, int unit, double seconds)
{
    for (int flow = e->v->unit[unit].flow[TR_SIM_SUMS]; flow >= 0; flow = e->v->channel[flow].next)
        tr_net_count(&e->v->net, flow, seconds * e->v->channel[flow].volume[0]);
}

static double pass(struct engine *e, int unit, const struct tr_sim_step *s)
{
    struct actor *a = &e->actor[unit];
    const int i = a->pass % DRAWS;
    double own, end;

    if (i == 0)
        draw(e, unit, a);
    a->pass++;
    own = e->now + a->mean[i] * s->seconds;
    end = e->now + a->slowest[i] * s->seconds;
    if (!e->v->unit[unit].shares && s->tensor > 0.0) {
        end += s->tensor;
        count_sums(e, unit, s->tensor);
    }
    spend(e, unit, TR_SIM_COMPUTE, e->now, own, s, -1);
    spend(e, unit, TR_SIM_TENSOR, own, end, s, -1);
    return end;
}

static void post(struct engine *e, int unit, const struct tr_sim_step *s)
{
    const int flow = e->v->unit[unit].flow[s->slot];
    struct lane *l = &e->lane[flow];
    struct actor *a = &e->actor[unit];

    TR_ASSERT(a->posted[s->slot] - l->begun < AHEAD);
    l->posts[a->posted[s->slot]++ % AHEAD]++;
    l->times = s->seconds;
    begin_next(e, flow);
}

/* False if it waits from now on. */
static bool await(struct engine *e, int unit, int slot)
{
    const int flow = e->v->unit[unit].flow[slot];
    struct actor *a = &e->actor[unit];
    struct lane *l = &e->lane[flow];

    if (l->done > a->awaited[slot]) {
        a->awaited[slot]++;
        waited(e, unit, slot, l->began);
        a->since = e->now;
        return true;
    }
    a->next = l->waiting;
    l->waiting = unit;
    return false;
}

/* Steps of a group until one takes time. */
static void advance(struct engine *e, int unit)
{
    struct actor *a = &e->actor[unit];
    const struct tr_sim_program *p = &e->v->program[e->v->unit[unit].stage];

    for (; a->at < p->steps; a->at++) {
        const struct tr_sim_step *s = &p->step[a->at];

        if (s->slot == TR_SIM_SUMS && !e->v->unit[unit].shares)
            continue;
        if (s->kind == TR_SIM_POST) {
            post(e, unit, s);
        } else if (s->kind == TR_SIM_AWAIT) {
            if (!await(e, unit, s->slot))
                return;
        } else {
            const double end = s->kind == TR_SIM_PASS ? pass(e, unit, s) : e->now + s->seconds;

            if (s->kind == TR_SIM_DELAY)
                spend(e, unit, s->cause, e->now, end, NULL, -1);
            a->at++;
            a->since = end;
            push(e, end, RESUME, unit, 0);
            return;
        }
    }
    a->since = e->now;
    e->out->seconds = fmax(e->out->seconds, e->now);
}

static void handle(struct engine *e, const struct event *x)
{
    e->out->events++;
    if (x->kind == RESUME) {
        advance(e, x->id);
    } else if (x->kind == ARRIVES) {
        arrives(e, x->id);
    } else if (x->version == e->lane[x->id].version && e->v->net.flow[x->id].active) {
        set_active(e, x->id, false);
        finish(e, x->id);
    }
}

/* Rates change once all that happens at a time has happened. */
static void share(struct engine *e)
{
    const int count = e->changes;

    e->changes = 0;
    tr_net_share(&e->v->net, e->changed, count, moved, e);
}

static void loop(struct engine *e)
{
    while (e->events > 0) {
        e->now = e->heap[0].time;
        while (e->events > 0 && e->heap[0].time <= e->now) {
            const struct event x = pop(e);

            handle(e, &x);
        }
        if (e->changes > 0)
            share(e);
    }
}

/* Stages of fewer parameters are done earlier, and wait for the others in the next iteration. */
static void wait_for_all(struct engine *e)
{
    for (int i = 0; i < e->v->units; i++) {
        TR_ASSERT(e->actor[i].at == e->v->program[e->v->unit[i].stage].steps);
        spend(e, i, TR_SIM_BUBBLE, e->actor[i].since, e->out->seconds, NULL, -1);
    }
}

void tr_sim_run(struct tr_sim_world *v, const struct tr_sim_how *how, struct tr_sim_result *out)
{
    struct engine e = {.v = v, .how = how, .out = out};

    *out = (struct tr_sim_result){.spent = tr_room(v->units, sizeof *out->spent)};
    e.actor = tr_room(v->units, sizeof *e.actor);
    e.lane = tr_room(v->net.flows, sizeof *e.lane);
    /* Between two shares of links a flow ends and the next one of its channel begins. */
    e.changed = tr_room(2 * v->net.flows, sizeof *e.changed);
    for (int i = 0; i < v->net.flows; i++)
        e.lane[i].waiting = NOBODY;
    for (int i = 0; i < v->net.links; i++)
        v->net.link[i].bytes = 0.0;
    for (int i = 0; i < v->units; i++)
        advance(&e, i);
    loop(&e);
    wait_for_all(&e);
    free(e.actor);
    free(e.lane);
    free(e.heap);
    free(e.changed);
}

void tr_sim_result_release(struct tr_sim_result *r)
{
    free(r->spent);
    free(r->span);
    *r = (struct tr_sim_result){.seconds = 0.0};
}
