/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl_group.h"

#include <stdlib.h>

#include "comm/flight.h"

static struct tr_nccl_group *group_of(const struct tr_comm *c)
{
    return c->state;
}

/* Host memory goes to the wrapped transport. */
static struct tr_comm *inner_of(const struct tr_comm *c)
{
    return group_of(c)->inner;
}

/* ---- calls under way ---- */

static struct tr_nccl_call *take(struct tr_nccl_world *w)
{
    struct tr_nccl_call *x = w->idle;

    if (x) {
        w->idle = x->next;
        return x;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for the list of transfers between GPUs");
    tr_cuda_must(w->gpu, cudaEventCreateWithFlags(&x->done, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
    return x;
}

static bool is_done(const struct tr_nccl_world *w, const struct tr_nccl_call *x)
{
    cudaError_t error = cudaEventQuery(x->done);

    if (error == cudaErrorNotReady)
        return false;
    tr_cuda_must(w->gpu, error, x->name);
    return true;
}

/* One that is held stays until finish(), and what comes after it with it. */
void tr_nccl_retire(struct tr_nccl_group *g)
{
    struct tr_nccl_call *x;

    while ((x = g->first) && !x->held && is_done(g->world, x)) {
        tr_flight_end(x->flight);
        g->first = x->next;
        if (!g->first)
            g->last = NULL;
        x->next = g->world->idle;
        g->world->idle = x;
    }
}

/* What was queued on `s` is call `name`, and under way from now on. */
static struct tr_nccl_call *put(struct tr_nccl_group *g, cudaStream_t s, const char *name,
                                uint64_t seq)
{
    struct tr_nccl_world *w = g->world;
    struct tr_nccl_call *x;

    tr_nccl_retire(g);
    x = take(w);
    *x = (struct tr_nccl_call){.done = x->done,
                               .name = name,
                               .seq = seq,
                               .number = ++w->calls,
                               .flight = tr_flight_current()};
    tr_cuda_must(w->gpu, cudaEventRecord(x->done, s), "cudaEventRecord");
    if (g->last)
        g->last->next = x;
    else
        g->first = x;
    g->last = x;
    return x;
}

void tr_nccl_drain(struct tr_nccl_group *g)
{
    struct tr_cuda *gpu = g->world->gpu;

    tr_cuda_wait_stream(gpu, gpu->compute);
    if (g->stream)
        tr_cuda_wait_stream(gpu, g->stream);
    tr_nccl_retire(g);
}

/* ---- where a call runs ---- */

/* The stream of what is started: it goes on when what the compute stream has so far is done. */
static cudaStream_t fork(struct tr_nccl_group *g)
{
    struct tr_cuda *gpu = g->world->gpu;

    tr_cuda_pace(gpu, &gpu->pace, 1);
    tr_cuda_pace(gpu, &g->pace, 2 + TR_CUDA_LAUNCHES_NCCL); /* with the event after the call */
    tr_cuda_must(gpu, cudaEventRecord(g->ready, gpu->compute), "cudaEventRecord");
    tr_cuda_must(gpu, cudaStreamWaitEvent(g->stream, g->ready, 0), "cudaStreamWaitEvent");
    return g->stream;
}

/* A call on `p`, or with NULL a blocking one: its number in the group, and its stream.  What NCCL is asked for comes
   between this and end(). */
static cudaStream_t begin(struct tr_comm *c, const char *name, struct tr_pending *p)
{
    struct tr_nccl_group *g = group_of(c);
    struct tr_cuda *gpu = g->world->gpu;

    cudaStream_t s = gpu->compute;

    if (p) {
        *p = (struct tr_pending){.call = name, .seq = c->seq, .on_device = true};
        s = fork(g);
    } else {
        tr_cuda_pace(gpu, &gpu->pace, 1 + TR_CUDA_LAUNCHES_NCCL);
    }
    tr_nccl_enter(g, name, c->seq);
    return s;
}

static void end(struct tr_comm *c, cudaStream_t s, const char *name, struct tr_pending *p,
                ncclResult_t result)
{
    struct tr_nccl_call *x;

    tr_nccl_leave(group_of(c)->world);
    tr_nccl_must(group_of(c), name, c->seq, result);
    x = put(group_of(c), s, name, c->seq);
    if (p) {
        x->held = true;
        p->scratch = x;
    }
}

/* ---- collectives ---- */

static ncclDataType_t type_of(enum tr_dtype t)
{
    static const ncclDataType_t type[TR_DTYPES] = {
        [TR_F32] = ncclFloat32, [TR_F64] = ncclFloat64,   [TR_I32] = ncclInt32,
        [TR_F16] = ncclFloat16, [TR_BF16] = ncclBfloat16, [TR_I64] = ncclInt64,
        [TR_U8] = ncclUint8,
    };

    return type[t];
}

static ncclRedOp_t op_of(enum tr_redop op)
{
    return op == TR_SUM ? ncclSum : ncclMax;
}

/* With `p` NULL each of these is the blocking call. */
static void sum_all(struct tr_comm *c, const struct tr_tensor *x, enum tr_redop op,
                    struct tr_pending *p)
{
    static const char name[] = "all-reduce";
    cudaStream_t s = begin(c, name, p);

    TR_ASSERT(x->dtype != TR_I32);
    end(c, s, name, p,
        tr_nccl.ncclAllReduce(x->data, x->data, (size_t)tr_tensor_elems(x), type_of(x->dtype),
                              op_of(op), group_of(c)->comm, s));
}

static void sum_slices(struct tr_comm *c, const struct tr_tensor *out, const struct tr_tensor *in,
                       enum tr_redop op, struct tr_pending *p)
{
    static const char name[] = "reduce-scatter";
    cudaStream_t s = begin(c, name, p);
    size_t count = (size_t)tr_tensor_elems(out);

    TR_ASSERT(out->dtype == in->dtype && out->dtype != TR_I32);
    TR_ASSERT(tr_tensor_bytes(in) == tr_tensor_bytes(out) * c->size);
    end(c, s, name, p,
        tr_nccl.ncclReduceScatter(in->data, out->data, count, type_of(in->dtype), op_of(op),
                                  group_of(c)->comm, s));
}

static void gather(struct tr_comm *c, const struct tr_tensor *x, struct tr_pending *p)
{
    static const char name[] = "all-gather";
    cudaStream_t s = begin(c, name, p);
    int64_t count = tr_tensor_elems(x) / c->size;
    struct tr_tensor mine = tr_tensor_span(x, c->rank * count, count);

    TR_ASSERT(count * c->size == tr_tensor_elems(x));
    end(c, s, name, p,
        tr_nccl.ncclAllGather(mine.data, x->data, (size_t)count, type_of(x->dtype),
                              group_of(c)->comm, s));
}

/* Who moves it instead: the wrapped transport host memory, the device's own copies what a group of one
   has, in its place among the work of the queue; NULL when it is NCCL's. */
static struct tr_comm *elsewhere(const struct tr_comm *c, const struct tr_queue *q)
{
    struct tr_nccl_group *g = group_of(c);

    if (!q)
        return g->inner;
    return c->size == 1 ? &g->alone : NULL;
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->allreduce_start(other, q, inout, op, p);
    else
        sum_all(c, inout, op, p);
    p->seq = c->seq;
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->reduce_scatter_start(other, q, out, in, op, p);
    else
        sum_slices(c, out, in, op, p);
    p->seq = c->seq;
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->allgather_start(other, q, inout, p);
    else
        gather(c, inout, p);
    p->seq = c->seq;
}

static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->allreduce(other, q, inout, op);
    else
        sum_all(c, inout, op, NULL);
}

static void reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *in, enum tr_redop op)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->reduce_scatter(other, q, out, in, op);
    else
        sum_slices(c, out, in, op, NULL);
}

