/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_SCHED_H
#define TR_PIPELINE_SCHED_H

#include <stdbool.h>
#include <stdio.h>

#include "config/route.h"
#include "util/status.h"
#include "telemetry/timer.h"

/*
 * A pipeline schedule is data: for each rank, the list of instructions that one training step (or
 * one evaluation step) executes.  Building and checking a list needs no MPI, no device and no
 * model; pipeline/exec.c walks it.
 *
 *   TR_FWD, TR_BWD  compute chunk `at[0].chunk` on micro-batch `at[0].micro`
 *   TR_WGT          where the backward pass is split: the gradients of weights, which TR_BWD of the same
 *                   micro-batch has left out; no message depends on them
 *   TR_XFER         start every leg in `legs` at once, then wait for all; at[i] is what leg i
 *                   (bit 1 << i) carries, in this rank's numbering of chunks
 *   TR_START        start every leg in `legs`, and go on
 *   TR_WAIT         wait for those legs, which were started before; at[i] says which
 *   TR_FETCH and those behind it  where weights and gradients are: pipeline/residency.h adds them, and they
 *                   are done while the computation before them runs
 *
 * A leg is one of the bits of enum tr_leg_bit: activations go to the next chunk (SEND_FWD) and come
 * from the one before (RECV_FWD), gradients the other way.  at[] of SEND_FWD and RECV_BWD name the
 * chunk of this rank that made the activation; at[] of RECV_FWD and SEND_BWD the one that takes it.
 * The set of legs names the timer that the transfer is charged to, which is how a log comes to show
 * "backward-send-forward-recv".
 *
 * Where the chunk is that comes after another one says config/route.h.
 */
enum tr_instr_kind {
    TR_FWD,
    TR_BWD,
    TR_WGT,
    TR_XFER,
    TR_START,
    TR_WAIT,
    TR_FETCH,
    TR_ACQUIRE,
    TR_CLEAR,
    TR_MODULE,
    TR_RELEASE,
    TR_REDUCE,
    TR_SETTLE
};

/* No more messages of one leg and side are under way at once.  The messages of a leg with one neighbour are a side:
   on a vee those of each chunk have their own. */
enum { TR_FLIGHTS = 2, TR_SIDES = 2 };

struct tr_slot {
    int chunk, micro;
};

struct tr_instr {
    enum tr_instr_kind kind;
    unsigned legs;
    struct tr_slot at[TR_LEGS];
    int item;   /* of TR_FETCH and those behind it: a part, or with TR_MODULE a module */
    int window; /* of TR_FETCH: the one that the part takes */
};

/* Whether it is one of the first three: a pass of a chunk. */
bool tr_instr_computes(const struct tr_instr *in);

/* TR_SCHED_EVAL runs forwards only.  The others are the values of --pipeline-schedule. */
enum tr_sched_kind {
    TR_SCHED_GPIPE,
    TR_SCHED_1F1B,
    TR_SCHED_INTERLEAVED,
    TR_SCHED_ZB_H1,
    TR_SCHED_ZB_V,
    TR_SCHED_EVAL
};

struct tr_sched {
    /* What is wanted: filled by the caller of tr_sched_build(). */
    enum tr_sched_kind kind;
    int ranks, rank, chunks, micros; /* P, 0..P-1, K, M */
    int group;    /* N: with chunks > 1, micro-batches that a chunk takes before the
                     next chunk has its turn, P <= N <= M; 0: P */
    bool overlap; /* with chunks > 1: compute while messages are under way */
    bool vee;     /* the form of the route; zb-v sets it */

    /* What tr_sched_build() makes of it. */
    bool split; /* TR_BWD computes the gradient of the input alone, and TR_WGT those of weights */
    int outputs, dinputs, doutputs; /* buffers of each chunk for SEND_FWD, SEND_BWD, RECV_BWD;
                                       micro-batch i uses number i % count */
    int inputs; /* the same for RECV_FWD, from which a forward takes its input to where the micro-batch is
                   kept; 0: it is received there */
    int n;
    struct tr_instr *list; /* [n], owned */
};

struct tr_route tr_sched_route(const struct tr_sched *s);

/*
 * The rank with which a chunk of this rank exchanges the messages of a leg; -1 where there are none: beyond either end
 * of the model, and where the other chunk is on this rank, too.  That chunk is tr_sched_local(), otherwise -1; its
 * result is used where it lies, in TR_FWD or TR_BWD, and until then its buffer is taken.
 */
int tr_sched_peer(const struct tr_sched *s, enum tr_leg_bit leg, int chunk);
int tr_sched_local(const struct tr_sched *s, enum tr_leg_bit leg, int chunk);
int tr_sched_side(const struct tr_sched *s, int chunk);

/* Whether lists of that kind have TR_WGT. */
bool tr_sched_splits(enum tr_sched_kind kind);

