/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_COCKTAIL_PARTS_H
#define TR_DP_COCKTAIL_PARTS_H

#include "dp/cocktail.h"

#include <pthread.h>

/* For the files of dp/cocktail.h. */

struct cocktail_span {
    int id, pieces;
    struct tr_bucket *piece;   /* owned */
    int64_t *before;           /* elements in the pieces before each; owned */
    bool whole;                /* one piece that D divides: chunks are parts of the flat buffers */
    bool listed;               /* what is taken of a chunk is a list */
    int64_t chunk;             /* elements of a chunk */
    int64_t count;             /* how many a round takes of it */
    struct tr_sparse pack;     /* the message for so many */
    int64_t wire_at;           /* where that begins in the message of all spans */
    struct tr_tensor e;        /* its part of e */
    struct tr_tensor left;     /* TR_F16 [count]: what becomes of e where the round took some */
    struct tr_tensor list;     /* TR_I32 [D, count]: of x, for each chunk */
    struct tr_tensor own_list; /* TR_I32 [count]: of e */
};

/* A thread that does one thing at a time. */
struct cocktail_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    void (*job)(struct tr_cocktail *x, struct tr_queue *q);
    bool stop;
    double seconds;        /* of jobs of this round */
    struct tr_queue queue; /* of a device of its own */
};

enum cocktail_stage {
    COCKTAIL_IDLE,
    COCKTAIL_COMPRESS, /* 1 is computed, */
    COCKTAIL_UP,       /* is on its way; */
    COCKTAIL_AVERAGE,  /* 2 is computed, */
    COCKTAIL_DOWN,     /* is on its way; */
    COCKTAIL_READY     /* 3 can be */
};

struct tr_cocktail {
    struct tr_cocktail_how how;
    bool exact; /* nothing is left out or rounded */
    int rank, replicas, n;
    int64_t elems, bytes, stride; /* of a message; and from one to the next in memory */
    int64_t numbers, errors, round;
    struct cocktail_span span[TR_DP_SPANS];

    struct tr_tensor x, g, e;
    struct tr_tensor send, take,
        own;                    /* TR_U8: messages to and from each replica; the own average */
    struct tr_tensor y, sum, v; /* TR_F32: as many as the largest random-k part, twice; as top-k
                                   keeps of it */
    struct tr_tensor print;     /* TR_I64 [1] */
    unsigned char
        *look;     /* host memory for what tr_sparse_finite() reads, where a device has its own
                      memory */
    int32_t *list; /* the same for a list */
    unsigned char *seen; /* for tr_mask_list() */

    struct tr_comm *group;      /* borrowed */
    struct tr_pending *pending; /* [D - 1] */
    int under_way, arrived;     /* of them */
    enum cocktail_stage stage;
    bool threaded;
    double began, sent, ready; /* the round, a transfer, COCKTAIL_READY: by tr_now() */
    struct cocktail_worker worker;
    struct tr_cocktail_spent spent;
};

/* The message to or from replica c in `all`. */
struct tr_tensor cocktail_message(const struct tr_cocktail *x, const struct tr_tensor *all, int c);

/* 1, 2, the check of what arrived, and 3, on any queue. */
void cocktail_compress(struct tr_cocktail *x, struct tr_queue *q);
void cocktail_average(struct tr_cocktail *x, struct tr_queue *q);
bool cocktail_finite(struct tr_cocktail *x, struct tr_queue *q);
void cocktail_commit(struct tr_cocktail *x, struct tr_queue *q);

/* Start the thread; give it something to do; whether it is done, or wait for that; end it. */
enum tr_status cocktail_worker_open(struct tr_cocktail *x) TR_MUST_CHECK;
void cocktail_worker_begin(struct tr_cocktail *x,
                           void (*job)(struct tr_cocktail *x, struct tr_queue *q));
bool cocktail_worker_done(struct tr_cocktail *x, bool wait);
void cocktail_worker_close(struct tr_cocktail *x);

#endif
