/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <stdlib.h>

/*
 * --zero-stage 2 and 3 (ZeRO, Rajbhandari et al. 2020).  A part of the flat buffers, a layer or what is none, is a
 * bucket, and replica r owns slice r of it: its states, masters and gradients.
 *
 * Gradients.  A rank has windows for those of a few layers (struct tr_param_part).  When the backward pass of a layer is
 * done, its gradients are reduced to their owners, while the pass goes on with the next layer in another window;
 * when that is over, a replica adds its slice to what it keeps of the step.  So the sum over replicas comes before
 * the sum over micro-batches: with one micro-batch in a step sums have the bits of --zero-stage 1, with several
 * they are rounded in another order.  Parts that are no layer have a place of their own and are reduced when the
 * pass of their chunk ends.
 *
 * Weights (stage 3).  Those of a layer are gathered from the masters of all replicas into a window, while the layer
 * before is computed in another, and are gone when a third layer takes it.  Parts that are no layer are gathered
 * after each update and stay.
 */
struct part {
    struct tr_pending grads, values;
    bool reducing, gathering; /* these are under way */
    bool begun;               /* this step has gradients of it already */
    int64_t state;            /* where its slice begins in x->grads and in the masters */
};

struct zero {
    struct part *part;        /* [parts] */
    int *writer, *holder;     /* [windows] the part that has it, or -1 */
    struct tr_tensor masters; /* [owned], with stage 3 */
};

enum { WINDOWS = 8 };

static const struct tr_params *params_of(const struct tr_dp *x)
{
    return x->of.params;
}

static bool shards_weights(const struct tr_dp *x)
{
    return x->of.shape->dp.weight_shards > 1;
}

static int cut(const struct tr_dp_of *of, struct tr_bucket **out)
{
    const struct tr_params *ps = of->params;

    *out = calloc((size_t)ps->parts, sizeof **out);
    if (!*out)
        tr_die(TR_ERESOURCE, "no memory left for a plan of %d gradient buckets", ps->parts);
    for (int i = 0; i < ps->parts; i++)
        (*out)[i] = (struct tr_bucket){ps->part[i].first, ps->part[i].count};
    return ps->parts;
}

static enum tr_status open_zero(struct tr_dp *x)
{
    const int parts = params_of(x)->parts;
    struct zero *z = calloc(1, sizeof *z);
    int64_t at = 0;

    x->ctx = z;
    if (z) {
        z->part = calloc((size_t)parts, sizeof *z->part);
        z->writer = calloc((size_t)2 * WINDOWS, sizeof *z->writer);
    }
    if (!z || !z->part || !z->writer)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the plan of sharded gradients");
    TR_ASSERT(x->owns == parts && x->of.shape->layout.gradient_windows <= WINDOWS &&
              x->of.shape->layout.weight_windows <= WINDOWS);
    z->holder = z->writer + WINDOWS;
    for (int i = 0; i < WINDOWS; i++)
        z->writer[i] = z->holder[i] = -1;
    for (int i = 0; i < parts; at += x->own[i++].count)
        z->part[i].state = at;
    return TR_OK;
}

static void plan(struct tr_dp *x, struct tr_arena *a)
{
    const enum tr_dtype type = params_of(x)->grads.dtype;
    int64_t owned = 0;

    for (int i = 0; i < x->owns; i++)
        owned += x->own[i].count;
    x->grads = tr_tensor_1(
        tr_arena_take(a, TR_LABEL_GRADIENTS, (size_t)(owned * tr_dtype_bytes(type))), type, owned);
}

/* The slice of replica `rank`, which lies in `all`, the elements of a part. */
static struct tr_tensor own_slice(const struct tr_dp *x, const struct tr_tensor *all)
{
    const int64_t count = tr_tensor_elems(all) / x->sums.size;

    return tr_tensor_span(all, x->sums.rank * count, count);
}

/* What a rank sends of a part on the ring of replicas. */
static void count(struct tr_dp *x, enum tr_traffic_kind kind, const struct tr_tensor *t)
{
    const int64_t n = tr_tensor_elems(t) / x->sums.size * (x->sums.size - 1);

    tr_traffic_add(x->of.traffic, kind, n * tr_dtype_bytes(t->dtype), n);
}

/* ---- gradients ---- */

static struct tr_tensor grads_of(const struct tr_dp *x, int i)
{
    const struct tr_param_part *p = &params_of(x)->part[i];

    return tr_tensor_span(&params_of(x)->grads, p->grads_at, p->count);
}

