/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/dp.h"

#include <stdlib.h>

/*
 * Buckets under way at once.  MPI keeps a copy of each, so this bounds the memory that it takes
 * behind the back of the plan; two suffice to keep a network busy.
 */
enum { IN_FLIGHT = 4 };

/* Buckets 0 .. done - 1 are summed, done .. started - 1 under way. */
struct tr_dp {
    struct tr_comm group;
    bool overlap;
    int n, started, done;
    struct tr_bucket *bucket;               /* [n] */
    struct tr_tensor *span;                 /* [n], of the gradient buffer */
    struct tr_pending under_way[IN_FLIGHT]; /* bucket i is in i % IN_FLIGHT */
};

int tr_buckets_plan(const int64_t *boundary, int n, int64_t at_least, struct tr_bucket **out)
{
    struct tr_bucket *b = malloc((size_t)n * sizeof *b);
    int64_t first = 0;
    int count = 0;

    if (!b && n > 0)
        tr_die(TR_ERESOURCE, "no memory left for a plan of %d gradient buckets", n);
    for (int i = 0; i < n; i++)
        if (boundary[i] - first >= at_least || i == n - 1) {
            b[count++] = (struct tr_bucket){first, boundary[i] - first};
            first = boundary[i];
        }
    *out = b;
    return count;
}

static struct tr_dp *allocate(int n)
{
    struct tr_dp *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->bucket = malloc((size_t)n * sizeof *x->bucket);
    x->span = malloc((size_t)n * sizeof *x->span);
    if (x->bucket && x->span)
        return x;
    tr_dp_close(x);
    return NULL;
}

/* Ranks reach a bucket at different times.  In a group of their own that cannot disturb the order
   of anybody else's calls. */
enum tr_status tr_dp_open(struct tr_comm *dp, const struct tr_tensor *grads,
                          const struct tr_bucket *buckets, int n, bool overlap, struct tr_dp **out)
{
    struct tr_dp *x = allocate(n);
    enum tr_status status = TR_OK;

    TR_ASSERT(n > 0);
    *out = NULL;
    if (!x)
        status = TR_FAIL(TR_ERESOURCE, "no memory left for %d gradient buckets", n);
    status = tr_comm_agree(dp, status);
    if (status == TR_OK)
        status = dp->via->split(dp, 0, dp->rank, "dp", &x->group);
    if (status != TR_OK) {
        tr_dp_close(x);
        return status;
    }
    x->overlap = overlap;
    /* Nothing to do where there is one replica. */
    x->n = dp->size > 1 ? n : 0;
    for (int i = 0; i < n; i++) {
        x->bucket[i] = buckets[i];
        x->span[i] = tr_tensor_span(grads, buckets[i].first, buckets[i].count);
    }
    *out = x;
    return TR_OK;
}

void tr_dp_close(struct tr_dp *x)
{
    if (!x)
        return;
    TR_ASSERT(x->started == x->done);
    if (x->group.size > 0)
        x->group.via->release(&x->group);
    free(x->bucket);
    free(x->span);
    free(x);
}

static void start_next(struct tr_dp *x, struct tr_queue *q)
{
    struct tr_pending *p = &x->under_way[x->started % IN_FLIGHT];

    x->group.via->allreduce_start(&x->group, q, &x->span[x->started], TR_SUM, p);
    x->started++;
}

static bool may_start(const struct tr_dp *x, int64_t upto)
{
    const struct tr_bucket *b = &x->bucket[x->started];

    return x->started < x->n && x->started - x->done < IN_FLIGHT && b->first + b->count <= upto;
}

/* Ranks start the buckets in one order, however they call this, so it does no harm that one has
   room for the next bucket and another does not. */
void tr_dp_ready(struct tr_dp *x, struct tr_queue *q, int64_t upto)
{
    if (!x->overlap)
        return;
    for (int i = x->done; i < x->started; i++)
        if (x->group.via->poll(&x->group, &x->under_way[i % IN_FLIGHT]) && i == x->done)
            x->done++;
    while (may_start(x, upto))
        start_next(x, q);
}

void tr_dp_finish(struct tr_dp *x, struct tr_queue *q)
{
    while (x->done < x->n) {
        while (may_start(x, INT64_MAX))
            start_next(x, q);
        x->group.via->finish(&x->group, q, &x->under_way[x->done % IN_FLIGHT]);
        x->done++;
    }
    x->started = x->done = 0;
}
