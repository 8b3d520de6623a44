/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/param.h"
#include "optim/states.h"
#include "pipeline/sched.h"
#include "plan/plan_parts.h"
#include "util/meter.h"

/*
 * Limits of a search: shapes of one number of GPUs, samples of a micro-batch, chunks of a pipeline
 * (each costs a computation), layers that are laid out to count memory.
 */
enum { CANDIDATES = 16384, MOST_MICRO_BATCH = 16, MOST_CHUNKS = 1024 };
/* How much faster another order of ranks must be to be proposed. */
static const double GAIN = 0.999;
static const double MOST_LAYERS = TR_PLAN_MOST_LAYERS, MOST_WORK = 4e6, MIB = 1048576.0;

/* One layout of `world` GPUs for the same model and batch. */
struct candidate {
    int world, w, p, k;
    int64_t last; /* layers of the last stage, where a layout says so; otherwise TR_PLAN_EVEN */
    int64_t micro_batch;
    bool full, sharded, sequence, tp_pp_dp;
    int64_t layer;  /* parameters of a layer */
    int64_t params; /* of its largest stage, the first or one of those with most layers */
    double seconds;
};

/* Options and shape of a candidate. */
struct made {
    struct tr_config c;
    struct tr_shape s;
    char layout[TR_LAYOUT_TEXT]; /* what c has of it */
};

struct search {
    struct tr_plan *plan;
    struct tr_meter meter; /* of shapes that were looked at; how many there are is not known */
    double layers;         /* that have been laid out */
    int count;
    struct candidate *list; /* [CANDIDATES] */
};

static void cut_stages(const struct candidate *x, struct made *m)
{
    m->c.pipeline_model_parallel_layout =
        (char *)(uintptr_t)tr_plan_layout(m->c.num_layers, x->p, x->last, m->layout);
    m->c.decoder_first_pipeline_num_layers = TR_UNSET_INT;
    m->c.decoder_last_pipeline_num_layers = TR_UNSET_INT;
    m->c.account_for_embedding_in_pipeline_split = false;
    m->c.account_for_loss_in_pipeline_split = false;
}

/* A layout that was given is of use to as many stages and chunks. */
static void cut(const struct tr_plan *plan, const struct candidate *x, struct made *m)
{
    struct tr_config *c = &m->c;
    const int64_t layers = c->num_layers;
    const bool kept = c->pipeline_model_parallel_layout && x->last == TR_PLAN_EVEN &&
                      x->p == plan->shape.layout.p && x->k == plan->shape.layout.k;

    if (!kept)
        c->pipeline_model_parallel_layout = NULL;
    c->use_tp_pp_dp_mapping = x->tp_pp_dp;
    c->world_size = x->world;
    c->tensor_model_parallel_size = x->w;
    c->pipeline_model_parallel_size = x->p;
    c->micro_batch_size = x->micro_batch;
    c->global_batch_size = plan->shape.batches.wanted;
    c->gradient_accumulation_steps = TR_UNSET_INT;
    c->checkpoint_activations = x->full;
    c->recompute_activations = false;
    c->recompute_granularity = TR_GRANULARITY_NONE;
    c->recompute_method = TR_RECOMPUTE_NONE;
    c->recompute_num_layers = 1;
    c->sequence_parallel = x->sequence;
    c->distribute_checkpointed_activations =
        c->distribute_checkpointed_activations && x->full && !x->sequence;
    c->use_distributed_optimizer = x->sharded;
    if (!x->sharded || c->zero_stage == 0)
        c->zero_stage = TR_UNSET_INT;
    c->overlap_param_gather = c->overlap_param_gather && x->sharded;
    c->num_virtual_stages_per_pipeline_rank = TR_UNSET_INT;
    c->num_layers_per_virtual_pipeline_stage =
        x->k > 1 && !kept ? layers / x->p / x->k : TR_UNSET_INT;
    if (x->last != TR_PLAN_EVEN)
        cut_stages(x, m);
}

