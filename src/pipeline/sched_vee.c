/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdlib.h>

#include "pipeline/sched_parts.h"

/*
 * ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 6) and evaluations on the same route, which
 * goes through the ranks and back.  The order is the one that PyTorch's ScheduleZBVZeroBubble has: where forward,
 * backward and weights of a chunk take one tick each, rank r begins in tick r and computes in every tick until it
 * is done.  So the place of a computation in its order says when it runs, and everything that follows is in terms
 * of these ticks.  Micro-batches that the pipeline would need to be full, and that are not there, are left out.
 */

enum { AROUND = 3, KINDS = TR_WGT + 1, CHUNKS = 2, NEVER = -1 };

/* What a rank computes: item[i] in tick rank + i, nothing where its kind is TR_XFER. */
struct order {
    int rank, n, micros;
    struct tr_work_item *item;
    int *
        tick; /* of kind, chunk and micro-batch: [KINDS][CHUNKS][micros]; NEVER where there is none */
};

/* Something of the list, in the order in which all ranks do what they do. */
struct event {
    int tick;
    bool computes; /* behind the messages of the tick */
    int pair; /* lower rank of the two, modulo 2: no chain of messages goes through all ranks */
    int made, sender;
    unsigned leg; /* of a message */
    struct tr_work_item work;
};

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left to build a pipeline schedule");
    return p;
}

static int *tick_of(const struct order *o, struct tr_work_item w)
{
    return &o->tick[((int)w.kind * CHUNKS + w.at.chunk) * o->micros + w.at.micro];
}

/* ---- what is computed ---- */

static void add(struct order *o, enum tr_instr_kind kind, int chunk, int micro)
{
    const struct tr_work_item w = {kind, {chunk, micro}};
    const int i = o->n++;

    if (micro >= o->micros) {
        o->item[i].kind = TR_XFER;
        return;
    }
    o->item[i] = w;
    *tick_of(o, w) = o->rank + i;
}

/* The micro-batches of each kind and chunk that are in the order so far. */
struct counts {
    int f[CHUNKS], b[CHUNKS], w[CHUNKS];
};

static void forward(struct order *o, struct counts *k, int chunk)
{
    add(o, TR_FWD, chunk, k->f[chunk]++);
}

static void backward(struct order *o, struct counts *k, int chunk)
{
    add(o, TR_BWD, chunk, k->b[chunk]++);
}

static void weights(struct order *o, struct counts *k, int chunk)
{
    add(o, TR_WGT, chunk, k->w[chunk]++);
}

/* Until the rank holds 2 P chunks: forwards of chunk 0, until those of chunk 1 come back; both in turn; then, since
   no chunk 0 has room, chunk 1 to the end. */
static void warm_up(struct order *o, struct counts *k, int ranks)
{
    for (int i = 0; i < 2 * (ranks - o->rank) - 1; i++)
        forward(o, k, 0);
    for (int i = 0; i < o->rank; i++) {
        forward(o, k, 1);
        forward(o, k, 0);
    }
    for (int i = 0; i < ranks - o->rank; i++) {
        forward(o, k, 1);
        backward(o, k, 1);
        weights(o, k, 1);
    }
}

/* A forward, a backward and the weights of each chunk. */
static void go_on(struct order *o, struct counts *k, int micros)
{
    while (k->f[1] < micros) {
        if (k->f[0] < micros)
            forward(o, k, 0);
        backward(o, k, 0);
        weights(o, k, 0);
        forward(o, k, 1);
        backward(o, k, 1);
        weights(o, k, 1);
    }
}

/* Backwards, as others wait for them, and where these become rare weights between and behind them. */
static void cool_down(struct order *o, struct counts *k, int ranks, int micros)
{
    for (int i = 0; i < o->rank; i++) {
        backward(o, k, 0);
        backward(o, k, 1);
    }
    for (int i = 0; i < ranks - o->rank; i++) {
        backward(o, k, 0);
        weights(o, k, 0);
    }
    while (k->w[1] < micros)
        weights(o, k, 1);
    while (k->w[0] < micros)
        weights(o, k, 0);
}

static void order_training(struct order *o, int ranks, int micros)
{
    struct counts k = {.f = {0}};

    warm_up(o, &k, ranks);
    go_on(o, &k, micros);
    cool_down(o, &k, ranks, micros);
}

/* A micro-batch moves on in every tick, and the next one is two ticks behind it: where one comes back it meets
   others between two of their ranks. */
static void order_evaluation(struct order *o, int ranks)
{
    const int turn = 2 * (ranks - o->rank) - 1;

    for (int i = 0; i < 2 * o->micros + turn - 1; i++) {
        const int chunk = i % 2, micro = (i - chunk * turn) / 2;

        add(o, TR_FWD, chunk, i < chunk * turn ? o->micros : micro);
    }
}

