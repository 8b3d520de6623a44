/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_group.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/block.h"
#include "comm/reduce.h"
#include "util/timer.h"

/* Polls before a waiting rank offers its core to others; seconds from one look at the others to the next. */
enum { POLLS_BEFORE_YIELD = 64 };
static const double LOOK_EVERY = 0.01;
/* A rank that has waited for long sleeps between polls, for this part of what it has waited: so much later
   it may come.  More where ranks outnumber cores, and those that it waits for need this one.  Seconds: a
   shorter sleep is none, and longer ones save nothing. */
static const double SLEEP_PART = 0.01, SLEEP_PART_CROWDED = 0.05, SLEEP_LEAST = 5e-5,
                    SLEEP_MOST = 1e-3;

/*
 * An all-reduce of SLICED bytes or more goes as reduce-scatters and all-gathers of pieces.  What is started
 * and polled by MPI itself is slower there than what blocks, which would not let a rank see that another
 * one is lost; this is as fast.  Below SLICED, or SLICE for each rank, the number of messages counts: each
 * rank sends one to each.
 */
enum { SLICED = 4096, SLICE = 512, PIECE = 1 << 20 };

/* Memory of a reduce-scatter, kept for the next one. */
struct tr_mpi_scratch {
    struct tr_mpi_scratch *next;
    int64_t bytes;
};
enum { SCRATCH_HEAD = 64 }; /* bytes from a scratch to its contents, which are aligned to it */

/* Between enter() and leave(); does not return when `rc` is an error. */
static void check(const struct tr_comm *c, const char *call, uint64_t seq, int rc)
{
    char why[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, why, &length);
    tr_mpi_leave(c);
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
        return tr_mpi_group(c)->half[t == TR_BF16][op == TR_MAX];
    return op == TR_SUM ? MPI_SUM : MPI_MAX;
}

void tr_mpi_free_scratch(struct tr_mpi_group *g)
{
    for (struct tr_mpi_scratch *x = g->idle, *next; x; x = next) {
        next = x->next;
        free(x);
    }
}

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

/* A call begins, between enter() and leave(). */
static void enter(struct tr_comm *c, const struct tr_pending *p)
{
    tr_mpi_enter(c);
    tr_watch_enter(tr_mpi_group(c)->watch, c->name, p->call, p->seq);
}

static void put_request(struct tr_comm *c, struct tr_pending *p, MPI_Request request)
{
    _Static_assert(sizeof(MPI_Request) <= sizeof p->request[0], "a request fits a pointer");
    TR_ASSERT(p->count < TR_MAX_REQUESTS);
    memcpy(&p->request[p->count++], &request, sizeof request);
    /* A rank that waits moves its data itself, and to wake another thread costs more than most calls. */
    if (!p->blocking)
        tr_mover_count(tr_mpi_group(c)->mover, 1);
}

/* The first idle one that is large enough; the others are of a size that is perhaps never asked for
   again. */
static struct tr_mpi_scratch *take_scratch(struct tr_comm *c, int64_t bytes)
{
    struct tr_mpi_group *g = tr_mpi_group(c);
    struct tr_mpi_scratch *x;

