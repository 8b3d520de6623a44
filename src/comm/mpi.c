/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <math.h>
#include <stdlib.h>

#include "comm/flight.h"
#include "comm/mpi_group.h"
#include "comm/reduce.h"
#include "util/log.h"
#include "util/clock.h"

/* tests/comm has each rank take the others for those of other nodes. */
#ifndef TR_MPI_ALL_FAR
#define TR_MPI_ALL_FAR false
#endif

/* The world, for what happens when this process ends the job. */
static struct tr_mpi_group *the_world;
static MPI_Group neighbours; /* the ranks of this node */
static bool crowded;

/* ---- groups ---- */

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

static void make_ops(struct tr_mpi_group *g)
{
    MPI_Type_contiguous(TR_MPI_BLOCK, MPI_BYTE, &g->block);
    MPI_Type_commit(&g->block);
    MPI_Op_create(f16_sum, true, &g->half[0][0]);
    MPI_Op_create(f16_max, true, &g->half[0][1]);
    MPI_Op_create(bf16_sum, true, &g->half[1][0]);
    MPI_Op_create(bf16_max, true, &g->half[1][1]);
}

static void free_ops(struct tr_mpi_group *g)
{
    for (int i = 0; i < 4; i++)
        MPI_Op_free(&g->half[i / 2][i % 2]);
    MPI_Type_free(&g->block);
}

void tr_mpi_release(struct tr_comm *c)
{
    struct tr_mpi_group *g = tr_mpi_group(c);

    if (g) {
        tr_mpi_enter(c);
        tr_mpi_free_scratch(g);
        free_ops(g);
        MPI_Comm_free(&g->comm);
        tr_mpi_leave(c);
        free(g->world);
        free(g->peer);
    }
    free(g);
    c->state = NULL;
    c->size = 0;
}

static void *need(size_t count, size_t bytes, const char *group)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the communication group \"%s\"", group);
    return p;
}

/* Which ranks of the world are in the group, and whether one node has all of them: each rank finds
   the same, since one that is alone on a node lacks the others. */
static void find_members(struct tr_mpi_group *g, int size, const char *name)
{
    int *rank = need((size_t)size, sizeof *rank, name);
    int *place = need((size_t)size, sizeof *place, name);
    MPI_Group here, everywhere;

    for (int i = 0; i < size; i++)
        rank[i] = i;
    g->world = need((size_t)size, sizeof *g->world, name);
    MPI_Comm_group(g->comm, &here);
    MPI_Comm_group(MPI_COMM_WORLD, &everywhere);
    MPI_Group_translate_ranks(here, size, rank, everywhere, g->world);
    MPI_Group_translate_ranks(here, size, rank, neighbours, place);
    MPI_Group_free(&here);
    MPI_Group_free(&everywhere);
    g->peer = need((size_t)size, sizeof *g->peer, name);
    for (int i = 0; i < size; i++) {
        rank[i] = g->world[i];
        g->peer[i].far = TR_MPI_ALL_FAR || place[i] == MPI_UNDEFINED;
        g->spread = g->spread || g->peer[i].far;
    }
    g->members = tr_members_of(rank, size);
    free(place);
    free(rank);
}

static void find_neighbours(void)
{
    MPI_Comm node;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_group(node, &neighbours);
    MPI_Comm_free(&node);
}

/* Collective; the longest of all ranks.  The first times are those in which connections are made. */
static double there_and_back(const struct tr_comm *c)
{
    enum { TIMES = 4, THERE = 1, BACK = 2 };
    MPI_Comm comm = tr_mpi_group(c)->comm;
    const int next = (c->rank + 1) % c->size, last = (c->rank + c->size - 1) % c->size;
    double least = HUGE_VAL;

    for (int i = 0; i < TIMES; i++) {
        const double began = tr_now();
        MPI_Request request[3];

        MPI_Irecv(NULL, 0, MPI_BYTE, next, BACK, comm, &request[0]);
        MPI_Isend(NULL, 0, MPI_BYTE, next, THERE, comm, &request[1]);
        MPI_Recv(NULL, 0, MPI_BYTE, last, THERE, comm, MPI_STATUS_IGNORE);
        MPI_Isend(NULL, 0, MPI_BYTE, last, BACK, comm, &request[2]);
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
        least = fmin(least, tr_now() - began);
    }
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MAX, comm);
    return least;
}

/* Make *out the group behind `comm`, and own it.  Between enter() and leave() of another. */
static void wrap(MPI_Comm comm, const struct tr_mpi_group *from, struct tr_comm *out)
{
    struct tr_mpi_group *g = need(1, sizeof *g, out->name);

    g->comm = comm;
    g->crowded = &crowded;
    if (from) {
        g->progress = from->progress;
        g->watch = from->watch;
    }
    out->state = g;
    MPI_Comm_rank(comm, &out->rank);
    MPI_Comm_size(comm, &out->size);
    find_members(g, out->size, out->name);
    make_ops(g);
    if (g->spread)
        g->pace.there_and_back = there_and_back(out);
}

