/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/apart.h"

#include <stdlib.h>
#include <string.h>

#include "train/transport.h"

/*
 * A transport for memory of the device: through copies in host memory, which the other transport
 * carries.  Calls without a queue are those of the other transport.
 */
struct group {
    struct tr_comm *inner;
    struct tr_comm own; /* what it points to, unless it was given */
};

/* A transfer under way. */
struct transfer {
    struct tr_pending inner;
    int copies;
    struct copy {
        void *host, *device;
        size_t bytes;
        bool back; /* to the device when it is done */
    } copy[TR_MAX_LEGS];
};

static struct tr_comm *inner_of(const struct tr_comm *c)
{
    return ((struct group *)c->state)->inner;
}

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for a transfer");
    return p;
}

/* A copy of `bytes` at `device`, or room for them. */
static void *take(struct transfer *t, void *device, int64_t bytes, bool there, bool back)
{
    struct copy *c = &t->copy[t->copies++];

    apart_demand(device);
    *c = (struct copy){need((size_t)bytes), device, (size_t)bytes, back};
    if (there) {
        apart_let(true);
        memcpy(c->host, device, c->bytes);
        apart_let(false);
    }
    return c->host;
}

static struct tr_tensor take_tensor(struct transfer *t, const struct tr_tensor *x, bool there,
                                    bool back)
{
    struct tr_tensor y = *x;

    y.data = take(t, x->data, tr_tensor_bytes(x), there, back);
    return y;
}

static void give_back(struct transfer *t)
{
    for (int i = 0; i < t->copies; i++) {
        struct copy *c = &t->copy[i];

        if (c->back) {
            apart_let(true);
            memcpy(c->device, c->host, c->bytes);
            apart_let(false);
        }
        free(c->host);
    }
}

static struct transfer *begin(struct tr_comm *c, struct tr_pending *p, const char *call)
{
    struct transfer *t = need(sizeof *t);

    *p = (struct tr_pending){.call = call, .seq = ++c->seq, .scratch = t};
    return t;
}

static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    return inner_of(c)->via->poll(inner_of(c), &((struct transfer *)p->scratch)->inner);
}

static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    struct transfer *t = p->scratch;

    (void)q;
    inner_of(c)->via->finish(inner_of(c), NULL, &t->inner);
    give_back(t);
    free(t);
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    struct transfer *t = begin(c, p, "all-reduce");
    struct tr_tensor x = q ? take_tensor(t, inout, true, true) : *inout;

    inner_of(c)->via->allreduce_start(inner_of(c), NULL, &x, op, &t->inner);
}

/* Not started and finished: a transport may add up otherwise then. */
static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    struct transfer t = {.copies = 0};
    struct tr_tensor x = q ? take_tensor(&t, inout, true, true) : *inout;

    c->seq++;
    inner_of(c)->via->allreduce(inner_of(c), NULL, &x, op);
    give_back(&t);
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    struct transfer *t = begin(c, p, "reduce-scatter");
    struct tr_tensor x = q ? take_tensor(t, in, true, false) : *in;
    struct tr_tensor y = q ? take_tensor(t, out, false, true) : *out;

    inner_of(c)->via->reduce_scatter_start(inner_of(c), NULL, &y, &x, op, &t->inner);
}

static void reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *in, enum tr_redop op)
{
    struct tr_pending p;

    reduce_scatter_start(c, q, out, in, op, &p);
    finish(c, q, &p);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    struct transfer *t = begin(c, p, "all-gather");
    struct tr_tensor x = q ? take_tensor(t, inout, true, true) : *inout;

    inner_of(c)->via->allgather_start(inner_of(c), NULL, &x, &t->inner);
}

static void allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout)
{
    struct tr_pending p;

    allgather_start(c, q, inout, &p);
    finish(c, q, &p);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    struct transfer t = {.copies = 0};
    struct tr_tensor x = q ? take_tensor(&t, inout, true, true) : *inout;

    c->seq++;
    inner_of(c)->via->broadcast(inner_of(c), NULL, &x, root);
    give_back(&t);
}

static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    struct transfer *t = begin(c, p, "exchange");
    struct tr_leg own[TR_MAX_LEGS];

    for (int i = 0; i < n; i++) {
        bool receives = legs[i].dir == TR_LEG_RECV;

        own[i] = legs[i];
        if (q)
            own[i].buf = take(t, legs[i].buf, legs[i].bytes, !receives, receives);
    }
    inner_of(c)->via->exchange_start(inner_of(c), NULL, own, n, &t->inner);
}

static void barrier(struct tr_comm *c)
{
    inner_of(c)->via->barrier(inner_of(c));
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    inner_of(c)->via->gather_all(inner_of(c), mine, bytes, all);
}

static void alarm_others(struct tr_comm *c, const char *why, bool asks)
{
    inner_of(c)->via->alarm(inner_of(c), why, asks);
}

static const char *alarmed(struct tr_comm *c)
{
    return inner_of(c)->via->alarmed(inner_of(c));
}

static void waits(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    struct tr_comm *inner = inner_of(c);

    inner->via->waits(inner, call, seq, since);
}

static void late(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    struct tr_comm *inner = inner_of(c);

    inner->via->late(inner, call, seq, since);
}

static void release(struct tr_comm *c)
{
    struct group *g = c->state;

    if (g && g->inner == &g->own)
        g->inner->via->release(g->inner);
    free(g);
    c->state = NULL;
    c->size = 0;
}

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out);

static const struct tr_transport transport = {
    .name = "apart",
    .split = split,
    .release = release,
    .allreduce = allreduce,
    .allreduce_start = allreduce_start,
    .poll = poll,
    .finish = finish,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .reduce_scatter_start = reduce_scatter_start,
    .allgather_start = allgather_start,
    .broadcast = broadcast,
    .exchange_start = exchange_start,
    .barrier = barrier,
    .gather_all = gather_all,
    .alarm = alarm_others,
    .alarmed = alarmed,
    .waits = waits,
    .late = late,
};

static void wrap(struct group *g, struct tr_comm *out)
{
    *out = (struct tr_comm){.via = &transport,
                            .name = g->inner->name,
                            .rank = g->inner->rank,
                            .size = g->inner->size,
                            .state = g};
}

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    struct group *g = need(sizeof *g);
    enum tr_status s = inner_of(from)->via->split(inner_of(from), color, key, name, &g->own);

    g->inner = &g->own;
    wrap(g, out);
    return s;
}

void apart_world(struct tr_comm *host, struct tr_comm *out)
{
    struct group *g = need(sizeof *g);

    g->inner = host;
    wrap(g, out);
}

/* ---- in place of src/train/transport.c ---- */

enum tr_status tr_transport_open(struct tr_run *r)
{
    r->transport = r->world;
    if (r->queue.on->apart) {
        apart_world(r->world, &r->own_transport);
        r->transport = &r->own_transport;
    }
    return TR_OK;
}

void tr_transport_register(struct tr_run *r)
{
    (void)r;
}

/* It takes no memory and has nothing to tell. */
enum tr_status tr_transport_warm(struct tr_run *r)
{
    (void)r;
    return TR_OK;
}

void tr_transport_report(const struct tr_run *r, FILE *f)
{
    (void)r;
    (void)f;
}

void tr_transport_tell(struct tr_run *r)
{
    (void)r;
}

void tr_transport_close(struct tr_run *r)
{
    if (r->own_transport.via)
        r->own_transport.via->release(&r->own_transport);
}
