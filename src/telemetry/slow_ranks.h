/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_SLOW_RANKS_H
#define TR_TELEMETRY_SLOW_RANKS_H

#include <stdbool.h>

#include "util/status.h"

/*
 * Which ranks are slow (stragglers): a rule on numbers, which reads no clock and communicates nothing.
 *
 * The ranks of a group have the same work.  A rank is compared with its peers, the other ranks of its group: in
 * an interval it is late if it computed for more than `percent` longer than their median.  It is slow from the
 * interval on that is the last of `intervals` in a row in which it was late, until the last of as many in a row
 * in which it was not.  A group of one has nobody to be compared with.  Of two ranks the one that takes longer is
 * late.
 *
 * A clock says little of a moment: what a group computes is added up until the median of its ranks is `shortest`
 * seconds, and only then is that an interval.
 */
struct tr_slow_rule {
    double percent;  /* > 0 */
    int intervals;   /* > 0 */
    double shortest; /* seconds */
};

enum tr_slow_change { TR_SLOW_SAME, TR_SLOW_BEGINS, TR_SLOW_ENDS };

struct tr_slow_rank {
    int group;
    double seconds; /* of the interval so far */
    int peers;      /* in the last interval that was judged */
    double own;     /* seconds of the intervals in a row in which it was late, */
    double median;  /*   and the sum of the medians of its peers in them */
    int late, good; /* intervals in a row */
    bool slow;
    enum tr_slow_change change; /* by the last tr_slow_ranks_add() */
};

struct tr_slow_ranks {
    struct tr_slow_rule rule;
    int ranks;
    struct tr_slow_rank *rank; /* [ranks]; owned */
    int *order;                /* [ranks] scratch; owned */
};

/* Rank r belongs to group[r].  TR_ERESOURCE.  Close also after a failure. */
enum tr_status tr_slow_ranks_open(struct tr_slow_ranks *x, struct tr_slow_rule rule, int ranks,
                                  const int *group) TR_MUST_CHECK;
void tr_slow_ranks_close(struct tr_slow_ranks *x);

/* The next interval: rank r computed for seconds[r].  How many ranks changed; rank[r].change says which. */
int tr_slow_ranks_add(struct tr_slow_ranks *x, const double *seconds);

/* By how many percent the rank took longer than the median of its peers, over the intervals in a row in which it
   was late; 0 if it was not late in the last one. */
double tr_slow_rank_excess(const struct tr_slow_rank *r);

#endif
