/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_group.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/block.h"
#include "telemetry/timer.h"

/* Polls before a waiting rank offers its core to others; seconds from one look at the others to the next. */
enum { POLLS_BEFORE_YIELD = 64 };
static const double LOOK_EVERY = 0.01;
/* A rank that has waited for long sleeps between polls, for this part of what it has waited: so much later
   it may come.  More where ranks outnumber cores, and those that it waits for need this one.  Seconds: a
   shorter sleep is none, and longer ones save nothing; where segments come, fewer than are under way must
   come within one. */
static const double SLEEP_PART = 0.01, SLEEP_PART_CROWDED = 0.05, SLEEP_LEAST = 5e-5,
                    SLEEP_MOST = 1e-3, SLEEP_MOST_SEGMENTS = 2e-4;

void tr_mpi_check(const struct tr_comm *c, const struct tr_pending *p, int rc)
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
           p->call, c->name, (unsigned long long)p->seq, c->rank, c->size, why);
}

void tr_mpi_settle(struct tr_queue *q)
{
    if (q)
        q->on->wait(q);
}

void tr_mpi_begin(struct tr_comm *c, const struct tr_pending *p)
{
    tr_mpi_enter(c);
    tr_watch_enter(tr_mpi_group(c)->watch, c->name, p->call, p->seq);
}

void tr_mpi_put(struct tr_comm *c, struct tr_pending *p, MPI_Request request)
{
    _Static_assert(sizeof(MPI_Request) <= sizeof p->request[0], "a request fits a pointer");
    TR_ASSERT(p->count < TR_MAX_REQUESTS);
    memcpy(&p->request[p->count++], &request, sizeof request);
    /* A rank that waits moves its data itself, and to wake another thread costs more than most calls. */
    if (!p->blocking)
        tr_progress_thread_count(tr_mpi_group(c)->progress, 1);
}

static bool requests_done(struct tr_comm *c, struct tr_pending *p)
{
    MPI_Request request[TR_MAX_REQUESTS];
    MPI_Status status[TR_MAX_REQUESTS];
    int done, rc;

    if (p->count == 0)
        return true;
    for (int i = 0; i < p->count; i++)
        memcpy(&request[i], &p->request[i], sizeof request[i]);
    rc = MPI_Testall(p->count, request, &done, status);
    for (int i = 0; rc == MPI_ERR_IN_STATUS && i < p->count; i++)
        if (status[i].MPI_ERROR != MPI_SUCCESS && status[i].MPI_ERROR != MPI_ERR_PENDING)
            rc = status[i].MPI_ERROR;
    tr_mpi_check(c, p, rc);
    for (int i = 0; i < p->count; i++)
        memcpy(&p->request[i], &request[i], sizeof request[i]);
    return done;
}

/* Let transfers in flight make progress; true, and `p` is empty, when it is done. */
static bool poll(struct tr_comm *c, struct tr_pending *p)
{
    bool done;

    if (p->count == 0 && !p->scratch)
        return true;
    tr_mpi_enter(c);
    tr_mpi_slices_move();
    done = requests_done(c, p) && tr_mpi_moved(c, p);
    if (done && !p->blocking)
        tr_progress_thread_count(tr_mpi_group(c)->progress, -p->count - tr_mpi_moving(p));
    tr_mpi_leave(c);
    if (done) {
        p->count = 0;
        tr_mpi_put_back(c, p);
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

    in.about = p->about;
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

static double sleep_of(const struct tr_comm *c, const struct tr_pending *p, double waited)
{
    const double most = tr_mpi_moving(p) > 0 ? SLEEP_MOST_SEGMENTS : SLEEP_MOST;
    const double s = waited * (*tr_mpi_group(c)->crowded ? SLEEP_PART_CROWDED : SLEEP_PART);

    return s < SLEEP_LEAST ? 0.0 : s < most ? s : most;
}

/* MPI_Waitall() may spin, and where ranks outnumber cores the rank that is waited for needs this
   core.  Nor would it see that another rank is lost. */
void tr_mpi_finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
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
        sleep = sleep_of(c, p, now - began);
        if (now - looked < LOOK_EVERY)
            continue;
        waited += tr_watch_step(looked, now);
        looked = now;
        ask_around(c, p, now - waited);
    }
    if (waited > 0.0)
        go_on(c);
}

/* How a message is passed to MPI: `blocks` of TR_MPI_BLOCK bytes, then `rest` bytes. */
static void cut(int64_t bytes, int *blocks, int *rest)
{
    *blocks = bytes > TR_MPI_WHOLE ? (int)(bytes / TR_MPI_BLOCK) : 0;
    *rest = (int)(bytes - (int64_t)*blocks * TR_MPI_BLOCK);
}

