/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/dp.h"

#include <stdlib.h>
#include <string.h>

#include "dp/bucket_timeline.h"
#include "dp/mode.h"
#include "telemetry/timer.h"
#include "util/log.h"

static const struct tr_dp_mode *mode_of(int mode)
{
    static const struct tr_dp_mode *const modes[] = {
#define MODE(symbol, value, spelling, structure, replicas, exchanges) [symbol] = &(structure),
#define MODE_BY(symbol, value, structure) [symbol] = &(structure),
#include "config/modes.def"
    };

    return modes[mode];
}

/* ---- beginning and end ---- */

/* MPI in host memory is at its best with some MB, and small buckets begin to move early; NCCL takes 64 to
   256 MiB to fill the links of a node. */
int64_t tr_dp_bucket(const struct tr_config *c, bool gpus)
{
    const int64_t said = tr_data_parallel_bucket(c);

    if (said != TR_UNSET_INT)
        return said;
    return gpus ? 40000000 : 4000000;
}

static int plan_buckets(const struct tr_dp_of *of, struct tr_bucket **out)
{
    const struct tr_dp_mode *mode = mode_of(of->shape->dp.mode);
    const int64_t end[] = {tr_params_tied(of->params), of->params->size};
    const bool gpus = of->queue->on && of->queue->on->apart;

    if (mode->cut)
        return mode->cut(of, out);
    return tr_buckets_plan(end, 2, tr_dp_bucket(of->config, gpus),
                           (int64_t)TR_PARAM_UNIT * of->shape->layout.d, out);
}

static bool is_sharded(const struct tr_dp *x)
{
    return x->of.shape->dp.optimizer_shards > 1;
}

/* Over how many replicas; of how many groups that each have one copy. */
static int shards_of(const struct tr_dp *x)
{
    return is_sharded(x) ? x->of.shape->dp.optimizer_shards : x->of.shape->layout.d;
}

static int copies_of(const struct tr_dp *x)
{
    return x->of.shape->layout.d / shards_of(x);
}

enum tr_status tr_dp_open(const struct tr_dp_of *of, struct tr_dp *x)
{
    struct tr_bucket *bucket;
    int n = plan_buckets(of, &bucket);

    *x = (struct tr_dp){.of = *of, .mode = mode_of(of->shape->dp.mode)};
    x->owns = tr_buckets_owned(bucket, n, of->grid->at.dp % shards_of(x), shards_of(x),
                               is_sharded(x) || x->mode->cut, &x->own);
    free(bucket);
    return x->mode->open ? x->mode->open(x) : TR_OK;
}

static void release(struct tr_comm *c)
{
    if (c->via)
        c->via->release(c);
}

void tr_dp_close(struct tr_dp *x)
{
    if (x->buckets)
        tr_dp_arrive(x);
    tr_buckets_close(x->buckets);
    tr_bucket_timeline_close(x->timeline);
    if (x->ctx && x->mode->close)
        x->mode->close(x);
    release(&x->owners);
    release(&x->outer);
    release(&x->rounds);
    release(&x->sums);
    free(x->own);
    memset(x, 0, sizeof *x);
}

enum tr_dtype tr_dp_wire(const struct tr_dp *x)
{
    switch (x->of.shape->dp.wire) {
    case TR_WIRE_FP16:
        return TR_F16;
    case TR_WIRE_BF16:
        return TR_BF16;
    default:
        return x->of.params->grads.dtype;
    }
}

bool tr_dp_overflows(const struct tr_dp *x)
{
    return tr_dp_wire(x) == TR_F16 && x->of.params->grads.dtype != TR_F16;
}

static void plan_wire(struct tr_dp *x, struct tr_arena *device)
{
    const enum tr_dtype type = tr_dp_wire(x);
    const int64_t n = x->of.params->size;

    if (type != x->of.params->grads.dtype)
        x->wire = tr_tensor_1(
            tr_arena_take(device, TR_LABEL_GRADIENTS, (size_t)(n * tr_dtype_bytes(type))), type, n);
}

void tr_dp_plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host)
{
    plan_wire(x, device);
    if (x->mode->plan)
        x->mode->plan(x, device, host);
}

