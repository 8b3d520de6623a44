/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp/cocktail.h"
#include "util/log.h"
#include "telemetry/timer.h"

_Static_assert((int)TR_RANDOM_ROLLING == (int)TR_MASK_ROLLING &&
                   (int)TR_RANDOM_REPLACED == (int)TR_MASK_REPLACED &&
                   (int)TR_RANDOM_PERMUTED == (int)TR_MASK_PERMUTED,
               "the option names the methods");

/*
 * --dp-mode cocktail_sgd: local SGD (dp/local.c) in which each step has a round (dp/cocktail.h).  It begins
 * with the step and is over before its update, so the gradients are those at the weights before the round:
 * one step late, as published.  A round that failed on one rank is dropped on all of the replica's.
 *
 * What ranks of a replica hold twice stays equal on them, since it is compressed apart from the rest (dp/spans.h).
 */
struct rounds {
    struct tr_cocktail *cocktail;
    bool under_way; /* a round is */
};

static struct tr_cocktail *cocktail_of(const struct tr_dp *x)
{
    const struct rounds *r = x->ctx;

    return r->cocktail;
}

/* ---- beginning and end ---- */

static enum tr_status open_spans(struct tr_dp *x, const struct tr_cocktail_how *how)
{
    const struct tr_dp_of *of = &x->of;
    struct rounds *r = x->ctx;
    struct tr_dp_span span[TR_DP_SPANS];
    const int n = tr_dp_spans_of(of->params, span);
    const enum tr_status s = tr_cocktail_open(how, span, n, of->params->size, of->grid->at.dp,
                                              of->shape->layout.d, &r->cocktail);

    tr_dp_spans_release(span, n);
    return s;
}

static struct tr_cocktail_how how_of(const struct tr_config *c)
{
    return (struct tr_cocktail_how){
        .mask = {.method = (enum tr_mask_method)c->random_method,
                 .ratio = c->randomp_ratio,
                 .seed = (uint64_t)c->seed},
        .pack = {.bits = (int)c->quant_bits,
                 .bucket = c->quant_bucket_size,
                 .keep = c->topk_ratio,
                 .stochastic = c->quant_stochastic,
                 .distance = (float)c->quant_min_stochastic_distance},
        .overlap = c->overlap_round,
    };
}

static enum tr_status open_rounds(struct tr_dp *x)
{
    struct tr_cocktail_how how = how_of(x->of.config);

    how.part = x->of.grid->mp.rank;
    x->ctx = calloc(1, sizeof(struct rounds));
    if (!x->ctx)
        return TR_FAIL(TR_ERESOURCE, "no memory left for what replicas exchange");
    return open_spans(x, &how);
}

static void close_rounds(struct tr_dp *x)
{
    tr_cocktail_close(cocktail_of(x));
    free(x->ctx);
}

static void plan(struct tr_dp *x, struct tr_arena *a, struct tr_arena *host)
{
    (void)host;
    tr_cocktail_plan(cocktail_of(x), a);
}

/* Bits that a round sends for a parameter in a direction. */
static double bits_sent(const struct tr_dp *x)
{
    return 8.0 * (double)tr_cocktail_bytes(cocktail_of(x)) /
           (double)tr_cocktail_numbers(cocktail_of(x));
}

/* Where a chunk's ratio leaves less than whole buckets, all of the chunk is sent. */
static void warn_of_more(const struct tr_dp *x)
{
    const double bits = bits_sent(x);

    if (bits > 1.5 * x->of.shape->dp.delta_bits)
        tr_log_rank0(TR_LOG_WARNING,
                     "replicas exchange %.4g bits for a parameter where --randomp-ratio and "
                     "--topk-ratio ask for %.4g; a part of so few parameters may be "
                     "less than a bucket, and then all take part: give larger ratios, or a "
                     "smaller --quant-bucket-size",
                     bits, x->of.shape->dp.delta_bits);
}

static void tell(struct tr_dp *x)
{
    const struct tr_config *c = x->of.config;
    struct tr_traffic *t = x->of.traffic;
    char *name = t->codec[TR_TRAFFIC_DP_UP], part[12], chosen[12];

    tr_real_text(c->topk_ratio, part, sizeof part);
    tr_real_text(c->randomp_ratio, chosen, sizeof chosen);
    snprintf(name, sizeof t->codec[0], "cocktail, %d bits of %s of %s", (int)c->quant_bits, part,
             chosen);
    snprintf(t->codec[TR_TRAFFIC_DP_DOWN], sizeof t->codec[0], "%s", name);
    tr_print_rank0("> replicas exchange %s after iteration %lld: %.4f bits for a parameter and a "
                   "direction, %lld bytes to each other one\n",
                   name, (long long)c->train_warmup_steps, bits_sent(x),
                   (long long)tr_cocktail_bytes(cocktail_of(x)));
    t->on = true;
    warn_of_more(x);
}

