/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/slow.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "comm/block.h"
#include "comm/flight.h"
#include "util/rng.h"

/* How long a rank sleeps at most, and beside transfers whose data are still on the way. */
static const double NAP = 10e-3, NAP_BESIDE = 100e-6;

/* Calls of the other transport in a transfer: data and stamp, or an exchange with a stamp for each
   leg in two halves. */
enum { INNER_CALLS = 2 };

/*
 * A transfer in flight: that of the data, and the stamp with the time at which they arrive.
 * Collectives agree on the latest time of all ranks; each message is followed by a stamp, of 8
 * bytes.
 */
struct transfer {
    struct transfer *next;
    struct tr_comm *over; /* the group of the other transport */
    int count;
    struct tr_pending inner[INNER_CALLS];
    double stamp[TR_MAX_LEGS]; /* of collectives the first */
    int stamps;
};

/* The link of this rank, shared by all its groups. */
struct link {
    struct tr_slow_how how;
    double *free_at; /* of each link */
    struct tr_rng rng;
    uint64_t draws;
    int64_t bytes[TR_SLOW_KINDS];
    struct transfer *active, *idle;
};

struct group {
    struct tr_comm *inner;
    struct tr_comm own; /* what `inner` points to, unless it was given */
    struct link *link;
    int *member; /* ranks of the world, with links of their own; else NULL */
};

static struct group *group_of(const struct tr_comm *c)
{
    return c->state;
}

/* Ranks compare stamps, so it is the clock that nodes share. */
static double wall(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct tr_slow_leg tr_slow_leg(const struct tr_slow_how *how, const int *member, int size, int rank,
                               int to, int hops, int64_t bytes)
{
    const struct tr_slow_links *l = how->links;
    struct tr_slow_leg leg = {0, (double)bytes * 8.0 / how->rate, hops * how->latency};

    if (!l)
        return leg;
    leg.link = l->group[member[to]];
    leg.sending = (double)bytes * 8.0 / tr_slow_links_rate(l, member[rank], member[to]);
    leg.arriving = 0.0;
    for (int i = 0, from = rank; i < hops; i++, from = to, to = (to + 1) % size)
        leg.arriving += tr_slow_links_latency(l, member[from], member[to]);
    return leg;
}

/* Queue `bytes` on the link to member `to`; returns when they arrive. */
static double arrival(struct tr_comm *c, enum tr_slow_kind kind, int64_t bytes, int to, int hops)
{
    struct group *g = group_of(c);
    struct link *l = g->link;
    const struct tr_slow_leg leg =
        tr_slow_leg(&l->how, g->member, c->size, c->rank, to, hops, bytes);
    double now = wall(), jitter = 0.0, *free_at = &l->free_at[leg.link];

    if (l->how.jitter > 0.0)
        jitter = l->how.jitter * (double)tr_rng_u32(l->rng, l->draws++) / 0x1p32;
    l->bytes[kind] += bytes;
    *free_at = (*free_at > now ? *free_at : now) + leg.sending;
    return *free_at + leg.arriving + jitter;
}

static struct transfer *take(struct tr_comm *c, struct tr_pending *p, const char *call)
{
    struct link *l = group_of(c)->link;
    struct transfer *t = l->idle;

    if (t)
        l->idle = t->next;
    else if (!(t = malloc(sizeof *t)))
        tr_die(TR_ERESOURCE, "no memory left for a transfer of the slow transport");
    *t = (struct transfer){.next = l->active, .over = group_of(c)->inner};
    l->active = t;
    *p = (struct tr_pending){.call = call, .seq = c->seq, .scratch = t};
    return t;
}

static void give_back(struct link *l, struct transfer *t)
{
    struct transfer **at = &l->active;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    t->next = l->idle;
    l->idle = t;
}

/* A collective: the data are under way as t->inner[0]; agree on when they are everywhere. */
static void agree(struct tr_comm *c, struct transfer *t, enum tr_slow_kind kind, int64_t bytes,
                  int hops)
{
    struct tr_tensor stamp = tr_f64_1(&t->stamp[0], 1);

    t->stamp[0] = arrival(c, kind, bytes, (c->rank + 1) % c->size, hops);
    t->over->via->allreduce_start(t->over, NULL, &stamp, TR_MAX, &t->inner[1]);
    t->count = 2;
    t->stamps = 1;
}

/* A group of one sends nothing: its calls are those of the other transport, counted here. */
static bool alone(const struct tr_comm *c)
{
    return c->size == 1;
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    struct tr_comm *inner = group_of(c)->inner;
    int64_t bytes = tr_tensor_bytes(inout);
    struct transfer *t;

    c->seq++;
    if (alone(c)) {
        inner->via->allreduce_start(inner, q, inout, op, p);
        p->seq = c->seq;
        return;
    }
    t = take(c, p, "all-reduce");
    inner->via->allreduce_start(inner, q, inout, op, &t->inner[0]);
    agree(c, t, TR_SLOW_ALLREDUCE, 2 * bytes * (c->size - 1) / c->size, 2 * (c->size - 1));
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    struct tr_comm *inner = group_of(c)->inner;
    struct transfer *t;

    c->seq++;
    if (alone(c)) {
        inner->via->reduce_scatter_start(inner, q, out, in, op, p);
        p->seq = c->seq;
        return;
    }
    t = take(c, p, "reduce-scatter");
    inner->via->reduce_scatter_start(inner, q, out, in, op, &t->inner[0]);
    agree(c, t, TR_SLOW_REDUCE_SCATTER, tr_tensor_bytes(out) * (c->size - 1), c->size - 1);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    struct tr_comm *inner = group_of(c)->inner;
    struct transfer *t;

    c->seq++;
    if (alone(c)) {
        inner->via->allgather_start(inner, q, inout, p);
        p->seq = c->seq;
        return;
    }
    t = take(c, p, "all-gather");
    inner->via->allgather_start(inner, q, inout, &t->inner[0]);
    agree(c, t, TR_SLOW_ALLGATHER, tr_tensor_bytes(inout) / c->size * (c->size - 1), c->size - 1);
}

/* Each leg is followed by its stamp, so that the i-th send still meets the i-th receive, however
   the other end groups its legs. */
static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    struct tr_comm *inner = group_of(c)->inner;
    struct transfer *t;

    TR_ASSERT(n <= TR_MAX_LEGS);
    if (alone(c)) {
        inner->via->exchange_start(inner, q, legs, n, p);
        return;
    }
    t = take(c, p, "exchange");
    for (int i = 0; i < n;) {
        struct tr_leg both[TR_MAX_LEGS];
        int count = 0;

        for (; i < n && count < TR_MAX_LEGS; i++) {
            double *stamp = &t->stamp[i];

            if (legs[i].dir == TR_LEG_SEND)
                *stamp = arrival(c, TR_SLOW_SEND, legs[i].bytes, legs[i].peer, 1);
            both[count++] = legs[i];
            both[count++] = (struct tr_leg){legs[i].dir, legs[i].peer, stamp, sizeof *stamp};
        }
        inner->via->exchange_start(inner, q, both, count, &t->inner[t->count]);
        t->count++;
    }
    t->stamps = n;
}