enum tr_status tr_dp_reach(struct tr_dp *x)
{
    struct tr_comm *dp = &x->of.grid->dp, *world = x->of.world, *all = *x->of.transport;
    const int copy = dp->rank / shards_of(x);

    TR_TRY(tr_comm_agree(world, dp->via->split(dp, copy, dp->rank, "dp", &x->sums)));
    if (copies_of(x) > 1) {
        TR_TRY(tr_comm_agree(
            world, dp->via->split(dp, dp->rank % shards_of(x), dp->rank, "dp outer", &x->outer)));
        TR_TRY(tr_comm_agree(world, all->via->split(all, copy, all->rank, "owners", &x->owners)));
    }
    if (!x->mode->rounds)
        return TR_OK;
    return tr_comm_agree(world, dp->via->split(dp, 0, dp->rank, x->mode->rounds, &x->rounds));
}

void tr_dp_uses(const struct tr_dp *x, void (*use)(void *ctx, enum tr_dp_use what, bool weights),
                void *ctx)
{
    const bool scatters = is_sharded(x) || x->mode->scatters;

    if (!scatters) {
        use(ctx, TR_DP_USE_ALLREDUCE, false);
        return;
    }
    use(ctx, TR_DP_USE_REDUCE_SCATTER, false);
    use(ctx, TR_DP_USE_ALLGATHER, is_sharded(x));
}

static enum tr_status open_timeline(struct tr_dp *x, const struct tr_bucket *bucket, int n)
{
    const struct tr_config *c = x->of.config;
    const struct tr_bucket_timeline_how how = {
        .path = c->timeline_filename,
        .cycles = c->timeline_mark_cycles,
        .sharded = is_sharded(x),
        .nccl = x->sums.via->queues,
    };

    if (!how.path || x->of.world->rank > 0)
        return TR_OK;
    return tr_bucket_timeline_open(&how, x->of.params, bucket, n, &x->timeline);
}

static enum tr_status open_buckets(struct tr_dp *x)
{
    const struct tr_dp_of *of = &x->of;
    struct tr_buckets_how how = {
        .overlap_reduce = of->config->overlap_grad_reduce,
        .sharded = is_sharded(x),
        .overlap_gather = of->shape->dp.overlap_gather,
        .wire = x->wire,
        .look = &x->look,
        .params = of->params,
    };
    struct tr_bucket *bucket;
    enum tr_status s;
    int n;

    if (x->mode->gather || x->mode->sum)
        return TR_OK;
    n = plan_buckets(of, &bucket);
    s = tr_comm_agree(of->world, open_timeline(x, bucket, n));
    if (s != TR_OK) {
        free(bucket);
        return s;
    }
    how.watch = tr_bucket_timeline_watch(x->timeline);
    s = tr_buckets_open(&x->sums, &of->params->grads, &of->params->values, bucket, n, how,
                        &x->buckets);

    free(bucket);
    return tr_comm_agree(of->world, s);
}

enum tr_status tr_dp_start(struct tr_dp *x, const struct tr_tensor *masters,
                           const struct tr_tensor *here)
{
    const struct tr_config *c = x->of.config;

    TR_TRY(open_buckets(x));
    x->masters_here = *here;
    if (x->mode->start)
        TR_TRY(tr_comm_agree(x->of.world, x->mode->start(x, masters)));
    x->started = true;
    if (x->mode->tell)
        x->mode->tell(x);
    if (tr_dp_mode_warms_up(c->dp_mode) && x->of.shape->layout.d == 1)
        tr_notice_rank0("> there is one replica, so --dp-mode %s has no effect\n",
                        tr_config_spelling("dp-mode", c->dp_mode));
    return TR_OK;
}

struct tr_comm *tr_dp_owners(const struct tr_dp *x)
{
    if (copies_of(x) > 1)
        return (struct tr_comm *)&x->owners;
    return is_sharded(x) ? *x->of.transport : &x->of.grid->mp;
}

bool tr_dp_saves(const struct tr_dp *x)
{
    return x->of.grid->at.dp / shards_of(x) == 0;
}

/* ---- a step ---- */

