/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_WATCH_H
#define TR_COMM_WATCH_H

#include "comm/comm.h"
#include "comm/hang.h"

/*
 * How the ranks of MPI's world end together when one of them cannot go on, or does not come; internal to
 * comm/.  All this goes through a communicator of its own, so that nothing else is mistaken for it.
 *
 * Alarms.  A rank that cannot go on tells the others why (tr_watch_tell()), and those that wait hear it.
 * It ends the job, or else asks who is missing: that is the hang report.
 *
 * The hang report (comm/hang.h). A rank that has waited in one call for longer than the time limit
 * tells it to three ranks of the world, the first, the middle and the last, so that the loss of a
 * node leaves one.  Each of them calls all ranks, which answer with what they are in: in their own
 * loops when they wait, by the thread of comm/progress_thread.h when they compute.  When all have answered,
 * or some did not within GRACE seconds, it says who is missing and ends the job with TR_ETEMP; the
 * second and third of the three do so only if the ones before them have not.  A rank that none of
 * the three relieves ends by itself.
 *
 * Calls stand between tr_progress_thread_enter() and leave(), but for open() and close().
 */
struct tr_watch;

/* Collective over MPI's world. */
struct tr_watch *tr_watch_open(void);
void tr_watch_close(struct tr_watch *x);

/* Seconds to count for the time between two looks: one at most.  More means that this process was stopped,
   as by a scheduler that suspends jobs, and the others perhaps as well. */
double tr_watch_step(double before, double now);

/* How long a rank may wait in one call. */
void tr_watch_limit(struct tr_watch *x, double seconds);

/* What a rank waits in; `members` and `peers` as in struct tr_post. */
struct tr_wait_in {
    const char *group, *call; /* static */
    uint64_t seq;
    struct tr_members members;
    int peers, peer[TR_POST_PEERS];
    const char *about; /* what the call moves, as long as it is waited for; or NULL */
    bool fleeting;     /* true only as long as it is said again, every second or so */
};

/* This rank enters a call, and waits in none so far; a few stores. */
void tr_watch_enter(struct tr_watch *x, const char *group, const char *call, uint64_t seq);

/* It waits there since `since` (tr_now(), less the time for which it was stopped), for whom asks. */
void tr_watch_say(struct tr_watch *x, const struct tr_wait_in *in, double since);
/* The same, now and then in a loop.  Does not return when that is longer than the limit, or when
   another rank reported that it cannot go on and did not end the job. */
void tr_watch_wait(struct tr_watch *x, const struct tr_wait_in *in, double since);
/* The wait is over. */
void tr_watch_go_on(struct tr_watch *x);

/* It has waited too long, whatever the limit: what tr_watch_wait() does then. */
_Noreturn void tr_watch_late(struct tr_watch *x, const struct tr_wait_in *in, double since);

/* tr_transport.alarm() and alarmed(); the second answers calls of the hang report as well. */
void tr_watch_tell(struct tr_watch *x, const char *why, bool asks);
const char *tr_watch_heard(struct tr_watch *x);

/* What the thread of comm/progress_thread.h does twice a second. */
void tr_watch_tick(struct tr_watch *x);

/* Before this process ends the job: tell why, unless the others know, and give them a moment. */
void tr_watch_last_words(struct tr_watch *x, const char *why);

#endif
