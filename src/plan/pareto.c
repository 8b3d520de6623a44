/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/param.h"
#include "optim/states.h"
#include "plan/plan_parts.h"
#include "util/meter.h"
#include "util/text.h"

enum { CANDIDATES = 1 << 19, VALUES = 12, MOST_MICRO = 32 };
static const double MIB = 1048576.0, MOST_WORK = 4e6;
/* How much smaller a slower run must be to be of interest. */
static const double SMALLER = 0.98;

struct candidate {
    int64_t value[TR_PARETO_DIMS];
    int64_t params;
    double seconds, least; /* bytes of its parameters alone */
};

struct search {
    const struct tr_plan *base;
    const struct tr_pareto_ask *ask;
    struct tr_pareto *out;
    struct tr_meter meter;
    int64_t params; /* of the largest stage, as the options so far have it */
    int count;
    struct candidate *list; /* [CANDIDATES] */
};

/* ---- dimensions ---- */

/* 1, 2, 4, ... up to `most`. */
static int doubled(int64_t most, int64_t value[VALUES])
{
    int n = 0;

    for (int64_t x = 1; x <= most && n < VALUES; x *= 2)
        value[n++] = x;
    return n;
}

static int both(bool open, int64_t value[VALUES])
{
    value[0] = false;
    value[1] = true;
    return open ? 2 : 1;
}

static int64_t replicas(const struct tr_config *c)
{
    return c->world_size / c->tensor_model_parallel_size / c->pipeline_model_parallel_size;
}

/* Tensor parallelism stays inside nodes. */
static int values_tensor(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    const int64_t node = v->base->machine.gpus_per_node;
    int n = 0;

    for (int64_t w = 1; w <= node && w <= c->world_size && n < VALUES; w++)
        if (node % w == 0 && c->world_size % w == 0)
            value[n++] = w;
    return n;
}

static void set_tensor(struct tr_config *c, int64_t value)
{
    c->tensor_model_parallel_size = value;
}

/* Divisors of the layers, and of what tensor parallelism leaves; the smaller ones where there are too many.  The stages that
   were asked for may have layers by turns. */
static int values_pipeline(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    const int64_t left = c->world_size / c->tensor_model_parallel_size;
    int n = 0;

    for (int64_t p = 1; p <= v->base->shape.dims.layers && p <= left && n < VALUES; p++)
        if (left % p == 0 && (v->base->shape.dims.layers % p == 0 || p == v->base->shape.layout.p))
            value[n++] = p;
    return n;
}

static void set_pipeline(struct tr_config *c, int64_t value)
{
    c->pipeline_model_parallel_size = value;
}

static int values_chunks(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    const int64_t each = v->base->shape.dims.layers / c->pipeline_model_parallel_size;
    int n = 0;

    value[n++] = 1;
    for (int64_t k = 2; c->pipeline_model_parallel_size > 1 && k <= each && n < 5; k++)
        if (each % k == 0)
            value[n++] = k;
    return n;
}

static void set_chunks(struct tr_config *c, int64_t value)
{
    c->num_layers_per_virtual_pipeline_stage = TR_UNSET_INT;
    c->num_virtual_stages_per_pipeline_rank = value > 1 ? value : TR_UNSET_INT;
}

/* The zero-bubble ones are for one chunk on a stage, and make two of it for a V. */
static int values_schedule(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    const int64_t p = c->pipeline_model_parallel_size;
    int n = 0;

    value[n++] = TR_PIPE_1F1B;
    if (p == 1 || c->num_virtual_stages_per_pipeline_rank != TR_UNSET_INT)
        return n;
    value[n++] = TR_PIPE_ZB_H1;
    if (v->base->shape.dims.layers % (2 * p) == 0)
        value[n++] = TR_PIPE_ZB_V;
    return n;
}

static void set_schedule(struct tr_config *c, int64_t value)
{
    c->pipeline_schedule = (int)value;
}

static int values_micro(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    const int64_t each = c->global_batch_size / replicas(c);

    (void)v;
    return doubled(each < MOST_MICRO ? each : MOST_MICRO, value);
}

static void set_micro(struct tr_config *c, int64_t value)
{
    c->micro_batch_size = value;
    c->gradient_accumulation_steps = TR_UNSET_INT;
}