static void allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout)
{
    struct tr_comm *other = elsewhere(c, q);

    c->seq++;
    if (other)
        other->via->allgather(other, q, inout);
    else
        gather(c, inout, NULL);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    static const char name[] = "broadcast";
    struct tr_comm *other = elsewhere(c, q);
    cudaStream_t s;

    c->seq++;
    if (other) {
        other->via->broadcast(other, q, inout, root);
        return;
    }
    s = begin(c, name, NULL);
    end(c, s, name, NULL,
        tr_nccl.ncclBroadcast(inout->data, inout->data, (size_t)tr_tensor_elems(inout),
                              type_of(inout->dtype), root, group_of(c)->comm, s));
}

/* ---- messages ---- */

static ncclResult_t queue_leg(struct tr_nccl_group *g, const struct tr_leg *leg, cudaStream_t s)
{
    size_t bytes = (size_t)leg->bytes;

    /* Both ends leave out an empty one. */
    if (bytes == 0)
        return ncclSuccess;
    if (leg->dir == TR_LEG_SEND)
        return tr_nccl.ncclSend(leg->buf, bytes, ncclInt8, leg->peer, g->comm, s);
    return tr_nccl.ncclRecv(leg->buf, bytes, ncclInt8, leg->peer, g->comm, s);
}

static bool in_progress_or_well(ncclResult_t r)
{
    return r == ncclSuccess || r == ncclInProgress;
}

/* All legs in one kernel, so that none waits for another. */
static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    static const char name[] = "exchange";
    struct tr_comm *other = elsewhere(c, q);
    ncclResult_t result = ncclSuccess, ended;
    cudaStream_t s;

    TR_ASSERT(n <= TR_MAX_LEGS);
    if (other) {
        other->via->exchange_start(other, q, legs, n, p);
        p->seq = c->seq;
        return;
    }
    s = begin(c, name, p);
    result = tr_nccl.ncclGroupStart();
    for (int i = 0; i < n && in_progress_or_well(result); i++)
        result = queue_leg(group_of(c), &legs[i], s);
    ended = tr_nccl.ncclGroupEnd();
    end(c, s, name, p, in_progress_or_well(result) ? ended : result);
}

/* ---- the end of transfers ---- */

static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    if (!p->on_device)
        return inner_of(c)->via->poll(inner_of(c), p);
    return !p->scratch || is_done(group_of(c)->world, p->scratch);
}

/* The queue waits, not the host. */
static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    struct tr_nccl_group *g = group_of(c);
    struct tr_nccl_call *x = p->scratch;

    if (!p->on_device) {
        g->inner->via->finish(g->inner, NULL, p);
        return;
    }
    TR_ASSERT(q);
    if (!x)
        return;
    tr_cuda_pace(g->world->gpu, &g->world->gpu->pace, 1);
    tr_cuda_must(g->world->gpu, cudaStreamWaitEvent(g->world->gpu->compute, x->done, 0),
                 "cudaStreamWaitEvent");
    x->held = false;
    p->scratch = NULL;
}

/* ---- what is of the host ---- */

static void barrier(struct tr_comm *c)
{
    c->seq++;
    inner_of(c)->via->barrier(inner_of(c));
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    c->seq++;
    inner_of(c)->via->gather_all(inner_of(c), mine, bytes, all);
}

static void alarm(struct tr_comm *c, const char *why, bool asks)
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

const struct tr_transport tr_nccl_transport = {
    .name = "nccl",
    .queues = true,
    .split = tr_nccl_split,
    .release = tr_nccl_release,
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
