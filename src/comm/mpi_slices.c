/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_slices.h"

#include <stddef.h>

static struct tr_mpi_slices *under_way;

/* Segment k of those that a rank sends, and of those that it receives. */
struct segment {
    int distance; /* to the rank that is sent to, and from the one that is received from */
    int64_t first, bytes;
};

static struct segment segment_of(const struct tr_mpi_slices *x, int64_t k)
{
    const int64_t first = k / (x->size - 1) * x->segment, left = x->bytes - first;

    return (struct segment){.distance = 1 + (int)(k % (x->size - 1)),
                            .first = first,
                            .bytes = left < x->segment ? left : x->segment};
}

static void post(struct tr_mpi_slices *x)
{
    const struct segment s = segment_of(x, x->posted);
    const int peer = (x->rank - s.distance + x->size) % x->size;

    x->error = MPI_Irecv(x->to + peer * x->bytes + s.first, (int)s.bytes, MPI_BYTE, peer, x->tag,
                         x->comm, &x->take[x->posted % TR_MPI_AHEAD]);
    x->posted++;
}

static void start(struct tr_mpi_slices *x)
{
    const struct segment s = segment_of(x, x->started);
    const int peer = (x->rank + s.distance) % x->size;

    x->error = MPI_Isend(x->from + peer * x->step + s.first, (int)s.bytes, MPI_BYTE, peer, x->tag,
                         x->comm, &x->give[x->started % TR_MPI_AHEAD]);
    x->started++;
}

/* Count those that are done among `request`, from *count on and below `end`: in order, for the window moves
   with the oldest. */
static void retire(struct tr_mpi_slices *x, MPI_Request *request, int64_t end, int64_t *count)
{
    int done = true;

    while (x->error == MPI_SUCCESS && *count < end) {
        x->error = MPI_Test(&request[*count % TR_MPI_AHEAD], &done, MPI_STATUS_IGNORE);
        if (!done)
            return;
        ++*count;
    }
}

/* Receives first: a message that finds its receive posted needs no copy. */
static void advance(struct tr_mpi_slices *x)
{
    retire(x, x->take, x->posted, &x->arrived);
    retire(x, x->give, x->started, &x->gone);
    while (x->error == MPI_SUCCESS && x->posted < x->all && x->posted < x->arrived + TR_MPI_AHEAD)
        post(x);
    while (x->error == MPI_SUCCESS && x->started < x->all && x->started < x->gone + TR_MPI_AHEAD &&
           x->started < x->arrived + TR_MPI_AHEAD)
        start(x);
}

void tr_mpi_slices_again(struct tr_mpi_slices *x)
{
    x->all = (x->bytes + x->segment - 1) / x->segment * (x->size - 1);
    x->posted = x->arrived = x->started = x->gone = 0;
}

static bool all_done(const struct tr_mpi_slices *x)
{
    return x->arrived == x->all && x->gone == x->all;
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