const struct tr_dp_event *tr_dp_event(const struct tr_dp *x, int t)
{
    static const struct row {
        const struct tr_dp_mode *mode;
        int timer;
        struct tr_dp_event event;
    } rows[] = {
#define EVENT(mode, timer, ...) {&(mode), TR_TIMER_##timer, {__VA_ARGS__}},
#include "dp/events.def"
    };

    if (x->of.shape->layout.d < 2)
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].mode == x->mode && rows[i].timer == t)
            return &rows[i].event;
    return NULL;
}

bool tr_dp_reduces(const struct tr_dp *x)
{
    return !x->mode->reduces || x->mode->reduces(x);
}

bool tr_dp_mixes(const struct tr_dp *x)
{
    return x->of.shape->layout.d > 1 && (tr_dp_reduces(x) || x->mode->combines);
}

void tr_dp_begin(struct tr_dp *x, int micros)
{
    x->micros = micros;
    if (x->mode->begin)
        x->mode->begin(x);
}

void tr_dp_residency(const struct tr_dp *x, struct tr_residency *out)
{
    const struct tr_dp_of *of = &x->of;
    const bool overlap =
        of->config->overlap_grad_reduce && of->shape->layout.d > 1 && !x->mode->sum;

    *out = (struct tr_residency){
        .params = of->params,
        .layout = &of->shape->layout,
        .activations = &of->shape->activations,
        .stage = of->grid->at.pp,
        .reduce = overlap ? TR_REDUCE_LAST : TR_REDUCE_AFTER,
        .in_order = true,
        .arrives = of->shape->dp.overlap_gather,
    };
    if (x->mode->residency)
        x->mode->residency(x, out);
}

/* A bucket is reduced when all elements in it are complete. */
void tr_dp_move(struct tr_dp *x, const struct tr_instr *in)
{
    const struct tr_param_part *p = &x->of.params->part[in->item];

    if (x->mode->move)
        x->mode->move(x, in);
    else if (in->kind == TR_ACQUIRE)
        tr_buckets_need(x->buckets, x->of.queue, p->first);
    else if (in->kind == TR_REDUCE)
        tr_buckets_ready(x->buckets, x->of.queue, p->first + p->count);
}

struct tr_tensor tr_dp_grads(const struct tr_dp *x, int i)
{
    int64_t at = 0;

    if (!x->grads.data)
        return tr_tensor_span(&x->of.params->grads, x->own[i].first, x->own[i].count);
    for (int k = i < x->stays ? 0 : x->stays; k < i; k++)
        at += x->own[k].count;
    return tr_tensor_span(i < x->stays ? &x->grads_here : &x->grads, at, x->own[i].count);
}

bool tr_dp_poll(struct tr_dp *x)
{
    return x->mode->poll && x->mode->poll(x);
}

void tr_dp_arrive(struct tr_dp *x)
{
    if (x->mode->arrive)
        x->mode->arrive(x);
    else if (x->buckets)
        tr_buckets_need(x->buckets, x->of.queue, 0);
}

/* What a rank sends of a buffer on the ring of replicas, `passes` times. */
static void count(struct tr_dp *x, enum tr_traffic_kind kind, const struct tr_tensor *t, int passes)
{
    const int d = x->of.grid->dp.size;
    const int64_t n = tr_tensor_elems(t) / d * (d - 1) * passes;

    tr_traffic_add(x->of.traffic, kind, n * tr_dtype_bytes(t->dtype), n);
}

bool tr_dp_finish(struct tr_dp *x)
{
    if (x->mode->sum || x->mode->combines)
        tr_grads_look_at(&x->look, 0, &x->of.params->grads);
    if (!tr_dp_reduces(x) || x->mode->move)
        return x->mode->finish && x->mode->finish(x);
    if (x->mode->sum) {
        x->mode->sum(x);
        return false;
    }
    tr_buckets_finish(x->buckets, x->of.queue);
    count(x, TR_TRAFFIC_DP_SUMS, x->wire.data ? &x->wire : &x->of.params->grads,
          is_sharded(x) ? 1 : 2);
    return false;
}

double tr_dp_settle(struct tr_dp *x, double norm, bool *skipped)
{
    return x->mode->settle ? x->mode->settle(x, norm, skipped) : norm;
}

bool tr_dp_shares_moments(const struct tr_dp *x)
{
    return x->mode->average && !tr_dp_reduces(x);
}

