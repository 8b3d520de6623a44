/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/alarm.h"
#include "comm/block.h"
#include "comm/mover.h"
#include "comm/reduce.h"
#include "util/log.h"

/*
 * MPI counts in int.  A message of more than TR_MPI_WHOLE bytes goes as many blocks of TR_MPI_BLOCK
 * bytes and a remainder, an all-reduce of more than TR_MPI_WHOLE elements in parts.  tests/comm
 * compiles this file with small values, so that the long way is walked.
 */
#ifndef TR_MPI_WHOLE
#define TR_MPI_WHOLE INT_MAX
#define TR_MPI_BLOCK (1 << 20)
#endif

/* All messages have the same tag: MPI does not let messages between two ranks overtake. */
enum { TAG = 1 };

/* Polls before a waiting rank offers its core to others. */
enum { POLLS_BEFORE_YIELD = 64 };

/* Memory of a reduce-scatter, kept for the next one. */
struct scratch {
    struct scratch *next;
    int64_t bytes;
};
enum { SCRATCH_HEAD = 64 }; /* bytes from a scratch to its contents, which are aligned to it */

struct group {
    MPI_Comm comm;
    struct tr_alarm *alarm; /* of the world */
    MPI_Datatype block; /* TR_MPI_BLOCK bytes */
    struct scratch *idle;
    struct tr_mover *mover; /* of the process */
    MPI_Op half[2][2];      /* [bf16][maximum]: MPI has no halves, so they are ours */
};

static struct group *group_of(const struct tr_comm *c)
{
    return c->state;
}

/* Calls of MPI stand between these two. */
static void enter(const struct tr_comm *c)
{
    tr_mover_enter(group_of(c)->mover);
}

static void leave(const struct tr_comm *c)
{
    tr_mover_leave(group_of(c)->mover);
}

/* Between enter() and leave(); does not return when `rc` is an error. */
static void check(const struct tr_comm *c, const char *call, uint64_t seq, int rc)
{
    char why[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, why, &length);
    leave(c);
    tr_die(TR_ETEMP,
           "the %s in group \"%s\" (call %llu, rank %d of %d) broke: %s; a process or a node of "
           "the job is probably lost, start again from the last checkpoint",
           call, c->name, (unsigned long long)seq, c->rank, c->size, why);
}

static MPI_Datatype type_of(const struct tr_tensor *t)
{
    TR_ASSERT(tr_dtype_is_float(t->dtype) || t->dtype == TR_F64);
    return t->dtype == TR_F32 ? MPI_FLOAT : t->dtype == TR_F64 ? MPI_DOUBLE : MPI_UINT16_T;
}

static MPI_Op op_of(const struct tr_comm *c, enum tr_dtype t, enum tr_redop op)
{
    if (t == TR_F16 || t == TR_BF16)
        return group_of(c)->half[t == TR_BF16][op == TR_MAX];
    return op == TR_SUM ? MPI_SUM : MPI_MAX;
}

#define HALF_OP(name, type, op)                                           \
    static void name(void *in, void *inout, int *n, MPI_Datatype *unused) \
    {                                                                     \
        (void)unused;                                                     \
        tr_reduce_pair(inout, in, *n, type, op);                          \
    }
HALF_OP(f16_sum, TR_F16, TR_SUM)
HALF_OP(f16_max, TR_F16, TR_MAX)
HALF_OP(bf16_sum, TR_BF16, TR_SUM)
HALF_OP(bf16_max, TR_BF16, TR_MAX)

static int part_of(int64_t left)
{
    return (int)(left < TR_MPI_WHOLE ? left : TR_MPI_WHOLE);
}

/* Host memory is read and written here, so the queue must have finished with it. */
static void settle(struct tr_queue *q)
{
    if (q)
        q->on->wait(q);
}

static void put_request(struct tr_comm *c, struct tr_pending *p, MPI_Request request)
{
    _Static_assert(sizeof(MPI_Request) <= sizeof p->request[0], "a request fits a pointer");
    TR_ASSERT(p->count < TR_MAX_REQUESTS);
    memcpy(&p->request[p->count++], &request, sizeof request);
    tr_mover_count(group_of(c)->mover, 1);
}

/* The first idle one that is large enough; the others are of a size that is perhaps never asked for
   again. */
static struct scratch *take_scratch(struct tr_comm *c, int64_t bytes)
{
    struct group *g = group_of(c);
    struct scratch *x;