/*
 * Fill the list of the rank that `s` names; free it with tr_sched_release(), also after a failure.
 * TR_ECONFIG if the kind cannot do these numbers: gpipe, 1f1b and zb-h1 need chunks == 1, zb-v and all others on a
 * vee 2, interleaved needs chunks > 1; with chunks > 1 there must be at least two ranks, and on a ring N in P..M, and what M / N
 * leaves over must be 0 or at least P (Narayanan et al., SC 2021, section 2.2, where N is P).
 *
 *   gpipe        all forwards, then all backwards (Huang et al., NeurIPS 2019).
 *   1f1b         min(P - 1 - rank, M) forwards, then pairs, then the other backwards (Narayanan et
 *                al., section 2.2.1).
 *   interleaved  forwards and backwards in the order of section 2.2.2, min(2 (P - 1 - rank) +
 *                (K - 1) N, K M) forwards first; where M == P Megatron-LM runs all forwards first,
 *                and this list does not.
 *   zb-h1        1f1b with the backward pass split: rank r computes the gradients of the weights of
 *                micro-batch i behind the backward of micro-batch i + r, so that every rank holds
 *                min(P, M) micro-batches, as the first one of 1f1b does (Qi et al., ICLR 2024,
 *                section 2.2).  Always with `overlap`: a result travels while weights have their turn.
 *   zb-v         the backward pass split on a vee: forwards until a rank holds 2 P chunks, then a forward, a backward
 *                and the weights of each of its chunks in turn (Qi et al., ICLR 2024, section 6, in the order of
 *                PyTorch's ScheduleZBVZeroBubble).  Where F, B and W of a chunk take as long as one another, a step
 *                takes 6 M + P - 1 of their ticks, and a rank holds 2 P chunks, as the first one of 1f1b
 *                does.  Always with `overlap`.
 *
 * With `overlap` an activation travels during the backward that follows its forward, and a gradient
 * during the forward that follows its backward.  It is waited for just before it is read; what was
 * sent, two messages later.  Without, each transfer ends before the next computation.
 */
enum tr_status tr_sched_build(struct tr_sched *s) TR_MUST_CHECK;
void tr_sched_release(struct tr_sched *s);

/*
 * How many micro-batches of `chunk` the list keeps alive at once: from the arrival of the input (or
 * the start of the forward on the first stage, and where inputs have buffers) to the end of the backward (eval: of the forward);
 * at least 1.  They are always consecutive, so what is stored of micro-batch i may lie in slot
 * i % tr_sched_slots().
 */
int tr_sched_slots(const struct tr_sched *s, int chunk);

/*
 * The same for all chunks at once, slots[chunks], and for pools: chunk c takes from pool kind[c], which is
 * at most c, and pool[kind] is how many micro-batches of all its chunks are alive at once, where the
 * backward pass is split to the end of TR_WGT, which come in the order of micro-batches.  Both are
 * raised to what this list takes, so that they may be asked of several.
 */
void tr_sched_room(const struct tr_sched *s, const int *kind, int *slots, int *pool);

/*
 * In the middle of a long step every group of tr_sched_repeats() micro-batches is like the one before.
 * tr_sched_short() is how many micro-batches, s->micros or fewer, make a list with the same beginning
 * and end, the same buffers and slots; it leaves out whole groups, and keeps four.  gpipe holds all
 * micro-batches at once, and leaves out none.  `s` need not be built.
 */
int tr_sched_repeats(const struct tr_sched *s);
int tr_sched_short(const struct tr_sched *s);

/*
 * The index (0 for SEND_FWD) of the `i`-th of TR_LEGS legs in the order in which TR_START starts
 * them, one after the other: even ranks send first, odd ones receive first.  So a ring with more
 * than one rank moves even if a transport finishes each leg before it starts the next.
 */
int tr_sched_leg(int rank, int i);

/* What a set of lists costs, with forward and backward of a chunk taking one tick each. */
struct tr_sched_cost {
    int ticks; /* length of the step */
    int idle;  /* rank-ticks without work: the bubble */
    int live;  /* most activations held by any rank, over all its chunks */
};

/*
 * Run the lists s[0..P-1] against one another.  Transfers wait for their partner, as NCCL's do, and
 * those of a rank run one after the other: the legs of TR_XFER together, those of TR_START one by
 * one.  Returns NULL if all of this holds, and otherwise a sentence that says what does not (static
 * storage).
 *
 *   - Every chunk of every micro-batch is computed once in each direction (eval: forward), after
 *     what it needs has come; and where the backward pass is split, once for the weights, after that.
 *   - There is no deadlock.
 *   - The messages from one rank to another are sent and received in the same order, with the legs
 *     of a transfer in the order of their bits.  With two ranks both directions go to the same
 *     peer, and this alone tells them apart.
 *   - Each message that is started is waited for once, in order, and no more than TR_FLIGHTS of a
 *     leg and side are under way.
 *   - The buffers suffice: none is written before its content has been sent or used, and none is
 *     touched while a transfer has it.
 *   - Inputs come, and are released, in the order of micro-batches: what tr_sched_slots() relies
 *     on.
 *
 * `cost` may be NULL; it is filled when nothing is wrong.
 */
const char *tr_sched_check(const struct tr_sched *s, struct tr_sched_cost *cost);

/*
 * How long the lists take if forward and backward of chunk c of rank r take forward[r * K + c] and
 * backward[r * K + c] seconds, TR_WGT weights[r * K + c], and transfers none.  Where nothing is split
 * `weights` may be NULL.  The lists must pass tr_sched_check().
 */
double tr_sched_seconds(const struct tr_sched *s, const double *forward, const double *backward,
                        const double *weights);

/* The same; end[r][i] becomes the second at which instruction i of rank r ends, where that
   computes. */
double tr_sched_ends(const struct tr_sched *s, const double *forward, const double *backward,
                     const double *weights, double *const *end);

/* "rank 3: {rf0} F0 B0 {rf1 sb0} F1 B1 {sb1}" and a newline; with chunks > 1 every number is
   micro-batch.chunk; "+{sf0.0 rf1.0}" starts, "-{rf1.0}" waits; "fetch3" is about part 3, "module0" about module 0.  What the golden tests compare. */
void tr_sched_print(const struct tr_sched *s, FILE *f);

#endif