    for (struct tr_mpi_scratch **at = &g->idle; *at; at = &(*at)->next)
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

static void *contents(struct tr_mpi_scratch *x)
{
    return (unsigned char *)x + SCRATCH_HEAD;
}

/* All slices of a reduce-scatter have arrived. */
static void add_up(struct tr_comm *c, struct tr_pending *p)
{
    struct tr_mpi_scratch *x = p->scratch;

    if (!x)
        return;
    tr_reduce_slices(&p->out, contents(x), c->size, p->op);
    x->next = tr_mpi_group(c)->idle;
    tr_mpi_group(c)->idle = x;
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
    tr_mpi_enter(c);
    rc = MPI_Testall(p->count, request, &done, status);
    for (int i = 0; rc == MPI_ERR_IN_STATUS && i < p->count; i++)
        if (status[i].MPI_ERROR != MPI_SUCCESS && status[i].MPI_ERROR != MPI_ERR_PENDING)
            rc = status[i].MPI_ERROR;
    check(c, p->call, p->seq, rc);
    if (done && !p->blocking)
        tr_mover_count(tr_mpi_group(c)->mover, -p->count);
    tr_mpi_leave(c);
    for (int i = 0; i < p->count; i++)
        memcpy(&p->request[i], &request[i], sizeof request[i]);
    if (done) {
        p->count = 0;
        add_up(c, p);
    }
    return done;
}

static struct tr_wait_in wait_in(struct tr_comm *c, const char *call, uint64_t seq)
{
    return (struct tr_wait_in){
        .group = c->name, .call = call, .seq = seq, .members = tr_mpi_group(c)->members};
}

/* `p` is not done since a while; does not return when that is too long. */
static void ask_around(struct tr_comm *c, const struct tr_pending *p, double since)
{
    struct tr_wait_in in = wait_in(c, p->call, p->seq);

    in.peers = p->peers;
    for (int i = 0; i < p->peers; i++)
        in.peer[i] = tr_mpi_group(c)->world[p->peer[i]];
    tr_mpi_enter(c);
    tr_watch_wait(tr_mpi_group(c)->watch, &in, since);
    tr_mpi_leave(c);
}

static void go_on(struct tr_comm *c)
{
    tr_mpi_enter(c);
    tr_watch_go_on(tr_mpi_group(c)->watch);
    tr_mpi_leave(c);
}

/* To yield gives the core to those that have work, at once, but the kernel takes a task that does nothing else
   for one that computes: many of them keep those that do from running, on Linux 6.18 for up to a minute. */
static void offer_core(double seconds)
{
    if (seconds > 0.0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
    else
        sched_yield();
}

static double sleep_of(const struct tr_comm *c, double waited)
{
    double s = waited * (*tr_mpi_group(c)->crowded ? SLEEP_PART_CROWDED : SLEEP_PART);

    return s < SLEEP_LEAST ? 0.0 : s < SLEEP_MOST ? s : SLEEP_MOST;
}

/* MPI_Waitall() may spin, and where ranks outnumber cores the rank that is waited for needs this
   core.  Nor would it see that another rank is lost. */
static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    double began = 0.0, looked = 0.0, waited = 0.0, sleep = 0.0, now;

    (void)q;
    for (int polls = 1; !poll(c, p); polls++) {
        if (polls % POLLS_BEFORE_YIELD != 0 && sleep <= 0.0)
            continue;
        offer_core(sleep);
        now = tr_now();
        if (looked <= 0.0)
            began = looked = now;
        sleep = sleep_of(c, now - began);
        if (now - looked < LOOK_EVERY)
            continue;
        waited += tr_watch_step(looked, now);
        looked = now;
        ask_around(c, p, now - waited);
    }
    if (waited > 0.0)
        go_on(c);
}

static void start_sum(struct tr_comm *c, const struct tr_tensor *inout, enum tr_redop op,
                      struct tr_pending *p)
{
    int64_t left = tr_tensor_elems(inout);
    unsigned char *at = inout->data;

    enter(c, p);
    while (left > 0) {
        int part = part_of(left);
        MPI_Request request;

        check(c, p->call, p->seq,
              MPI_Iallreduce(MPI_IN_PLACE, at, part, type_of(inout), op_of(c, inout->dtype, op),
                             tr_mpi_group(c)->comm, &request));
        put_request(c, p, request);
        at += (int64_t)part * tr_dtype_bytes(inout->dtype);
        left -= part;
    }
    tr_mpi_leave(c);
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    settle(q);
    *p = (struct tr_pending){.call = "all-reduce", .seq = ++c->seq};
    start_sum(c, inout, op, p);
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
    MPI_Datatype type[2] = {tr_mpi_group(c)->block, MPI_BYTE};
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
static void start_slices(struct tr_comm *c, const struct tr_tensor *out, const struct tr_tensor *in,
                         enum tr_redop op, struct tr_pending *p)
{
    int64_t bytes = tr_tensor_bytes(out);
    struct slice s;
    MPI_Request request;