/* Its slice of the sum goes to the others of the step. */
static void finish_reduce(struct tr_dp *x, int i)
{
    struct tr_queue *q = x->of.queue;
    struct zero *z = x->ctx;
    struct part *p = &z->part[i];
    struct tr_tensor all = grads_of(x, i), mine = own_slice(x, &all), sum;

    if (!p->reducing)
        return;
    x->sums.via->finish(&x->sums, q, &p->grads);
    p->reducing = false;
    sum = tr_tensor_span(&x->grads, p->state, tr_tensor_elems(&mine));
    if (p->begun)
        q->on->add(q, &sum, &mine);
    else
        q->on->copy(q, &sum, &mine);
    p->begun = true;
}

static void start_reduce(struct tr_dp *x, int i)
{
    struct zero *z = x->ctx;
    struct tr_tensor all = grads_of(x, i), mine = own_slice(x, &all);

    TR_ASSERT(!z->part[i].reducing);
    x->sums.via->reduce_scatter_start(&x->sums, x->of.queue, &mine, &all, TR_SUM,
                                      &z->part[i].grads);
    z->part[i].reducing = true;
    count(x, TR_TRAFFIC_DP_SUMS, &all);
    if (!x->of.config->overlap_grad_reduce)
        finish_reduce(x, i);
}

/* What backward adds to begins at zero, and so does what lies between parameters. */
static void clear(struct tr_dp *x, int i)
{
    const struct tr_params *ps = params_of(x);
    const struct tr_param_part *p = &ps->part[i];
    const int64_t end = p->first + p->count;

    for (int k = tr_regions_from(ps, p->first); k < ps->regions && ps->region[k].first < end; k++) {
        const struct tr_region *r = &ps->region[k];
        const int64_t lo = r->first > p->first ? r->first : p->first;
        const int64_t hi = r->first + r->count < end ? r->first + r->count : end;
        struct tr_tensor t;

        if (!r->adds && !r->padding)
            continue;
        t = tr_tensor_span(&ps->grads, p->grads_at + lo - p->first, hi - lo);
        x->of.queue->on->fill(x->of.queue, &t, 0.0F);
    }
}

static void writes(struct tr_dp *x, int64_t first)
{
    struct zero *z = x->ctx;
    const int i = tr_param_part_at(params_of(x), first);
    int *writer = &z->writer[params_of(x)->part[i].grads_window];

    if (*writer >= 0)
        finish_reduce(x, *writer);
    *writer = i;
    clear(x, i);
}

static void ready(struct tr_dp *x, int64_t upto)
{
    const int i = tr_param_part_at(params_of(x), upto - 1);

    if (params_of(x)->part[i].layer >= 0)
        start_reduce(x, i);
}

static void pass(struct tr_dp *x, int chunk, bool ends)
{
    const struct tr_params *ps = params_of(x);

    for (int i = 0; i < ps->parts; i++) {
        if (ps->part[i].layer >= 0 || ps->part[i].chunk != chunk)
            continue;
        if (ends) {
            start_reduce(x, i);
        } else {
            finish_reduce(x, i);
            clear(x, i);
        }
    }
}

static bool finish(struct tr_dp *x)
{
    struct zero *z = x->ctx;

    for (int i = 0; i < params_of(x)->parts; i++) {
        finish_reduce(x, i);
        TR_ASSERT(z->part[i].begun);
        z->part[i].begun = false;
    }
    return false;
}

/* ---- weights ---- */

static struct tr_tensor values_of(const struct tr_dp *x, int i)
{
    const struct tr_param_part *p = &params_of(x)->part[i];

    return tr_tensor_span(&params_of(x)->values, p->values_at, p->count);
}

/* With stage 3 from the masters; elsewhere the update has written this rank's slice. */
static void start_gather(struct tr_dp *x, int i)
{
    struct tr_queue *q = x->of.queue;
    struct zero *z = x->ctx;
    struct tr_tensor all = values_of(x, i), mine = own_slice(x, &all);

    if (shards_weights(x)) {
        const struct tr_tensor from =
            tr_tensor_span(&z->masters, z->part[i].state, tr_tensor_elems(&mine));

        q->on->copy(q, &mine, &from);
    }
    x->sums.via->allgather_start(&x->sums, q, &all, &z->part[i].values);
    z->part[i].gathering = true;
    count(x, TR_TRAFFIC_DP_WEIGHTS, &all);
}