static void order_open(const struct tr_sched *s, int rank, struct order *o)
{
    const int full = 2 * s->ranks - 1, micros = s->micros > full ? s->micros : full;
    const size_t ticks = (size_t)KINDS * CHUNKS * (size_t)s->micros;

    *o = (struct order){.rank = rank, .micros = s->micros};
    if (rank < 0 || rank >= s->ranks)
        return;
    o->item = need((size_t)KINDS * CHUNKS * (size_t)micros, sizeof *o->item);
    o->tick = need(ticks, sizeof *o->tick);
    for (size_t i = 0; i < ticks; i++)
        o->tick[i] = NEVER;
    if (s->kind == TR_SCHED_EVAL)
        order_evaluation(o, s->ranks);
    else
        order_training(o, s->ranks, micros);
}

static void order_close(struct order *o)
{
    free(o->item);
    free(o->tick);
}

/* ---- messages ---- */

/*
 * The message of a leg that a computation of this rank sends or needs.  A gradient travels as soon as it is there.  An
 * input has a buffer until its forward, so it travels no earlier than beside the computation before that, which is
 * long enough for it not to be waited for where times differ.
 */
static struct event message(const struct tr_sched *s, const struct order around[AROUND],
                            struct tr_work_item w, unsigned leg)
{
    const struct tr_route route = tr_sched_route(s);
    const int peer = tr_sched_peer(s, (enum tr_leg_bit)leg, w.at.chunk);
    const int step = leg & (TR_SEND_FWD | TR_RECV_BWD) ? 1 : -1;
    const int number = tr_route_number(route, (struct tr_vstage){s->rank, w.at.chunk}) + step;
    const struct tr_work_item there = {w.kind, {tr_route_at(route, number).chunk, w.at.micro}};
    const int here = *tick_of(&around[1], w), other = *tick_of(&around[1 + peer - s->rank], there);
    const bool sends = leg & (TR_SEND_FWD | TR_SEND_BWD);
    const int made = (sends ? here : other) + 1, due = sends ? other : here;

    TR_ASSERT(made <= due);
    return (struct event){.tick = w.kind == TR_FWD && due - 1 > made ? due - 1 : made,
                          .pair = (peer < s->rank ? peer : s->rank) % 2,
                          .made = made,
                          .sender = sends ? s->rank : peer,
                          .leg = leg,
                          .work = w};
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    const int more[] = {x->tick - y->tick, x->computes - y->computes, x->pair - y->pair,
                        x->made - y->made, x->sender - y->sender};

    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i] != 0)
            return more[i];
    return 0;
}

static int list_events(const struct tr_sched *s, const struct order around[AROUND],
                       struct event *out)
{
    const struct order *own = &around[1];
    int n = 0;

    for (int i = 0; i < own->n; i++) {
        const struct tr_work_item w = own->item[i];
        unsigned legs[2] = {0};

        if (w.kind == TR_XFER)
            continue;
        out[n++] = (struct event){.tick = own->rank + i, .computes = true, .work = w};
        if (w.kind != TR_WGT) {
            legs[0] = tr_list_leg_before(s, w);
            legs[1] = tr_list_leg_after(s, w);
        }
        for (int k = 0; k < 2; k++)
            if (legs[k])
                out[n++] = message(s, around, w, legs[k]);
    }
    qsort(out, (size_t)n, sizeof *out, by_time);
    return n;
}

static void append(struct tr_sched *s, struct tr_flight *flight, const struct event *e)
{
    struct tr_instr x = {.kind = TR_START};

    if (e->computes) {
        if (e->work.kind != TR_WGT)
            tr_list_ready(s, flight, e->work);
        tr_list_work(s, e->work);
        return;
    }
    tr_list_leg(&x, (enum tr_leg_bit)e->leg, e->work.at);
    tr_list_start(s, flight, &x, e->leg);
}

void tr_sched_build_vee(struct tr_sched *s)
{
    struct tr_flight flight[TR_SIDES * TR_LEGS] = {{.n = 0}};
    struct order around[AROUND];
    struct event *event;
    int n;

    for (int i = 0; i < AROUND; i++)
        order_open(s, s->rank - 1 + i, &around[i]);
    event = need(3 * (size_t)around[1].n, sizeof *event);
    n = list_events(s, around, event);
    for (int i = 0; i < n; i++)
        append(s, flight, &event[i]);
    tr_list_landing(s, flight);
    free(event);
    for (int i = 0; i < AROUND; i++)
        order_close(&around[i]);
}