/* False if such a run would be refused. */
static bool make(const struct tr_plan *plan, const struct candidate *x, struct made *m)
{
    m->c = plan->config;
    cut(plan, x, m);
    return tr_shape_of(&m->c, x->world, &m->s) == TR_OK &&
           (m->s.dp.optimizer_shards > 1) == x->sharded &&
           m->s.activations.sequence == x->sequence && m->s.layout.k == x->k;
}

static bool same_stages(const struct tr_layout *a, const struct tr_layout *b)
{
    return a->runs == b->runs && memcmp(a->run, b->run, (size_t)a->runs * sizeof a->run[0]) == 0;
}

static bool same(const struct tr_shape *a, const struct tr_shape *b)
{
    return a->layout.world == b->layout.world && a->layout.w == b->layout.w &&
           a->layout.p == b->layout.p && a->layout.k == b->layout.k &&
           a->layout.tp_pp_dp == b->layout.tp_pp_dp && same_stages(&a->layout, &b->layout) &&
           a->batches.micro_batch == b->batches.micro_batch &&
           a->activations.recompute == b->activations.recompute &&
           a->dp.optimizer_shards == b->dp.optimizer_shards &&
           a->activations.sequence == b->activations.sequence;
}

/* ---- memory ---- */

/* Parameters of a layer, and those of the first stage besides its layers. */
static int64_t params_of(const struct tr_shape *s, int64_t *layer)
{
    const int64_t layers = tr_layout_stage_layers(&s->layout, 0);
    struct tr_params list;
    int64_t n;

    *layer = 0;
    tr_params_list(&s->dims, &s->layout, 0, 0, &list);
    n = tr_params_number(&list);
    for (int i = 0; i < list.count; i++)
        if (list.list[i].layer == 0 && tr_param_counts(&list.list[i], 0))
            *layer += list.list[i].elems;
    tr_params_release(&list);
    return n - layers * *layer;
}

/* Weights, gradients and optimizer alone, bytes for each parameter, with `shards` optimizer
   shards. */
static double bytes_each(const struct tr_precision *p, double shards)
{
    const double own = (p->half ? 4.0 : 0.0) + tr_optim_state_bytes(p->state_block);
    const double all = p->half ? (p->grads_fp32 ? 6.0 : 4.0) : 8.0;

    return all + own / shards;
}

static double room(const struct tr_plan *plan)
{
    return TR_PLAN_TIGHT * MIB * plan->machine.memory;
}

/* Bytes of its largest rank, or no number. */
static double largest(struct search *v, const struct candidate *x)
{
    struct made m;

    tr_meter_add(&v->meter, 1);
    if (!make(v->plan, x, &m))
        return INFINITY;
    return tr_plan_largest(&m.c, &m.s, &v->plan->machine, room(v->plan), &v->layers, NULL);
}

/* ---- candidates ---- */

/* Into the list, in the faster order of ranks, unless it is what is planned, or its parameters are too
   much. */
static void add(struct search *v, struct candidate x, struct made *m)
{
    const int64_t longest = tr_layout_most_layers(&m->s.layout) * x.k * x.layer;
    const int64_t first = x.params + tr_layout_stage_layers(&m->s.layout, 0) * x.layer;
    struct candidate *at = &v->list[v->count];
    double turned;

    tr_meter_add(&v->meter, 1);
    x.params = first > longest ? first : longest;
    if (v->count == CANDIDATES ||
        (double)x.params * bytes_each(&m->s.precision, m->s.dp.optimizer_shards) > room(v->plan))
        return;
    x.seconds = tr_plan_time_of(&m->c, &m->s, &v->plan->machine, x.params, false).total;
    if (m->s.layout.p > 1 && m->s.layout.d > 1) {
        m->s.layout.tp_pp_dp = !x.tp_pp_dp;
        turned = tr_plan_time_of(&m->c, &m->s, &v->plan->machine, x.params, false).total;
        if (turned < GAIN * x.seconds) {
            x.tp_pp_dp = !x.tp_pp_dp;
            x.seconds = turned;
        }
        m->s.layout.tp_pp_dp = x.tp_pp_dp;
    }
    if (same(&m->s, &v->plan->shape))
        return;
    *at = x;
    v->count++;
}

