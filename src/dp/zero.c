/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"
#include "model/packing.h"

#include <math.h>
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
    struct tr_pending grads, values, outer;
    bool reducing, gathering, combining; /* these are under way */
    bool begun;                          /* this step has gradients of it already */
    bool last;                           /* what is reduced is of the last micro-batch */
    int64_t
        state; /* where its slice begins in gradients and masters, of parts that stay or of the others */
    int64_t copy; /* of its weights from the host */
};

/* Gradients of the part that leave the device: a slice on its way through stage[]. */
struct leaving {
    int part; /* or -1 */
    int64_t copy, count;
};

enum { STAGES = 2 };

struct zero {
    struct part *part;              /* [parts] */
    struct tr_tensor masters;       /* with stage 3 */
    struct tr_tensor stage[STAGES]; /* memory of the host, where gradients lie with it */
    struct leaving leaving[STAGES];
    int turn;     /* the stage that is taken next */
    int64_t left; /* the last copy that left the device */
};

static const struct tr_params *params_of(const struct tr_dp *x)
{
    return x->of.params;
}

static bool shards_weights(const struct tr_dp *x)
{
    return x->of.shape->layout.weight_windows > 0;
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
    }
    if (!z || !z->part)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the plan of sharded gradients");
    TR_ASSERT(x->owns == parts);
    x->stays =
        tr_packing_stays(params_of(x), &x->of.shape->layout, x->of.shape->dp.optimizer_shards);
    for (int i = 0; i < parts; at += x->own[i++].count) {
        if (i == x->stays)
            at = 0;
        z->part[i].state = at;
    }
    return TR_OK;
}

/* Whether each micro-batch reduces its gradients to owners, which add them up; else all micro-batches add to whole
   gradients, and the last one reduces them in their place. */
static bool each(const struct tr_dp *x)
{
    return x->of.shape->layout.gradient_windows > 0;
}

/* Whether those of part `i` lie with the host. */
static bool hosts_weights(const struct tr_dp *x, int i)
{
    return x->of.shape->offload.weights && i >= x->stays;
}

static bool hosts_gradients(const struct tr_dp *x, int i)
{
    return x->of.shape->offload.gradients && i >= x->stays;
}

static struct tr_tensor take_grads(const struct tr_dp *x, struct tr_arena *a, int64_t count)
{
    const enum tr_dtype type = params_of(x)->grads.dtype;

    return tr_tensor_1(tr_arena_take(a, TR_LABEL_GRADIENTS, (size_t)(count * tr_dtype_bytes(type))),
                       type, count);
}

static void plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host)
{
    const bool hosted = x->of.shape->offload.gradients;
    struct tr_arena *a = hosted ? host : device;
    struct zero *z = x->ctx;
    int64_t stays = 0, others = 0, most = 0;

    if (!each(x))
        return;
    for (int i = 0; i < x->owns; i++) {
        *(i < x->stays ? &stays : &others) += x->own[i].count;
        most = x->own[i].count > most ? x->own[i].count : most;
    }
    for (int i = 0; i < STAGES && hosted; i++)
        z->stage[i] = take_grads(x, a, most);
    x->grads = take_grads(x, a, others);
    if (x->stays > 0)
        x->grads_here = take_grads(x, device, stays);
}

/* The slice of replica `rank`, which lies in `all`, the elements of a part. */
static struct tr_tensor own_slice(const struct tr_dp *x, const struct tr_tensor *all)
{
    const int64_t count = tr_tensor_elems(all) / x->sums.size;

    return tr_tensor_span(all, x->sums.rank * count, count);
}

/* What a rank sends of a part on the ring of `c`, once or twice. */
static void count(struct tr_dp *x, const struct tr_comm *c, enum tr_traffic_kind kind,
                  const struct tr_tensor *t, int passes)
{
    const int64_t n = tr_tensor_elems(t) / c->size * (c->size - 1) * passes;

    tr_traffic_add(x->of.traffic, kind, n * tr_dtype_bytes(t->dtype), n);
}

/* ---- gradients ---- */

