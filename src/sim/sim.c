/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/sched.h"
#include "sim/quantile.h"
#include "sim/room.h"

void tr_sim_ask_release(struct tr_sim_ask *a)
{
    free(a->like.speed);
    free(a->watch);
    a->like.speed = NULL;
    a->watch = NULL;
}

/* Passes of all lists of work, and of all groups that are simulated: some seconds and GiB. */
static const double MOST_LISTED = 1e7, MOST_PASSES = 3e8;

static enum tr_status check_size(const struct tr_plan *p, const struct tr_sim_ask *a)
{
    const struct tr_layout *l = &p->shape.layout;
    const int each = tr_sched_splits((enum tr_sched_kind)l->schedule) ? 3 : 2;
    const double listed = (double)each * l->p * l->k * p->shape.batches.micros;
    const bool all = a->every_rank || a->jitter > 0.0;
    const double passes = all ? listed * l->d * (a->jitter > 0.0 ? a->draws : 1) * l->w : listed;

    if (listed > MOST_LISTED)
        return TR_FAIL(TR_ECONFIG,
                       "%d stages of %d chunks with %d micro-batches have %.0f passes, more than "
                       "the %.0f that are simulated: take a smaller --global-batch-size, or fewer "
                       "chunks",
                       l->p, l->k, p->shape.batches.micros, listed, MOST_LISTED);
    if (passes > MOST_PASSES)
        return TR_FAIL(TR_ECONFIG,
                       "%.2g passes of all ranks are more than the %.2g that are simulated one by "
                       "one: take fewer --draws, or leave --jitter and --every-rank out, so that "
                       "ranks that are alike are simulated once",
                       passes, MOST_PASSES);
    return TR_OK;
}

/* Of the group `unit` of the whole, the one that was simulated for it. */
static int simulated(const struct tr_sim_world *v, int unit)
{
    return v->class_of ? v->class_of[unit] : unit;
}

static int unit_of_rank(const struct tr_sim_world *whole, int rank)
{
    int i = 0;

    while (rank < whole->unit[i].rank || rank >= whole->unit[i].rank + whole->w)
        i++;
    return i;
}

static void add_spent(const struct tr_sim_world *v, const struct tr_sim_result *x,
                      struct tr_sim_report *r)
{
    for (int cause = 0; cause < TR_SIM_CAUSES; cause++) {
        struct tr_sim_spent *s = &r->spent[cause];

        *s = (struct tr_sim_spent){.least = INFINITY};
        for (int i = 0; i < v->units; i++) {
            const double seconds = x->spent[i][cause];

            s->mean += seconds * v->unit[i].members / r->of;
            s->least = fmin(s->least, seconds);
            s->most = fmax(s->most, seconds);
        }
    }
}

static void add_use(const struct tr_sim_world *v, double seconds, struct tr_sim_report *r)
{
    for (int i = 0; i < v->net.links; i++) {
        const struct tr_net_link *l = &v->net.link[i];
        struct tr_sim_use *u = &r->use[l->kind];
        const double share = l->bytes / l->capacity / seconds;

        u->gbs = l->capacity / 1e9;
        u->links += (int)l->members;
        u->mean += share * l->members;
        u->busiest = fmax(u->busiest, share);
    }
    for (int kind = 0; kind < TR_NET_KINDS; kind++)
        if (r->use[kind].links > 0)
            r->use[kind].mean /= r->use[kind].links;
}

/* The spans of each watched rank, with its number in place of that of the group. */
static void add_spans(const struct tr_sim_world *whole, const struct tr_sim_world *v,
                      const struct tr_sim_ask *a, const struct tr_sim_result *x,
                      struct tr_sim_report *r)
{
    for (int i = 0; i < a->watched; i++) {
        const int unit = simulated(v, unit_of_rank(whole, a->watch[i]));

        for (int j = 0; j < x->spans; j++) {
            if (x->span[j].unit != unit)
                continue;
            r->span = tr_room_grow(r->span, r->spans, sizeof *r->span);
            r->span[r->spans] = x->span[j];
            r->span[r->spans++].unit = a->watch[i];
        }
    }
}