/* Let it make progress; true when all data are here, and the times at which they would be. */
static bool is_here(struct transfer *t)
{
    bool here = true;

    for (int i = 0; i < t->count; i++)
        here = t->over->via->poll(t->over, &t->inner[i]) && here;
    return here;
}

static double arrives(const struct transfer *t)
{
    double latest = 0.0;

    for (int i = 0; i < t->stamps; i++)
        latest = t->stamp[i] > latest ? t->stamp[i] : latest;
    return latest;
}

static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    struct group *g = group_of(c);
    struct transfer *t = p->scratch;

    if (alone(c))
        return g->inner->via->poll(g->inner, p);
    if (!t)
        return true;
    if (!is_here(t) || wall() < arrives(t))
        return false;
    for (int i = 0; i < t->count; i++)
        g->inner->via->finish(g->inner, NULL, &t->inner[i]);
    give_back(g->link, t);
    p->scratch = NULL;
    return true;
}

/* The core is free meanwhile, for other ranks on this machine; what else is under way goes on, and
   only for that the naps are short. */
static void nap(const struct link *l, double until)
{
    double left, most = NAP;

    for (struct transfer *other = l->active; other; other = other->next)
        most = is_here(other) ? most : NAP_BESIDE;
    left = fmin(until - wall(), most);
    if (left > 0.0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * left)}, NULL);
}

static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    struct group *g = group_of(c);
    struct transfer *t = p->scratch;

    if (alone(c)) {
        g->inner->via->finish(g->inner, q, p);
        return;
    }
    /* The other transport waits for the data, since it knows when a rank is lost. */
    for (int i = 0; t && i < t->count; i++)
        g->inner->via->finish(g->inner, NULL, &t->inner[i]);
    while (!poll(c, p))
        nap(g->link, arrives(t));
}

/* There is no call that starts a broadcast, so the time is waited for when it is over. */
static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    struct tr_comm *inner = group_of(c)->inner;
    bool last = (c->rank + 1) % c->size == root;
    struct tr_pending p;

    c->seq++;
    inner->via->broadcast(inner, q, inout, root);
    if (alone(c))
        return;
    agree(c, take(c, &p, "broadcast"), TR_SLOW_BROADCAST, last ? 0 : tr_tensor_bytes(inout),
          c->size - 1);
    finish(c, q, &p);
}