static enum tr_status start(struct tr_dp *x, const struct tr_tensor *masters)
{
    return tr_cocktail_connect(cocktail_of(x), &x->rounds, x->of.queue, masters);
}

/* ---- a step ---- */

static void begin(struct tr_dp *x)
{
    struct rounds *r = x->ctx;

    tr_dp_begin_apart(x);
    if (tr_dp_reduces_in_warm_up(x))
        return;
    r->under_way = true;
    tr_cocktail_begin(r->cocktail, x->of.queue);
}

static bool poll_round(struct tr_dp *x)
{
    const struct rounds *r = x->ctx;

    return r->under_way && tr_cocktail_poll(r->cocktail);
}

static void count(struct tr_dp *x)
{
    struct tr_traffic *t = x->of.traffic;
    const struct tr_cocktail_spent spent = tr_cocktail_spent(cocktail_of(x));
    struct tr_traffic_time *time = &t->count.time[TR_TRAFFIC_REPLICAS_GROUP];
    const int64_t others = x->of.shape->layout.d - 1;
    const int64_t bytes = others * tr_cocktail_bytes(cocktail_of(x));
    const int64_t numbers = others * tr_cocktail_numbers(cocktail_of(x));

    tr_traffic_add(t, TR_TRAFFIC_DP_UP, bytes, numbers);
    tr_traffic_add(t, TR_TRAFFIC_DP_DOWN, bytes, numbers);
    time->compress += spent.compress;
    time->wire += spent.wire;
    time->decompress += spent.decompress;
    time->exposed += spent.exposed;
    time->hidden += spent.hidden;
}

/* What one rank of a replica drops, all drop: others may hold copies of its weights. */
static bool finish(struct tr_dp *x)
{
    const struct tr_dp_of *of = &x->of;
    struct rounds *r = x->ctx;
    bool good = tr_cocktail_join(r->cocktail, of->queue);

    if (of->grid->mp.size > 1)
        good = tr_comm_max(&of->grid->mp, !good) == 0;
    tr_cocktail_commit(r->cocktail, of->queue, good);
    r->under_way = false;
    count(x);
    if (!good)
        tr_log_rank0(
            TR_LOG_WARNING,
            "replicas exchanged nothing in iteration %lld, since a weight of one of them is "
            "not finite or too far from the others'",
            (long long)*of->iteration + 1);
    return true;
}

/* ---- between steps ---- */

/* The reference is equal on all replicas once a round has begun. */
static bool print(struct tr_dp *x, uint64_t *out)
{
    const struct tr_cocktail_state s = tr_cocktail_state(cocktail_of(x));

    if (*s.round < 0 || !s.g.data)
        return false;
    *out = tr_cocktail_print(cocktail_of(x), x->of.queue);
    return true;
}

static void add_part(struct tr_dp_state *out, const char *name, struct tr_tensor t)
{
    if (!t.data)
        return;
    out->part[out->parts].name = name;
    out->part[out->parts++].at = t;
}

static void state(struct tr_dp *x, struct tr_dp_state *out)
{
    const struct tr_cocktail_state s = tr_cocktail_state(cocktail_of(x));

    out->number = s.round;
    out->note = s.g.data ? "" : " without loss";
    add_part(out, "reference", s.g);
    add_part(out, "error", s.e);
}

/* The reference of each replica, and the errors, of which each keeps its part. */
static int64_t state_bytes(const struct tr_config *c, int d)
{
    const bool exact =
        c->quant_bits == TR_SPARSE_FLOATS && c->topk_ratio >= 1.0 && c->randomp_ratio >= 1.0;

    return exact ? 0 : 2 * d + 2;
}

/* On GPUs a round overlaps nothing (dp/cocktail.h). */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    (void)grad, (void)elem;
    out->reduce = (struct tr_dp_leg){.bytes = params * s->dp.delta_bits / 8.0, .passes = 2.0};
}

const struct tr_dp_mode tr_dp_cocktail = {
    .rounds = "replicas",
    .open = open_rounds,
    .close = close_rounds,
    .plan = plan,
    .start = start,
    .tell = tell,
    .reduces = tr_dp_reduces_in_warm_up,
    .begin = begin,
    .poll = poll_round,
    .finish = finish,
    .settle = tr_dp_settle_apart,
    .print = print,
    .state = state,
    .state_bytes = state_bytes,
    .cost = cost,
};