    TR_ASSERT(out->dtype == in->dtype);
    TR_ASSERT(tr_dtype_is_float(out->dtype) || out->dtype == TR_F64);
    TR_ASSERT(tr_tensor_bytes(in) == bytes * c->size);
    p->out = *out;
    p->op = op;
    p->scratch = take_scratch(c, bytes * c->size);
    enter(c, p);
    s = slice_of(c, bytes);
    check(c, p->call, p->seq,
          MPI_Ialltoall(in->data, s.count, s.type, contents(p->scratch), s.count, s.type,
                        tr_mpi_group(c)->comm, &request));
    put_request(c, p, request);
    slice_free(&s);
    tr_mpi_leave(c);
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    settle(q);
    *p = (struct tr_pending){.call = "reduce-scatter", .seq = ++c->seq};
    start_slices(c, out, in, op, p);
}

static void start_gather(struct tr_comm *c, const struct tr_tensor *inout, struct tr_pending *p)
{
    int64_t bytes = tr_tensor_bytes(inout) / c->size;
    struct slice s;
    MPI_Request request;

    TR_ASSERT(tr_tensor_elems(inout) % c->size == 0);
    enter(c, p);
    s = slice_of(c, bytes);
    check(c, p->call, p->seq,
          MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, inout->data, s.count, s.type,
                         tr_mpi_group(c)->comm, &request));
    put_request(c, p, request);
    slice_free(&s);
    tr_mpi_leave(c);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    settle(q);
    *p = (struct tr_pending){.call = "all-gather", .seq = ++c->seq};
    start_gather(c, inout, p);
}

/* `all` (slices of one length) = the sum or maximum: each rank adds up a slice, and all have it. */
static void sum_by_slices(struct tr_comm *c, const struct tr_tensor *all, enum tr_redop op,
                          struct tr_pending *p)
{
    int64_t n = tr_tensor_elems(all) / c->size;
    struct tr_tensor mine = tr_tensor_span(all, c->rank * n, n);

    start_slices(c, &mine, all, op, p);
    finish(c, NULL, p);
    start_gather(c, all, p);
    finish(c, NULL, p);
}

static void allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    const int64_t all = tr_tensor_elems(inout), bytes = tr_dtype_bytes(inout->dtype);
    const int64_t piece = PIECE / bytes / c->size * c->size;
    const int64_t least = SLICE * c->size > SLICED ? SLICE * (int64_t)c->size : SLICED;
    int64_t done = 0;
    struct tr_tensor part;
    struct tr_pending p = {.call = "all-reduce", .seq = ++c->seq, .blocking = true};

    settle(q);
    while (c->size > 1 && piece > 0 && (all - done) * bytes >= least) {
        int64_t n = all - done < piece ? (all - done) / c->size * c->size : piece;

        part = tr_tensor_span(inout, done, n);
        sum_by_slices(c, &part, op, &p);
        done += n;
    }
    if (c->size == 1 || done == all)
        return;
    part = tr_tensor_span(inout, done, all - done);
    start_sum(c, &part, op, &p);
    finish(c, NULL, &p);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    const struct tr_mpi_group *g = tr_mpi_group(c);
    struct tr_pending p = {.call = "broadcast", .seq = ++c->seq, .blocking = true};
    unsigned char *at = inout->data;
    int blocks, rest;
    MPI_Request request;

    settle(q);
    cut(tr_tensor_bytes(inout), &blocks, &rest);
    enter(c, &p);
    if (blocks > 0) {
        check(c, p.call, p.seq, MPI_Ibcast(at, blocks, g->block, root, g->comm, &request));
        put_request(c, &p, request);
    }
    if (rest > 0) {
        check(c, p.call, p.seq,
              MPI_Ibcast(at + (int64_t)blocks * TR_MPI_BLOCK, rest, MPI_BYTE, root, g->comm,
                         &request));
        put_request(c, &p, request);
    }
    tr_mpi_leave(c);
    finish(c, NULL, &p);
}

static void start_piece(struct tr_comm *c, const struct tr_leg *leg, void *at, int count,
                        MPI_Datatype type, struct tr_pending *p)
{
    const int tag = p->blocking ? TR_MPI_TAG_GATHER : TR_MPI_TAG;
    MPI_Comm comm = tr_mpi_group(c)->comm;
    MPI_Request request;
    int rc;

    if (leg->dir == TR_LEG_SEND)
        rc = MPI_Isend(at, count, type, leg->peer, tag, comm, &request);
    else
        rc = MPI_Irecv(at, count, type, leg->peer, tag, comm, &request);
    check(c, p->call, p->seq, rc);
    put_request(c, p, request);
}

static void start_leg(struct tr_comm *c, const struct tr_leg *leg, struct tr_pending *p)
{
    unsigned char *at = leg->buf;
    int blocks, rest;

    cut(leg->bytes, &blocks, &rest);
    if (blocks > 0)
        start_piece(c, leg, at, blocks, tr_mpi_group(c)->block, p);
    if (rest > 0 || blocks == 0)
        start_piece(c, leg, at + (int64_t)blocks * TR_MPI_BLOCK, rest, MPI_BYTE, p);
}

