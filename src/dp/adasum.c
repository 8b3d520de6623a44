/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <stdlib.h>

#include "util/log.h"

/*
 * --dp-mode adasum (Maleki et al. 2021; Horovod's op=Adasum): the gradients of two replicas are combined, parameter by
 * parameter, as
 *
 *     a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2))
 *
 * which is their sum where they are orthogonal and their mean where they are equal.  Replicas are combined in pairs whose
 * ranks differ in one bit, then pairs of pairs, and so on, so D is a power of two.  Both replicas of a pair receive the
 * gradients of the other and compute the same numbers, so all replicas have the same bits; Horovod halves the vectors
 * at each level, which sends less from D = 4 on and makes the same sums.
 *
 * Gradients are sent a part at a time (struct tr_param_part): a layer, or what is none.  The products are those of whole
 * parameters: tensor ranks add theirs up.  What every tensor rank holds is counted by each of them, in all three
 * products alike.
 */
struct adasum {
    struct tr_tensor came;     /* gradients of a part, of the other replica */
    struct tr_tensor products; /* TR_F64 [parameters,3]: |a|^2, |b|^2 and a.b */
    double *product;           /* the same with the host */
};

/* A part, and its rows of the list of parameters: from .. end - 1. */
struct span {
    const struct tr_param_part *part;
    int from, end;
};

static const struct tr_params *params_of(const struct tr_dp *x)
{
    return x->of.params;
}

static enum tr_status check(const struct tr_dp *x)
{
    const struct tr_shape *s = x->of.shape;
    const int d = s->layout.d;

    if ((d & (d - 1)) != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--dp-mode adasum combines replicas in pairs, and there are %d: start a "
                       "power of two of them",
                       d);
    if (tr_layout_ends_apart(&s->layout) && s->dims.family.tied)
        return TR_FAIL(TR_ECONFIG,
                       "--dp-mode adasum: the first and the last stage share the word embedding, "
                       "and combine their parts of its gradient before these are added: give "
                       "--untie-embeddings-and-output-weights");
    if (s->activations.sequence)
        return TR_FAIL(TR_ECONFIG,
                       "--dp-mode adasum combines gradients of replicas, and with "
                       "--sequence-parallel each tensor rank has a part of some of them: leave "
                       "that out");
    for (int i = 0; i < params_of(x)->count && s->layout.w > 1; i++)
        if (params_of(x)->list[i].by_heads)
            return TR_FAIL(TR_ECONFIG,
                           "--dp-mode adasum combines gradients of replicas, and of %s each "
                           "tensor rank has the part of its heads: give "
                           "--tensor-model-parallel-size 1",
                           params_of(x)->list[i].name);
    return TR_OK;
}

static enum tr_status open_adasum(struct tr_dp *x)
{
    struct adasum *a;

    TR_TRY(check(x));
    x->ctx = a = calloc(1, sizeof *a);
    if (a)
        a->product = calloc((size_t)params_of(x)->count, 3 * sizeof *a->product);
    return a && a->product ? TR_OK
                           : TR_FAIL(TR_ERESOURCE, "no memory left for the products of Adasum");
}

static void close_adasum(struct tr_dp *x)
{
    struct adasum *a = x->ctx;

    free(a->product);
    free(a);
}

static void plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host)
{
    const struct tr_params *ps = params_of(x);
    const enum tr_dtype type = ps->grads.dtype;
    struct adasum *a = x->ctx;
    int64_t most = 0;

    (void)host;
    for (int i = 0; i < ps->parts; i++)
        most = ps->part[i].count > most ? ps->part[i].count : most;
    a->came = tr_tensor_1(
        tr_arena_take(device, TR_LABEL_GRADIENTS, (size_t)(most * tr_dtype_bytes(type))), type,
        most);
    a->products =
        tr_f64_1(tr_arena_take(device, TR_LABEL_GRADIENTS, 3 * (size_t)ps->count * sizeof(double)),
                 3 * ps->count);
}

/* Never: not as sums.  A replica has the mean over its own micro-batches until finish(). */
static bool reduces(const struct tr_dp *x)
{
    (void)x;
    return false;
}

/* Parameter i, in this replica's gradients and in those that came. */
static void pair_of(const struct tr_dp *x, const struct span *s, int i, struct tr_tensor out[2])
{
    const struct tr_param *p = &params_of(x)->list[i];
    const struct adasum *a = x->ctx;

    out[0] = tr_tensor_span(&params_of(x)->grads, p->offset, p->elems);
    out[1] = tr_tensor_span(&a->came, p->offset - s->part->first, p->elems);
}

