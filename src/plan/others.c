/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "model/param.h"
#include "plan/parts.h"

/* The shapes that are looked at: these many are enough for any model, and soon done. */
enum { CANDIDATES = 4096, MOST_MICRO_BATCH = 16 };

/* One cut of the same GPUs for the same model and batch. */
struct candidate {
    struct tr_config config; /* borrows its texts */
    struct tr_shape shape;
    int64_t params; /* of its first stage */
    double seconds;
    bool full, sharded;
};

struct search {
    struct tr_plan *plan;
    int count;
    struct candidate *list; /* [CANDIDATES] */
};

static void cut(struct tr_config *c, int64_t w, int64_t p, int64_t micro, bool full, bool sharded)
{
    c->tensor_model_parallel_size = w;
    c->pipeline_model_parallel_size = p;
    c->micro_batch_size = micro;
    c->checkpoint_activations = full;
    c->recompute_activations = false;
    c->recompute_granularity = TR_GRANULARITY_NONE;
    c->recompute_method = TR_RECOMPUTE_NONE;
    c->recompute_num_layers = 1;
    c->distribute_checkpointed_activations = c->distribute_checkpointed_activations && full;
    c->use_distributed_optimizer = sharded;
    c->overlap_param_gather = c->overlap_param_gather && sharded;
    if (p == 1) {
        c->num_layers_per_virtual_pipeline_stage = TR_UNSET_INT;
        c->num_virtual_stages_per_pipeline_rank = TR_UNSET_INT;
    }
}

static bool same(const struct tr_shape *a, const struct tr_shape *b)
{
    return a->w == b->w && a->p == b->p && a->micro_batch == b->micro_batch &&
           a->recompute == b->recompute && a->sharded == b->sharded;
}

/* Weights, gradients and optimizer alone, bytes. */
static double least_bytes(const struct candidate *x)
{
    const struct tr_shape *s = &x->shape;
    const double own = s->half ? 12.0 : 8.0, all = s->half ? (s->grads_fp32 ? 6.0 : 4.0) : 8.0;

    return (double)x->params * (all + own / (s->sharded ? s->d : 1));
}

static void try_one(struct search *v, int64_t w, int64_t p, int64_t micro, bool full, bool sharded)
{
    const struct tr_plan *plan = v->plan;
    struct candidate *x = &v->list[v->count];
    struct tr_params params;

    if (v->count == CANDIDATES)
        return;
    *x = (struct candidate){.config = plan->config, .full = full, .sharded = sharded};
    cut(&x->config, w, p, micro, full, sharded);
    if (tr_shape_of(&x->config, plan->shape.world, &x->shape) != TR_OK ||
        same(&x->shape, &plan->shape) || x->shape.sharded != sharded)
        return;
    tr_params_list(&x->shape, 0, 0, &params);
    x->params = tr_params_number(&params);
    tr_params_release(&params);
    if (least_bytes(x) > TR_PLAN_TIGHT * 1048576.0 * plan->machine.memory)
        return;
    x->seconds = tr_plan_time_of(&x->config, &x->shape, &plan->machine, x->params, false).total;
    v->count++;
}

/* Tensor parallelism stays inside nodes. */
static void try_all(struct search *v)
{
    const struct tr_shape *s = &v->plan->shape;
    const int node = v->plan->machine.gpus_per_node;

    for (int w = 1; w <= node && w <= s->world; w++)
        for (int p = 1; s->heads % w == 0 && p <= s->layers && p <= s->world / w; p++)
            for (int64_t b = 1; s->world % (w * p) == 0 && b <= MOST_MICRO_BATCH; b *= 2)
                for (int i = 0; i < 4; i++)
                    try_one(v, w, p, b, i & 1, i & 2);
}

static int by_time(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

/* Bytes of its largest rank: of the first stage, one between, or the last; or the first that is too much. */
static double largest(const struct tr_plan *plan, const struct candidate *x)
{
    const int stages[] = {0, x->shape.p / 2, x->shape.p - 1};
    double most = 0.0;

    for (int i = 0; i < 3 && tr_plan_verdict_of(most, &plan->machine) == TR_PLAN_FITS; i++) {
        struct tr_plan_stage g;

        if (i > 0 && stages[i] == stages[i - 1])
            continue;
        if (tr_plan_stage_of(&x->config, &x->shape, &plan->machine, stages[i], &g) != TR_OK)
            return 1e30;
        most = g.total > most ? g.total : most;
    }
    return most;
}

static void keep(struct tr_plan *plan, const struct candidate *x, double bytes)
{
    plan->other[plan->others++] = (struct tr_plan_other){
        .w = x->shape.w,
        .p = x->shape.p,
        .d = x->shape.d,
        .micro_batch = x->shape.micro_batch,
        .recompute = x->full,
        .sharded = x->sharded,
        .bytes = bytes,
        .seconds = tr_plan_time_of(&x->config, &x->shape, &plan->machine, x->params, true).total,
    };
}

static int by_executed(const void *a, const void *b)
{
    const struct tr_plan_other *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

void tr_plan_others_of(struct tr_plan *p)
{
    struct search v = {.plan = p, .list = calloc(CANDIDATES, sizeof *v.list)};

    if (!v.list)
        tr_die(TR_ERESOURCE, "no memory left to look for other shapes");
    try_all(&v);
    qsort(v.list, (size_t)v.count, sizeof *v.list, by_time);
    for (int i = 0; i < v.count && p->others < TR_PLAN_OTHERS; i++) {
        const double bytes = largest(p, &v.list[i]);

        if (tr_plan_verdict_of(bytes, &p->machine) == TR_PLAN_FITS)
            keep(p, &v.list[i], bytes);
    }
    free(v.list);
    qsort(p->other, (size_t)p->others, sizeof *p->other, by_executed);
}
