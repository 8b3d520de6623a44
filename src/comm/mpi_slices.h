/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_MPI_SLICES_H
#define TR_COMM_MPI_SLICES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Large transfers in segments; internal to comm/.  Either each rank of a group sends a slice to each other one,
 * and receives one from each: the traffic of a reduce-scatter and of an all-gather.  Or it is one message, to
 * one rank or from it: one lane.
 *
 * Segments go to each rank in turn, the next one of the group first, then the second one to each.
 * In slices a rank has sent at most some more than have arrived, so nobody is sent to faster than
 * it sends itself.  Where links are slow this is what counts: what all send to one fills the
 * buffers of the network, which drops it, and a message above MPI's eager limit waits for the
 * receiver's answer, which queues behind all that the receiver sends.  At 500 Mbit/s the calls of
 * MPI reach 350 to 410 of the 478 that TCP leaves (Open MPI 4.1), these 460, and two large messages
 * that cross reach 230, these 470; where links are fast there is no difference.
 *
 * How many more is found out between nodes: as many as arrive in the time of a way there and back and 15 ms.
 * What is too few for a node that is 20 ms away is 80 ms of what a link of 100 Mbit/s carries.
 *
 * Everything here stands between enter() and leave() of the transport; nothing waits.
 */

/* Between nodes: Open MPI sends up to 64 KiB, header included, eagerly over TCP.  Within a node
   each segment needs both ranks to be at work, which may share a core. */
#ifndef TR_MPI_SEGMENT
#define TR_MPI_SEGMENT 61440
#define TR_MPI_SEGMENT_NODE (1 << 20)
#endif
enum { TR_MPI_AHEAD = 16, TR_MPI_AHEAD_MOST = 64 };

/* What a group knows of its links; given: the first one, all else zero. */
struct tr_mpi_pace {
    double there_and_back; /* seconds to the next rank and back, where nothing else is sent */
    double each;           /* seconds from one segment to the next; 0: not known */
    double since;          /* when the latest of those seen before arrived, */
    int seen;              /*   and how many since then */
};

struct tr_mpi_slices {
    /* Given: */
    MPI_Comm comm;
    int size; /* of the group */
    int tag;  /* none of another one that is under way in this group */
    /* Ranks that are sent to, the first one and those after it, and received from, the first one and
       those before it. */
    int lanes, give_to, take_from;
    const unsigned char *from; /* of rank r at from + r * from_step; NULL: nothing is sent */
    unsigned char *to;         /* of rank r at to + r * to_step; NULL: nothing is received */
    int64_t from_step, to_step;
    int64_t bytes;            /* to each of these ranks, and from each, */
    int64_t segment;          /* at most so many at once */
    struct tr_mpi_pace *pace; /* NULL: TR_MPI_AHEAD segments; borrowed */
    /* NULL, or what comes next when all is sent and received, by whoever finds that out: it may call
       tr_mpi_slices_again(). */
    void (*over)(struct tr_mpi_slices *x);

    /* Its own.  Segments to be received, of these posted, arrived; to be sent, of these started, gone. */
    int64_t takes, posted, arrived, gives, started, gone;
    MPI_Request take[TR_MPI_AHEAD_MOST], give[TR_MPI_AHEAD_MOST];
    int error; /* of MPI, which ends it */
    struct tr_mpi_slices *next;
};

/* `x`, what it points to included, stays where it is until done() says so. */
void tr_mpi_slices_start(struct tr_mpi_slices *x);

/* Within x->over(), with other things given: all once more. */
void tr_mpi_slices_again(struct tr_mpi_slices *x);

/* Let all that are under way in this process make progress. */
void tr_mpi_slices_move(void);

/* Whether nothing is left to do, or x->error is not MPI_SUCCESS. */
bool tr_mpi_slices_done(const struct tr_mpi_slices *x);

#endif