static void broadcast(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root)
{
    const struct tr_mpi_group *g = tr_mpi_group(c);
    struct tr_pending p = {.call = "broadcast", .seq = ++c->seq, .blocking = true};
    unsigned char *at = inout->data;
    int blocks, rest;
    MPI_Request request;

    tr_mpi_settle(q);
    cut(tr_tensor_bytes(inout), &blocks, &rest);
    tr_mpi_begin(c, &p);
    if (blocks > 0) {
        tr_mpi_check(c, &p, MPI_Ibcast(at, blocks, g->block, root, g->comm, &request));
        tr_mpi_put(c, &p, request);
    }
    if (rest > 0) {
        tr_mpi_check(c, &p,
                     MPI_Ibcast(at + (int64_t)blocks * TR_MPI_BLOCK, rest, MPI_BYTE, root, g->comm,
                                &request));
        tr_mpi_put(c, &p, request);
    }
    tr_mpi_leave(c);
    tr_mpi_finish(c, NULL, &p);
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
    tr_mpi_check(c, p, rc);
    tr_mpi_put(c, p, request);
}

/* Both ends count alike, since both know the length of a message. */
static int tag_of(struct tr_mpi_peer *peer, bool gives)
{
    int *count = gives ? &peer->sent : &peer->taken, number = *count;

    *count = (number + 1) % TR_MPI_TAGS;
    return TR_MPI_TAG_LONG + number;
}

static void start_long(struct tr_comm *c, const struct tr_leg *leg, struct tr_pending *p)
{
    struct tr_mpi_slices *x = tr_mpi_room(c, p);
    const bool gives = leg->dir == TR_LEG_SEND;

    *x = (struct tr_mpi_slices){.comm = tr_mpi_group(c)->comm,
                                .size = c->size,
                                .tag = tag_of(&tr_mpi_group(c)->peer[leg->peer], gives),
                                .lanes = 1,
                                .give_to = leg->peer,
                                .take_from = leg->peer,
                                .from = gives ? leg->buf : NULL,
                                .to = gives ? NULL : leg->buf,
                                .bytes = leg->bytes,
                                .segment = TR_MPI_SEGMENT};
    tr_mpi_move(c, p, x);
}

/* Those of gather() come one by one. */
static bool is_long(const struct tr_comm *c, const struct tr_leg *leg, const struct tr_pending *p)
{
    return !p->blocking && leg->bytes > TR_MPI_SEGMENT && leg->peer >= 0 && leg->peer < c->size &&
           tr_mpi_group(c)->peer[leg->peer].far;
}

static void start_leg(struct tr_comm *c, const struct tr_leg *leg, struct tr_pending *p)
{
    unsigned char *at = leg->buf;
    int blocks, rest;

    if (is_long(c, leg, p)) {
        start_long(c, leg, p);
        return;
    }
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
    tr_mpi_settle(q);
    *p = (struct tr_pending){.call = "exchange", .seq = c->seq, .peers = n};
    for (int i = 0; i < n; i++)
        p->peer[i] = legs[i].peer;
    tr_mpi_begin(c, p);
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

    tr_mpi_begin(c, &p);
    tr_mpi_check(c, &p, MPI_Ibarrier(tr_mpi_group(c)->comm, &request));
    tr_mpi_put(c, &p, request);
    tr_mpi_leave(c);
    tr_mpi_finish(c, NULL, &p);
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
    tr_mpi_begin(c, p);
    start_leg(c, &take, p);
    start_leg(c, &give, p);
    tr_mpi_leave(c);
    tr_mpi_finish(c, NULL, p);
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

/* A thread of its own moves things, so MPI takes calls of several threads, and there is a lock between them. */
static bool hears(struct tr_comm *c)
{
    return tr_mpi_group(c)->progress != NULL;
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
    .allreduce = tr_mpi_allreduce,
    .allreduce_start = tr_mpi_allreduce_start,
    .poll = poll,
    .finish = tr_mpi_finish,
    .reduce_scatter = tr_block_reduce_scatter,
    .allgather = tr_block_allgather,
    .reduce_scatter_start = tr_mpi_reduce_scatter_start,
    .allgather_start = tr_mpi_allgather_start,
    .broadcast = broadcast,
    .exchange_start = exchange_start,
    .barrier = barrier,
    .gather_all = gather_all,
    .alarm = alarm,
    .alarmed = alarmed,
    .hears = hears,
    .waits = waits,
    .late = late,
};
