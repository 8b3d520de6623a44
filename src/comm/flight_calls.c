/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/flight.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* The calls of all transports, recorded: each begins and ends here. */

enum { TRANSPORTS = 4 }; /* self, mpi, slow, nccl */

static struct tr_transport table[TRANSPORTS];
static int tables;

/* A call of a transport may be made of calls of another, or of itself: the outermost counts. */
static int depth;
static struct tr_flight_mark current;
static int world_size = 1;

/* Each world is another one, in the same order on all ranks. */
static uint64_t worlds;

struct tr_flight_mark tr_flight_current(void)
{
    return current;
}

/* ---- groups ---- */

static void *need(size_t number, size_t bytes)
{
    void *p = calloc(number, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the flight recorder");
    return p;
}

/* Collective over `c`: `mine` is this rank in the world.  `from` is the same on all ranks, and another number for each group. */
static void describe(struct tr_comm *c, int mine, uint64_t from)
{
    struct tr_flight_group *g = need(1, sizeof *g);
    int *sorted = need((size_t)c->size, sizeof *sorted);
    const uint64_t seq = c->seq;

    g->world = need((size_t)c->size, sizeof *g->world);
    g->sent = need((size_t)c->size, sizeof *g->sent);
    g->received = need((size_t)c->size, sizeof *g->received);
    /* Not a call of whoever made the group. */
    c->via->gather_all(c, &mine, sizeof mine, g->world);
    c->seq = seq;
    memcpy(sorted, g->world, (size_t)c->size * sizeof *sorted);
    g->members = tr_members_of(sorted, c->size);
    g->id = XXH3_64bits_withSeed(c->name, strlen(c->name), from);
    g->id = XXH3_64bits_withSeed(g->world, (size_t)c->size * sizeof *g->world, g->id);
    free(sorted);
    c->flight = g;
}

void tr_flight_world(struct tr_comm *c)
{
    worlds++;
    if (c->size > world_size)
        world_size = c->size;
    depth++;
    if (c->size > 1)
        describe(c, c->rank, worlds);
    depth--;
}

void tr_flight_forget(struct tr_comm *c)
{
    struct tr_flight_group *g = c->flight;

    c->flight = NULL;
    if (!g)
        return;
    free(g->world);
    free(g->sent);
    free(g->received);
    free(g);
}

/* ---- to begin and to end ---- */

static struct tr_flight_call of_group(const struct tr_comm *c, enum tr_flight_kind kind,
                                      int64_t bytes)
{
    struct tr_flight_call call = {.group = c->name,
                                  .members = {0, 1, 1, 1},
                                  .seq = c->seq + 1,
                                  .bytes = bytes,
                                  .kind = (int32_t)kind,
                                  .peer = -1};

    if (c->flight) {
        call.members = c->flight->members;
        call.id = c->flight->id;
    }
    return call;
}

static bool counts(const struct tr_comm *c)
{
    return depth == 0 && (c->flight || (c->size == 1 && world_size == 1));
}

static struct tr_flight_mark begin(const struct tr_comm *c, enum tr_flight_kind kind, int64_t bytes)
{
    const bool recorded = counts(c);

    depth++;
    if (!recorded)
        return (struct tr_flight_mark){0};
    const struct tr_flight_call call = of_group(c, kind, bytes);

    current = (struct tr_flight_mark){tr_flight_begin(&call), 1};
    return current;
}

static struct tr_flight_mark begin_leg(const struct tr_comm *c, const struct tr_leg *leg)
{
    const bool sends = leg->dir == TR_LEG_SEND;
    struct tr_flight_call call = of_group(c, sends ? TR_FLIGHT_SEND : TR_FLIGHT_RECV, leg->bytes);
    const struct tr_flight_group *g = c->flight;

    /* A rank that does not exist is for the transport to refuse. */
    call.peer = 0;
    if (g && leg->peer >= 0 && leg->peer < c->size) {
        call.peer = g->world[leg->peer];
        call.seq = ++(sends ? g->sent : g->received)[leg->peer];
    }
    return (struct tr_flight_mark){tr_flight_begin(&call), 1};
}

static void end(struct tr_flight_mark calls)
{
    depth--;
    tr_flight_end(calls);
}

/* A call that has been started ends with the transfer; one on the queue of a device, with its work, which the transport knows. */
static void started(struct tr_flight_mark calls, struct tr_pending *p)
{
    depth--;
    p->flight = calls;
}

static void end_blocking(const struct tr_comm *c, const struct tr_queue *q,
                         struct tr_flight_mark calls)
{
    if (c->via->queues && q && c->size > 1)
        depth--;
    else
        end(calls);
}

static void end_pending(struct tr_pending *p)
{
    tr_flight_end(p->flight);
    p->flight = (struct tr_flight_mark){0};
}

/* ---- the table ---- */

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    const uint64_t id = from->flight ? from->flight->id : 0;
    const uint64_t place = XXH3_64bits_withSeed(&from->seq, sizeof from->seq, id);
    const int mine = from->flight ? from->flight->world[from->rank] : 0;
    const struct tr_flight_mark calls = begin(from, TR_FLIGHT_SPLIT, 0);
    const enum tr_status s = from->via->over->split(from, color, key, name, out);

    out->flight = NULL;
    if (s == TR_OK && out->size > 1 && depth == 1)
        describe(out, mine, place);
    end(calls);
    return s;
}