static void first_draw(const struct tr_sim_world *whole, struct tr_sim_world *v,
                       const struct tr_sim_ask *a, struct tr_sim_how *how, double *seconds,
                       struct tr_sim_report *r)
{
    bool *watch = tr_room(v->units, sizeof *watch);
    struct tr_sim_result x;

    for (int i = 0; i < a->watched; i++)
        watch[simulated(v, unit_of_rank(whole, a->watch[i]))] = true;
    how->watch = watch;
    tr_sim_run(v, how, &x);
    *seconds = x.seconds;
    r->events = x.events;
    add_spent(v, &x, r);
    add_use(v, x.seconds, r);
    add_spans(whole, v, a, &x, r);
    tr_sim_result_release(&x);
    how->watch = NULL;
    free(watch);
}

static void draw_all(const struct tr_sim_world *whole, struct tr_sim_world *v,
                     const struct tr_sim_ask *a, struct tr_sim_report *r)
{
    struct tr_sim_how how = {.jitter = a->jitter, .seed = a->seed};
    double *seconds = tr_room(r->draws, sizeof *seconds);

    first_draw(whole, v, a, &how, &seconds[0], r);
    for (how.draw = 1; how.draw < r->draws; how.draw++) {
        struct tr_sim_result x;

        tr_sim_run(v, &how, &x);
        seconds[how.draw] = x.seconds;
        tr_sim_result_release(&x);
    }
    r->p10 = tr_quantile(seconds, r->draws, 0.1);
    r->p50 = tr_quantile(seconds, r->draws, 0.5);
    r->p90 = tr_quantile(seconds, r->draws, 0.9);
    free(seconds);
}

/* A job that fails more often than that gets nowhere, and months of it are long to simulate. */
static const double LEAST_MTBF = 60.0;

static enum tr_status add_goodput(const struct tr_plan *p, const struct tr_sim_ask *a,
                                  struct tr_sim_report *r)
{
    const int64_t saves = p->config.save_interval;
    const struct tr_failures f = {.mtbf = 3600.0 * p->machine.node_mtbf / p->nodes,
                                  .save = a->save >= 0.0 ? a->save : p->budget.save_seconds,
                                  .restart = a->restart,
                                  .queue = a->queue,
                                  .median = a->queue_median};

    if (f.mtbf > 0.0 && f.mtbf < LEAST_MTBF)
        return TR_FAIL(TR_ECONFIG,
                       "node-mtbf-hours %g of %d nodes is a failure every %.2g s, and a job that "
                       "fails more than once a minute gets nowhere: take fewer nodes, or "
                       "--what-if node-mtbf-hours=%.3g",
                       p->machine.node_mtbf, p->nodes, f.mtbf, p->nodes * 10.0);
    r->goodput = tr_goodput_of(&f, saves == TR_UNSET_INT ? 0.0 : (double)saves * r->p50, a->seed);
    return TR_OK;
}

enum tr_status tr_sim_make(const struct tr_plan *p, const struct tr_sim_ask *a,
                           struct tr_sim_report *out)
{
    const bool all = a->every_rank || a->jitter > 0.0;
    struct tr_sim_world whole, few;

    TR_TRY(check_size(p, a));
    TR_TRY(tr_sim_world_check(p, &a->like));
    tr_sim_world_open(p, &a->like, &whole);
    if (!all)
        tr_sim_classes(&whole, &few);
    *out = (struct tr_sim_report){.planned = p->time.total,
                                  .draws = a->jitter > 0.0 ? a->draws : 1,
                                  .ranks = p->shape.layout.world,
                                  .units = all ? whole.units : few.units,
                                  .of = whole.units,
                                  .replicas_by = whole.replicas_by,
                                  .tensor_by = whole.tensor_by};
    draw_all(&whole, all ? &whole : &few, a, out);
    if (!all)
        tr_sim_world_release(&few);
    tr_sim_world_release(&whole);
    return add_goodput(p, a, out);
}

void tr_sim_release(struct tr_sim_report *r)
{
    free(r->span);
    r->span = NULL;
}
