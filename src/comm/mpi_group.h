/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_MPI_GROUP_H
#define TR_COMM_MPI_GROUP_H

#include <limits.h>
#include <mpi.h>

#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "comm/mpi_slices.h"
#include "comm/watch.h"

/*
 * Common parts of the transport "mpi"; internal to comm/.  mpi.c makes groups, mpi_call.c moves
 * data, mpi_sum.c has reductions and gathers, large slices of these by mpi_slices.c.
 *
 * MPI counts in int.  A message of more than TR_MPI_WHOLE bytes goes as many blocks of TR_MPI_BLOCK
 * bytes and a remainder, an all-reduce of more than TR_MPI_WHOLE elements in parts.  tests/comm
 * compiles these files with small values, so that they test these paths.
 */
#ifndef TR_MPI_WHOLE
#define TR_MPI_WHOLE INT_MAX
#define TR_MPI_BLOCK (1 << 20)
#endif

/* All messages of exchanges have the same tag: MPI does not let messages between two ranks overtake.  Those
   that a blocking call sends must not be taken for them; and nobody sends TR_MPI_TAG + 1.  What goes in
   segments has a tag of its own: TR_MPI_TAGS, more than are under way at once, for sums and gathers, and as many
   for messages between two ranks. */
enum {
    TR_MPI_TAG = 1,
    TR_MPI_TAG_GATHER = 3,
    TR_MPI_TAG_SLICES = 16,
    TR_MPI_TAGS = 4096,
    TR_MPI_TAG_LONG = TR_MPI_TAG_SLICES + TR_MPI_TAGS
};

struct tr_mpi_scratch;

struct tr_mpi_peer {
    bool far;        /* on another node */
    int sent, taken; /* messages that went in segments, modulo TR_MPI_TAGS */
};

struct tr_mpi_group {
    MPI_Comm comm;
    MPI_Datatype block;             /* TR_MPI_BLOCK bytes */
    MPI_Op half[2][2];              /* [bf16][maximum]: MPI has no fp16 or bf16, so they are ours */
    struct tr_mpi_scratch *idle[2]; /* without contents, with */
    struct tr_progress_thread *progress; /* of the process, */
    struct tr_watch *watch;              /*   like this */
    int *world;                          /* the rank in the world of each rank of the group */
    struct tr_members members;
    bool spread; /* its ranks are on more than one node: */
    struct tr_mpi_pace pace;
    struct tr_mpi_peer *peer; /* for each of them */
    bool *crowded;            /* of the process, too: tr_comm_mpi_crowded() */
};

static inline struct tr_mpi_group *tr_mpi_group(const struct tr_comm *c)
{
    return c->state;
}

/* Calls of MPI stand between these two. */
static inline void tr_mpi_enter(const struct tr_comm *c)
{
    tr_progress_thread_enter(tr_mpi_group(c)->progress);
}

static inline void tr_mpi_leave(const struct tr_comm *c)
{
    tr_progress_thread_leave(tr_mpi_group(c)->progress);
}

/* mpi.c */
enum tr_status tr_mpi_split(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out) TR_MUST_CHECK;
void tr_mpi_release(struct tr_comm *c);

/* mpi_call.c: the table, */
extern const struct tr_transport tr_mpi_transport;

/* All ranks of the group have come; `call` is static.  Before calls of MPI that wait for them and cannot be
   polled. */
void tr_mpi_meet(struct tr_comm *c, const char *call);

/* Host memory is read and written, so the queue must have finished with it. */
void tr_mpi_settle(struct tr_queue *q);

/* enter() where the call `p` begins; `p` has another request; leave(), and does not return, when `rc` is an
   error of MPI; wait for `p`. */
void tr_mpi_begin(struct tr_comm *c, const struct tr_pending *p);
void tr_mpi_put(struct tr_comm *c, struct tr_pending *p, MPI_Request request);
void tr_mpi_check(const struct tr_comm *c, const struct tr_pending *p, int rc);
void tr_mpi_finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p);

/* mpi_sum.c: calls of the table, */
void tr_mpi_allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op);
void tr_mpi_allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p);
void tr_mpi_reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op,
                                 struct tr_pending *p);
void tr_mpi_allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p);

/*
 * and what large transfers need.  Between enter() and leave(): room for another one that belongs to `p`, to be
 * filled and moved; how many there are, and whether all are over, which does not return when one broke.
 * put_back(), outside, when `p` is done.
 */
struct tr_mpi_slices *tr_mpi_room(struct tr_comm *c, struct tr_pending *p);
void tr_mpi_move(struct tr_comm *c, const struct tr_pending *p, struct tr_mpi_slices *x);
int tr_mpi_moving(const struct tr_pending *p);
bool tr_mpi_moved(const struct tr_comm *c, const struct tr_pending *p);
void tr_mpi_put_back(struct tr_comm *c, struct tr_pending *p);
void tr_mpi_free_scratch(struct tr_mpi_group *g);

#endif