/* As it is, and with a last stage that has fewer layers for its head. */
static void try_one(struct search *v, const struct candidate *x)
{
    struct candidate other = *x;
    struct made m;

    if (!make(v->plan, x, &m))
        return;
    other.last = tr_plan_balanced(&m.s, &v->plan->machine);
    add(v, *x, &m);
    if (other.last != TR_PLAN_EVEN && make(v->plan, &other, &m))
        add(v, other, &m);
}

/* All micro-batch sizes, with and without recomputation, distributed optimizer and sequence
   parallelism. */
static void try_samples(struct search *v, struct candidate x)
{
    for (x.micro_batch = 1; x.micro_batch <= MOST_MICRO_BATCH; x.micro_batch *= 2)
        for (int i = 0; i < 8; i++) {
            x.full = i & 1;
            x.sharded = i & 2;
            x.sequence = i & 4;
            try_one(v, &x);
        }
}

/* Stages in one, two or four chunks, or a layer each. */
static void try_chunks(struct search *v, struct candidate x)
{
    const int64_t layers = v->plan->shape.dims.layers;
    const int most = (int)(layers / x.p), chunks[] = {1, 2, 4, most};

    for (int i = 0; i < 4; i++) {
        x.k = chunks[i];
        if (i > 0 && (x.p == 1 || layers % x.p != 0 || most % x.k != 0 ||
                      (int64_t)x.p * x.k > MOST_CHUNKS || (i == 3 && most <= 4)))
            continue;
        try_samples(v, x);
    }
}

static struct candidate first_of(const struct tr_plan *plan, int world, int w, int p)
{
    return (struct candidate){.world = world,
                              .w = w,
                              .p = p,
                              .k = 1,
                              .last = TR_PLAN_EVEN,
                              .micro_batch = 1,
                              .tp_pp_dp = plan->shape.layout.tp_pp_dp};
}

/* Tensor parallelism stays inside nodes. */
static void try_all(struct search *v, int world)
{
    const struct tr_plan *plan = v->plan;
    const int node = plan->machine.gpus_per_node;

    for (int w = 1; w <= node && w <= world; w++)
        for (int p = 1;
             plan->shape.dims.heads % w == 0 && p <= plan->shape.dims.layers && p <= world / w;
             p++) {
            struct candidate x = first_of(plan, world, w, p);
            struct made m;

            if (world % (w * p) != 0 || !make(plan, &x, &m))
                continue;
            v->layers += (double)m.s.dims.layers / m.s.layout.p;
            x.params = params_of(&m.s, &x.layer);
            try_chunks(v, x);
        }
}

/* ---- results ---- */

/* The part that differs most in the direction in which the whole differs. */
static void explain(const struct tr_plan_time *now, const struct tr_plan_time *then,
                    struct tr_plan_other *o)
{
    const double sign = then->total < now->total ? -1.0 : 1.0;
    double most = 0.0;

#define PART(field, name, what)                     \
    if (sign * (then->field - now->field) > most) { \
        most = sign * (then->field - now->field);   \
        o->because = name;                          \
    }
    TR_PLAN_TIMES_OF(PART)
#undef PART
    o->saves = -sign * most;
}