    for (struct scratch **at = &g->idle; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes) {
            x = *at;
            *at = x->next;
            return x;
        }
    if (g->idle) {
        x = g->idle;
        g->idle = x->next;
        free(x);
    }
    bytes = (bytes + SCRATCH_HEAD - 1) / SCRATCH_HEAD * SCRATCH_HEAD;
    x = aligned_alloc(SCRATCH_HEAD, (size_t)(SCRATCH_HEAD + bytes));
    if (!x)
        tr_die(TR_ERESOURCE,
               "no memory left for a reduce-scatter of %lld bytes in group \"%s\"; make buckets "
               "(--ddp-bucket-size) or micro-batches smaller",
               (long long)bytes, c->name);
    x->bytes = bytes;
    return x;
}

static void *contents(struct scratch *x)
{
    return (unsigned char *)x + SCRATCH_HEAD;
}

/* All slices of a reduce-scatter have arrived. */
static void add_up(struct tr_comm *c, struct tr_pending *p)
{
    struct scratch *x = p->scratch;

    if (!x)
        return;
    tr_reduce_slices(&p->out, contents(x), c->size, p->op);
    x->next = group_of(c)->idle;
    group_of(c)->idle = x;
    p->scratch = NULL;
}

/* Let the requests make progress; true, and none left, when all are done. */
static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    MPI_Request request[TR_MAX_REQUESTS];
    MPI_Status status[TR_MAX_REQUESTS];
    int done, rc;

    if (p->count == 0)
        return true;
    for (int i = 0; i < p->count; i++)
        memcpy(&request[i], &p->request[i], sizeof request[i]);
    enter(c);
    rc = MPI_Testall(p->count, request, &done, status);
    for (int i = 0; rc == MPI_ERR_IN_STATUS && i < p->count; i++)
        if (status[i].MPI_ERROR != MPI_SUCCESS && status[i].MPI_ERROR != MPI_ERR_PENDING)
            rc = status[i].MPI_ERROR;
    check(c, p->call, p->seq, rc);
    if (done)
        tr_mover_count(group_of(c)->mover, -p->count);
    leave(c);
    for (int i = 0; i < p->count; i++)
        memcpy(&p->request[i], &request[i], sizeof request[i]);
    if (done) {
        p->count = 0;
        add_up(c, p);
    }
    return done;
}

/* MPI_Waitall() may spin, and where ranks outnumber cores the rank that is waited for needs this
   core. */
static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    (void)q;
    for (int polls = 1; !poll(c, p); polls++)
        if (polls % POLLS_BEFORE_YIELD == 0)
            sched_yield();
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    int64_t left = tr_tensor_elems(inout);
    unsigned char *at = inout->data;

    settle(q);
    *p = (struct tr_pending){.call = "all-reduce", .seq = ++c->seq};
    enter(c);
    while (left > 0) {
        int part = part_of(left);
        MPI_Request request;

        check(c, p->call, p->seq,
              MPI_Iallreduce(MPI_IN_PLACE, at, part, type_of(inout), op_of(c, inout->dtype, op),
                             group_of(c)->comm, &request));
        put_request(c, p, request);
        at += (int64_t)part * tr_dtype_bytes(inout->dtype);
        left -= part;
    }
    leave(c);
}

/*
 * MPI asks of its implementations that every rank gets the same bits and that the same call gives
 * them again; t_comm looks whether this one does.
 */
static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    int64_t left = tr_tensor_elems(inout);
    unsigned char *at = inout->data;

    settle(q);
    c->seq++;
    enter(c);
    while (left > 0) {
        int part = part_of(left);

        check(c, "all-reduce", c->seq,
              MPI_Allreduce(MPI_IN_PLACE, at, part, type_of(inout), op_of(c, inout->dtype, op),
                            group_of(c)->comm));
        at += (int64_t)part * tr_dtype_bytes(inout->dtype);
        left -= part;
    }
    leave(c);
}

/* How a message is told to MPI: `blocks` of TR_MPI_BLOCK bytes, then `rest` bytes. */
static void cut(int64_t bytes, int *blocks, int *rest)
{
    *blocks = bytes > TR_MPI_WHOLE ? (int)(bytes / TR_MPI_BLOCK) : 0;
    *rest = (int)(bytes - (int64_t)*blocks * TR_MPI_BLOCK);
}

/* A slice of so many bytes, as MPI counts it. */
struct slice {
    int count;
    MPI_Datatype type;
};

static struct slice slice_of(const struct tr_comm *c, int64_t bytes)
{
    MPI_Datatype type[2] = {group_of(c)->block, MPI_BYTE};
    MPI_Aint place[2] = {0};
    struct slice s = {.count = 1};
    int length[2];

