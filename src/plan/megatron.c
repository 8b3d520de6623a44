/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/work.h"
#include "pipeline/sched.h"
#include "plan/plan_parts.h"

/*
 * Reserved over allocated memory, each at its peak: the least and the most of the 496 ranks of five logs
 * (tests/plan/megatron-memory.txt).
 */
static const double RESERVED_LEAST = 1.12, RESERVED_MOST = 1.27;

/* Messages that come, go and are added up in a backward pass, in numbers of [B,T,H]: chosen on the logs. */
static const double PASSING = 4.5;

/* Elements of each of DeepSpeed's two buckets, for gradients and for weights: its default. */
static const double BUCKET = 5e8;

/* A rank's part of the model, in the terms of Korthikanti et al., 2022, section 4. */
struct part {
    const struct tr_shape *s;
    const struct tr_plan_stage *g;
    struct tr_work_how how;
    struct tr_work layer, head;
    double rows, elem; /* tokens of a micro-batch, bytes of an activation */
    double message;    /* bytes of [B,T,H] */
    double share;      /* ranks over which the residual stream is sharded: 1 without
                       --sequence-parallel */
    bool selective;    /* attention is recomputed */
    double last;       /* 1 on the stage that has the loss */
};

static struct part part_of(const struct tr_config *c, const struct tr_shape *s,
                           const struct tr_plan_stage *g)
{
    const struct tr_work_how how = tr_work_how_of(s);
    struct part x = {
        .s = s,
        .g = g,
        .how = how,
        .rows = how.tokens,
        .elem = how.elem,
        .message = how.elem * how.tokens * (double)s->dims.hidden,
        .share = s->activations.sequence ? s->layout.w : 1.0,
        .selective =
            c->recompute_activations || c->recompute_granularity == TR_GRANULARITY_SELECTIVE,
        .last = tr_layout_has_head(&s->layout, g->stage) ? 1.0 : 0.0,
    };

    tr_work_of(&how, TR_WORK_LAYER, &x.layer);
    tr_work_of(&how, TR_WORK_HEAD, &x.head);
    return x;
}

/* Softmax, its dropout mask, and what dropout makes of it: 5 B a T^2 bytes in half precision. */
static double scores(const struct part *x)
{
    return (2.0 * x->elem + 1.0) * x->layer.attention.square * x->layer.attention.heads;
}

/* A layer without scores. */
static double layer(const struct part *x)
{
    return tr_work_megatron_bytes(&x->layer, &x->how);
}

/* Of the layers of a chunk, those that are recomputed, and how many inputs that keeps. */
static double recomputed(const struct tr_activations *a, double layers)
{
    const double most = (double)a->recompute_layers;

    if (a->recompute == TR_RECOMPUTE_NONE)
        return 0.0;
    return a->recompute == TR_RECOMPUTE_BLOCK && most < layers ? most : layers;
}

static double inputs(const struct tr_activations *a, double layers)
{
    const double again = recomputed(a, layers);

    return a->recompute == TR_RECOMPUTE_UNIFORM ? again / (double)a->recompute_layers : again;
}

/* What a micro-batch keeps in a chunk from its forward to its backward. */
static double kept(const struct part *x, bool with_scores)
{
    const struct tr_shape *s = x->s;
    const double layers = (double)x->g->layers / s->layout.k,
                 again = recomputed(&s->activations, layers);
    const double input = x->message / (s->activations.distribute_inputs ? s->layout.w : x->share);

    return inputs(&s->activations, layers) * input +
           (layers - again) * (layer(x) + (with_scores && !x->selective ? scores(x) : 0.0));
}

/* The chunks of micro-batches that are alive at the first backward of the stage (SC21, section
   2.2), or where that is split at the first gradients of weights. */
static double alive(const struct part *x)
{
    const struct tr_shape *s = x->s;
    const int behind = s->layout.p - 1 - x->g->stage;
    const double all = (double)s->layout.k * s->batches.micros;
    const bool split = tr_sched_splits((enum tr_sched_kind)s->layout.schedule);
    const double warm = s->layout.schedule == TR_SCHED_GPIPE ? all
                        : split                              ? (double)s->layout.p * s->layout.k
                        : s->layout.k > 1
                            ? 2.0 * behind + (s->layout.k - 1.0) * s->layout.group + 1.0
                            : behind + 1.0;

    return warm < all ? warm : all;
}