static int values_recompute(const struct search *v, const struct tr_config *c,
                            int64_t value[VALUES])
{
    (void)v, (void)c;
    value[0] = TR_GRANULARITY_NONE;
    value[1] = TR_GRANULARITY_FULL;
    return 2;
}

static void set_recompute(struct tr_config *c, int64_t value)
{
    c->checkpoint_activations = false;
    c->recompute_activations = false;
    c->recompute_granularity = (int)value;
    c->recompute_method = value == TR_GRANULARITY_FULL ? TR_RECOMPUTE_UNIFORM : TR_RECOMPUTE_NONE;
    c->recompute_num_layers = 1;
}

static int values_sequence(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    (void)v;
    return both(c->tensor_model_parallel_size > 1, value);
}

static void set_sequence(struct tr_config *c, int64_t value)
{
    c->sequence_parallel = value;
}

static int values_zero(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    (void)v;
    for (int i = 0; i < 4; i++)
        value[i] = i;
    return replicas(c) > 1 ? 4 : 1;
}

static void set_zero(struct tr_config *c, int64_t value)
{
    c->use_distributed_optimizer = false;
    c->zero_stage = value > 0 ? value : TR_UNSET_INT;
}

/* Where the machine says how fast the way to the host is. */
static bool reaches_host(const struct search *v)
{
    return v->base->machine.host_link > 0.0 && v->base->machine.host_stream > 0.0;
}

static int values_optimizer(const struct search *v, const struct tr_config *c,
                            int64_t value[VALUES])
{
    (void)c;
    return both(reaches_host(v), value);
}

static void set_optimizer(struct tr_config *c, int64_t value)
{
    c->optimizer_cpu_offload = value;
}

static int values_layers(const struct search *v, const struct tr_config *c, int64_t value[VALUES])
{
    return both(reaches_host(v) && c->recompute_granularity == TR_GRANULARITY_NONE, value);
}

static void set_layers(struct tr_config *c, int64_t value)
{
    c->cpu_offloading = value;
}

static const struct dim {
    const char *option, *others;
    int (*values)(const struct search *v, const struct tr_config *c, int64_t value[VALUES]);
    void (*set)(struct tr_config *c, int64_t value);
} dims[] = {
#define DIM(name, option, others) {option, others, values_##name, set_##name},
#include "plan/pareto.def"
};

bool tr_pareto_says(int dim, const char *option)
{
    const size_t n = strlen(option);

    if (strcmp(dims[dim].option, option) == 0)
        return true;
    for (const char *s = strstr(dims[dim].others, option); n > 0 && s; s = strstr(s + 1, option))
        if ((s == dims[dim].others || s[-1] == ' ') && (s[n] == ' ' || s[n] == '\0'))
            return true;
    return false;
}

/* As one types it, or "no --x" for what is so where --x is left out. */
static void spell(int dim, int64_t value, char text[64])
{
    const char *option = dims[dim].option;

    switch (dim) {
    case TR_PARETO_recompute:
        snprintf(text, 64,
                 value == TR_GRANULARITY_FULL ? "--%s full --recompute-method uniform" : "no --%s",
                 option);
        break;
    case TR_PARETO_schedule:
        snprintf(text, 64, "--%s %s", option, tr_config_spelling(option, (int)value));
        break;
    case TR_PARETO_sequence:
    case TR_PARETO_optimizer:
    case TR_PARETO_layers:
        snprintf(text, 64, "%s--%s", value ? "" : "no ", option);
        break;
    default:
        snprintf(text, 64, "--%s %lld", option, (long long)value);
    }
}

/* ---- all combinations ---- */

static double room(const struct search *v)
{
    return TR_PLAN_TIGHT * MIB * v->base->machine.memory;
}

/* Bytes that its parameters take at least, with all that is sharded or with the host left out. */
static double least_bytes(const struct tr_shape *s, int64_t params)
{
    const struct tr_precision *p = &s->precision;
    const double own = (p->half ? 4.0 : 0.0) + tr_optim_state_bytes(p->state_block);
    const double weight = p->half ? 2.0 : 4.0, grad = p->half && !p->grads_fp32 ? 2.0 : 4.0;
    double each = 0.0;

    each += s->dp.weight_shards > 1 ? 0.0 : weight;
    each += s->dp.gradient_shards > 1 ? 0.0 : grad;
    each += s->offload.hosted > 0.0 ? 0.0 : own / s->dp.optimizer_shards;
    return each * (double)params;
}

