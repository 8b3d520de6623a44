/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_HANG_H
#define TR_COMM_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

/*
 * The hang report: what ranks report when one of them has waited too long, and the sentence that is
 * made of it; internal to comm/.  Nothing here communicates: comm/watch.h does.
 */

/* Ranks of the world in a group, if they are `size / block` runs of `block` neighbours that lie `stride`
   apart, as all groups of a grid are; size 0 stands for any other set. */
struct tr_members {
    int32_t first, block, stride, size;
};

/* Of n > 0 ranks, in any order; `rank` is sorted. */
struct tr_members tr_members_of(int *rank, int n);
bool tr_members_have(const struct tr_members *m, int rank);

enum { TR_POST_PEERS = 4 };

/* Sent as its bytes: the nodes of a job are alike. */
struct tr_post {
    enum { TR_ABSENT, TR_WAITS, TR_BUSY } state; /* TR_ABSENT: it did not answer */
    char group[16], call[24];           /* what it waits in, or was in last: "" if in none so far */
    char about[TR_ABOUT_BYTES];         /* what it moves, or "" */
    uint64_t seq;                       /* of the call in the group */
    double seconds;                     /* since when */
    int32_t rank;                       /* in the world */
    struct tr_members members;          /* of the group */
    int32_t peers, peer[TR_POST_PEERS]; /* whom it waits for, in the world; 0: all members */
};

/*
 * Who did not come, as one sentence: `post` holds one of each of the `ranks` ranks, `host` the names of
 * their nodes; they waited for `limit` seconds.  It names those that did not answer and those that were
 * in no call for long; if there are none those that came late, and else says who waits in what.
 */
void tr_hang_sentence(const struct tr_post *post, const char (*host)[TR_HOST_BYTES], int ranks,
                      double limit, char *text, size_t bytes);

/*
 * Of the same, where what is waited for says what it moves: the ranks that did not come, as Horovod's stall check lists
 * them, "Missing ranks:" and a line "RANK: [name, name, ...]" for each; else "".
 */
void tr_hang_missing(const struct tr_post *post, int ranks, double limit, char *text, size_t bytes);

/*
 * Of the same, the hosts to start again without: those of ranks that did not answer, or else of
 * ranks that were in no call for long; with commas.  "" if there are none, or more than three
 * hosts, because then the fault is a common one.
 */
void tr_hang_suspects(const struct tr_post *post, const char (*host)[TR_HOST_BYTES], int ranks,
                      double limit, char *text, size_t bytes);

#endif