/* From the second backward on all gradients exist, and if the first one was done before all warm-up
   forwards, one less is alive then. */
static double alive_at_peak(const struct part *x)
{
    const double n = alive(x), all = (double)x->s->layout.k * x->s->batches.micros;

    return n < all || all < 2.0 ? n : n - 1.0;
}

/* Logits, a copy in fp32 and the workspace of its softmax; or, later, the softmax, its gradient and
   that of the embedding. */
static double logits(const struct part *x)
{
    const struct tr_work_gemm *g = &x->head.gemm[x->head.gemms - 1];
    const double n = g->rows * g->columns;
    const double there = (x->elem + 8.0) * n;
    const double back = (x->elem + 4.0) * n + x->elem * g->columns * g->inner;

    return there > back ? there : back;
}

/* A backward pass holds one recomputed layer, and the gradient of its largest matrix until that has
   been added. */
static double work(const struct part *x)
{
    const struct tr_shape *s = x->s;
    double most = x->elem * tr_work_largest(&x->layer);

    if (s->activations.recompute != TR_RECOMPUTE_NONE)
        most += (s->activations.recompute == TR_RECOMPUTE_UNIFORM
                     ? (double)s->activations.recompute_layers
                     : 1.0) *
                (layer(x) + scores(x));
    else if (x->selective)
        most += scores(x);
    return x->last > 0.0 && logits(x) > most ? logits(x) : most;
}

/* Weights, gradients and optimizer; `most` is of the program that takes more for those options. */
static double states(const struct part *x, bool most)
{
    const struct tr_shape *s = x->s;
    const double n = (double)x->g->params, d = s->dp.optimizer_shards;
    const double buckets = 2.0 * x->elem * (n < BUCKET ? n : BUCKET);

    if (!s->precision.half)
        return n * (8.0 + 8.0 / d) + (s->dp.optimizer_shards > 1 && most ? buckets : 0.0);
    if (s->dp.optimizer_shards == 1)
        return n * (s->precision.grads_fp32 ? 18.0 : 20.0);
    if (most)
        return n * (s->precision.grads_fp32 ? 8.0 + 12.0 / d : 4.0 + 16.0 / d) + buckets;
    return n * ((s->precision.grads_fp32 ? 6.0 : 4.0) + 12.0 / d);
}

/*
 * Temporary memory of a forward or backward pass.  In 2021 that was as much again as gradients
 * take, unless they were in fp32, according to the logs.  Since 2022 the masters' gradients, 4
 * bytes, are there in the optimizer's step only, when there are no activations.
 */
static double temporary(const struct part *x, bool most)
{
    const struct tr_shape *s = x->s;
    const double n = (double)x->g->params;

    if (s->dp.optimizer_shards > 1 || (s->precision.half && s->precision.grads_fp32))
        return 0.0;
    return most ? n * x->elem : s->precision.half ? -4.0 * n : 0.0;
}

static double peak(const struct part *x, bool most)
{
    const double mask = (double)x->s->dims.seq * (double)x->s->dims.seq, step = states(x, most);
    const double pass =
        step + temporary(x, most) + work(x) + PASSING * x->message +
        alive_at_peak(x) *
            (kept(x, most) + (1.0 - x->last / x->s->layout.k) * x->message / x->share + mask);

    return pass > step ? pass : step;
}

/* Only Megatron Core gathers weights during forward passes, and it stores no scores. */
struct tr_plan_megatron tr_plan_megatron_of(const struct tr_config *c, const struct tr_shape *s,
                                            const struct tr_plan_stage *g)
{
    const struct part x = part_of(c, s, g);
    const bool core = s->dp.overlap_gather;
    struct tr_plan_megatron m = {
        .allocated = states(&x, false),
        .activations = alive(&x) * kept(&x, true),
        .peak_low = peak(&x, false),
        .peak_high = peak(&x, !core),
    };

    m.reserved_low = m.peak_high * RESERVED_LEAST;
    m.reserved_high = m.peak_high * RESERVED_MOST;
    return m;
}