/* Parameters of the largest stage of that many tensor ranks and stages. */
static int64_t stage_params(const struct tr_shape *s)
{
    const int ends[] = {0, tr_layout_head_stage(&s->layout)};
    int64_t most = 0;

    for (int i = 0; i < (tr_layout_ends_apart(&s->layout) ? 2 : 1); i++) {
        struct tr_params list;
        int64_t n;

        tr_params_list(&s->dims, &s->layout, 0, ends[i], &list);
        n = tr_params_number(&list);
        most = n > most ? n : most;
        tr_params_release(&list);
    }
    return most;
}

static void look(struct search *v, const struct tr_config *c, const int64_t *value)
{
    struct candidate *x = &v->list[v->count];
    struct tr_shape s;

    v->out->looked++;
    tr_meter_add(&v->meter, 1);
    if (tr_shape_of(c, (int)c->world_size, &s) != TR_OK) {
        v->out->refused++;
        return;
    }
    memcpy(x->value, value, sizeof x->value);
    x->params = v->params;
    x->least = least_bytes(&s, v->params);
    if (x->least > room(v) && !v->ask->everything) {
        v->out->too_large++;
        v->out->least = fmin(v->out->least, x->least);
        return;
    }
    if (v->count == CANDIDATES) {
        v->out->left++;
        return;
    }
    x->seconds = tr_plan_time_of(c, &s, &v->base->machine, x->params, false).total;
    v->count++;
}

/* What depends on tensor ranks and stages alone, once they are set; false where no such run can be. */
static bool count_params(struct search *v, const struct tr_config *c)
{
    struct tr_config one = *c;
    struct tr_shape s;

    one.micro_batch_size = 1;
    one.sequence_parallel = false;
    if (tr_shape_of(&one, (int)one.world_size, &s) != TR_OK)
        return false;
    v->params = stage_params(&s);
    return true;
}

static void descend(struct search *v, struct tr_config c, int dim, int64_t *value)
{
    int64_t values[VALUES];
    int n;

    if (dim == TR_PARETO_chunks && !count_params(v, &c)) {
        v->out->looked++;
        v->out->refused++;
        return;
    }
    if (dim == TR_PARETO_DIMS) {
        look(v, &c, value);
        return;
    }
    if (v->ask->fixed[dim]) {
        value[dim] = -1;
        descend(v, c, dim + 1, value);
        return;
    }
    n = dims[dim].values(v, &c, values);
    for (int i = 0; i < n; i++) {
        value[dim] = values[i];
        dims[dim].set(&c, values[i]);
        descend(v, c, dim + 1, value);
    }
}

/* ---- those that remain ---- */

