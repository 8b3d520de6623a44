/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/hang.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/status.h"
#include "util/text.h"

/* More than these are counted, not named. */
enum { NAMED = 3, WAITING_NAMED = 4 };

/* A sentence that grows; it is truncated where it does not fit. */
struct text {
    char *at;
    size_t bytes;
};

static void add(struct text *t, const char *fmt, ...) TR_PRINTF(2, 3);

static void add(struct text *t, const char *fmt, ...)
{
    size_t length = strlen(t->at);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(t->at + length, t->bytes - length, fmt, ap);
    va_end(ap);
}

/* ---- groups ---- */

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

struct tr_members tr_members_of(int *rank, int n)
{
    struct tr_members m = {.block = 1, .size = n};

    qsort(rank, (size_t)n, sizeof *rank, by_number);
    m.first = rank[0];
    while (m.block < n && rank[m.block] == rank[0] + m.block)
        m.block++;
    m.stride = m.block < n ? rank[m.block] - rank[0] : m.block;
    for (int i = 0; i < n; i++)
        if (n % m.block != 0 || rank[i] != m.first + i / m.block * m.stride + i % m.block)
            return (struct tr_members){0};
    return m;
}

bool tr_members_have(const struct tr_members *m, int rank)
{
    int from = rank - m->first;

    return m->size > 0 && from >= 0 && from / m->stride < m->size / m->block &&
           from % m->stride < m->block;
}

/* Does `p` wait for that rank? */
static bool waits_for(const struct tr_post *p, int rank)
{
    if (p->state != TR_WAITS || p->rank == rank)
        return false;
    for (int i = 0; i < p->peers; i++)
        if (p->peer[i] == rank)
            return true;
    return p->peers == 0 && tr_members_have(&p->members, rank);
}

/* ---- who is to blame ---- */

/* Why a rank is named, the worst first. */
enum blame { NO_ANSWER, ELSEWHERE, LATE, BLAMES };

static bool is_to_blame(const struct tr_post *p, enum blame why, double limit)
{
    if (why == NO_ANSWER)
        return p->state == TR_ABSENT;
    if (why == ELSEWHERE)
        return p->state == TR_BUSY && p->seconds > limit / 2;
    return p->state == TR_BUSY || (p->state == TR_WAITS && p->seconds < limit / 2);
}

static int count(const struct tr_post *post, int ranks, enum blame why, double limit)
{
    int n = 0;

    for (int r = 0; r < ranks; r++)
        n += is_to_blame(&post[r], why, limit);
    return n;
}

/* ---- the sentence ---- */

static void add_call(struct text *t, const struct tr_post *p)
{
    if (!p->call[0]) {
        add(t, "no call at all");
        return;
    }
    add(t, "the %s in group \"%s\"", p->call, p->group);
    /* Only collective calls are numbered. */
    if (p->peers == 0)
        add(t, " (call %llu)", (unsigned long long)p->seq);
}

static bool same_call(const struct tr_post *a, const struct tr_post *b)
{
    return a->seq == b->seq && strcmp(a->call, b->call) == 0 && strcmp(a->group, b->group) == 0;
}

/* "rank 3" or "ranks 0, 1, 3": those that wait in the same call as `first`, for `rank`; for any with -1. */
static void add_waiting(struct text *t, const struct tr_post *post, int ranks,
                        const struct tr_post *first, int rank)
{
    char list[64] = "";
    struct text names = {list, sizeof list};
    int n = 0;

    for (int r = 0; r < ranks; r++) {
        const struct tr_post *p = &post[r];

        if (p->state != TR_WAITS || !same_call(p, first) || (rank >= 0 && !waits_for(p, rank)))
            continue;
        if (n++ < WAITING_NAMED)
            add(&names, "%s%d", n == 1 ? "" : ", ", r);
    }
    if (n > WAITING_NAMED)
        add(&names, " and %d more", n - WAITING_NAMED);
    add(t, "rank%s %s", tr_plural(n), list);
}

/* Which call the others expect it in: that of the rank which has waited longest. */
static void add_missed(struct text *t, const struct tr_post *post, int ranks, int rank)
{
    const struct tr_post *longest = NULL;

    for (int r = 0; r < ranks; r++)
        if (waits_for(&post[r], rank) && (!longest || post[r].seconds > longest->seconds))
            longest = &post[r];
    if (!longest) {
        add(t, " holds up the others");
        return;
    }
    add(t, " did not enter ");
    add_call(t, longest);
    add(t, ", in which ");
    add_waiting(t, post, ranks, longest, rank);
    add(t, " waited for it");
}

