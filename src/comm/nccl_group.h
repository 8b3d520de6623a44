/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_NCCL_GROUP_H
#define TR_COMM_NCCL_GROUP_H

#include "comm/nccl.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_libs.h"

/*
 * What the parts of the transport "nccl" share; internal to comm/.  nccl.c makes groups, nccl_call.c
 * moves data, nccl_fault.c finds out what broke.
 */

/* A call that the GPU has or had to do. */
struct tr_nccl_call {
    struct tr_nccl_call *next;
    cudaEvent_t done;
    const char *name;             /* "all-reduce" */
    uint64_t seq;                 /* of its group */
    uint64_t number;              /* of all calls of this rank */
    bool held;                    /* by a struct tr_pending */
    struct tr_flight_mark flight; /* its records, which end with it */
};

/* The call that this rank has waited for longest, as of the last look; none if group is NULL. */
struct tr_nccl_longest {
    struct tr_nccl_group *group;
    const char *call;
    uint64_t seq;
    double since;
};

struct tr_nccl_world {
    struct tr_comm *inner;
    struct tr_cuda *gpu;
    struct tr_nccl_how how;
    struct tr_nccl_group *groups;
    struct tr_nccl_call *idle;
    uint64_t calls;
    struct tr_nccl_longest longest;
    size_t left;                 /* bytes of this GPU before NCCL was used */
    int64_t bytes;               /* that it took; 0 before tr_comm_nccl_warm() */
    struct tr_nccl_guard *guard; /* where calls block; else NULL */
    const struct tr_nccl_group
        *stuck;     /* the rank's own thread is inside a call of it, and another ends the job */
    double looked;  /* when the faults were looked for last */
    bool registers; /* groups register the memory of the GPU */
    bool warming;   /* these are the first calls: one that fails may find no memory */
    bool broken;    /* a group could not be made: communicators are given up, not closed */
};

/* The state of a struct tr_comm. */
struct tr_nccl_group {
    struct tr_nccl_group *next;
    struct tr_nccl_world *world;
    const char *name;
    int rank, size;
    struct tr_comm *inner; /* the same ranks, for host memory */
    struct tr_comm own;    /* what `inner` points to, except for the world */
    struct tr_comm alone;  /* what a group of one rank copies with */
    ncclComm_t comm;       /* NULL for a group of one */
    void *registration;
    cudaStream_t stream;               /* of transfers that were started; NULL for a group of one */
    struct tr_cuda_pace pace;          /* of that stream */
    cudaEvent_t ready;                 /* what they wait for; made anew for each */
    struct tr_nccl_call *first, *last; /* under way, in the order of the calls */
    uint64_t waited; /* the number of the call that was the oldest in the last look, and */
    double since;    /*   since when */
};

/* nccl_call.c: the calls, and everything that a group has under way is done. */
extern const struct tr_transport tr_nccl_transport;
void tr_nccl_drain(struct tr_nccl_group *g);
/* Forget the calls that are done. */
void tr_nccl_retire(struct tr_nccl_group *g);

/* nccl.c */
enum tr_status tr_nccl_split(struct tr_comm *from, int color, int key, const char *name,
                             struct tr_comm *out) TR_MUST_CHECK;
void tr_nccl_release(struct tr_comm *c);
/* Bytes of the GPU that nobody has. */
size_t tr_nccl_left(const struct tr_nccl_world *w);

/*
 * nccl_fault.c.  Wait until what a call that does not block began on `comm` is over, and return how
 * it ended.  ncclInProgress stands for: not within the time limit, or another rank failed, and
 * then *heard (NULL at first) is what it told.
 */
ncclResult_t tr_nccl_settle(struct tr_nccl_world *w, ncclComm_t comm, ncclResult_t result,
                            const char **heard);

/* The same in a step, where every failure ends the job. */
void tr_nccl_must(struct tr_nccl_group *g, const char *call, uint64_t seq, ncclResult_t result);

/* tr_cuda.watch: `ctx` is the world. */
void tr_nccl_watch(void *ctx);

/* End the job, from another thread, while the rank's own is inside a call of NCCL: `told` is what another rank told, or
   NULL where the call is late. */
_Noreturn void tr_nccl_end_in_call(struct tr_nccl_group *g, const char *call, uint64_t seq,
                                   double since, const char *told);

/*
 * nccl_guard.c.  Where calls of NCCL block each stands between enter() and leave(), which does not
 * return when another thread has begun to end the job meanwhile.  Elsewhere these do nothing.
 */
enum tr_status tr_nccl_guard_open(struct tr_nccl_world *w) TR_MUST_CHECK;
void tr_nccl_guard_close(struct tr_nccl_world *w);
void tr_nccl_enter(struct tr_nccl_group *g, const char *call, uint64_t seq);
void tr_nccl_leave(const struct tr_nccl_world *w);

/* NCCL's own words for an error. */
const char *tr_nccl_words(ncclComm_t comm, ncclResult_t result);

#endif