/* Receives first: a message that finds its receive posted needs no copy. */
static void exchange_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p)
{
    TR_ASSERT(n <= TR_MAX_LEGS);
    settle(q);
    *p = (struct tr_pending){.call = "exchange", .seq = c->seq, .peers = n};
    for (int i = 0; i < n; i++)
        p->peer[i] = legs[i].peer;
    enter(c, p);
    for (int i = 0; i < n; i++)
        if (legs[i].dir == TR_LEG_RECV)
            start_leg(c, &legs[i], p);
    for (int i = 0; i < n; i++)
        if (legs[i].dir == TR_LEG_SEND)
            start_leg(c, &legs[i], p);
    tr_mpi_leave(c);
}

void tr_mpi_meet(struct tr_comm *c, const char *call)
{
    struct tr_pending p = {.call = call, .seq = ++c->seq, .blocking = true};
    MPI_Request request;

    enter(c, &p);
    check(c, p.call, p.seq, MPI_Ibarrier(tr_mpi_group(c)->comm, &request));
    put_request(c, &p, request);
    tr_mpi_leave(c);
    finish(c, NULL, &p);
}

static void barrier(struct tr_comm *c)
{
    tr_mpi_meet(c, "barrier");
}

/* `at` holds what ranks rank, rank + 1, ... rank + have - 1 bring; as many more, or all that are left. */
static void double_up(struct tr_comm *c, unsigned char *at, int have, int64_t bytes,
                      struct tr_pending *p)
{
    const int n = have < c->size - have ? have : c->size - have;
    struct tr_leg take = {TR_LEG_RECV, (c->rank + have) % c->size, at + have * bytes, n * bytes};
    struct tr_leg give = {TR_LEG_SEND, (c->rank + c->size - have) % c->size, at, n * bytes};

    p->count = 0;
    p->peers = 2;
    p->peer[0] = take.peer;
    p->peer[1] = give.peer;
    enter(c, p);
    start_leg(c, &take, p);
    start_leg(c, &give, p);
    tr_mpi_leave(c);
    finish(c, NULL, p);
}

/* Bruck's algorithm: in the logarithm of the ranks many rounds, where that of MPI which can be polled has
   each rank send to each. */
static void gather_all(struct tr_comm *c, const void *mine, int64_t bytes, void *all)
{
    struct tr_pending p = {.call = "gather", .seq = ++c->seq, .blocking = true};
    unsigned char *at = malloc((size_t)(c->size * bytes)), *out = all;
    const int64_t before = c->rank * bytes, rest = (c->size - c->rank) * bytes;

    if (!at)
        tr_die(TR_ERESOURCE, "no memory left to gather %lld bytes from each of %d ranks",
               (long long)bytes, c->size);
    memcpy(at, mine, (size_t)bytes);
    for (int have = 1; have < c->size; have *= 2)
        double_up(c, at, have, bytes, &p);
    memcpy(out + before, at, (size_t)rest);
    memcpy(out, at + rest, (size_t)before);
    free(at);
}

/* ---- when a rank is lost ---- */

static void alarm(struct tr_comm *c, const char *why, bool asks)
{
    tr_mpi_enter(c);
    tr_watch_tell(tr_mpi_group(c)->watch, why, asks);
    tr_mpi_leave(c);
}

static const char *alarmed(struct tr_comm *c)
{
    tr_mpi_enter(c);
    const char *why = tr_watch_heard(tr_mpi_group(c)->watch);
    tr_mpi_leave(c);
    return why;
}

static void waits(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    struct tr_wait_in in = wait_in(c, call, seq);

    in.fleeting = true;
    tr_mpi_enter(c);
    tr_watch_say(tr_mpi_group(c)->watch, &in, since);
    tr_mpi_leave(c);
}

static void late(struct tr_comm *c, const char *call, uint64_t seq, double since)
{
    const struct tr_wait_in in = wait_in(c, call, seq);

    tr_mpi_enter(c);
    tr_watch_late(tr_mpi_group(c)->watch, &in, since);
}

const struct tr_transport tr_mpi_transport = {
    .name = "mpi",
    .split = tr_mpi_split,
    .release = tr_mpi_release,
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
    .waits = waits,
    .late = late,
};
