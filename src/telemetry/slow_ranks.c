/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/slow_ranks.h"

#include <stdlib.h>
#include <string.h>

enum tr_status tr_slow_ranks_open(struct tr_slow_ranks *x, struct tr_slow_rule rule, int ranks,
                                  const int *group)
{
    TR_ASSERT(rule.percent > 0.0 && rule.intervals > 0);
    *x = (struct tr_slow_ranks){.rule = rule, .ranks = ranks};
    x->rank = calloc((size_t)ranks, sizeof *x->rank);
    x->order = calloc((size_t)ranks, sizeof *x->order);
    if (!x->rank || !x->order)
        return TR_FAIL(TR_ERESOURCE,
                       "no memory left to compare the computing times of %d ranks; "
                       "use --slow-rank-percent 0",
                       ranks);
    for (int r = 0; r < ranks; r++) {
        x->rank[r].group = group[r];
        x->order[r] = r;
    }
    return TR_OK;
}

void tr_slow_ranks_close(struct tr_slow_ranks *x)
{
    free(x->rank);
    free(x->order);
    memset(x, 0, sizeof *x);
}

/* By group, and in it by seconds. */
static int compare(const void *a, const void *b, void *ctx)
{
    const struct tr_slow_rank *rank = ctx;
    const struct tr_slow_rank *x = &rank[*(const int *)a], *y = &rank[*(const int *)b];

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Number `i` of the seconds of a group, without those of member `without`; -1: with all. */
static double nth(const struct tr_slow_ranks *x, const int *member, int without, int i)
{
    return x->rank[member[without >= 0 && i >= without ? i + 1 : i]].seconds;
}

static double median(const struct tr_slow_ranks *x, const int *member, int n, int without)
{
    const int left = without >= 0 ? n - 1 : n;

    return 0.5 * (nth(x, member, without, (left - 1) / 2) + nth(x, member, without, left / 2));
}

static void judge(const struct tr_slow_rule *rule, struct tr_slow_rank *r, double peers)
{
    const bool late = r->seconds > (1.0 + rule->percent / 100.0) * peers;

    r->late = late ? r->late + 1 : 0;
    r->good = late ? 0 : r->good + 1;
    r->own = late ? r->own + r->seconds : 0.0;
    r->median = late ? r->median + peers : 0.0;
    if ((r->slow ? r->good : r->late) < rule->intervals)
        return;
    r->slow = !r->slow;
    r->change = r->slow ? TR_SLOW_BEGINS : TR_SLOW_ENDS;
}

/* The ranks member[n] of a group, in the order of their seconds. */
static void judge_group(struct tr_slow_ranks *x, const int *member, int n)
{
    if (n < 2 || median(x, member, n, -1) < x->rule.shortest)
        return;
    for (int i = 0; i < n; i++) {
        x->rank[member[i]].peers = n - 1;
        judge(&x->rule, &x->rank[member[i]], median(x, member, n, i));
    }
    for (int i = 0; i < n; i++)
        x->rank[member[i]].seconds = 0.0;
}

int tr_slow_ranks_add(struct tr_slow_ranks *x, const double *seconds)
{
    int changes = 0;

    for (int r = 0; r < x->ranks; r++) {
        x->rank[r].seconds += seconds[r];
        x->rank[r].change = TR_SLOW_SAME;
    }
    qsort_r(x->order, (size_t)x->ranks, sizeof *x->order, compare, x->rank);
    for (int first = 0, end; first < x->ranks; first = end) {
        for (end = first + 1;
             end < x->ranks && x->rank[x->order[end]].group == x->rank[x->order[first]].group;)
            end++;
        judge_group(x, x->order + first, end - first);
    }
    for (int r = 0; r < x->ranks; r++)
        changes += x->rank[r].change != TR_SLOW_SAME;
    return changes;
}

double tr_slow_rank_excess(const struct tr_slow_rank *r)
{
    return r->median > 0.0 ? 100.0 * (r->own / r->median - 1.0) : 0.0;
}
