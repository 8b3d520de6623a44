/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_COMM_H
#define TR_COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "util/status.h"

/*
 * A communicator is a group of ranks and the transport between them.  Every call is collective over
 * the group unless its comment says otherwise, and takes the queue on which its buffers are made
 * and used: they are memory of that queue's device, and the transfer keeps its place among the
 * operations of the queue.  With `q` NULL the buffers are host memory, and no operation on them is
 * under way.  Where the device computes in host memory both are the same.
 *
 * Transports: "self" (one rank; copies), "mpi" (host memory), "slow", which wraps one of them
 * (comm/slow.h), and "nccl", which wraps one for memory of GPUs (comm/nccl.h).  Only one thread of a
 * rank, the one that started MPI, may call them.
 *
 * Errors.  After setup a broken transport is broken for all ranks, so nothing returns a status: the
 * job ends through tr_die(), which names the group, the call and its sequence number in the group.
 * No call waits for ever: when one lasts longer than the limit (tr_comm_mpi_limit()), all ranks are asked
 * where they are, and the job ends with TR_ETEMP and a sentence that names those which did not come.
 * The one exception is split(): MPI makes groups in a call that cannot be polled, so a rank that hangs within
 * it, at the start of a run, is not detected by the others.
 * Time counts from when a rank begins to wait, so what ranks do between calls may take as long as the
 * limit and no longer, if others wait for them: reading, computing, saving.
 */
enum tr_redop { TR_SUM, TR_MAX };

struct tr_flight_group;

struct tr_comm {
    const struct tr_transport *via;
    const char *name; /* "world", "tp", "dp", "pp", "mp", "embed": in messages; static */
    int rank, size;
    uint64_t seq; /* collective calls so far; equal on all ranks when all is well */
    void *state;  /* owned by the transport */
    struct tr_flight_group *flight; /* of the flight recorder (comm/flight.h) */
};

/* Calls of this rank that follow one another, by the number of the first; comm/flight.h. */
struct tr_flight_mark {
    uint64_t first;
    int count; /* 0: none is recorded */
};

/* One side of a message between two ranks. */
struct tr_leg {
    enum { TR_LEG_SEND, TR_LEG_RECV } dir;
    int peer;      /* rank within the group */
    void *buf;     /* borrowed until the exchange is finished */
    int64_t bytes; /* the same at both ends, known to both beforehand */
};

/* A transfer that is under way; opaque, filled by the *_start calls, one finish() each.  It holds
   its handles itself, so that nothing is allocated when a transfer starts. */
enum { TR_MAX_LEGS = 4, TR_MAX_REQUESTS = 2 * TR_MAX_LEGS, TR_ABOUT_BYTES = 256 };
struct tr_pending {
    const char *call; /* what was started, and the number of it in the group: */
    uint64_t seq;     /*   for the sentence when it breaks */
    bool on_device;   /* the buffers are memory of a GPU: nccl alone sets it */
    bool blocking;    /* of a call that waits itself: mpi alone sets it */
    int count;
    void *request[TR_MAX_REQUESTS]; /* the transport's own handles */
    int peers, peer[TR_MAX_LEGS];   /* of an exchange: the ranks at the other ends */
    char about
        [TR_ABOUT_BYTES]; /* what it moves, names with ", " between, for a hang report; the caller may set it
                                   after the start */
    void *scratch;                /* the transport's own */
    struct tr_flight_mark flight; /* the flight recorder's */
};

struct tr_transport {
    const char *name;
    const struct tr_transport
        *over; /* of a table that records the calls of another one: that one */

    /* Transfers under way are work of the device: they keep the order in which they were started, also
       among those of other groups, and go on without poll().  finish() makes the queue wait, not the
       host, and so does a blocking call.  Then every rank must start its transfers of all groups
       in an order that does not depend on when something was done. */
    bool queues;

    /* A group of the ranks of `from` that give the same color, ordered by key; NULL transport state
       and size 0 for color < 0.  `name` is static.  TR_ERESOURCE on all ranks of `from` when there
       is no room for another group on one of them. */
    enum tr_status (*split)(struct tr_comm *from, int color, int key, const char *name,
                            struct tr_comm *out) TR_MUST_CHECK;
    /* Also of a group of size 0. */
    void (*release)(struct tr_comm *c);

