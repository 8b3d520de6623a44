/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <math.h>
#include <stdio.h>

#include "dp/averager.h"
#include "util/log.h"

/*
 * --dp-mode sharded_ps_compressed: sharded servers with compression, as AC-SGD's code has them (QuantizedAdam).  In the
 * first --train-warmup-steps gradients are all-reduced.  From then on second moments stay as they are, each replica adds
 * its own gradient to the first ones, and what replicas send is these, quantized (dp/averager.h): all make the same
 * update with the same mean of them.  A gradient of a replica is the mean over its own micro-batches, clipped by the norm
 * of its own.
 */
static struct tr_averager *averager_of(const struct tr_dp *x)
{
    return x->ctx;
}

static enum tr_status open_averager(struct tr_dp *x)
{
    const struct tr_dp_of *of = &x->of;
    struct tr_averager *a;
    struct tr_dp_span span[TR_DP_SPANS];
    const int n = tr_dp_spans_of(of->params, span);
    const enum tr_status s = tr_averager_open((int)of->config->dp_bits, span, n, of->grid->at.dp,
                                              of->shape->layout.d, &a);

    tr_dp_spans_release(span, n);
    x->ctx = a;
    return s;
}

static void close_averager(struct tr_dp *x)
{
    tr_averager_close(averager_of(x));
}

static void plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host)
{
    (void)host;
    tr_averager_plan(averager_of(x), device);
}

/* Second moments of W steps are 1 - beta2^W of what gradients have on average, and are taken for those of all steps. */
static double longest_step(const struct tr_config *c)
{
    return 1.0 / sqrt(1.0 - pow(c->adam_beta2, (double)c->train_warmup_steps));
}

static void tell(struct tr_dp *x)
{
    const struct tr_config *c = x->of.config;
    struct tr_traffic *t = x->of.traffic;
    char *name = t->codec[TR_TRAFFIC_DP_UP];

    snprintf(name, sizeof t->codec[0], "first moments, %d bits", (int)c->dp_bits);
    snprintf(t->codec[TR_TRAFFIC_DP_DOWN], sizeof t->codec[0], "%s", name);
    tr_print_rank0(
        "> replicas average %s, after iteration %lld: %lld bytes to each other one and "
        "as many back; second moments stay as they are then, for which steps become up to "
        "%.3g times as long as Adam's\n",
        name, (long long)c->train_warmup_steps, (long long)tr_averager_bytes(averager_of(x)),
        longest_step(c));
    t->on = true;
}

static void begin(struct tr_dp *x)
{
    if (!tr_dp_reduces_in_warm_up(x))
        x->sided = true;
}

static void count(struct tr_dp *x)
{
    const struct tr_averager *a = averager_of(x);
    const struct tr_averager_spent spent = tr_averager_spent(a);
    struct tr_traffic_time *time = &x->of.traffic->count.time[TR_TRAFFIC_REPLICAS_GROUP];
    const int64_t others = x->of.shape->layout.d - 1;
    const int64_t bytes = others * tr_averager_bytes(a), numbers = others * tr_averager_numbers(a);

    tr_traffic_add(x->of.traffic, TR_TRAFFIC_DP_UP, bytes, numbers);
    tr_traffic_add(x->of.traffic, TR_TRAFFIC_DP_DOWN, bytes, numbers);
    time->compress += spent.compress;
    time->wire += spent.wire;
    time->exposed += spent.wire;
    time->decompress += spent.decompress;
}

static void average(struct tr_dp *x, const struct tr_tensor *moments)
{
    tr_averager_run(averager_of(x), &x->rounds, x->of.queue, moments);
    count(x);
}

static void state(struct tr_dp *x, struct tr_dp_state *out)
{
    out->part[0].name = "worker-error";
    out->part[0].at = tr_averager_worker_error(averager_of(x));
    out->part[1].name = "server-error";
    out->part[1].at = tr_averager_server_error(averager_of(x));
    out->parts = 2;
}

/* Each replica keeps an error of all elements, and of its chunk another one. */
static int64_t state_bytes(const struct tr_config *c, int d)
{
    (void)c;
    return 2 * d + 2;
}

static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    (void)grad, (void)elem;
    out->reduce = (struct tr_dp_leg){.bytes = params * s->dp.delta_bits / 8.0, .passes = 2.0};
}

const struct tr_dp_mode tr_dp_sharded_ps_compressed = {
    .rounds = "servers",
    .open = open_averager,
    .close = close_averager,
    .plan = plan,
    .tell = tell,
    .reduces = tr_dp_reduces_in_warm_up,
    .begin = begin,
    .average = average,
    .settle = tr_dp_settle_apart,
    .state = state,
    .state_bytes = state_bytes,
    .cost = cost,
};