static void finish_gather(struct tr_dp *x, int i)
{
    struct zero *z = x->ctx;

    if (i < 0 || !z->part[i].gathering)
        return;
    x->sums.via->finish(&x->sums, x->of.queue, &z->part[i].values);
    z->part[i].gathering = false;
}

/* Bring layer `i` on its way into its window, unless it is. */
static void fetch(struct tr_dp *x, int i)
{
    struct zero *z = x->ctx;
    int *holder = &z->holder[params_of(x)->part[i].values_window];

    if (*holder == i)
        return;
    finish_gather(x, *holder);
    *holder = i;
    start_gather(x, i);
}

/* The layer that a pass reads after `i`, if it has another window; or -1. */
static int next_of(const struct tr_dp *x, int i, bool backward)
{
    const struct tr_params *ps = params_of(x);
    const int next = backward ? i + 1 : i - 1;

    if (next < 0 || next >= ps->parts || ps->part[next].layer < 0 ||
        ps->part[next].chunk != ps->part[i].chunk ||
        ps->part[next].values_window == ps->part[i].values_window)
        return -1;
    return next;
}

static void need_layer(struct tr_dp *x, int i, bool backward)
{
    const int next = next_of(x, i, backward);

    if (params_of(x)->part[i].layer < 0)
        return;
    fetch(x, i);
    finish_gather(x, i);
    if (next >= 0)
        fetch(x, next);
}

static void need(struct tr_dp *x, int64_t from, bool backward)
{
    const struct tr_params *ps = params_of(x);
    const int first = from < ps->size ? tr_param_part_at(ps, from) : ps->parts;

    if (shards_weights(x) && first < ps->parts)
        need_layer(x, first, backward);
    for (int i = ps->parts - 1; i >= first && !shards_weights(x); i--)
        finish_gather(x, i);
}

static void forget(struct tr_dp *x)
{
    struct zero *z = x->ctx;

    for (int i = 0; i < WINDOWS; i++) {
        finish_gather(x, z->holder[i]);
        z->holder[i] = -1;
    }
}

/* In the order of the forward pass, two under way at once, or all with --overlap-param-gather. */
static void gather(struct tr_dp *x)
{
    const struct tr_params *ps = params_of(x);
    const bool overlap = x->of.shape->dp.overlap_gather;
    int before = -1;

    forget(x);
    for (int i = ps->parts - 1; i >= 0; i--) {
        if (shards_weights(x) && ps->part[i].layer >= 0)
            continue;
        start_gather(x, i);
        if (!overlap)
            finish_gather(x, before);
        before = i;
    }
    if (!overlap)
        finish_gather(x, before);
}

/* ---- both ---- */

static void close_zero(struct tr_dp *x)
{
    struct zero *z = x->ctx;

    for (int i = 0; z->part && i < params_of(x)->parts; i++)
        finish_gather(x, i);
    free(z->part);
    free(z->writer);
    free(z);
}

static enum tr_status start(struct tr_dp *x, const struct tr_tensor *masters)
{
    struct zero *z = x->ctx;

    z->masters = *masters;
    return TR_OK;
}

static bool poll(struct tr_dp *x)
{
    struct zero *z = x->ctx;
    const struct tr_transport *via = x->sums.via;
    bool under_way = false;

    for (int i = 0; i < params_of(x)->parts && !via->queues; i++) {
        struct part *p = &z->part[i];

        if (p->reducing)
            under_way = !via->poll(&x->sums, &p->grads) || under_way;
        if (p->gathering)
            under_way = !via->poll(&x->sums, &p->values) || under_way;
    }
    return under_way;
}

/* Each micro-batch reduces all gradients, and with stage 3 gathers the weights forward and backward. */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    const double micros = s->batches.micros;

    out->reduce = (struct tr_dp_leg){.bytes = params * grad, .passes = micros, .during = micros};
    out->gather = (struct tr_dp_leg){
        .bytes = params * elem, .passes = 1.0, .during = s->dp.overlap_gather ? 1.0 : 0.0};
    if (s->dp.weight_shards > 1) {
        out->gather.passes = 2.0 * micros;
        out->gather.during = micros;
    }
}

const struct tr_dp_mode tr_dp_zero = {
    .cut = cut,
    .open = open_zero,
    .close = close_zero,
    .plan = plan,
    .start = start,
    .poll = poll,
    .finish = finish,
    .pass = pass,
    .writes = writes,
    .ready = ready,
    .need = need,
    .gather = gather,
    .cost = cost,
};