static void add_state(struct text *t, const struct tr_post *p, enum blame why)
{
    char time[TR_DURATION_BYTES];

    tr_text_duration(TR_DURATION_WORDS, p->seconds, time);
    if (why == NO_ANSWER) {
        add(t, ", and does not answer");
    } else if (p->state == TR_BUSY) {
        add(t, ", but computes or waits for a file since %s; it was last in ", time);
        add_call(t, p);
    } else {
        add(t, " in time, but came %s ago to ", time);
        add_call(t, p);
    }
}

static void add_blamed(struct text *t, const struct tr_post *post,
                       const char (*host)[TR_HOST_BYTES], int ranks, enum blame why, double limit)
{
    int n = 0, all = count(post, ranks, why, limit);

    for (int r = 0; r < ranks && n < NAMED; r++) {
        if (!is_to_blame(&post[r], why, limit))
            continue;
        add(t, "%srank %d on %s", n++ ? "; " : "", r, host[r]);
        add_missed(t, post, ranks, r);
        add_state(t, &post[r], why);
    }
    if (all > n)
        add(t, "; and %d more ranks like them", all - n);
}

/* Nobody is missing: who waits in what. */
static void add_circle(struct text *t, const struct tr_post *post, int ranks)
{
    int calls = 0;

    add(t, "all ranks answer and wait for one another");
    for (int r = 0; r < ranks && calls < NAMED; r++) {
        bool said = false;

        for (int before = 0; before < r && !said; before++)
            said = same_call(&post[before], &post[r]);
        if (said)
            continue;
        add(t, "%s ", calls++ ? ";" : ":");
        add_waiting(t, post, ranks, &post[r], -1);
        add(t, " in ");
        add_call(t, &post[r]);
    }
    add(t, "; a link of the network is broken, or this is a bug");
}

void tr_hang_sentence(const struct tr_post *post, const char (*host)[TR_HOST_BYTES], int ranks,
                      double limit, char *text, size_t bytes)
{
    struct text t = {text, bytes};
    char time[TR_DURATION_BYTES];
    int why = NO_ANSWER;

    text[0] = '\0';
    add(&t, "after %s: ", tr_text_duration(TR_DURATION_WORDS, limit, time));
    while (why < BLAMES && count(post, ranks, (enum blame)why, limit) == 0)
        why++;
    if (why < BLAMES)
        add_blamed(&t, post, host, ranks, (enum blame)why, limit);
    else
        add_circle(&t, post, ranks);
}

/* The post of who has waited longest for that rank, of those that say for what; or NULL. */
static const struct tr_post *waiting_with_names(const struct tr_post *post, int ranks, int rank)
{
    const struct tr_post *longest = NULL;

    for (int r = 0; r < ranks; r++)
        if (post[r].about[0] && waits_for(&post[r], rank) &&
            (!longest || post[r].seconds > longest->seconds))
            longest = &post[r];
    return longest;
}

void tr_hang_missing(const struct tr_post *post, int ranks, double limit, char *text, size_t bytes)
{
    struct text t = {text, bytes};
    int why = NO_ANSWER, named = 0;

    text[0] = '\0';
    while (why < BLAMES && count(post, ranks, (enum blame)why, limit) == 0)
        why++;
    for (int r = 0; r < ranks && why < BLAMES && named < NAMED; r++) {
        const struct tr_post *by = waiting_with_names(post, ranks, r);

        if (by && is_to_blame(&post[r], (enum blame)why, limit))
            add(&t, "%s%d: [%s]", named++ ? "\n" : "Missing ranks:\n", r, by->about);
    }
}

void tr_hang_suspects(const struct tr_post *post, const char (*host)[TR_HOST_BYTES], int ranks,
                      double limit, char *text, size_t bytes)
{
    struct text t = {text, bytes};
    int why = count(post, ranks, NO_ANSWER, limit) > 0 ? NO_ANSWER : ELSEWHERE, named = 0;

    text[0] = '\0';
    for (int r = 0; r < ranks; r++) {
        bool known = false;

        for (int before = 0; before < r && !known; before++)
            known = is_to_blame(&post[before], (enum blame)why, limit) &&
                    strcmp(host[before], host[r]) == 0;
        if (!known && is_to_blame(&post[r], (enum blame)why, limit))
            add(&t, "%s%s", named++ ? "," : "", host[r]);
    }
    if (named > NAMED)
        text[0] = '\0';
}