static void release(struct tr_comm *c)
{
    const struct tr_transport *over = c->via->over;

    tr_flight_forget(c);
    over->release(c);
}

static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_ALLREDUCE, tr_tensor_bytes(inout));

    c->via->over->allreduce(c, q, inout, op);
    end_blocking(c, q, calls);
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_ALLREDUCE, tr_tensor_bytes(inout));

    c->via->over->allreduce_start(c, q, inout, op, p);
    started(calls, p);
}

static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    const bool done = c->via->over->poll(c, p);

    if (done)
        end_pending(p);
    return done;
}

/* On a device the queue waits, and not the rank. */
static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    depth++;
    c->via->over->finish(c, q, p);
    depth--;
    if (!p->on_device)
        end_pending(p);
}

static void reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *in, enum tr_redop op)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_REDUCE_SCATTER, tr_tensor_bytes(in));

    c->via->over->reduce_scatter(c, q, out, in, op);
    end_blocking(c, q, calls);
}

static void allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_ALLGATHER, tr_tensor_bytes(inout));

    c->via->over->allgather(c, q, inout);
    end_blocking(c, q, calls);
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_REDUCE_SCATTER, tr_tensor_bytes(in));

    c->via->over->reduce_scatter_start(c, q, out, in, op, p);
    started(calls, p);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_ALLGATHER, tr_tensor_bytes(inout));

    c->via->over->allgather_start(c, q, inout, p);
    started(calls, p);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_BROADCAST, tr_tensor_bytes(inout));

    c->via->over->broadcast(c, q, inout, root);
    end_blocking(c, q, calls);
}

static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    struct tr_flight_mark calls = {0};

    for (int i = 0; i < n && counts(c); i++) {
        const struct tr_flight_mark one = begin_leg(c, &legs[i]);

        calls = (struct tr_flight_mark){i == 0 ? one.first : calls.first, i + 1};
    }
    if (calls.count > 0)
        current = calls;
    depth++;
    c->via->over->exchange_start(c, q, legs, n, p);
    started(calls, p);
}

static void barrier(struct tr_comm *c)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_BARRIER, 0);

    c->via->over->barrier(c);
    end(calls);
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    const struct tr_flight_mark calls = begin(c, TR_FLIGHT_GATHER, bytes);

    c->via->over->gather_all(c, mine, bytes, all);
    end(calls);
}

/* What is not a call goes to the transport itself, from other threads too. */
static struct tr_transport recorded(const struct tr_transport *over)
{
    return (struct tr_transport){
        .name = over->name,
        .queues = over->queues,
        .over = over,
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
        .alarm = over->alarm,
        .alarmed = over->alarmed,
        .hears = over->hears,
        .waits = over->waits,
        .late = over->late,
    };
}

const struct tr_transport *tr_flight_over(const struct tr_transport *transport)
{
    for (int i = 0; i < tables; i++)
        if (table[i].over == transport)
            return &table[i];
    TR_ASSERT(tables < TRANSPORTS);
    table[tables] = recorded(transport);
    return &table[tables++];
}