    /* inout (any type but integers) = sum or maximum over the ranks, the same bits on all of them and
       in every run with the same operands, ranks and shapes, started or not, and wherever the ranks are.
       fp16 and bf16 are added in float, and rounded at the end or after each sum of two. */
    void (*allreduce)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op);
    /* The same, under way while the caller computes (comm/progress_thread.h); poll() helps it along and says
       whether it is done; finish() waits, also after a poll() that said so.  `inout` belongs
       to the transport until then.  Any number may be under way; all ranks start them in the same
       order, blocking calls among them, and may finish them in any.  poll() and finish() are not
       collective. */
    void (*allreduce_start)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p);
    bool (*poll)(struct tr_comm *c, struct tr_pending *p);
    void (*finish)(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p);

    /*
     * out (n elements) = sum or maximum over the ranks of the slice `rank` of `in` (size * n
     * elements of the same type, any but integers).  `out` may be that slice itself, and overlaps
     * `in` nowhere else; the other slices of `in` are undefined afterwards.  Summed in the order
     * of the ranks, fp16 and bf16 in float and rounded once at the end, so an element's bits depend
     * neither on n nor on its place.  The transport keeps, from its first call on, room for `in`
     * once more for each one under way.
     */
    void (*reduce_scatter)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *in, enum tr_redop op);
    /* Slice `rank` of inout (size * n elements, any type) is what this rank contributes; afterwards
       all slices are there.  In place: nothing else of inout is read. */
    void (*allgather)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout);
    /* The same two, under way as for allreduce_start(): all *_start calls of a group share one
       order.  `in`, `out` and `inout` belong to the transport until finish(). */
    void (*reduce_scatter_start)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op,
                                 struct tr_pending *p);
    void (*allgather_start)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p);

    /* Any type. */
    void (*broadcast)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      int root);

    /* Not collective: the ranks named in the legs, at most TR_MAX_LEGS.  All legs are under way
       when start() returns, so two ranks may both send first.  Between two ranks the i-th send
       meets the i-th receive, in the order of the legs and of the calls; there are no tags.  Ends
       with finish().  On "self" the send and the receive of a message are in one call. */
    void (*exchange_start)(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                           struct tr_pending *p);

    void (*barrier)(struct tr_comm *c);
    /* `bytes` of `mine` from each rank, in rank order, into all[size * bytes] on every rank; host
       memory.  For setup and reports, not for steps. */
    void (*gather_all)(struct tr_comm *c, const void *mine, int64_t bytes, void *all);

    /* Of the world only, not collective, and neither waits.  alarm() reports to all other ranks
       that this one cannot go on, and why (one line, TR_ALARM_BYTES with its end): it ends the job
       next, or calls late() if it `asks` who is missing, so that one of those that know ends the
       job. alarmed() is the first report that this rank received, or NULL; static storage. */
    void (*alarm)(struct tr_comm *c, const char *why, bool asks);
    const char *(*alarmed)(struct tr_comm *c);

    /* Whether another thread than the one that started the transport may call alarm(), alarmed(), waits() and
       late() while that one is elsewhere.  NULL: no. */
    bool (*hears)(struct tr_comm *c);

    /* For a transport that wraps this one and waits by itself, of the group it waits for; not
       collective.  waits() says for whom asks that this rank waits since `since` (tr_now()) in a
       call of the other one's; to be said again every second.  late() finds out who did not come,
       reports it, and ends the job with TR_ETEMP; `call` and `group` names are static. */
    void (*waits)(struct tr_comm *c, const char *call, uint64_t seq, double since);
    void (*late)(struct tr_comm *c, const char *call, uint64_t seq, double since);
};
enum {
    TR_ALARM_BYTES = 512,
    TR_HOST_BYTES = 64 /* of a host, with its end: longer names are truncated */
};

/* The group of one. */
void tr_comm_self(struct tr_comm *out);

/*
 * Start MPI (once per process) and give the world.  Sets tr_on_die() to MPI_Abort and
 * tr_log_init().  TR_ERESOURCE when MPI cannot start.  tr_comm_mpi_stop() ends it; call it last, on
 * every rank, when all other groups are released.
 */
enum tr_status tr_comm_mpi_start(struct tr_comm *world) TR_MUST_CHECK;
void tr_comm_mpi_stop(struct tr_comm *world);

/* How long a rank waits for others in one call of MPI: 10 minutes unless set.  `world` is that of
   tr_comm_mpi_start().  Not collective, but all ranks should say the same. */
void tr_comm_mpi_limit(struct tr_comm *world, double seconds);

/* There are more ranks than cores on this node: a rank that waits sleeps between looks sooner than
   elsewhere, so that those it waits for have the cores.  Does nothing to other transports than MPI.  Not collective. */
void tr_comm_mpi_crowded(struct tr_comm *world);

/*
 * The worst status of all ranks, the same on all of them.  Setup code calls it after each step
 * that can fail on one rank alone (a file that only rank 3 cannot read), so that all stop together
 * and none hangs.  On failure tr_last_error() is on every rank the sentence of the lowest rank with
 * the worst status, followed by " (rank R on HOST)" when the group has more than one rank.
 */
enum tr_status tr_comm_agree(struct tr_comm *c, enum tr_status mine) TR_MUST_CHECK;

/* Maximum of a small integer (below 2^53) over the ranks: for decisions that all must take
   together. */
int64_t tr_comm_max(struct tr_comm *c, int64_t mine);

#endif
