/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_COCKTAIL_H
#define TR_DP_COCKTAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/mask.h"
#include "codec/sparse.h"
#include "comm/comm.h"
#include "dp/buckets.h"
#include "dp/spans.h"
#include "util/arena.h"

/*
 * CocktailSGD (Wang et al., ICML 2023): local SGD, in which replicas diverge and exchange, once per
 * step, compressed weight deltas (random-k and top-k sparsified, quantized) to a reference that is
 * equal on all of them, with error feedback.
 *
 *     x   fp32 [N]     the weights of this replica: the masters of its optimizer
 *     g   fp16 [N]     the reference; equal to the bit on all replicas
 *     e   fp16 [N/D]   error feedback of the averages of the chunk that this replica serves
 *
 * N numbers are split into D chunks; replica c serves chunk c.  A round, for each chunk:
 *     1  each replica takes a random-k part of it (codec/mask.h), the same on all, rounds x - g to fp16, makes a
 *        message of it (codec/sparse.h) and sends it to the one that serves the chunk
 *     2  that one makes s = (sum of the D messages in the order of replicas) / D + e, sends a message of s
 *        to all, and keeps what that leaves of s: it becomes e
 *     3  each replica adds to g what the message of 2 says, and to x that less what its own message of 1
 *        said
 * Until 3, the commit, x, g and e are only read.  A round that found a number that is not finite is seen by
 * all replicas, since what is not finite stays so in every message that it enters, and is dropped whole.
 *
 * What is not sent stays in x - g and is sent later.  Where nothing is left out or rounded (the ratio and
 * keep are 1, bits are TR_SPARSE_FLOATS) there is neither g nor e: 1 sends x itself and 3 puts the mean of
 * the x in its place, with the bits of a reduce-scatter, a product with 1 / D and an all-gather.
 *
 * Spans.  Which numbers are the largest depends on their neighbours, so numbers that ranks of other
 * groups hold as well, and must keep equal, are a span of their own, the same on all of them.  A span
 * may consist of several pieces, which count as if they lay one behind the other; chunks have
 * ceil(elements / D) numbers, the last ones fewer.
 *
 * Bytes.  Of each round a replica sends (D - 1) messages of tr_cocktail_bytes() in 1 and as many in 2: for
 * one span whose elements D divides, chosen by rolling, (N / D) R / 8 each, R = p (1 + k (bits +
 * 16 / bucket)), where p is 1 / (int) (1 / ratio) and k the part that is kept, if these give whole
 * numbers.  The 1, the mask of what is kept, is missing where all is.  Several spans in one message begin
 * at multiples of 16 bytes.
 *
 * Stochastic rounding.  Number j of a message has draw place + j of (seed, replica, round), place = 2^36 times
 * ((part * TR_DP_SPANS + span) * (replicas + 1) + c), c the chunk of 1, or replicas for the average of 2.  So it
 * does not depend on threads, on the time, or on a resume.
 *
 * Time.  In host memory a thread of its own computes 1 and 2 while the caller goes on, and the caller moves
 * the messages on with tr_cocktail_poll().  Elsewhere, and without `overlap`, all of it happens in
 * tr_cocktail_join().  Results are the same.
 */
struct tr_cocktail_how {
    struct tr_mask_how mask; /* `multiple` is set to the bucket of `pack` */
    struct tr_sparse_how pack;
    bool overlap;
    int part; /* number of the rank's part of the model, so that each has draws of its own */
};

struct tr_cocktail;

/* For replica `rank` of `replicas` (2 or more) with flat buffers of `elems`; without memory or transfers.
   `spans` are copied.  TR_ECONFIG when there are too many elements for a choice that is a list. */
enum tr_status tr_cocktail_open(const struct tr_cocktail_how *how, const struct tr_dp_span *spans,
                                int n, int64_t elems, int rank, int replicas,
                                struct tr_cocktail **out) TR_MUST_CHECK;
void tr_cocktail_close(struct tr_cocktail *x);

/* Take memory ("compression"); see util/arena.h. */
void tr_cocktail_plan(struct tr_cocktail *x, struct tr_arena *a);

/* When the memory is there: who takes part, and a thread.  `group` are the replicas, borrowed, and nobody else
   uses it; `values` are the x (TR_F32 [elems]), borrowed, on the device of `q`.  Collective over `group`;
   TR_ERESOURCE on all of its ranks. */
enum tr_status tr_cocktail_connect(struct tr_cocktail *x, struct tr_comm *group,
                                   const struct tr_queue *q,
                                   const struct tr_tensor *values) TR_MUST_CHECK;

/* A round begins.  At the very first one the x must be equal on all replicas: g is made of them.  Until the
   commit x may be read but not written.  Like all calls below, on all ranks of the group, but at any time. */
void tr_cocktail_begin(struct tr_cocktail *x, struct tr_queue *q);

/* Let it make progress; now and then while the rank computes or waits for something else.  Whether
   there is more to come; false without a round that overlaps the caller, or where x is NULL. */
bool tr_cocktail_poll(struct tr_cocktail *x);

/* Wait until all messages are there; whether all that they say is finite, which is the same on all ranks of
   the group. */
bool tr_cocktail_join(struct tr_cocktail *x, struct tr_queue *q);

/* The end of a round that was joined: change x, g and e, or leave them as they are.  Groups that hold copies
   of a span decide alike. */
void tr_cocktail_commit(struct tr_cocktail *x, struct tr_queue *q, bool good);

/* A fingerprint of what is equal on all replicas: g, or where there is none x, until it changes.
   Waits for the queue. */
uint64_t tr_cocktail_print(struct tr_cocktail *x, struct tr_queue *q);

/* Of one message of 1 or 2 to one replica, and the numbers that it stands for. */
int64_t tr_cocktail_bytes(const struct tr_cocktail *x);
int64_t tr_cocktail_numbers(const struct tr_cocktail *x);

/* Seconds of the last round: in which 1 and 2 were computed, by whichever thread; in which messages were
   under way, as seen by calls of tr_cocktail_poll(); in which the commit was computed.  Of these the caller
   waited in tr_cocktail_join() for some that it did not compute itself (exposed), and others went by before
   (hidden, 0 without overlap). */
struct tr_cocktail_spent {
    double compress, wire, decompress, exposed, hidden;
};
struct tr_cocktail_spent tr_cocktail_spent(const struct tr_cocktail *x);

/* What a checkpoint keeps besides x; *round counts those that were begun, and is -1 before the first. */
struct tr_cocktail_state {
    int64_t *round;
    struct tr_tensor g, e; /* without data where nothing is left out or rounded */
};
struct tr_cocktail_state tr_cocktail_state(struct tr_cocktail *x);

#endif