    if (bytes <= TR_MPI_WHOLE)
        return (struct slice){(int)bytes, MPI_BYTE};
    cut(bytes, &length[0], &length[1]);
    place[1] = (MPI_Aint)length[0] * TR_MPI_BLOCK;
    MPI_Type_create_struct(2, length, place, type, &s.type);
    MPI_Type_commit(&s.type);
    return s;
}

/* Transfers under way keep what they need of it. */
static void slice_free(struct slice *s)
{
    if (s->type != MPI_BYTE)
        MPI_Type_free(&s->type);
}

/*
 * Every rank sends slice r of what it has to rank r, which adds up what it receives: as many bytes
 * as a ring sends, an order of the sum that is ours, and one rounding of halves.
 */
static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    int64_t bytes = tr_tensor_bytes(out);
    struct slice s;
    MPI_Request request;

    TR_ASSERT(out->dtype == in->dtype);
    TR_ASSERT(tr_dtype_is_float(out->dtype) || out->dtype == TR_F64);
    TR_ASSERT(tr_tensor_bytes(in) == bytes * c->size);
    settle(q);
    *p = (struct tr_pending){.call = "reduce-scatter", .seq = ++c->seq, .out = *out, .op = op};
    p->scratch = take_scratch(c, bytes * c->size);
    enter(c);
    s = slice_of(c, bytes);
    check(c, p->call, p->seq,
          MPI_Ialltoall(in->data, s.count, s.type, contents(p->scratch), s.count, s.type,
                        group_of(c)->comm, &request));
    put_request(c, p, request);
    slice_free(&s);
    leave(c);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    int64_t bytes = tr_tensor_bytes(inout) / c->size;
    struct slice s;
    MPI_Request request;

    TR_ASSERT(tr_tensor_elems(inout) % c->size == 0);
    settle(q);
    *p = (struct tr_pending){.call = "all-gather", .seq = ++c->seq};
    enter(c);
    s = slice_of(c, bytes);
    check(c, p->call, p->seq,
          MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, inout->data, s.count, s.type,
                         group_of(c)->comm, &request));
    put_request(c, p, request);
    slice_free(&s);
    leave(c);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    const struct group *g = group_of(c);
    unsigned char *at = inout->data;
    int blocks, rest;

    settle(q);
    c->seq++;
    cut(tr_tensor_bytes(inout), &blocks, &rest);
    enter(c);
    if (blocks > 0)
        check(c, "broadcast", c->seq, MPI_Bcast(at, blocks, g->block, root, g->comm));
    if (rest > 0)
        check(c, "broadcast", c->seq,
              MPI_Bcast(at + (int64_t)blocks * TR_MPI_BLOCK, rest, MPI_BYTE, root, g->comm));
    leave(c);
}

static void start_piece(struct tr_comm *c, const struct tr_leg *leg, void *at, int count,
                        MPI_Datatype type, struct tr_pending *p)
{
    MPI_Comm comm = group_of(c)->comm;
    MPI_Request request;
    int rc;

    if (leg->dir == TR_LEG_SEND)
        rc = MPI_Isend(at, count, type, leg->peer, TAG, comm, &request);
    else
        rc = MPI_Irecv(at, count, type, leg->peer, TAG, comm, &request);
    check(c, p->call, p->seq, rc);
    put_request(c, p, request);
}

static void start_leg(struct tr_comm *c, const struct tr_leg *leg, struct tr_pending *p)
{
    unsigned char *at = leg->buf;
    int blocks, rest;

    cut(leg->bytes, &blocks, &rest);
    if (blocks > 0)
        start_piece(c, leg, at, blocks, group_of(c)->block, p);
    if (rest > 0 || blocks == 0)
        start_piece(c, leg, at + (int64_t)blocks * TR_MPI_BLOCK, rest, MPI_BYTE, p);
}

/* Receives first: a message that finds its receive posted needs no copy. */
static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    TR_ASSERT(n <= TR_MAX_LEGS);
    settle(q);
    *p = (struct tr_pending){.call = "exchange", .seq = c->seq};
    enter(c);
    for (int i = 0; i < n; i++)
        if (legs[i].dir == TR_LEG_RECV)
            start_leg(c, &legs[i], p);
    for (int i = 0; i < n; i++)
        if (legs[i].dir == TR_LEG_SEND)
            start_leg(c, &legs[i], p);
    leave(c);
}

static void barrier(struct tr_comm *c)
{
    c->seq++;
    enter(c);
    check(c, "barrier", c->seq, MPI_Barrier(group_of(c)->comm));
    leave(c);
}

static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    TR_ASSERT(bytes <= INT_MAX);
    c->seq++;
    enter(c);
    check(c, "gather", c->seq,
          MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, group_of(c)->comm));
    leave(c);
}

