/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/slow_links.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

enum { MOST_RANKS = 1 << 14, MOST_GROUPS = 512, WORD = 64 };

/* A text that is read word by word. */
struct reader {
    const char *name, *at;
    int line;
    char word[WORD]; /* the next one, "" at the end */
    struct tr_slow_links *out;
};

static void next(struct reader *r)
{
    size_t n = 0;

    while (isspace((unsigned char)*r->at) || *r->at == '#') {
        if (*r->at == '#') {
            r->at += strcspn(r->at, "\n");
        } else {
            r->line += *r->at == '\n';
            r->at++;
        }
    }
    for (; *r->at && !isspace((unsigned char)*r->at) && *r->at != '#'; r->at++)
        if (n + 1 < WORD)
            r->word[n++] = *r->at;
    r->word[n] = '\0';
}

static enum tr_status wrong(const struct reader *r, const char *what)
{
    return TR_FAIL(TR_ECONFIG, "%s, line %d: %s%s%s", r->name, r->line, what,
                   r->word[0] ? ", and not " : "", r->word);
}

static void *room(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    TR_ASSERT(p);
    return p;
}

/* Ranks first to last of a group. */
static enum tr_status add_ranks(struct reader *r, long first, long last)
{
    struct tr_slow_links *l = r->out;

    if (first < 0 || last < first || last >= MOST_RANKS)
        return wrong(r, "ranks are as in 0-3 or 0,2,5-7");
    if (last >= l->ranks) {
        l->group = realloc(l->group, (size_t)(last + 1) * sizeof *l->group);
        TR_ASSERT(l->group);
        for (; l->ranks <= last; l->ranks++)
            l->group[l->ranks] = -1;
    }
    for (long i = first; i <= last; i++) {
        if (l->group[i] >= 0)
            return wrong(r, "a rank is in one group");
        l->group[i] = l->groups;
    }
    return TR_OK;
}

/* "NAME RANKS" behind `group`. */
static enum tr_status read_group(struct reader *r)
{
    next(r);
    if (!r->word[0] || r->out->groups == MOST_GROUPS)
        return wrong(r, "a group has a name and ranks, and there are 512 at most");
    next(r);
    for (const char *s = r->word; s;) {
        char *end;
        const long first = strtol(s, &end, 10);
        const long last = *end == '-' && end > s ? strtol(end + 1, &end, 10) : first;

        if (!isdigit((unsigned char)*s) || (*end && *end != ','))
            return wrong(r, "ranks are as in 0-3 or 0,2,5-7");
        TR_TRY(add_ranks(r, first, last));
        s = *end == ',' ? end + 1 : NULL;
    }
    r->out->groups++;
    next(r);
    return TR_OK;
}

static bool is_number(const char *word)
{
    return isdigit((unsigned char)word[0]) || word[0] == '.' || word[0] == '-';
}

/* The numbers behind `rate` or `latency`, times `unit`; at least `least`. */
static enum tr_status read_matrix(struct reader *r, double **matrix, double unit, bool zero)
{
    const int most = MOST_GROUPS * MOST_GROUPS;
    int n = 0, side;

    if (*matrix)
        return wrong(r, "each matrix is given once");
    *matrix = room((size_t)most, sizeof **matrix);
    for (next(r); is_number(r->word) && n < most; next(r)) {
        char *end;
        const double x = strtod(r->word, &end);

        if (*end || !isfinite(x) || x < 0.0 || (x == 0.0 && !zero))
            return wrong(r, zero ? "a latency is a number of milliseconds, at least 0"
                                 : "a rate is a number of Gbit/s above 0");
        (*matrix)[n++] = x * unit;
    }
    side = r->out->groups ? r->out->groups : (int)lround(sqrt((double)n));
    if (n == 0 || n != side * side)
        return TR_FAIL(TR_ECONFIG,
                       "%s, line %d: a matrix of %d group%s has %d numbers, and here are %d",
                       r->name, r->line, side, side == 1 ? "" : "s", side * side, n);
    /* Without groups each rank is one. */
    for (; r->out->groups < side; r->out->groups++)
        TR_TRY(add_ranks(r, r->out->groups, r->out->groups));
    return TR_OK;
}

static enum tr_status check(const struct reader *r)
{
    for (int i = 0; i < r->out->ranks; i++)
        if (r->out->group[i] < 0)
            return TR_FAIL(TR_ECONFIG, "%s: rank %d is in no group", r->name, i);
    if (!r->out->rate)
        return TR_FAIL(TR_ECONFIG, "%s has no matrix `rate`: Gbit/s from each group to each group",
                       r->name);
    return TR_OK;
}

enum tr_status tr_slow_links_read(const char *name, const char *text, struct tr_slow_links *out)
{
    struct reader r = {name, text, 1, "", out};

    *out = (struct tr_slow_links){0};
    for (next(&r); r.word[0];) {
        if (strcmp(r.word, "group") == 0 && !out->rate && !out->latency)
            TR_TRY(read_group(&r));
        else if (strcmp(r.word, "rate") == 0)
            TR_TRY(read_matrix(&r, &out->rate, 1e9, false));
        else if (strcmp(r.word, "latency") == 0)
            TR_TRY(read_matrix(&r, &out->latency, 1e-3, true));
        else
            return wrong(&r, "there are `group` lines, then the matrices `rate` and `latency`");
    }
    TR_TRY(check(&r));
    if (!out->latency)
        out->latency = room((size_t)(out->groups * out->groups), sizeof *out->latency);
    return TR_OK;
}

void tr_slow_links_release(struct tr_slow_links *l)
{
    free(l->group);
    free(l->rate);
    free(l->latency);
    *l = (struct tr_slow_links){0};
}

static int place(const struct tr_slow_links *l, int from, int to)
{
    TR_ASSERT(from >= 0 && from < l->ranks && to >= 0 && to < l->ranks);
    return l->group[from] * l->groups + l->group[to];
}

double tr_slow_links_rate(const struct tr_slow_links *l, int from, int to)
{
    return l->rate[place(l, from, to)];
}

double tr_slow_links_latency(const struct tr_slow_links *l, int from, int to)
{
    return l->latency[place(l, from, to)];
}
