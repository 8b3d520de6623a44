/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <string.h>

#include "comm/flight.h"

/* With a queue the memory is that of its device, which alone may touch it. */
static void copy(struct tr_queue *q, const struct tr_tensor *to, const struct tr_tensor *from)
{
    if (to->data == from->data)
        return;
    if (q)
        q->on->copy(q, to, from);
    else
        memmove(to->data, from->data, (size_t)tr_tensor_bytes(from));
}

/* Bytes as elements that a device knows how to copy.  Messages are whole tensors, so their length is
   even. */
static struct tr_tensor view(void *data, int64_t bytes)
{
    TR_ASSERT(bytes % 2 == 0);
    return bytes % 4 == 0 ? tr_i32_1(data, bytes / 4) : tr_tensor_1(data, TR_BF16, bytes / 2);
}

static void copy_bytes(struct tr_queue *q, void *to, const struct tr_leg *from)
{
    struct tr_tensor x, y;

    if (!q) {
        memmove(to, from->buf, (size_t)from->bytes);
    } else if (from->bytes > 0) {
        x = view(from->buf, from->bytes);
        y = view(to, from->bytes);
        copy(q, &y, &x);
    }
}

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    (void)key;
    from->seq++;
    *out = (struct tr_comm){.via = from->via, .name = name, .size = color < 0 ? 0 : 1};
    return TR_OK;
}

static void release(struct tr_comm *c)
{
    c->size = 0;
}

static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    (void)q, (void)inout, (void)op;
    c->seq++;
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    (void)q, (void)inout, (void)op;
    *p = (struct tr_pending){.call = "all-reduce", .seq = ++c->seq};
}

static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    (void)c, (void)p;
    return true;
}

static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    (void)c, (void)q, (void)p;
}

static void reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *in, enum tr_redop op)
{
    (void)op;
    TR_ASSERT(out->dtype == in->dtype && tr_tensor_elems(out) == tr_tensor_elems(in));
    c->seq++;
    copy(q, out, in);
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    reduce_scatter(c, q, out, in, op);
    *p = (struct tr_pending){.call = "reduce-scatter", .seq = c->seq};
}

static void allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout)
{
    (void)q, (void)inout;
    c->seq++;
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    (void)q, (void)inout;
    *p = (struct tr_pending){.call = "all-gather", .seq = ++c->seq};
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    (void)q, (void)inout;
    TR_ASSERT(root == 0);
    c->seq++;
}

/* The i-th send meets the i-th receive. */
static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    int in = 0, sends = 0, receives = 0;

    for (int out = 0; out < n; out++) {
        TR_ASSERT(legs[out].peer == 0);
        receives += legs[out].dir == TR_LEG_RECV;
        if (legs[out].dir != TR_LEG_SEND)
            continue;
        while (in < n && legs[in].dir != TR_LEG_RECV)
            in++;
        TR_ASSERT(in < n && legs[in].bytes == legs[out].bytes);
        copy_bytes(q, legs[in++].buf, &legs[out]);
        sends++;
    }
    TR_ASSERT(sends == receives);
    *p = (struct tr_pending){.call = "exchange", .seq = c->seq};
}

static void barrier(struct tr_comm *c)
{
    c->seq++;
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    c->seq++;
    memcpy(all, mine, (size_t)bytes);
}

static void alarm(struct tr_comm *c, const char *why, bool asks)
{
    (void)c, (void)why, (void)asks;
}

static const char *alarmed(struct tr_comm *c)
{
    (void)c;
    return NULL;
}

/* Nobody else is there to wait for. */
static void waits(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    (void)c, (void)call, (void)seq, (void)since;
}

static void late(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    (void)since;
    tr_die(TR_ETEMP, "the %s in group \"%s\" (call %llu), of one rank alone, is not done in time",
           call, c->name, (unsigned long long)seq);
}

static const struct tr_transport self = {
    .name = "self",
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
    .alarm = alarm,
    .alarmed = alarmed,
    .waits = waits,
    .late = late,
};

void tr_comm_self(struct tr_comm *out)
{
    *out = (struct tr_comm){.via = tr_flight_over(&self), .name = "world", .size = 1};
    tr_flight_world(out);
}
