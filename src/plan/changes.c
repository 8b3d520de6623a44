/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_parts.h"

/* Rows of a combination, levels of a row, combinations, and those whose memory is counted. */
enum { DEEPEST = 3, LEVELS = 8, COMBINATIONS = 16384, COUNTED = 400 };

static const double MOST_WORK = 4e6;

/* A plan with options set besides. */
struct variant {
    const struct tr_plan *plan; /* borrowed */
    struct tr_config c;         /* borrows its texts */
    struct tr_shape s;
    char options[sizeof((struct tr_plan_change *)NULL)->options];
};

/* ---- options ---- */

static bool set(struct variant *v, const char *option, const char *value)
{
    const bool flag = strcmp(value, "on") == 0;
    const size_t n = strlen(v->options);

    snprintf(v->options + n, sizeof v->options - n, "%s--%s%s%s", n > 0 ? " " : "", option,
             flag ? "" : " ", flag ? "" : value);
    return tr_config_set(&v->c, option, value) == TR_OK;
}

static bool set_number(struct variant *v, const char *option, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    return set(v, option, text);
}

static int64_t replicas(const struct variant *v)
{
    return v->c.world_size / v->c.tensor_model_parallel_size / v->c.pipeline_model_parallel_size;
}

/* Twice as many, four times, ... ranks from the replicas that there are. */
static bool take_replicas(struct variant *v, const char *option, int64_t now, int64_t most,
                          int level)
{
    const int64_t times = (int64_t)2 << level;

    return replicas(v) % times == 0 && now * times <= most && set_number(v, option, now * times);
}

/* Tensor parallelism stays inside nodes. */
static bool tensor(struct variant *v, int level)
{
    return take_replicas(v, "tensor-model-parallel-size", v->c.tensor_model_parallel_size,
                         v->plan->machine.gpus_per_node, level);
}

static bool pipeline(struct variant *v, int level)
{
    return take_replicas(v, "pipeline-model-parallel-size", v->c.pipeline_model_parallel_size,
                         v->c.num_layers, level);
}

static bool micro_batch(struct variant *v, int level)
{
    const int64_t now = v->plan->shape.batches.micro_batch, by = (int64_t)2 << level;

    return now % by == 0 && set_number(v, "micro-batch-size", now / by);
}

static bool sequence(struct variant *v, int level)
{
    return level == 0 && v->c.tensor_model_parallel_size > 1 && !v->c.sequence_parallel &&
           set(v, "sequence-parallel", "on");
}

static bool recompute_all(struct variant *v, const char *method, int64_t layers)
{
    return set(v, "recompute-granularity", "full") && set(v, "recompute-method", method) &&
           set_number(v, "recompute-num-layers", layers);
}

/* Layers of a model chunk: a quarter, half and three quarters of them, all; then in groups that keep one input. */
static bool recompute(struct variant *v, int level)
{
    enum { QUARTERS = 3 };
    const struct tr_activations *now = &v->plan->shape.activations;
    const int64_t n = tr_layout_most_layers(&v->plan->shape.layout);
    const int64_t some = n * (level + 1) / (QUARTERS + 1);
    const int64_t group = (int64_t)1 << (level > QUARTERS ? level - QUARTERS : 0);

    if (level < QUARTERS)
        return (now->recompute == TR_RECOMPUTE_NONE ||
                (now->recompute == TR_RECOMPUTE_BLOCK && now->recompute_layers < some)) &&
               some > 0 && recompute_all(v, "block", some);
    if (now->recompute == TR_RECOMPUTE_UNIFORM && group <= now->recompute_layers)
        return false;
    return group <= n && recompute_all(v, "uniform", group);
}

static bool distribute(struct variant *v, int level)
{
    return level == 0 && v->c.tensor_model_parallel_size > 1 && !v->c.sequence_parallel &&
           !v->c.distribute_checkpointed_activations &&
           (v->plan->shape.activations.recompute != TR_RECOMPUTE_NONE ||
            v->c.recompute_granularity == TR_GRANULARITY_FULL) &&
           set(v, "distribute-checkpointed-activations", "on");
}

static bool shard(struct variant *v, int level)
{
    const struct tr_data_parallel *dp = &v->plan->shape.dp;
    const int now = dp->weight_shards > 1      ? 3
                    : dp->gradient_shards > 1  ? 2
                    : dp->optimizer_shards > 1 ? 1
                                               : 0;

    return replicas(v) > 1 && level + 1 > now && level < 3 &&
           set_number(v, "zero-stage", level + 1);
}

/* Where the machine says how fast the way to the host is. */
static bool reaches_host(const struct variant *v)
{
    return v->plan->machine.host_link > 0.0 && v->plan->machine.host_stream > 0.0;
}

static bool offload(struct variant *v, int level)
{
    return level == 0 && reaches_host(v) && v->plan->shape.offload.hosted <= 0.0 &&
           !v->plan->shape.dp.diverges && set(v, "optimizer-cpu-offload", "on");
}

static bool offload_layers(struct variant *v, int level)
{
    return level == 0 && reaches_host(v) && !v->c.cpu_offloading &&
           v->plan->shape.activations.recompute == TR_RECOMPUTE_NONE &&
           v->c.recompute_granularity != TR_GRANULARITY_FULL && set(v, "cpu-offloading", "on");
}

static const struct row {
    const char *what;
    bool (*apply)(struct variant *v, int level);
} rows[] = {
#define CHANGE(name, what) {what, name},
#include "plan/changes.def"
};

enum { ROWS = sizeof rows / sizeof *rows };

/* ---- combinations ---- */

/* So many rows of the table, in their order, with a level of each. */
struct combination {
    int parts, row[DEEPEST], level[DEEPEST];
    double seconds; /* as its closed form has them */
};

