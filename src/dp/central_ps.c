/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <stdlib.h>

#include "telemetry/timer.h"

/*
 * --dp-mode central_ps: a parameter server (Li et al. 2014) as CocktailSGD's code has it.  After the backward pass
 * replica 0, the server, adds the gradients of all replicas up and broadcasts the sums, and every replica makes the
 * same update of all weights.  The link of the server carries D - 1 times the gradients in each direction; compare
 * with sharded_ps, where each replica is the server of its part.
 *
 * Sums are taken in fp32 in the order of replicas and rounded once, as those of tr_transport.reduce_scatter.  Gradients
 * are sent in pieces, of which the server receives two while it adds another.
 */
enum { COMING = 2, SERVER = 0 };

struct server {
    struct tr_tensor came[COMING]; /* [piece], of the server: pieces of others */
    struct tr_tensor total; /* TR_F32 [piece], of the server where gradients are fp16 or bf16 */
    struct tr_pending pending[COMING];
};

static const struct tr_tensor *grads_of(const struct tr_dp *x)
{
    return &x->of.params->grads;
}

static bool serves(const struct tr_dp *x)
{
    return x->of.grid->at.dp == SERVER;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* As on hosts, since the server has room for some. */
static int64_t piece_of(const struct tr_dp *x)
{
    return smaller(tr_dp_bucket(x->of.config, false), x->of.params->size);
}

static enum tr_status open_server(struct tr_dp *x)
{
    x->ctx = calloc(1, sizeof(struct server));
    return x->ctx ? TR_OK : TR_FAIL(TR_ERESOURCE, "no memory left for the parameter server");
}

static void close_server(struct tr_dp *x)
{
    free(x->ctx);
}

static void plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host)
{
    const enum tr_dtype type = grads_of(x)->dtype;
    const int64_t n = piece_of(x);
    struct server *s = x->ctx;

    (void)host;
    if (!serves(x))
        return;
    for (int i = 0; i < COMING; i++)
        s->came[i] = tr_tensor_1(
            tr_arena_take(device, TR_LABEL_GRADIENTS, (size_t)(n * tr_dtype_bytes(type))), type, n);
    if (type != TR_F32)
        s->total = tr_tensor_1(tr_arena_take(device, TR_LABEL_GRADIENTS, (size_t)n * sizeof(float)),
                               TR_F32, n);
}

static void start(struct tr_dp *x, struct tr_leg leg, struct tr_pending *p)
{
    x->rounds.via->exchange_start(&x->rounds, x->of.queue, &leg, 1, p);
}

static void receive(struct tr_dp *x, int peer, int64_t count)
{
    struct server *s = x->ctx;
    const struct tr_tensor to = tr_tensor_span(&s->came[peer % COMING], 0, count);

    if (peer < x->sums.size)
        start(x, (struct tr_leg){TR_LEG_RECV, peer, to.data, tr_tensor_bytes(&to)},
              &s->pending[peer % COMING]);
}

/* The sum of one piece, in its place. */
static void add_up(struct tr_dp *x, const struct tr_tensor *piece)
{
    struct tr_queue *q = x->of.queue;
    struct server *s = x->ctx;
    const int64_t n = tr_tensor_elems(piece);
    const bool half = piece->dtype != TR_F32;
    const struct tr_tensor total = half ? tr_tensor_span(&s->total, 0, n) : *piece;

    receive(x, 1, n);
    if (half)
        q->on->copy(q, &total, piece);
    for (int peer = 1; peer < x->sums.size; peer++) {
        const struct tr_tensor came = tr_tensor_span(&s->came[peer % COMING], 0, n);

        receive(x, peer + 1, n);
        x->rounds.via->finish(&x->rounds, q, &s->pending[peer % COMING]);
        q->on->add(q, &total, &came);
    }
    if (half)
        q->on->copy(q, piece, &total);
}

static void send(struct tr_dp *x, const struct tr_tensor *piece)
{
    struct tr_pending p = {0};

    start(x, (struct tr_leg){TR_LEG_SEND, SERVER, piece->data, tr_tensor_bytes(piece)}, &p);
    x->rounds.via->finish(&x->rounds, x->of.queue, &p);
}

static void sum(struct tr_dp *x)
{
    const struct tr_tensor *g = grads_of(x);
    const int64_t all = tr_tensor_elems(g), each = piece_of(x);
    const int64_t sent = all * (serves(x) ? x->sums.size - 1 : 1);

    tr_timer_start(TR_TIMER_GATHER_GRADS);
    for (int64_t at = 0; at < all; at += each) {
        const struct tr_tensor piece = tr_tensor_span(g, at, smaller(each, all - at));

        if (serves(x))
            add_up(x, &piece);
        else
            send(x, &piece);
    }
    tr_timer_stop(TR_TIMER_GATHER_GRADS);
    tr_timer_start(TR_TIMER_DISTRIBUTE_GRADS);
    for (int64_t at = 0; at < all; at += each) {
        const struct tr_tensor piece = tr_tensor_span(g, at, smaller(each, all - at));

        x->sums.via->broadcast(&x->sums, x->of.queue, &piece, SERVER);
    }
    tr_timer_stop(TR_TIMER_DISTRIBUTE_GRADS);
    tr_traffic_add(x->of.traffic, TR_TRAFFIC_DP_SUMS, sent * tr_dtype_bytes(g->dtype), sent);
}

/* On the link of the server the gradients of D - 1 replicas arrive one after the other; the sums take that way back
   once, along a tree. */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    const double d = s->layout.d;

    (void)elem;
    out->reduce =
        (struct tr_dp_leg){.bytes = params * grad, .passes = 2.0, .busiest = d + d / (d - 1.0)};
}

const struct tr_dp_mode tr_dp_central_ps = {
    .rounds = "server",
    .open = open_server,
    .close = close_server,
    .plan = plan,
    .sum = sum,
    .cost = cost,
};