static int by_time(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static struct tr_config base_of(const struct search *v, int world, int64_t batch)
{
    struct tr_config c = v->base->config;

    c.world_size = world;
    c.global_batch_size = batch;
    if (!v->ask->fixed[TR_PARETO_micro])
        c.gradient_accumulation_steps = TR_UNSET_INT;
    return c;
}

static struct tr_config config_of(const struct search *v, int world, int64_t batch,
                                  const int64_t *value)
{
    struct tr_config c = base_of(v, world, batch);

    for (int d = 0; d < TR_PARETO_DIMS; d++)
        if (!v->ask->fixed[d])
            dims[d].set(&c, value[d]);
    return c;
}

static double gpu_hours(const struct search *v, const struct tr_pareto_run *r)
{
    const double tokens = (double)r->batch * (double)v->base->shape.dims.seq;
    const double all = v->out->whole ? v->base->budget.tokens : 1e9;

    return r->seconds * r->world / 3600.0 * all / tokens;
}

/* What the options that were given say of each dimension. */
static void given(const struct tr_shape *s, int64_t value[TR_PARETO_DIMS])
{
    const struct tr_data_parallel *dp = &s->dp;

    value[TR_PARETO_tensor] = s->layout.w;
    value[TR_PARETO_pipeline] = s->layout.p;
    value[TR_PARETO_chunks] = s->layout.vee ? 1 : s->layout.k;
    value[TR_PARETO_schedule] =
        s->layout.schedule == TR_PIPE_INTERLEAVED ? TR_PIPE_1F1B : s->layout.schedule;
    value[TR_PARETO_micro] = s->batches.micro_batch;
    value[TR_PARETO_recompute] =
        s->activations.recompute != TR_RECOMPUTE_NONE ? TR_GRANULARITY_FULL : TR_GRANULARITY_NONE;
    value[TR_PARETO_sequence] = s->activations.sequence;
    value[TR_PARETO_zero] = dp->weight_shards > 1      ? 3
                            : dp->gradient_shards > 1  ? 2
                            : dp->optimizer_shards > 1 ? 1
                                                       : 0;
    value[TR_PARETO_optimizer] = s->offload.hosted > 0.0;
    value[TR_PARETO_layers] = s->activations.offload_layers > 0;
}

/* What to change of the options that were given. */
static void describe(const struct search *v, struct tr_pareto_run *r)
{
    int64_t before[TR_PARETO_DIMS];
    size_t n = 0;

    given(&v->base->shape, before);
    r->options[0] = '\0';
    for (int d = 0; d < TR_PARETO_DIMS; d++) {
        char text[64];

        if (v->ask->fixed[d] || r->value[d] == before[d])
            continue;
        spell(d, r->value[d], text);
        n += (size_t)snprintf(r->options + n, sizeof r->options - n, "%s%s", n ? " " : "", text);
    }
}

/* Is one run no worse than another in everything? */
static bool beats(const struct tr_pareto_run *x, const struct tr_pareto_run *y)
{
    return x->seconds / (double)x->batch <= y->seconds / (double)y->batch && x->bytes <= y->bytes &&
           x->gpu_hours <= y->gpu_hours;
}

/* Into the list, unless one there beats it; those that it beats go. */
static void keep(struct tr_pareto *out, const struct tr_pareto_run *r)
{
    int n = 0;

    for (int i = 0; i < out->runs; i++)
        if (beats(&out->run[i], r))
            return;
    for (int i = 0; i < out->runs; i++)
        if (!beats(r, &out->run[i]))
            out->run[n++] = out->run[i];
    out->runs = n;
    if (n < TR_PARETO_MOST)
        out->run[out->runs++] = *r;
    else
        out->left++;
}

static double time_of(const struct search *v, const struct tr_config *c, const struct tr_shape *s,
                      int64_t params, struct tr_plan_time *t)
{
    *t = tr_plan_time_of(c, s, &v->base->machine, params, tr_plan_work_of(s) < MOST_WORK);
    return t->total;
}

/* Of one number of GPUs and one batch, the fastest first, as long as they are smaller than all before. */
static void choose(struct search *v, int world, int64_t batch)
{
    double smallest = INFINITY, layers = 0.0;

    qsort(v->list, (size_t)v->count, sizeof *v->list, by_time);
    for (int i = 0; i < v->count; i++) {
        const struct candidate *x = &v->list[i];
        struct tr_pareto_run r = {.world = world, .batch = batch};
        const struct tr_config c = config_of(v, world, batch, x->value);
        struct tr_plan_time t;
        struct tr_shape s;
        int64_t params;

        if (x->least >= SMALLER * smallest && !v->ask->everything)
            continue;
        if (tr_shape_of(&c, world, &s) != TR_OK)
            continue;
        if (layers > TR_PLAN_MOST_LAYERS) {
            v->out->left++;
            continue;
        }
        v->out->counted++;
        r.bytes = tr_plan_largest(&c, &s, &v->base->machine, room(v), &layers, &params);
        v->out->least = fmin(v->out->least, r.bytes);
        if (r.bytes > room(v) || r.bytes > SMALLER * smallest)
            continue;
        smallest = r.bytes;
        memcpy(r.value, x->value, sizeof r.value);
        r.seconds = time_of(v, &c, &s, params, &t);
        r.gpu_hours = gpu_hours(v, &r);
        describe(v, &r);
        keep(v->out, &r);
    }
}

static int by_pace(const void *a, const void *b)
{
    const struct tr_pareto_run *x = a, *y = b;
    const double p = x->seconds / (double)x->batch, q = y->seconds / (double)y->batch;

    return p < q ? -1 : p > q;
}

/* ---- neighbours ---- */

/* The part of an iteration that grows most. */
static const char *because(const struct tr_plan_time *now, const struct tr_plan_time *then,
                           double *more)
{
    const char *name = "rest";

    *more = 0.0;
#define PART(field, part, what)             \
    if (then->field - now->field > *more) { \
        *more = then->field - now->field;   \
        name = part;                        \
    }
    TR_PLAN_TIMES_OF(PART)
#undef PART
    return name;
}

static void reason(const struct search *v, const struct tr_pareto_run *best,
                   const struct tr_plan_time *now, const struct tr_config *c,
                   struct tr_pareto_rejected *why)
{
    struct tr_plan_time then;
    struct tr_shape s;
    double layers = 0.0, bytes, more;
    int64_t params = 0;
    const char *part;

    if (tr_shape_of(c, best->world, &s) != TR_OK) {
        snprintf(why->why, sizeof why->why, "refused: %s", tr_last_error());
        return;
    }
    bytes = tr_plan_largest(c, &s, &v->base->machine, INFINITY, &layers, &params);
    if (bytes > room(v)) {
        snprintf(why->why, sizeof why->why, "does not fit: %.0f MiB, %.0f more than fit",
                 bytes / MIB, (bytes - room(v)) / MIB);
        return;
    }
    (void)time_of(v, c, &s, params, &then);
    part = because(now, &then, &more);
    if (then.total <= now->total)
        snprintf(why->why, sizeof why->why, "as fast: %.0f ms with %.0f MiB", 1e3 * then.total,
                 bytes / MIB);
    else
        snprintf(why->why, sizeof why->why, "%.1f %% slower: %s takes %.0f ms more; %.0f MiB",
                 100.0 * (then.total / now->total - 1.0), part, 1e3 * more, bytes / MIB);
}

/* One value of one dimension other than those of the fastest. */
static void neighbours(struct search *v)
{
    const struct tr_pareto_run *best = &v->out->run[0];
    const struct tr_config there = config_of(v, best->world, best->batch, best->value);
    struct tr_plan_time now;
    struct tr_shape s;

    if (tr_shape_of(&there, best->world, &s) != TR_OK)
        return;
    (void)time_of(v, &there, &s, stage_params(&s), &now);
    for (int d = 0; d < TR_PARETO_DIMS; d++) {
        int64_t values[VALUES];
        const int n = v->ask->fixed[d] ? 0 : dims[d].values(v, &there, values);

        for (int i = 0; i < n && v->out->rejected < TR_PARETO_REJECTED; i++) {
            struct tr_pareto_rejected *why = &v->out->reject[v->out->rejected];
            struct tr_config c = there;

            if (values[i] == best->value[d])
                continue;
            dims[d].set(&c, values[i]);
            spell(d, values[i], why->options);
            reason(v, best, &now, &c, why);
            v->out->rejected++;
        }
    }
}

/* ---- all of it ---- */

static void search_one(struct search *v, int64_t world, int64_t batch)
{
    int64_t value[TR_PARETO_DIMS];

    v->count = 0;
    descend(v, base_of(v, (int)world, batch), 0, value);
    choose(v, (int)world, batch);
}

/* Why there is no run: the last reason against one, or how much they need. */
static enum tr_status found_none(const struct search *v)
{
    const enum tr_processor on = tr_plan_processor(v->base);
    char why[TR_SENTENCE];

    if (isfinite(v->out->least))
        return TR_FAIL(
            TR_ERESOURCE,
            "none of %.0f combinations fits %.0f MiB of a %s of %s; the least has %.0f: give "
            "more %s with --search-gpus, or larger ones with --machine",
            v->out->looked, room(v) / MIB, tr_processor_noun(on, 1), v->base->machine.name,
            v->out->least / MIB, tr_processor_noun(on, 2));
    snprintf(why, sizeof why, "%s", tr_last_error());
    return TR_FAIL(TR_ECONFIG,
                   "none of %.0f combinations is a run, the last for this reason: %s; give other "
                   "options, or other numbers with --search-gpus and --search-global-batch",
                   v->out->looked, why);
}

static enum tr_status search_all(struct search *v)
{
    const struct tr_pareto_ask *ask = v->ask;
    const int64_t gpus = v->base->shape.layout.world, batch = v->base->shape.batches.global_batch;

    for (int i = 0; i < (ask->gpu_counts ? ask->gpu_counts : 1); i++)
        for (int k = 0; k < (ask->batch_counts ? ask->batch_counts : 1); k++)
            search_one(v, ask->gpu_counts ? ask->gpus[i] : gpus,
                       ask->batch_counts ? ask->batches[k] : batch);
    if (v->out->runs == 0)
        return found_none(v);
    qsort(v->out->run, (size_t)v->out->runs, sizeof v->out->run[0], by_pace);
    neighbours(v);
    return TR_OK;
}

enum tr_status tr_pareto_search(const struct tr_plan *base, const struct tr_pareto_ask *ask,
                                struct tr_pareto *out)
{
    struct search v = {
        .base = base, .ask = ask, .out = out, .list = calloc(CANDIDATES + 1, sizeof *v.list)};
    enum tr_status s;

    if (!v.list)
        tr_die(TR_ERESOURCE, "no memory left for the combinations of a search");
    memset(out, 0, sizeof *out);
    out->least = INFINITY;
    out->whole = base->budget.tokens > 0.0;
    tr_meter_start_count(&v.meter, "searching options:", "combinations", -1);
    s = search_all(&v);
    (void)tr_meter_end(&v.meter);
    free(v.list);
    return s;
}

/* ---- output ---- */

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "as given";
}