static void barrier(struct tr_comm *c)
{
    struct tr_comm *inner = group_of(c)->inner;

    c->seq++;
    inner->via->barrier(inner);
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    struct tr_comm *inner = group_of(c)->inner;

    c->seq++;
    inner->via->gather_all(inner, mine, bytes, all);
}

static void alarm(struct tr_comm *c, const char *why, bool asks)
{
    struct tr_comm *inner = group_of(c)->inner;

    inner->via->alarm(inner, why, asks);
}

static const char *alarmed(struct tr_comm *c)
{
    struct tr_comm *inner = group_of(c)->inner;

    return inner->via->alarmed(inner);
}

static void waits(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    struct tr_comm *inner = group_of(c)->inner;

    inner->via->waits(inner, call, seq, since);
}

static void late(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    struct tr_comm *inner = group_of(c)->inner;

    inner->via->late(inner, call, seq, since);
}

static struct group *allocate(void)
{
    struct group *g = calloc(1, sizeof *g);

    if (!g)
        tr_die(TR_ERESOURCE, "no memory left for a group of the slow transport");
    return g;
}

/* Which ranks of the world the members of a group are. */
static int *members(struct tr_comm *inner, int mine)
{
    int *all = calloc((size_t)inner->size, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for a group of the slow transport");
    inner->via->gather_all(inner, &mine, sizeof mine, all);
    return all;
}

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    struct tr_comm *inner = group_of(from)->inner;
    struct group *g = allocate();
    enum tr_status status;

    from->seq++;
    status = inner->via->split(inner, color, key, name, &g->own);
    *out = (struct tr_comm){.via = from->via, .name = name};
    if (status != TR_OK || g->own.size == 0) {
        free(g);
        return status;
    }
    g->inner = &g->own;
    g->link = group_of(from)->link;
    if (g->link->how.links)
        g->member = members(g->inner, group_of(from)->member[from->rank]);
    out->rank = g->own.rank;
    out->size = g->own.size;
    out->state = g;
    return TR_OK;
}

static void release_link(struct link *l)
{
    for (struct transfer *t = l->idle, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    for (struct transfer *t = l->active, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(l->free_at);
    free(l);
}

static void release(struct tr_comm *c)
{
    struct group *g = group_of(c);

    c->size = 0;
    c->state = NULL;
    if (!g)
        return;
    if (g->inner == &g->own)
        g->own.via->release(&g->own);
    else
        release_link(g->link);
    free(g->member);
    free(g);
}

static const struct tr_transport slow = {
    .name = "slow",
    .split = split,
    .release = release,
    .allreduce = tr_block_allreduce,
    .allreduce_start = allreduce_start,
    .poll = poll,
    .finish = finish,
    .reduce_scatter = tr_block_reduce_scatter,
    .allgather = tr_block_allgather,
    .reduce_scatter_start = reduce_scatter_start,
    .allgather_start = allgather_start,
    .broadcast = broadcast,
    .exchange_start = exchange_start,
    .barrier = barrier,
    .gather_all = gather_all,
    .alarm = alarm,
    .alarmed = alarmed,
    .waits = waits,
    .late = late,
};

void tr_comm_slow_open(struct tr_comm *inner, struct tr_slow_how how, struct tr_comm *out)
{
    struct group *g = allocate();

    TR_ASSERT((how.links || how.rate > 0.0) && how.latency >= 0.0 && how.jitter >= 0.0);
    TR_ASSERT(!how.links || how.links->ranks == inner->size);
    g->inner = inner;
    g->link = calloc(1, sizeof *g->link);
    if (!g->link)
        tr_die(TR_ERESOURCE, "no memory left for the slow transport");
    g->link->how = how;
    g->link->free_at = calloc(how.links ? (size_t)how.links->groups : 1, sizeof(double));
    if (!g->link->free_at)
        tr_die(TR_ERESOURCE, "no memory left for the slow transport");
    if (how.links)
        g->member = members(inner, inner->rank);
    g->link->rng = tr_rng_key(1, TR_STREAM_INIT, 0, inner->rank);
    *out = (struct tr_comm){.via = tr_flight_over(&slow),
                            .name = inner->name,
                            .rank = inner->rank,
                            .size = inner->size,
                            .state = g};
    tr_flight_world(out);
}

int64_t tr_comm_slow_bytes(const struct tr_comm *c, enum tr_slow_kind kind)
{
    TR_ASSERT(c->via->over == &slow);
    return group_of(c)->link->bytes[kind];
}

const char *tr_slow_kind_name(enum tr_slow_kind kind)
{
    static const char *const names[TR_SLOW_KINDS] = {
        [TR_SLOW_ALLREDUCE] = "all-reduce",
        [TR_SLOW_REDUCE_SCATTER] = "reduce-scatter",
        [TR_SLOW_ALLGATHER] = "all-gather",
        [TR_SLOW_BROADCAST] = "broadcast",
        [TR_SLOW_SEND] = "send",
    };

    return names[kind];
}