enum tr_status tr_mpi_split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out)
{
    enum tr_status status = TR_OK;
    MPI_Comm comm = MPI_COMM_NULL;

    *out = (struct tr_comm){.via = from->via, .name = name};
    tr_mpi_meet(from, "split");
    tr_mpi_enter(from);
    if (MPI_Comm_split(tr_mpi_group(from)->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm) !=
        MPI_SUCCESS)
        status = TR_FAIL(TR_ERESOURCE,
                         "MPI has no room for the communication group \"%s\"; look for a limit on "
                         "communicators in its settings",
                         name);
    else if (comm != MPI_COMM_NULL)
        wrap(comm, tr_mpi_group(from), out);
    tr_mpi_leave(from);
    status = tr_comm_agree(from, status);
    if (status != TR_OK)
        tr_mpi_release(out);
    return status;
}

/* ---- the world ---- */

static void take_all_along(int exit_code, const char *sentence)
{
    const double moment = 1.0;

    tr_flight_write_aside(TR_FLIGHT_ERROR, sentence);
    if (the_world && tr_progress_thread_enter_anyhow(the_world->progress))
        tr_watch_last_words(the_world->watch, sentence);
    tr_flight_wait(moment);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* Looking for a message that nobody sends makes MPI look at all that it has to do; each look moves
   a few fragments. */
static void move(void *ctx)
{
    enum { LOOKS = 8 };
    const struct tr_mpi_group *g = ctx;

    for (int i = 0, found; i < LOOKS; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, TR_MPI_TAG + 1, g->comm, &found, MPI_STATUS_IGNORE);
    tr_mpi_slices_move();
}

static void tick(void *ctx)
{
    const struct tr_mpi_group *g = ctx;

    tr_watch_tick(g->watch);
}

/* Where MPI cannot be called by one thread and then by another, it moves data in our calls only, and ranks
   that compute do not answer. */
static enum tr_status start_moving(struct tr_comm *world, int level)
{
    struct tr_mpi_group *g = tr_mpi_group(world);

    return level < MPI_THREAD_SERIALIZED ? TR_OK
                                         : tr_progress_thread_open(move, tick, g, &g->progress);
}

enum tr_status tr_comm_mpi_start(struct tr_comm *world)
{
    MPI_Comm comm;
    int level;
    enum tr_status s;

    *world = (struct tr_comm){.via = tr_flight_over(&tr_mpi_transport), .name = "world"};
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return TR_FAIL(TR_ERESOURCE, "MPI cannot start; start trireme with the mpiexec or srun of "
                                     "the MPI that it was built with");
    if (level < MPI_THREAD_FUNNELED) {
        MPI_Finalize();
        return TR_FAIL(TR_ERESOURCE, "this MPI cannot run with OpenMP threads "
                                     "(MPI_THREAD_FUNNELED); use one that can");
    }
    tr_on_die(take_all_along);
    /* A group of our own, since libraries use the world; all others inherit the error handler. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    find_neighbours();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    wrap(comm, NULL, world);
    the_world = tr_mpi_group(world);
    the_world->watch = tr_watch_open();
    tr_log_init(world->rank, world->size);
    s = tr_comm_agree(world, start_moving(world, level));
    if (s == TR_OK)
        tr_flight_world(world);
    else
        tr_comm_mpi_stop(world);
    return s;
}

void tr_comm_mpi_stop(struct tr_comm *world)
{
    struct tr_mpi_group *g = tr_mpi_group(world);
    struct tr_watch *watch = g->watch;

    /* What comes now waits for all ranks where nobody watches. */
    tr_mpi_meet(world, "end");
    tr_progress_thread_close(g->progress);
    g->progress = NULL;
    the_world = NULL;
    tr_flight_forget(world);
    tr_mpi_release(world);
    tr_watch_close(watch);
    MPI_Group_free(&neighbours);
    tr_on_die(NULL);
    MPI_Finalize();
}

void tr_comm_mpi_limit(struct tr_comm *world, double seconds)
{
    TR_ASSERT(world->via->over == &tr_mpi_transport && seconds > 0.0);
    tr_mpi_enter(world);
    tr_watch_limit(tr_mpi_group(world)->watch, seconds);
    tr_mpi_leave(world);
}

void tr_comm_mpi_crowded(struct tr_comm *world)
{
    if (world->via->over == &tr_mpi_transport)
        crowded = true;
}
