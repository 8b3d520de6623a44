/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/flight_align.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds by which a rank is late: more than clocks of nodes differ. */
static const double LATE = 1.0;

/* Seconds in which a rank answers. */
static const double ANSWER = 3.0;

struct item {
    const struct tr_flight_row *row;
    int rank;
};

struct align {
    const struct tr_flight_set *f;
    struct item *item; /* all calls: of a group together, of a number together */
    int items;
    struct tr_flight_verdict *verdict; /* [ranks] */
    bool *waits;                       /* [ranks] for somebody who is named */
    bool *silent;                      /* [ranks] */
    bool *here;                        /* [ranks] scratch */
};

static void *need(size_t number, size_t bytes)
{
    void *p = calloc(number ? number : 1, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for flight records");
    return p;
}

static bool is_pending(const struct tr_flight_row *r)
{
    return isnan(r->ended);
}

/* ---- order ---- */

/* A message is numbered in its direction between two ranks, and is in the order where its other end is: SEND of a to b is with
   RECV of b from a. */
struct key {
    uint64_t id;
    int from, to; /* -1: a collective */
    int64_t seq;
};

static struct key key_of(const struct item *x)
{
    const struct tr_flight_row *r = x->row;
    struct key k = {r->id, -1, -1, r->seq};

    if (!tr_flight_is_collective(r->kind)) {
        k.from = r->kind == TR_FLIGHT_SEND ? x->rank : r->peer;
        k.to = r->kind == TR_FLIGHT_SEND ? r->peer : x->rank;
    }
    return k;
}

#define ORDER(x, y) (((x) > (y)) - ((x) < (y)))

static int by_key(const void *a, const void *b)
{
    const struct key x = key_of(a), y = key_of(b);
    const int order[] = {ORDER(x.id, y.id), ORDER(x.from, y.from), ORDER(x.to, y.to),
                         ORDER(x.seq, y.seq)};

    for (int i = 0; i < 4; i++)
        if (order[i] != 0)
            return order[i];
    return ORDER(((const struct item *)a)->rank, ((const struct item *)b)->rank);
}

static bool same_key(const struct item *a, const struct item *b)
{
    const struct key x = key_of(a), y = key_of(b);

    return x.id == y.id && x.from == y.from && x.to == y.to && x.seq == y.seq;
}

static void collect(struct align *a)
{
    const struct tr_flight_set *f = a->f;
    size_t n = 0;

    for (int r = 0; r < f->ranks; r++)
        n += (size_t)f->record[r].rows;
    a->item = need(n, sizeof *a->item);
    for (int r = 0; r < f->ranks; r++)
        for (int i = 0; i < f->record[r].rows; i++)
            a->item[a->items++] = (struct item){&f->record[r].row[i], r};
    qsort(a->item, (size_t)a->items, sizeof *a->item, by_key);
}

/* ---- who is named ---- */

/* The worst reason counts, and of the same the call that somebody has waited in for longest. */
static void name(struct align *a, struct tr_flight_verdict v)
{
    struct tr_flight_verdict *old = &a->verdict[v.rank];

    if (old->why < v.why || (old->why == v.why && old->expected && v.expected &&
                             old->expected->begun <= v.expected->begun))
        return;
    *old = v;
}

/* Calls at one number of a group, or both ends of a message. */
struct run {
    const struct item *item,
        *longest; /* the one that waits, and has begun first; NULL: none waits */
    int n, waiting;
};

static struct run run_at(const struct align *a, int at)
{
    struct run run = {.item = &a->item[at]};

    for (; at + run.n < a->items && same_key(&run.item[run.n], run.item); run.n++) {
        const struct item *x = &run.item[run.n];

        if (!is_pending(x->row))
            continue;
        run.waiting++;
        if (!run.longest || x->row->begun < run.longest->row->begun)
            run.longest = x;
    }
    return run;
}

static bool agree(const struct tr_flight_row *x, const struct tr_flight_row *y)
{
    return x->bytes == y->bytes && (x->kind == y->kind || !tr_flight_is_collective(x->kind));
}

/* How many of the run have what item `i` has. */
static int alike(const struct run *run, int i)
{
    int n = 0;

    for (int k = 0; k < run->n; k++)
        n += agree(run->item[i].row, run->item[k].row);
    return n;
}

/* Those in the minority, or all if there is no majority. */
static void look_for_disagreement(struct align *a, const struct run *run)
{
    int most = 0, most_at = 0, least = run->n;

    if (alike(run, 0) == run->n)
        return;
    for (int i = 0; i < run->n; i++) {
        const int n = alike(run, i);

        if (n > most)
            most_at = i;
        most = n > most ? n : most;
        least = n < least ? n : least;
    }
    for (int i = 0; i < run->n; i++) {
        const bool is_most = agree(run->item[i].row, run->item[most_at].row);
        int other = most_at;

        if (least < most && is_most)
            continue;
        while (agree(run->item[i].row, run->item[other].row))
            other = (other + 1) % run->n;
        name(a, (struct tr_flight_verdict){.rank = run->item[i].rank,
                                           .why = TR_FLIGHT_DISAGREES,
                                           .expected = run->item[other].row,
                                           .own = run->item[i].row,
                                           .by = run->item[other].rank,
                                           .waiting = run->waiting});
    }
}

/* Its last call where `like` was made: in the group, or of the messages from or to the same rank. */
static const struct tr_flight_row *last_like(const struct tr_flight_record *record,
                                             const struct item *like)
{
    const bool collective = tr_flight_is_collective(like->row->kind);

    for (int i = record->rows - 1; i >= 0; i--) {
        const struct tr_flight_row *r = &record->row[i];

        if (r->id != like->row->id || tr_flight_is_collective(r->kind) != collective)
            continue;
        if (collective || (r->peer == like->rank && r->kind != like->row->kind))
            return r;
    }
    return NULL;
}

/* All that it keeps began after that: it may have had the call before. */
static bool may_be_ahead(const struct tr_flight_record *record, const struct tr_flight_row *call)
{
    return record->rows == TR_FLIGHT_CALLS && record->row[0].begun > call->begun + LATE;
}

/* Somebody waits in the run, and this rank has no call there. */
static void look_at_absent(struct align *a, const struct run *run, int rank)
{
    const struct tr_flight_record *record = &a->f->record[rank];
    struct tr_flight_verdict v = {.rank = rank,
                                  .why = TR_FLIGHT_NO_RECORD,
                                  .expected = run->longest->row,
                                  .by = run->longest->rank,
                                  .waiting = run->waiting};

    if (record->state == TR_FLIGHT_READ) {
        v.why = TR_FLIGHT_BEHIND;
        v.own = last_like(record, run->longest);
        if (v.own ? v.own->seq >= v.expected->seq : may_be_ahead(record, v.expected))
            return;
    }
    name(a, v);
    for (int i = 0; i < run->n; i++)
        a->waits[run->item[i].rank] |= is_pending(run->item[i].row);
}

/* Of a group that is not regular those that are seen to be in it. */
static bool is_member(const struct align *a, const struct tr_flight_row *row, int rank)
{
    const struct tr_flight_record *record = &a->f->record[rank];

    if (row->members.block > 0)
        return tr_members_have(&row->members, rank);
    for (int i = 0; i < record->rows; i++)
        if (record->row[i].id == row->id)
            return true;
    return false;
}

static void look_for_absent(struct align *a, const struct run *run)
{
    const struct tr_flight_row *row = run->item->row;

    if (!run->longest)
        return;
    if (!tr_flight_is_collective(row->kind)) {
        if (run->n == 1 && row->peer != run->item->rank)
            look_at_absent(a, run, row->peer);
        return;
    }
    for (int i = 0; i < run->n; i++)
        a->here[run->item[i].rank] = true;
    for (int r = 0; r < a->f->ranks; r++)
        if (!a->here[r] && is_member(a, row, r))
            look_at_absent(a, run, r);
    for (int i = 0; i < run->n; i++)
        a->here[run->item[i].rank] = false;
}

/* Those that others had to end, or that wrote when the job ended at last. */
static void find_silent(struct align *a)
{
    double first = INFINITY;

    for (int r = 0; r < a->f->ranks; r++) {
        const struct tr_flight_record *x = &a->f->record[r];

        if (x->state == TR_FLIGHT_READ && x->cause == TR_FLIGHT_HANG)
            first = fmin(first, x->written);
    }
    for (int r = 0; r < a->f->ranks && isfinite(first); r++) {
        const struct tr_flight_record *x = &a->f->record[r];

        a->silent[r] = x->state == TR_FLIGHT_READ &&
                       (x->cause == TR_FLIGHT_SIGNAL || x->written - first > ANSWER);
    }
}

/* A call in which others wait, if there is one, is known from the runs. */
static void name_silent(struct align *a)
{
    for (int r = 0; r < a->f->ranks; r++)
        if (a->silent[r] && a->verdict[r].why > TR_FLIGHT_SILENT)
            a->verdict[r].why = TR_FLIGHT_SILENT;
}

/* Who is in one call with it waits for it, whether it has begun that or not. */
static void look_for_silent(struct align *a, const struct run *run)
{
    bool any = false;

    for (int i = 0; i < run->n; i++)
        any |= a->silent[run->item[i].rank];
    for (int i = 0; i < run->n && any; i++)
        a->waits[run->item[i].rank] |= is_pending(run->item[i].row);
}

/* The last that came, if it was long after one that waits. */
static void look_for_late(struct align *a, const struct run *run)
{
    const struct item *last = run->item;

    for (int i = 1; i < run->n; i++)
        if (run->item[i].row->begun > last->row->begun)
            last = &run->item[i];
    if (!run->longest || last->row->begun - run->longest->row->begun <= LATE)
        return;
    name(a, (struct tr_flight_verdict){.rank = last->rank,
                                       .why = TR_FLIGHT_LATE,
                                       .expected = run->longest->row,
                                       .own = last->row,
                                       .by = run->longest->rank,
                                       .waiting = run->waiting});
    for (int i = 0; i < run->n; i++)
        a->waits[run->item[i].rank] |= &run->item[i] != last && is_pending(run->item[i].row);
}

static bool is_pardonable(const struct tr_flight_verdict *v)
{
    return v->why > TR_FLIGHT_SILENT && v->why < TR_FLIGHT_INNOCENT;
}

/* All that hold up others wait themselves: whom somebody has waited for longest began it, unless another follows at once. */
static void break_circle(struct align *a)
{
    double first = INFINITY;

    for (int r = 0; r < a->f->ranks; r++)
        if (is_pardonable(&a->verdict[r]))
            first = fmin(first, a->verdict[r].expected->begun);
    for (int r = 0; r < a->f->ranks; r++)
        if (is_pardonable(&a->verdict[r]) && a->verdict[r].expected->begun - first > LATE)
            a->verdict[r].why = TR_FLIGHT_INNOCENT;
}

static int count_pardonable(const struct align *a)
{
    int n = 0;

    for (int r = 0; r < a->f->ranks; r++)
        n += is_pardonable(&a->verdict[r]);
    return n;
}

/* Who waits for somebody who is named holds up others only because of that. */
static void forgive(struct align *a)
{
    bool any = false;

    for (int r = 0; r < a->f->ranks; r++)
        any |=
            is_pardonable(&a->verdict[r]) ? !a->waits[r] : a->verdict[r].why < TR_FLIGHT_INNOCENT;
    for (int r = 0; r < a->f->ranks && any; r++)
        if (is_pardonable(&a->verdict[r]) && a->waits[r])
            a->verdict[r].why = TR_FLIGHT_INNOCENT;
    if (any)
        return;
    break_circle(a);
    any = count_pardonable(a) > 1;
    for (int r = 0; r < a->f->ranks && any; r++)
        if (is_pardonable(&a->verdict[r]))
            a->verdict[r].why = TR_FLIGHT_CIRCLE;
}

static int by_reason(const void *a, const void *b)
{
    const struct tr_flight_verdict *x = a, *y = b;
    const int order[] = {ORDER(x->why, y->why), ORDER(!x->expected, !y->expected)};

    return order[0] ? order[0] : order[1] ? order[1] : ORDER(x->rank, y->rank);
}

int tr_flight_set_align(const struct tr_flight_set *f, struct tr_flight_verdict **out)
{
    const size_t ranks = (size_t)f->ranks;
    struct align a = {.f = f,
                      .verdict = need(ranks, sizeof *a.verdict),
                      .waits = need(ranks, sizeof *a.waits),
                      .silent = need(ranks, sizeof *a.silent),
                      .here = need(ranks, sizeof *a.here)};
    int n = 0;

    for (int r = 0; r < f->ranks; r++)
        a.verdict[r] = (struct tr_flight_verdict){
            .rank = r,
            .why = f->record[r].state == TR_FLIGHT_READ ? TR_FLIGHT_INNOCENT : TR_FLIGHT_NO_RECORD};
    find_silent(&a);
    collect(&a);
    for (int at = 0; at < a.items;) {
        const struct run run = run_at(&a, at);

        look_for_disagreement(&a, &run);
        look_for_absent(&a, &run);
        look_for_silent(&a, &run);
        look_for_late(&a, &run);
        at += run.n;
    }
    name_silent(&a);
    forgive(&a);
    qsort(a.verdict, ranks, sizeof *a.verdict, by_reason);
    while (n < f->ranks && a.verdict[n].why < TR_FLIGHT_INNOCENT)
        n++;
    free(a.item);
    free(a.waits);
    free(a.silent);
    free(a.here);
    *out = a.verdict;
    return n;
}