static struct tr_tensor grads_of(const struct tr_dp *x, int i)
{
    const struct tr_param_part *p = &params_of(x)->part[i];

    return tr_tensor_span(&params_of(x)->grads, p->grads_at, p->count);
}

/* What this rank keeps of a part in a step. */
static struct tr_tensor kept_of(const struct tr_dp *x, int i)
{
    const struct zero *z = x->ctx;
    const struct tr_tensor all = grads_of(x, i), mine = own_slice(x, &all);

    return each(x) ? tr_tensor_span(i < x->stays ? &x->grads_here : &x->grads, z->part[i].state,
                                    tr_tensor_elems(&mine))
                   : mine;
}

/* With several copies of the states, the sums of each go to all of them. */
static void start_outer(struct tr_dp *x, int i)
{
    const struct tr_tensor sum = kept_of(x, i);
    struct zero *z = x->ctx;

    if (x->outer.size < 2)
        return;
    x->outer.via->allreduce_start(&x->outer, x->of.queue, &sum, TR_SUM, &z->part[i].outer);
    z->part[i].combining = true;
    count(x, &x->outer, TR_TRAFFIC_DP_SUMS, &sum, 2);
}

/* `mine`, which a queue can read, to the others of the step. */
static void add_up(struct tr_dp *x, struct tr_queue *q, int i, const struct tr_tensor *mine)
{
    const struct tr_tensor sum = kept_of(x, i);
    struct zero *z = x->ctx;

    if (z->part[i].begun)
        q->on->add(q, &sum, mine);
    else
        q->on->copy(q, &sum, mine);
    z->part[i].begun = true;
}

/* What went through a stage is with the host now. */
static void come_home(struct tr_dp *x, int stage)
{
    struct zero *z = x->ctx;
    struct leaving *l = &z->leaving[stage];
    struct tr_tensor there;

    if (l->part < 0)
        return;
    x->of.queue->on->moved(x->of.queue, l->copy);
    there = tr_tensor_span(&z->stage[stage], 0, l->count);
    add_up(x, x->of.host, l->part, &there);
    l->part = -1;
}

static void leave(struct tr_dp *x, int i, const struct tr_tensor *mine)
{
    struct zero *z = x->ctx;
    const int stage = z->turn;
    const struct tr_tensor to = tr_tensor_span(&z->stage[stage], 0, tr_tensor_elems(mine));

    z->turn = (z->turn + 1) % STAGES;
    come_home(x, stage);
    z->left = x->of.queue->on->move(x->of.queue, TR_LANE_OUT, &to, mine);
    z->leaving[stage] = (struct leaving){i, z->left, tr_tensor_elems(mine)};
}

/* Its slice of the sum goes to the others of the step. */
static void finish_reduce(struct tr_dp *x, int i)
{
    struct tr_queue *q = x->of.queue;
    struct zero *z = x->ctx;
    struct part *p = &z->part[i];
    const struct tr_tensor all = grads_of(x, i), mine = own_slice(x, &all);

    TR_ASSERT(p->reducing);
    x->sums.via->finish(&x->sums, q, &p->grads);
    p->reducing = false;
    if (hosts_gradients(x, i))
        tr_traffic_add(x->of.traffic, TR_TRAFFIC_HOST_WRITE, (int64_t)tr_tensor_bytes(&mine),
                       tr_tensor_elems(&mine));
    if (!each(x))
        p->begun = true;
    else if (hosts_gradients(x, i) && q->on->apart)
        leave(x, i, &mine);
    else
        add_up(x, q, i, &mine);
    if (p->last)
        start_outer(x, i);
}

