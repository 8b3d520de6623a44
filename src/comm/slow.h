/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_SLOW_H
#define TR_COMM_SLOW_H

#include <stdint.h>

#include "comm/comm.h"
#include "comm/slow_links.h"

/*
 * The transport "slow": another transport, and a clock.  Data go through the other one, and a
 * transfer counts as done when a network of a given rate would have done it, never earlier;
 * computation goes on meanwhile as it would.  For simulating a slow network on a fast one, and for
 * measuring what overlap hides.
 *
 * The model.  Each rank has one outgoing link, which its transfers of all groups take in the order
 * in which they start:
 *     sent    = max(now, when the transfer before it was sent) + bytes * 8 / rate
 *     arrives = sent + hops * latency + jitter * u        u uniform in [0, 1)
 * A message is there when it arrives; a collective call ends, on all ranks, when it has arrived
 * from each.  Bytes and hops of a rank are those of the ring algorithms (Patarasu and Yuan,
 * "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009), for n bytes and D
 * ranks:
 *     all-reduce      2 (D - 1) / D * n       2 (D - 1) hops
 *     reduce-scatter    (D - 1) / D * n          D - 1      of `in`
 *     all-gather        (D - 1) / D * n          D - 1      of `inout`
 *     broadcast                       n          D - 1      the last rank of the ring sends none
 *     send                            n              1
 * Barriers and gather_all() are for setup: not slowed, not counted.  Groups of one rank send
 * nothing.
 *
 * Times are those of the system clocks, which on several nodes agree as well as they are set: to
 * much less than a transfer takes.
 */
struct tr_slow_how {
    double rate;            /* bits per second, > 0 */
    double latency, jitter; /* seconds, >= 0 */
    /* Rates and latencies of single links in place of these two, or NULL; borrowed until release.  There are as many
       ranks in it as in the world. */
    const struct tr_slow_links *links;
};

/*
 * With links (comm/slow_links.h) a rank has an outgoing link to each group, which its transfers to ranks of that group take
 * in the order in which they start.  In the ring of a collective call a rank sends to the next one, and hops go from
 * rank to rank around the ring, each with the latency of its link.
 */

/* What a transfer of `bytes` takes from member `rank` of a group of `size`: to `to` and on around the ring in `hops`.  Pure.
   `member` are the ranks of the group in the world. */
struct tr_slow_leg {
    int link;        /* of the sender's: 0 without links, else a group */
    double sending;  /* seconds on it */
    double arriving; /* seconds from its end until the data are there, without jitter */
};
struct tr_slow_leg tr_slow_leg(const struct tr_slow_how *how, const int *member, int size, int rank,
                               int to, int hops, int64_t bytes);

enum tr_slow_kind {
    TR_SLOW_ALLREDUCE,
    TR_SLOW_REDUCE_SCATTER,
    TR_SLOW_ALLGATHER,
    TR_SLOW_BROADCAST,
    TR_SLOW_SEND,
    TR_SLOW_KINDS
};

/*
 * *out is `inner` (borrowed; not used by others until release) over such a network, and so are the
 * groups split from it, which are released before it.  All ranks say the same `how`.  Not
 * collective, but with links.
 */
void tr_comm_slow_open(struct tr_comm *inner, struct tr_slow_how how, struct tr_comm *out);

/* Bytes that the link of this rank has sent, for all groups of `c`'s world together. */
int64_t tr_comm_slow_bytes(const struct tr_comm *c, enum tr_slow_kind kind);
const char *tr_slow_kind_name(enum tr_slow_kind kind);

#endif
