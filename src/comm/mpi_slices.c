/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_slices.h"

#include <stddef.h>

#include "util/clock.h"

static struct tr_mpi_slices *under_way;

/* Seconds that a segment may wait in the network behind others. */
static const double MAY_WAIT = 0.015;
/* A link is not taken to be slower by more than this at a time. */
static const double MORE = 1.25;
enum { AHEAD_FIRST = 8, AHEAD_LEAST = 3 };

/* Segment k of those that a rank sends, or of those that it receives. */
struct segment {
    int lane;
    int64_t first, bytes;
};

static struct segment segment_of(const struct tr_mpi_slices *x, int64_t k)
{
    const int64_t first = k / x->lanes * x->segment, left = x->bytes - first;

    return (struct segment){.lane = (int)(k % x->lanes),
                            .first = first,
                            .bytes = left < x->segment ? left : x->segment};
}

static void post(struct tr_mpi_slices *x)
{
    const struct segment s = segment_of(x, x->posted);
    const int peer = (x->take_from - s.lane + x->size) % x->size;

    x->error = MPI_Irecv(x->to + peer * x->to_step + s.first, (int)s.bytes, MPI_BYTE, peer, x->tag,
                         x->comm, &x->take[x->posted % TR_MPI_AHEAD_MOST]);
    x->posted++;
}

static void start(struct tr_mpi_slices *x)
{
    const struct segment s = segment_of(x, x->started);
    const int peer = (x->give_to + s.lane) % x->size;

    x->error = MPI_Isend(x->from + peer * x->from_step + s.first, (int)s.bytes, MPI_BYTE, peer,
                         x->tag, x->comm, &x->give[x->started % TR_MPI_AHEAD_MOST]);
    x->started++;
}

/* Count those that are done among `request`, from *count on and below `end`: in order, for the window moves
   with the oldest. */
static void retire(struct tr_mpi_slices *x, MPI_Request *request, int64_t end, int64_t *count)
{
    int done = true;

    while (x->error == MPI_SUCCESS && *count < end) {
        x->error = MPI_Test(&request[*count % TR_MPI_AHEAD_MOST], &done, MPI_STATUS_IGNORE);
        if (!done)
            return;
        ++*count;
    }
}

static int ahead_of(const struct tr_mpi_slices *x)
{
    const struct tr_mpi_pace *p = x->pace;
    double ahead;

    if (!p)
        return TR_MPI_AHEAD;
    if (p->each <= 0.0)
        return AHEAD_FIRST;
    ahead = (p->there_and_back + MAY_WAIT) / p->each;
    return ahead < AHEAD_LEAST         ? AHEAD_LEAST
           : ahead < TR_MPI_AHEAD_MOST ? (int)ahead
                                       : TR_MPI_AHEAD_MOST;
}

static bool may_post(const struct tr_mpi_slices *x)
{
    return x->posted < x->takes && x->posted < x->arrived + TR_MPI_AHEAD_MOST;
}

static bool may_start(const struct tr_mpi_slices *x)
{
    const int64_t before = x->takes > 0 ? x->arrived : x->gone;

    return x->started < x->gives && x->started < before + ahead_of(x) &&
           x->started < x->gone + TR_MPI_AHEAD_MOST;
}

/*
 * Another `count` segments are here.  What is too few ahead shows as too slow, but as a time there and back is
 * twice one to arrive, there are then more next time.  Others that are late show so, too, and are forgotten.
 */
static void learn(struct tr_mpi_slices *x, int count)
{
    enum { SEEN_LEAST = 8 };
    struct tr_mpi_pace *p = x->pace;
    const int enough = ahead_of(x) > SEEN_LEAST ? ahead_of(x) : SEEN_LEAST;
    const double now = tr_now();

    /* For the first ones ranks come to the call when they do. */
    if (x->arrived <= enough) {
        p->since = now;
        p->seen = 0;
        return;
    }
    p->seen += count;
    if (p->seen < enough)
        return;
    p->each = now - p->since < p->seen * p->each * MORE || p->each <= 0.0
                  ? (now - p->since) / p->seen
                  : p->each * MORE;
    p->since = now;
    p->seen = 0;
}

/* Receives first: a message that finds its receive posted needs no copy. */
static void advance(struct tr_mpi_slices *x)
{
    const int64_t before = x->arrived;

    retire(x, x->take, x->posted, &x->arrived);
    retire(x, x->give, x->started, &x->gone);
    if (x->pace && x->arrived > before)
        learn(x, (int)(x->arrived - before));
    while (x->error == MPI_SUCCESS && may_post(x))
        post(x);
    while (x->error == MPI_SUCCESS && may_start(x))
        start(x);
}

void tr_mpi_slices_again(struct tr_mpi_slices *x)
{
    const int64_t all = (x->bytes + x->segment - 1) / x->segment * x->lanes;

    x->takes = x->to ? all : 0;
    x->gives = x->from ? all : 0;
    x->posted = x->arrived = x->started = x->gone = 0;
}

static bool all_done(const struct tr_mpi_slices *x)
{
    return x->arrived == x->takes && x->gone == x->gives;
}

/* What comes next may be over at once, too. */
static void go_on(struct tr_mpi_slices *x)
{
    advance(x);
    while (x->error == MPI_SUCCESS && x->over && all_done(x)) {
        void (*over)(struct tr_mpi_slices *) = x->over;

        x->over = NULL;
        over(x);
        advance(x);
    }
}

void tr_mpi_slices_start(struct tr_mpi_slices *x)
{
    struct tr_mpi_slices **last = &under_way;

    tr_mpi_slices_again(x);
    x->error = MPI_SUCCESS;
    x->next = NULL;
    while (*last)
        last = &(*last)->next;
    *last = x;
    go_on(x);
}

void tr_mpi_slices_move(void)
{
    for (struct tr_mpi_slices **at = &under_way; *at;) {
        struct tr_mpi_slices *x = *at;

        go_on(x);
        if (tr_mpi_slices_done(x))
            *at = x->next;
        else
            at = &x->next;
    }
}

bool tr_mpi_slices_done(const struct tr_mpi_slices *x)
{
    return x->error != MPI_SUCCESS || (!x->over && all_done(x));
}