struct search {
    struct tr_plan *plan;
    double room, layers; /* bytes of a rank; layers that have been laid out */
    int counted, count;
    struct combination *list; /* [COMBINATIONS] */
    int fit;
    struct combination fits[TR_PLAN_CHANGES]; /* of plan->change */
};

/* The batch stays what it is. */
static bool keep_batch(struct variant *v)
{
    const struct tr_config *c = &v->c;
    const int64_t batch = v->plan->shape.batches.global_batch;
    const int64_t unit = c->micro_batch_size * replicas(v);

    if (c->micro_batch_size == v->plan->config.micro_batch_size &&
        replicas(v) == v->plan->shape.layout.d)
        return true;
    if (c->gradient_accumulation_steps != TR_UNSET_INT)
        return batch % unit == 0 && set_number(v, "gradient-accumulation-steps", batch / unit);
    return c->global_batch_size != TR_UNSET_INT || set_number(v, "global-batch-size", batch);
}

/* False where there is no such run. */
static bool make(const struct tr_plan *p, const struct combination *x, struct variant *v)
{
    *v = (struct variant){.plan = p, .c = p->config};
    for (int i = 0; i < x->parts; i++)
        if (!rows[x->row[i]].apply(v, x->level[i]))
            return false;
    return keep_batch(v) && tr_shape_of(&v->c, (int)v->c.world_size, &v->s) == TR_OK;
}

/* Parameters of the largest stage, nearly, before any has been counted. */
static int64_t params_of(const struct variant *v)
{
    const struct tr_layout *now = &v->plan->shape.layout, *then = &v->s.layout;

    return v->plan->most_params * now->w * now->p / then->w / then->p;
}

static void add(struct search *q, struct combination x)
{
    struct variant v;

    if (q->count == COMBINATIONS || !make(q->plan, &x, &v))
        return;
    x.seconds = tr_plan_time_of(&v.c, &v.s, &q->plan->machine, params_of(&v), false).total;
    q->list[q->count++] = x;
}

/* All combinations of `parts` rows that begin with those of x. */
static void combine(struct search *q, struct combination x, int parts)
{
    const int first = x.parts > 0 ? x.row[x.parts - 1] + 1 : 0;

    if (x.parts == parts) {
        add(q, x);
        return;
    }
    x.parts++;
    for (int row = first; row < ROWS; row++)
        for (int level = 0; level < LEVELS; level++) {
            x.row[x.parts - 1] = row;
            x.level[x.parts - 1] = level;
            combine(q, x, parts);
        }
}

/* Whether x does all that y does, or more of it. */
static bool covers(const struct combination *x, const struct combination *y)
{
    for (int i = 0; i < y->parts; i++) {
        int k = 0;

        while (k < x->parts && (x->row[k] != y->row[i] || x->level[k] < y->level[i]))
            k++;
        if (k == x->parts)
            return false;
    }
    return true;
}

static bool needless(const struct search *q, const struct combination *x)
{
    for (int i = 0; i < q->fit; i++)
        if (covers(x, &q->fits[i]))
            return true;
    return false;
}

/* ---- results ---- */

static void describe(struct search *q, const struct combination *x, const struct variant *v,
                     double bytes, int64_t params)
{
    struct tr_plan *p = q->plan;
    struct tr_plan_change *c = &p->change[q->fit];

    *c = (struct tr_plan_change){
        .parts = x->parts,
        .bytes = bytes,
        .seconds =
            tr_plan_time_of(&v->c, &v->s, &p->machine, params, tr_plan_work_of(&v->s) < MOST_WORK)
                .total,
    };
    for (int i = 0; i < x->parts; i++)
        c->part[i] = rows[x->row[i]].what;
    snprintf(c->options, sizeof c->options, "%s", v->options);
    q->fits[q->fit++] = *x;
}

static void try_one(struct search *q, const struct combination *x)
{
    struct variant v;
    int64_t params;
    double bytes;

    if (needless(q, x) || q->counted++ >= COUNTED || q->layers > TR_PLAN_MOST_LAYERS ||
        !make(q->plan, x, &v))
        return;
    bytes = tr_plan_largest(&v.c, &v.s, &q->plan->machine, q->room, &q->layers, &params);
    if (bytes <= q->room)
        describe(q, x, &v, bytes, params);
}

static int by_time(const void *a, const void *b)
{
    const struct combination *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static int by_seconds(const void *a, const void *b)
{
    const struct tr_plan_change *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

/* The fastest of them, and of several only what is faster than fewer that fit. */
static void search(struct search *q, int parts)
{
    double best = INFINITY;

    for (int i = 0; i < q->fit; i++)
        best = q->fits[i].seconds < best ? q->fits[i].seconds : best;
    q->count = 0;
    q->counted = 0;
    combine(q, (struct combination){.parts = 0}, parts);
    qsort(q->list, (size_t)q->count, sizeof *q->list, by_time);
    for (int i = 0; i < q->count && q->fit < TR_PLAN_CHANGES && q->list[i].seconds < best; i++)
        try_one(q, &q->list[i]);
}

void tr_plan_changes_of(struct tr_plan *p, double bytes)
{
    struct search q = {.plan = p, .room = TR_PLAN_TIGHT * bytes};

    q.list = calloc(COMBINATIONS, sizeof *q.list);
    if (!q.list)
        tr_die(TR_ERESOURCE, "no memory left to look for changes that fit");
    for (int parts = 1; parts <= DEEPEST && q.fit < TR_PLAN_CHANGES; parts++)
        search(&q, parts);
    free(q.list);
    p->changes = q.fit;
    p->change_bytes = bytes;
    qsort(p->change, (size_t)p->changes, sizeof *p->change, by_seconds);
}