void tr_dp_share_moments(struct tr_dp *x, const struct tr_tensor *moments)
{
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    tr_timer_start(TR_TIMER_PARAMS_ALL_REDUCE);
    x->mode->average(x, moments);
    tr_timer_stop(TR_TIMER_PARAMS_ALL_REDUCE);
    tr_timer_start(TR_TIMER_OPTIMIZER);
}

void tr_dp_publish(struct tr_dp *x)
{
    if (!is_sharded(x) && !x->mode->gather)
        return;
    tr_timer_start(TR_TIMER_PARAMS_ALL_GATHER);
    if (x->mode->gather) {
        x->mode->gather(x);
    } else {
        tr_buckets_gather(x->buckets, x->of.queue);
        count(x, TR_TRAFFIC_DP_WEIGHTS, &x->of.params->values, 1);
    }
    tr_timer_stop(TR_TIMER_PARAMS_ALL_GATHER);
}

void tr_dp_gather(struct tr_dp *x)
{
    if (x->mode->gather && x->started) {
        x->mode->gather(x);
        tr_dp_arrive(x);
    }
    if (!x->buckets)
        return;
    tr_buckets_gather(x->buckets, x->of.queue);
    tr_buckets_need(x->buckets, x->of.queue, 0);
}

/* ---- between steps ---- */

/* The data of a rank in a comparison. */
struct print {
    uint64_t print;
    int64_t rank;
};

static enum tr_status compare(struct tr_dp *x, uint64_t print)
{
    const struct tr_dp_of *of = &x->of;
    struct tr_comm *dp = &of->grid->dp;
    struct print mine = {print, of->world->rank}, *all;
    char(*host)[TR_HOST_BYTES] = of->launch->host;
    enum tr_status s = TR_OK;

    all = calloc((size_t)dp->size, sizeof *all);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to compare replicas");
    dp->via->gather_all(dp, &mine, sizeof mine, all);
    for (int i = 1; i < dp->size && s == TR_OK; i++)
        if (all[i].print != all[0].print)
            s = TR_FAIL(
                TR_EDATA,
                "after iteration %lld replicas %d and 0 (rank %lld on %s and rank %lld on %s) "
                "differ in the reference weights that all must share; the weight deltas that "
                "they exchange no longer mean the same: go on from the last checkpoint, and look "
                "at the memory and the network of these hosts if it happens again",
                (long long)*of->iteration, i, (long long)all[i].rank, host[all[i].rank],
                (long long)all[0].rank, host[all[0].rank]);
    free(all);
    return s;
}

enum tr_status tr_dp_compare(struct tr_dp *x)
{
    uint64_t print;

    if (!x->mode->print || !x->mode->print(x, &print))
        return TR_OK;
    return tr_comm_agree(x->of.world, compare(x, print));
}

enum tr_status tr_dp_compare_due(struct tr_dp *x)
{
    const int64_t every = x->of.config->check_replicas_interval;

    return every > 0 && *x->of.iteration % every == 0 ? tr_dp_compare(x) : TR_OK;
}

struct tr_dp_state tr_dp_state(struct tr_dp *x)
{
    struct tr_dp_state s = {.note = ""};

    if (x->mode->state)
        x->mode->state(x, &s);
    return s;
}

void tr_dp_resume(struct tr_dp *x, int64_t number)
{
    const struct tr_dp_state s = tr_dp_state(x);

    x->diverged = x->of.shape->dp.diverges;
    x->sided = x->of.shape->dp.keeps_errors;
    if (s.number)
        *s.number = number;
}

bool tr_dp_keeps_state(const struct tr_dp *x)
{
    return x->diverged || x->sided;
}

int64_t tr_dp_state_bytes(const struct tr_config *c, const struct tr_data_parallel *dp, int d)
{
    const struct tr_dp_mode *mode = mode_of(dp->mode);

    return mode->state_bytes ? mode->state_bytes(c, d) : 0;
}

/* ---- plans ---- */

struct tr_dp_cost tr_dp_cost(const struct tr_shape *s, double params, double grad, double elem)
{
    const struct tr_dp_mode *mode = mode_of(s->dp.mode);
    struct tr_dp_cost c = {0};

    if (mode->cost)
        mode->cost(s, params, grad, elem, &c);
    return c;
}