void tr_pareto_text(const struct tr_plan *base, const struct tr_pareto *x, FILE *f)
{
    const enum tr_processor on = tr_plan_processor(base);
    const char *many = tr_processor_noun(on, 2), *hours = tr_processor_hours(on);
    const int first = (int)strlen(many) + 2, last = (int)strlen(hours) + 5;

    fprintf(f,
            "%.0f combinations: %.0f refused, %.0f with too many parameters, memory of %.0f "
            "counted%s\n",
            x->looked, x->refused, x->too_large, x->counted,
            x->left > 0.0 ? ", and not of all that could be smaller" : "");
    fprintf(f, "\nno other is better in time of a sample, memory and %s of %s:\n", hours,
            x->whole ? "the run" : "10^9 tokens");
    fprintf(f, "%*s%8s%12s%12s%10s%*s  %s\n", first, many, "batch", "s/it", "samples/s", "MiB",
            last, hours, "options");
    for (int i = 0; i < x->runs; i++) {
        const struct tr_pareto_run *r = &x->run[i];

        fprintf(f, "%*d%8lld%12.4g%12.4g%10.0f%*.4g  %s\n", first, r->world, (long long)r->batch,
                r->seconds, (double)r->batch / r->seconds, r->bytes / MIB, last, r->gpu_hours,
                or_dash(r->options));
    }
    fprintf(f, "\nneighbours of the first, on %s:\n", base->machine.name);
    for (int i = 0; i < x->rejected; i++)
        fprintf(f, "  %-44s %s\n", x->reject[i].options, x->reject[i].why);
}

json_t *tr_pareto_json(const struct tr_plan *base, const struct tr_pareto *x)
{
    json_t *runs = json_array(), *rejected = json_array();

    for (int i = 0; i < x->runs; i++) {
        const struct tr_pareto_run *r = &x->run[i];

        json_array_append_new(runs, json_pack("{s:i, s:I, s:f, s:f, s:f, s:s}", "world_size",
                                              r->world, "global_batch_size", (json_int_t)r->batch,
                                              "seconds", r->seconds, "bytes", r->bytes, "gpu_hours",
                                              r->gpu_hours, "options", r->options));
    }
    for (int i = 0; i < x->rejected; i++)
        json_array_append_new(rejected, json_pack("{s:s, s:s}", "option", x->reject[i].options,
                                                  "reason", x->reject[i].why));
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:o}", "processor",
                     tr_processor_name(tr_plan_processor(base)), "combinations", x->looked,
                     "refused", x->refused, "too_large", x->too_large, "counted", x->counted,
                     "left", x->left, "gpu_hours_of_run", x->whole, "pareto", runs, "rejected",
                     rejected);
}
