/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "config/flops.h"
#include "pipeline/sched.h"
#include "plan/cost.h"
#include "plan/plan_parts.h"
#include "plan/formulas.h"
#include "train/run.h"

static double *need(int count)
{
    double *x = calloc((size_t)count, sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left to plan a schedule");
    return x;
}

static void open_passes(struct tr_plan_pipe *v, const struct tr_cost *x)
{
    const struct tr_shape *s = x->s;

    *v = (struct tr_plan_pipe){.s = s,
                               .forward = need(s->layout.p * s->layout.k),
                               .backward = need(s->layout.p * s->layout.k),
                               .weights = need(s->layout.p * s->layout.k)};
    for (int stage = 0; stage < s->layout.p; stage++) {
        double all = 0.0, tensor = 0.0, backward = 0.0, weights = 0.0, link = 0.0;

        for (int chunk = 0; chunk < s->layout.k; chunk++) {
            const struct tr_cost_chunk c = tr_cost_chunk(x, stage, chunk);
            const int at = stage * s->layout.k + chunk;

            v->forward[at] = c.forward + c.tensor_forward;
            v->backward[at] = c.backward + c.tensor_backward;
            v->weights[at] = c.weights;
            all += v->forward[at] + v->backward[at] + v->weights[at];
            tensor += c.tensor_forward + c.tensor_backward;
            backward += v->backward[at];
            weights += v->weights[at];
            link += c.tensor_link;
        }
        if (all <= v->longest)
            continue;
        v->longest = all;
        v->tensor = tensor;
        v->tensor_link = link;
        v->last_backward = backward;
        v->last_weights = weights;
    }
}

void tr_plan_pipe_close(struct tr_plan_pipe *v)
{
    free(v->forward);
    free(v->backward);
    free(v->weights);
}

bool tr_plan_sends(const struct tr_layout *l, int stage, int chunk, int step)
{
    const int to = tr_route_peer(tr_layout_route(l), (struct tr_vstage){stage, chunk}, step);

    return to >= 0 && to != stage;
}

/* Each message makes the chunk that sends it longer. */
void tr_plan_add_transfers(struct tr_plan_pipe *v, double seconds)
{
    const struct tr_shape *s = v->s;

    for (int stage = 0; stage < s->layout.p; stage++) {
        for (int chunk = 0; chunk < s->layout.k; chunk++) {
            const int at = stage * s->layout.k + chunk;

            if (tr_plan_sends(&s->layout, stage, chunk, 1))
                v->forward[at] += seconds;
            if (tr_plan_sends(&s->layout, stage, chunk, -1))
                v->backward[at] += seconds;
        }
    }
}

struct tr_sched tr_plan_list(const struct tr_shape *s, int rank, int micros)
{
    return (struct tr_sched){
        .kind = (enum tr_sched_kind)s->layout.schedule,
        .ranks = s->layout.p,
        .rank = rank,
        .chunks = s->layout.k,
        .micros = micros,
        .group = s->layout.group,
        .vee = s->layout.vee,
    };
}

double tr_plan_work_of(const struct tr_shape *s)
{
    const struct tr_sched list = tr_plan_list(s, 0, s->batches.micros);

    return (double)s->layout.p * s->layout.k * tr_sched_short(&list);
}

static double execute_short(const struct tr_plan_pipe *v, int micros)
{
    const struct tr_shape *s = v->s;
    struct tr_sched *list = calloc((size_t)s->layout.p, sizeof *list);
    double seconds;

    if (!list)
        tr_die(TR_ERESOURCE, "no memory left to plan a schedule");
    for (int rank = 0; rank < s->layout.p; rank++) {
        list[rank] = tr_plan_list(s, rank, micros);
        if (tr_sched_build(&list[rank]) != TR_OK)
            tr_die(TR_ERESOURCE, "%s", tr_last_error());
    }
    seconds = tr_sched_seconds(list, v->forward, v->backward, v->weights);
    for (int rank = 0; rank < s->layout.p; rank++)
        tr_sched_release(&list[rank]);
    free(list);
    return seconds;
}

/* Of a long step, one with fewer groups of micro-batches, and for those left out what one of them adds. */
static double execute(const struct tr_plan_pipe *v)
{
    const struct tr_sched whole = tr_plan_list(v->s, 0, v->s->batches.micros);
    const int micros = tr_sched_short(&whole), group = tr_sched_repeats(&whole);
    const double seconds = execute_short(v, micros);

    if (micros == v->s->batches.micros)
        return seconds;
    return seconds + (double)(v->s->batches.micros - micros) / group *
                         (seconds - execute_short(v, micros - group));
}

/* zb-h1 waits T_W less in each direction: (P - 1) (T_F + T_B - T_W) (Qi et al., ICLR 2024, table 2).  Under zb-v a rank
   begins one chunk later than the one before it, and ends as much later, with all computations one after another. */
static double closed_form(const struct tr_plan_pipe *v)
{
    if (v->s->layout.vee)
        return v->s->batches.micros * v->longest +
               (v->s->layout.p - 1.0) / 2.0 *
                   fmax(v->last_backward, v->longest - v->last_backward - v->last_weights);
    return (v->s->batches.micros + (v->s->layout.p - 1.0) / v->s->layout.k) * v->longest -
           2.0 * (v->s->layout.p - 1.0) * v->last_weights;
}

bool tr_plan_messages_beside(const struct tr_config *c, const struct tr_shape *s)
{
    return s->layout.k > 1 && !s->layout.vee && c->overlap_p2p_communication;
}

double tr_plan_last_bucket(const struct tr_config *c, double seconds, double params)
{
    const double size = (double)tr_dp_bucket(c, true);

    return params > size ? seconds * size / params : seconds;
}

double tr_plan_hidden(const struct tr_config *c, double seconds, double overlapped, double params)
{
    return fmin(overlapped, seconds - tr_plan_last_bucket(c, seconds, params));
}

double tr_plan_exposed(const struct tr_config *c, const struct tr_machine *m, double seconds,
                       double overlapped, double params)
{
    return tr_cost_beside(m, seconds, tr_plan_hidden(c, seconds, overlapped, params));
}

/*
 * Gradients travel while the backward passes of the last micro-batch run, or those for its weights where they are
 * apart, and weights while its first forward passes do.  Interleaved, a chunk is done with all its micro-batches a group of them before
 * the next chunk is.
 */
static double reduce_of(const struct tr_config *c, const struct tr_cost *x,
                        const struct tr_plan_pipe *v, double params,
                        struct tr_plan_wire wire[TR_PLAN_TRAFFICS])
{
    const int ahead = x->s->layout.k > 1 && !x->s->layout.vee ? x->s->layout.group : 1;
    const bool split = tr_sched_splits((enum tr_sched_kind)x->s->layout.schedule);
    const double backward = ahead * (split ? v->last_weights : v->last_backward);
    const double forward = ahead * (v->longest - v->last_backward - v->last_weights);
    double behind, ahead_of;
    double there = tr_cost_reduce(x, params, &behind);
    double back = tr_cost_gather(x, params, &ahead_of);
    const double tied = tr_cost_tied(x);

    wire[TR_PLAN_TRAFFIC_REDUCE].link = there;
    wire[TR_PLAN_TRAFFIC_GATHER].link = back;
    if (c->overlap_grad_reduce && behind > 0.0)
        there = tr_plan_exposed(c, x->m, there, behind * backward, params);
    if (ahead_of > 0.0)
        back = tr_plan_exposed(c, x->m, back, ahead_of * forward, params);
    wire[TR_PLAN_TRAFFIC_REDUCE].exposed = there;
    wire[TR_PLAN_TRAFFIC_GATHER].exposed = back;
    wire[TR_PLAN_TRAFFIC_TIED] = (struct tr_plan_wire){tied, tied};
    return there + back + tied;
}

static void rate(const struct tr_config *c, const struct tr_shape *s, const struct tr_machine *m,
                 struct tr_plan_time *t)
{
    double flops;

    t->formula = tr_flops_formula(c);
    flops = tr_flops_count(t->formula, &s->dims, s->batches.global_batch,
                           s->activations.recompute != TR_RECOMPUTE_NONE);
    t->tflops = flops / t->total / s->layout.world / 1e12;
    t->of_peak = 1e12 * t->tflops / tr_cost_peak(&s->precision, m);
}

static int longest_stage(const struct tr_layout *l)
{
    int64_t most = 0;
    int longest = 0;

    for (int stage = 0; stage < l->p; stage++) {
        int64_t layers = 0;

        for (int chunk = 0; chunk < l->k; chunk++)
            layers += tr_layout_layers(l, stage, chunk);
        if (layers > most) {
            most = layers;
            longest = stage;
        }
    }
    return longest;
}

/* Of chunks in the longest stage. */
static struct tr_cost_moves moves_of(const struct tr_config *c, const struct tr_shape *s)
{
    struct tr_plan_moves m;

    if (s->layout.chunks.memory == 0 ||
        tr_plan_moves_of(c, s, tr_packing_size(&s->dims, &s->layout), longest_stage(&s->layout),
                         &m) != TR_OK)
        return (struct tr_cost_moves){0};
    return (struct tr_cost_moves){m.fetched, m.written, m.gathered};
}

double tr_plan_pipe_open(const struct tr_config *c, const struct tr_shape *s,
                         const struct tr_machine *m, struct tr_plan_pipe *out)
{
    const double felt = tr_plan_messages_beside(c, s) ? 1.0 - m->overlap : 1.0;
    struct tr_cost x;

    tr_cost_init(&x, s, m);
    x.moves = moves_of(c, s);
    open_passes(out, &x);
    return s->layout.p > 1 ? felt * tr_cost_transfer(&x) : 0.0;
}

struct tr_plan_time tr_plan_time_of(const struct tr_config *c, const struct tr_shape *s,
                                    const struct tr_machine *m, int64_t params, bool exact)
{
    const double felt = tr_plan_messages_beside(c, s) ? 1.0 - m->overlap : 1.0;
    struct tr_plan_time t = {.rest = 1e-3 * m->step_ms};
    struct tr_cost x;
    struct tr_plan_pipe v;
    double bare;

    tr_cost_init(&x, s, m);
    if (exact)
        x.moves = moves_of(c, s);
    open_passes(&v, &x);
    t.tensor = s->batches.micros * v.tensor;
    t.compute = s->batches.micros * v.longest - t.tensor;
    bare = exact ? execute(&v) : closed_form(&v);
    t.bubble = bare > t.compute + t.tensor ? bare - t.compute - t.tensor : 0.0;
    if (s->layout.p > 1 && felt > 0.0) {
        tr_plan_add_transfers(&v, felt * tr_cost_transfer(&x));
        t.transfer = exact ? execute(&v) - bare
                           : 2.0 * (s->batches.micros * s->layout.k + s->layout.p - 1) * felt *
                                 tr_cost_transfer(&x);
    }
    t.reduce = reduce_of(c, &x, &v, (double)params, t.wire);
    t.wire[TR_PLAN_TRAFFIC_TENSOR] =
        (struct tr_plan_wire){s->batches.micros * v.tensor_link, t.tensor};
    t.wire[TR_PLAN_TRAFFIC_STAGES] = (struct tr_plan_wire){
        2.0 * s->batches.micros * s->layout.k * tr_cost_transfer(&x), t.transfer};
    t.optimizer = tr_cost_optimizer(&x, (double)params);
    tr_plan_pipe_close(&v);
#define PART(field, name, what) t.total += t.field;
    TR_PLAN_TIMES_OF(PART)
#undef PART
    t.low = t.total * m->time_low;
    t.high = t.total * m->time_high;
    rate(c, s, m, &t);
    return t;
}