static void release(struct tr_comm *c)
{
    struct group *g = group_of(c);

    for (struct scratch *x = g ? g->idle : NULL, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    if (g) {
        enter(c);
        for (int i = 0; i < 4; i++)
            MPI_Op_free(&g->half[i / 2][i % 2]);
        MPI_Type_free(&g->block);
        tr_alarm_close(g->alarm);
        MPI_Comm_free(&g->comm);
        leave(c);
    }
    free(g);
    c->state = NULL;
    c->size = 0;
}

static void alarm(struct tr_comm *c, const char *why)
{
    enter(c);
    tr_alarm_tell(group_of(c)->alarm, why);
    leave(c);
}

static const char *alarmed(struct tr_comm *c)
{
    enter(c);
    const char *why = tr_alarm_heard(group_of(c)->alarm);
    leave(c);
    return why;
}

/* Make *out the group behind `comm`, and own it.  Between enter() and leave() of another. */
static void wrap(MPI_Comm comm, struct tr_mover *mover, struct tr_comm *out)
{
    struct group *g = calloc(1, sizeof *g);

    if (!g)
        tr_die(TR_ERESOURCE, "no memory left for the communication group \"%s\"", out->name);
    g->comm = comm;
    g->mover = mover;
    out->state = g;
    MPI_Comm_rank(comm, &out->rank);
    MPI_Comm_size(comm, &out->size);
    MPI_Type_contiguous(TR_MPI_BLOCK, MPI_BYTE, &g->block);
    MPI_Type_commit(&g->block);
    MPI_Op_create(f16_sum, true, &g->half[0][0]);
    MPI_Op_create(f16_max, true, &g->half[0][1]);
    MPI_Op_create(bf16_sum, true, &g->half[1][0]);
    MPI_Op_create(bf16_max, true, &g->half[1][1]);
}

static enum tr_status split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    enum tr_status status = TR_OK;
    MPI_Comm comm = MPI_COMM_NULL;

    from->seq++;
    *out = (struct tr_comm){.via = from->via, .name = name};
    enter(from);
    if (MPI_Comm_split(group_of(from)->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm) !=
        MPI_SUCCESS)
        status = TR_FAIL(TR_ERESOURCE,
                         "MPI has no room for the communication group \"%s\"; look for a limit on "
                         "communicators in its settings",
                         name);
    else if (comm != MPI_COMM_NULL)
        wrap(comm, group_of(from)->mover, out);
    leave(from);
    status = tr_comm_agree(from, status);
    if (status != TR_OK)
        release(out);
    return status;
}

static const struct tr_transport mpi = {
    .name = "mpi",
    .split = split,
    .release = release,
    .allreduce = allreduce,
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
};

static void take_all_along(int exit_code)
{
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* Looking for a message that nobody sends makes MPI look at all that it has to do; each look moves
   a few fragments. */
static void move(void *ctx)
{
    enum { LOOKS = 8 };
    const struct group *g = ctx;

    for (int i = 0, found; i < LOOKS; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, g->comm, &found, MPI_STATUS_IGNORE);
}

/* Where MPI cannot be called by one thread and then by another, it moves data in our calls only. */
static enum tr_status start_moving(struct tr_comm *world, int level)
{
    struct group *g = group_of(world);

    return level < MPI_THREAD_SERIALIZED ? TR_OK : tr_mover_open(move, g, &g->mover);
}

enum tr_status tr_comm_mpi_start(struct tr_comm *world)
{
    MPI_Comm comm;
    int level;
    enum tr_status s;

    *world = (struct tr_comm){.via = &mpi, .name = "world"};
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return TR_FAIL(TR_ERESOURCE, "MPI cannot start; start trireme with the mpiexec or srun of "
                                     "the MPI that it was built with");
    if (level < MPI_THREAD_FUNNELED) {
        MPI_Finalize();
        return TR_FAIL(TR_ERESOURCE, "this MPI cannot run beside OpenMP threads "
                                     "(MPI_THREAD_FUNNELED); use one that can");
    }
    tr_on_die(take_all_along);
    /* A group of our own, since libraries use the world; all others inherit the error handler. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    wrap(comm, NULL, world);
    group_of(world)->alarm = tr_alarm_open();
    tr_log_init(world->rank, world->size);
    s = tr_comm_agree(world, start_moving(world, level));
    if (s != TR_OK)
        tr_comm_mpi_stop(world);
    return s;
}

void tr_comm_mpi_stop(struct tr_comm *world)
{
    struct group *g = group_of(world);

    tr_mover_close(g->mover);
    g->mover = NULL;
    release(world);
    tr_on_die(NULL);
    MPI_Finalize();
}