static struct tr_plan_other described(const struct tr_plan *plan, const struct candidate *x,
                                      double bytes)
{
    struct tr_plan_other o = {.world = x->world,
                              .w = x->w,
                              .p = x->p,
                              .d = x->world / x->w / x->p,
                              .k = x->k,
                              .micro_batch = x->micro_batch,
                              .recompute = x->full,
                              .sharded = x->sharded,
                              .sequence = x->sequence,
                              .tp_pp_dp = x->tp_pp_dp,
                              .layout = x->last != TR_PLAN_EVEN,
                              .bytes = bytes};
    struct tr_plan_time t;
    struct made m;

    if (!make(plan, x, &m))
        return o;
    snprintf(o.layers, sizeof o.layers, "%s", tr_layout_list(&m.s.layout, m.layout));
    /* A long step of many stages is not simulated for each of them. */
    t = tr_plan_time_of(&m.c, &m.s, &plan->machine, x->params, tr_plan_work_of(&m.s) < MOST_WORK);
    o.seconds = t.total;
    explain(&plan->time, &t, &o);
    return o;
}

static int by_time(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static int by_executed(const void *a, const void *b)
{
    const struct tr_plan_other *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

/* The fastest of `world` GPUs that fit, `most` of them at best, behind those that are there. */
static void find(struct search *v, int world, int most)
{
    struct tr_plan *p = v->plan;
    const int before = p->others;

    v->count = 0;
    v->layers = 0.0;
    try_all(v, world);
    qsort(v->list, (size_t)v->count, sizeof *v->list, by_time);
    for (int i = 0; i < v->count && p->others < before + most && v->layers <= MOST_LAYERS; i++) {
        const double bytes = largest(v, &v->list[i]);

        if (bytes <= room(p))
            p->other[p->others++] = described(p, &v->list[i], bytes);
    }
    qsort(p->other + before, (size_t)(p->others - before), sizeof *p->other, by_executed);
}

/* ---- the fewest ---- */

/* The layout of `world` GPUs that needs least memory: micro-batches of one sample, all layers
   recomputed. */
static bool holds(struct search *v, int world)
{
    struct tr_plan *plan = v->plan;
    const int node = plan->machine.gpus_per_node;

    for (int w = 1; w <= node && w <= world; w++)
        for (int p = 1;
             plan->shape.dims.heads % w == 0 && p <= plan->shape.dims.layers && p <= world / w; p++)
            for (int shared = 0; world % (w * p) == 0 && shared < 2; shared++) {
                struct candidate x = first_of(plan, world, w, p);
                const double least = plan->params / w / p;
                double bytes;

                x.full = true;
                x.sharded = shared;
                if (least * bytes_each(&plan->shape.precision, shared ? x.world / w / p : 1) >
                    room(plan))
                    continue;
                bytes = largest(v, &x);
                if (bytes > room(plan))
                    continue;
                x.params = (int64_t)least;
                plan->least = described(plan, &x, bytes);
                return true;
            }
    return false;
}

/* Every number in a node, and then whole nodes, from what the parameters alone need. */
static void find_least(struct search *v)
{
    const struct tr_plan *plan = v->plan;
    const int node = plan->machine.gpus_per_node;
    const double bytes = plan->params * bytes_each(&plan->shape.precision, 1.0);
    double first = ceil(bytes / room(plan));

    v->layers = 0.0;
    if (first > node)
        first = ceil(first / node) * node;
    for (double n = first < 1.0 ? 1.0 : first; n <= 1e6 && v->layers <= MOST_LAYERS;
         n = n < node ? n + 1.0 : n + node)
        if (holds(v, (int)n))
            return;
}

void tr_plan_others_of(struct tr_plan *p)
{
    struct search v = {.plan = p, .list = calloc(CANDIDATES, sizeof *v.list)};
    const int world = p->shape.layout.world;

    if (!v.list)
        tr_die(TR_ERESOURCE, "no memory left to look for other shapes");
    tr_meter_start_count(&v.meter, "searching layouts:", "layouts", -1);
    find(&v, world, TR_PLAN_SAME);
    if (world % 2 == 0)
        find(&v, world / 2, 1);
    if (world <= INT32_MAX / 2)
        find(&v, 2 * world, 1);
    if (p->fewest)
        find_least(&v);
    (void)tr_meter_end(&v.meter);
    free(v.list);
}
