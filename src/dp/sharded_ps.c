/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include "telemetry/timer.h"

/*
 * --dp-mode sharded_ps: a parameter server whose work is sharded over the replicas, as CocktailSGD's code has it.  After
 * the backward pass replica r receives the r-th part of the gradients of all others, adds them up, and the replicas
 * gather the sums of all parts; every replica makes the same update of all weights.  A rank sends as much as with an
 * all-reduce on a ring.  What makes it differ from `allreduce` is that nothing overlaps the backward pass, and that an
 * element is summed in the order of replicas.
 */
static int64_t piece_of(const struct tr_dp *x)
{
    const struct tr_queue *q = x->of.queue;
    const int64_t unit = (int64_t)TR_PARAM_UNIT * x->of.shape->layout.d;
    const int64_t wanted = tr_dp_bucket(x->of.config, q->on && q->on->apart);

    return (wanted + unit - 1) / unit * unit;
}

static struct tr_tensor piece_at(const struct tr_dp *x, int64_t at)
{
    const struct tr_tensor *g = &x->of.params->grads;
    const int64_t left = tr_tensor_elems(g) - at, each = piece_of(x);

    return tr_tensor_span(g, at, each < left ? each : left);
}

static void gather(struct tr_dp *x, const struct tr_tensor *piece)
{
    const int64_t n = tr_tensor_elems(piece) / x->sums.size;
    const struct tr_tensor mine = tr_tensor_span(piece, x->sums.rank * n, n);

    x->sums.via->reduce_scatter(&x->sums, x->of.queue, &mine, piece, TR_SUM);
}

static void sum(struct tr_dp *x)
{
    const struct tr_tensor *g = &x->of.params->grads;
    const int64_t all = tr_tensor_elems(g), each = piece_of(x), d = x->sums.size;
    const int64_t sent = all / d * (d - 1) * 2;
    struct tr_tensor piece;

    tr_timer_start(TR_TIMER_GATHER_GRADS);
    for (int64_t at = 0; at < all; at += each) {
        piece = piece_at(x, at);
        gather(x, &piece);
    }
    tr_timer_stop(TR_TIMER_GATHER_GRADS);
    tr_timer_start(TR_TIMER_DISTRIBUTE_GRADS);
    for (int64_t at = 0; at < all; at += each) {
        piece = piece_at(x, at);
        x->sums.via->allgather(&x->sums, x->of.queue, &piece);
    }
    tr_timer_stop(TR_TIMER_DISTRIBUTE_GRADS);
    tr_traffic_add(x->of.traffic, TR_TRAFFIC_DP_SUMS, sent * tr_dtype_bytes(g->dtype), sent);
}

static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    (void)s, (void)elem;
    out->reduce = (struct tr_dp_leg){.bytes = params * grad, .passes = 2.0};
}

const struct tr_dp_mode tr_dp_sharded_ps = {.scatters = true, .sum = sum, .cost = cost};