static void exchange(struct tr_dp *x, const struct span *s, int peer)
{
    const struct adasum *a = x->ctx;
    const struct tr_tensor mine =
        tr_tensor_span(&params_of(x)->grads, s->part->first, s->part->count);
    const int64_t bytes = tr_tensor_bytes(&mine);
    const struct tr_leg legs[] = {{TR_LEG_SEND, peer, mine.data, bytes},
                                  {TR_LEG_RECV, peer, a->came.data, bytes}};
    struct tr_pending p = {0};

    x->rounds.via->exchange_start(&x->rounds, x->of.queue, legs, 2, &p);
    x->rounds.via->finish(&x->rounds, x->of.queue, &p);
    tr_traffic_add(x->of.traffic, TR_TRAFFIC_DP_SUMS, bytes, s->part->count);
}

static void multiply(struct tr_dp *x, const struct span *s)
{
    struct tr_comm *tp = &x->of.grid->tp;
    struct tr_queue *q = x->of.queue;
    struct adasum *a = x->ctx;
    const int64_t first = 3 * (int64_t)s->from;
    const struct tr_tensor all =
        tr_tensor_span(&a->products, first, 3 * (int64_t)(s->end - s->from));

    q->on->fill(q, &all, 0.0F);
    for (int i = s->from; i < s->end; i++) {
        struct tr_tensor of[2], out[3];

        pair_of(x, s, i, of);
        for (int k = 0; k < 3; k++)
            out[k] = tr_tensor_span(&a->products, 3 * (int64_t)i + k, 1);
        q->on->sumsq(q, &out[0], &of[0]);
        q->on->sumsq(q, &out[1], &of[1]);
        q->on->weighted_sum(q, &out[2], &of[0], &of[1]);
    }
    if (tp->size > 1)
        tp->via->allreduce(tp, q, &all, TR_SUM);
    q->on->download(q, a->product + first, &all);
}

/* 1 - a.b / (2 |a|^2); where a is 0 it does not matter. */
static float factor(double dot, double square)
{
    return square == 0.0 ? 1.0F : (float)(1.0 - 0.5 * dot / square);
}

static void combine(struct tr_dp *x, const struct span *s)
{
    const struct adasum *a = x->ctx;
    struct tr_queue *q = x->of.queue;

    for (int i = s->from; i < s->end; i++) {
        const double *of = &a->product[3 * (int64_t)i];
        struct tr_tensor pair[2];

        pair_of(x, s, i, pair);
        q->on->scale(q, &pair[0], factor(of[2], of[0]));
        q->on->scale(q, &pair[1], factor(of[2], of[1]));
        q->on->add(q, &pair[0], &pair[1]);
    }
}

/* Parameters are listed part by part.  A part may be nothing but padding, which is 0 everywhere. */
static bool finish(struct tr_dp *x)
{
    const struct tr_params *ps = params_of(x);
    struct span s = {0};

    for (int i = 0; i < ps->parts; i++) {
        s = (struct span){.part = &ps->part[i], .from = s.end, .end = s.end};
        while (s.end < ps->count && ps->list[s.end].part == i)
            s.end++;
        for (int bit = 1; bit < x->rounds.size; bit *= 2) {
            exchange(x, &s, x->rounds.rank ^ bit);
            if (s.end == s.from)
                continue;
            multiply(x, &s);
            combine(x, &s);
        }
    }
    TR_ASSERT(s.end == ps->count);
    return false;
}

static void tell(struct tr_dp *x)
{
    (void)x;
    tr_print_rank0("> gradients of replicas are combined by Adasum\n");
}

/* Each level sends all gradients; (D - 1)/D of `bytes` in as many passes is that. */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    const double d = s->layout.d;
    double levels = 0.0;

    (void)elem;
    for (int n = 1; n < s->layout.d; n *= 2)
        levels += 1.0;
    out->reduce = (struct tr_dp_leg){.bytes = params * grad, .passes = levels * d / (d - 1.0)};
}

const struct tr_dp_mode tr_dp_adasum = {
    .rounds = "adasum",
    .open = open_adasum,
    .close = close_adasum,
    .plan = plan,
    .tell = tell,
    .reduces = reduces,
    .finish = finish,
    .combines = true,
    .cost = cost,
};
