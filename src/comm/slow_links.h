/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_SLOW_LINKS_H
#define TR_COMM_SLOW_LINKS_H

#include "util/status.h"

/*
 * Rates and latencies of the links between groups of ranks, such as the sites of a run over several regions, for the
 * transport "slow" (comm/slow.h).  A text of words; # begins a comment:
 *
 *     group oregon 0-1          # ranks of a group, 0-3 or 0,2,5-7; each rank is in one group
 *     group ohio   2-3
 *     rate                      # Gbit/s, a row for each group from which: to each group
 *         10   0.8
 *         0.8  10
 *     latency                   # ms, in the same way; 0 everywhere unless given
 *         0.1  25
 *         25   0.1
 *
 * Without groups each rank is one, and the matrices have a row for each rank.
 */
struct tr_slow_links {
    int groups, ranks;
    int *group;      /* [ranks]; owned */
    double *rate;    /* [groups][groups], from and to, bits per second; owned */
    double *latency; /* the same, seconds; owned */
};

/* `name` is the file, for sentences: TR_ECONFIG with what is wrong and the line.  Release also after a failure. */
enum tr_status tr_slow_links_read(const char *name, const char *text,
                                  struct tr_slow_links *out) TR_MUST_CHECK;
void tr_slow_links_release(struct tr_slow_links *l);

/* Of the link between two ranks, from the first to the second. */
double tr_slow_links_rate(const struct tr_slow_links *l, int from, int to);
double tr_slow_links_latency(const struct tr_slow_links *l, int from, int to);

#endif