static void start_reduce(struct tr_dp *x, int i, bool last)
{
    struct zero *z = x->ctx;
    struct tr_tensor all = grads_of(x, i), mine = own_slice(x, &all);

    TR_ASSERT(!z->part[i].reducing);
    tr_grads_look_at(&x->look, params_of(x)->part[i].first, &all);
    x->sums.via->reduce_scatter_start(&x->sums, x->of.queue, &mine, &all, TR_SUM,
                                      &z->part[i].grads);
    z->part[i].reducing = true;
    z->part[i].last = last;
    count(x, &x->sums, TR_TRAFFIC_DP_SUMS, &all, 1);
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

static bool finish(struct tr_dp *x)
{
    struct zero *z = x->ctx;

    for (int i = 0; i < STAGES; i++)
        come_home(x, (z->turn + i) % STAGES);
    for (int i = 0; i < params_of(x)->parts; i++) {
        struct part *p = &z->part[i];

        TR_ASSERT(p->begun && !p->reducing);
        if (p->combining)
            x->outer.via->finish(&x->outer, x->of.queue, &p->outer);
        p->begun = p->combining = false;
    }
    return false;
}

/* ---- weights ---- */

static struct tr_tensor values_of(const struct tr_dp *x, int i)
{
    const struct tr_param_part *p = &params_of(x)->part[i];

    return tr_tensor_span(&params_of(x)->values, p->values_at, p->count);
}

/* From the host in the lane of copies; with several replicas the gather waits for it. */
static void start_copy(struct tr_dp *x, int i, const struct tr_tensor *mine,
                       const struct tr_tensor *from)
{
    struct tr_queue *q = x->of.queue;
    struct zero *z = x->ctx;

    z->part[i].copy = q->on->move(q, TR_LANE_IN, mine, from);
    tr_traffic_add(x->of.traffic, TR_TRAFFIC_HOST_FETCH, (int64_t)tr_tensor_bytes(mine),
                   tr_tensor_elems(mine));
    if (x->sums.size > 1)
        q->on->after(q, z->part[i].copy);
}

/* With stage 3 from the masters; elsewhere the update has written this rank's slice. */
static void start_gather(struct tr_dp *x, int i)
{
    struct tr_queue *q = x->of.queue;
    struct zero *z = x->ctx;
    struct tr_tensor all = values_of(x, i), mine = own_slice(x, &all);

    if (shards_weights(x)) {
        const struct tr_tensor from = tr_tensor_span(i < x->stays ? &x->masters_here : &z->masters,
                                                     z->part[i].state, tr_tensor_elems(&mine));

        if (hosts_weights(x, i))
            start_copy(x, i, &mine, &from);
        else
            q->on->copy(q, &mine, &from);
    }
    x->sums.via->allgather_start(&x->sums, q, &all, &z->part[i].values);
    z->part[i].gathering = true;
    count(x, &x->sums, TR_TRAFFIC_DP_WEIGHTS, &all, 1);
}

static void finish_gather(struct tr_dp *x, int i)
{
    struct zero *z = x->ctx;

    if (i < 0 || !z->part[i].gathering)
        return;
    x->sums.via->finish(&x->sums, x->of.queue, &z->part[i].values);
    if (hosts_weights(x, i) && shards_weights(x))
        x->of.queue->on->after(x->of.queue, z->part[i].copy);
    z->part[i].gathering = false;
}

/* In the order of the forward pass, two under way at once, or all with --overlap-param-gather. */
static void gather(struct tr_dp *x)
{
    const struct tr_params *ps = params_of(x);
    const bool overlap = x->of.shape->dp.overlap_gather;
    int before = -1;

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

static void arrive(struct tr_dp *x)
{
    for (int i = params_of(x)->parts - 1; i >= 0; i--)
        finish_gather(x, i);
}

static void residency(const struct tr_dp *x, struct tr_residency *out)
{
    out->reduce = each(x) ? TR_REDUCE_EACH : TR_REDUCE_LAST;
    out->in_order = false;
    out->at_once = !x->of.config->overlap_grad_reduce;
    out->ahead = x->of.shape->layout.weight_windows - 1;
}

static void move(struct tr_dp *x, const struct tr_instr *in)
{
    const int part = in->item;

    switch (in->kind) {
    case TR_FETCH:
        start_gather(x, part);
        break;
    case TR_ACQUIRE:
        finish_gather(x, part);
        break;
    case TR_CLEAR:
        x->of.queue->on->after(x->of.queue, ((struct zero *)x->ctx)->left);
        clear(x, part);
        break;
    case TR_REDUCE:
        start_reduce(x, part, in->at[0].micro == x->micros - 1);
        break;
    case TR_SETTLE:
        finish_reduce(x, part);
        break;
    default:
        break;
    }
}

static void close_zero(struct tr_dp *x)
{
    struct zero *z = x->ctx;

    if (z->part)
        arrive(x);
    free(z->part);
    free(z);
}

/* Whether tensor ranks sum gradients of parameters that all of them have (model/model.h). */
static bool sums_tensor_ranks(const struct tr_dp *x)
{
    const struct tr_params *ps = params_of(x);

    for (int i = 0; i < ps->regions; i++)
        if (ps->region[i].by_heads || (x->of.shape->activations.sequence && ps->region[i].alike))
            return true;
    return false;
}

/* Sums between ranks other than these are of memory of the device. */
static enum tr_status check_apart(const struct tr_dp *x)
{
    const struct tr_shape *s = x->of.shape;
    const char *what = x->outer.size > 1      ? "--zero-shard-size"
                       : sums_tensor_ranks(x) ? "--sequence-parallel"
                       : tr_layout_ends_apart(&s->layout) && s->dims.family.tied
                           ? "--pipeline-model-parallel-size"
                           : NULL;

    if (!s->offload.gradients || !what)
        return TR_OK;
    return TR_FAIL(
        TR_ECONFIG,
        "with --offload-optimizer and --zero-stage 2 or 3 a GPU's gradients are added up in memory "
        "of the host; with %s some of them are summed between GPUs after that, which is not "
        "supported: use --zero-stage 1, or leave that out",
        what);
}

static enum tr_status start(struct tr_dp *x, const struct tr_tensor *masters)
{
    struct zero *z = x->ctx;

    z->masters = *masters;
    for (int i = 0; i < STAGES; i++)
        z->leaving[i].part = -1;
    return x->of.queue->on->apart ? check_apart(x) : TR_OK;
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
        if (p->combining)
            under_way = !via->poll(&x->outer, &p->outer) || under_way;
    }
    return under_way;
}

/* Each micro-batch reduces all gradients, and with stage 3 gathers the weights forward and backward. */
/* How often a step gathers the weights of a layer: each pass but the first finds those of some layers in their windows,
   where the one before it ended (pipeline/residency.h). */
static double gathers(const struct tr_shape *s)
{
    const double layers = ceil((double)s->dims.layers / s->layout.p);
    const double there = fmin(s->layout.weight_windows, layers);

    return 1.0 + (2.0 * s->batches.micros - 1.0) * (layers - there) / layers;
}

static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    const double micros = s->batches.micros;
    const int shards = s->dp.optimizer_shards;

    out->reduce = (struct tr_dp_leg){.bytes = params * grad, .passes = 1.0, .during = 1.0};
    if (s->dp.each)
        out->reduce.passes = out->reduce.during = micros;
    out->gather = (struct tr_dp_leg){
        .bytes = params * elem, .passes = 1.0, .during = s->dp.overlap_gather ? 1.0 : 0.0};
    if (s->dp.by_layer) {
        out->gather.passes = gathers(s);
        out->gather.during = micros;
    }
    out->reduce.kind = TR_DP_LEG_REDUCE_SCATTER;
    out->gather.kind = TR_DP_LEG_ALLGATHER;
    out->reduce.group = out->gather.group = shards;
    out->reduce.step = out->gather.step = 1;
    if (shards > 1 && shards < s->layout.d)
        out->outer = (struct tr_dp_leg){.bytes = params * grad / shards,
                                        .passes = 2.0,
                                        .during = 1.0,
                                        .group = s->layout.d / shards,
                                        .step = shards};
}

const struct tr_dp_mode tr_dp_zero = {
    .cut = cut,
    .open = open_zero,
    .close = close_zero,
    .plan = plan,
    .start = start,
    .poll = poll,
    .finish = finish,
    .residency = residency,
    .move = move,
    .arrive = arrive,
    .gather = gather,
    .cost = cost,
};
