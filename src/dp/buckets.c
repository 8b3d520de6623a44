/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/buckets.h"

#include <limits.h>
#include <stdlib.h>

/*
 * Buckets in flight at once.  The transport keeps a copy of each, so their bytes are bounded; there
 * may be many small ones, because the next are started only when a layer is done, and until then
 * the network should be busy.  Two at least, so that one is sent while another ends.
 *
 * That is for a transport that the host has to poll.  Where transfers are work of the device
 * (tr_transport.queues) the order of all of them must be the same on all ranks and so depend on
 * nothing but the program: all-reduces start when they are ready, however many are in flight, and
 * each all-gather when the one before it is waited for.  More of those would only delay what other
 * groups start after them.
 */
enum { IN_FLIGHT = 16, BYTES_IN_FLIGHT = 64 << 20 };

/* Transfers of the buckets in a fixed order: 0 .. done - 1 are done, done .. started - 1 in flight.
   All ranks start them in that order, however many each has in flight. */
struct flow {
    int started, done;
    int most;                     /* under way at once */
    struct tr_pending *under_way; /* transfer i is in i % most */
};

struct tr_buckets {
    struct tr_comm *group; /* borrowed */
    struct tr_buckets_how how;
    int n;
    struct tr_bucket *bucket; /* [n] */
    struct tr_tensor *grads;  /* [n], spans of the gradient buffer */
    struct tr_tensor *wire;   /* [n], of what is sent: the same, or of another type */
    struct tr_tensor *values; /* [n], of the values */
    int ready;                /* buckets whose gradients are complete */
    struct flow reduce;       /* transfer i is bucket i */
    struct flow gather;       /* transfer i is bucket n - 1 - i; all done except between
                                   tr_buckets_gather() and tr_buckets_need() */
};

static struct tr_bucket *allocate_buckets(int64_t n)
{
    struct tr_bucket *b = malloc((size_t)n * sizeof *b);

    if (!b)
        tr_die(TR_ERESOURCE,
               "no memory left for a plan of %lld gradient buckets; make them larger "
               "(--ddp-bucket-size)",
               (long long)n);
    return b;
}

/* How many buckets a region of `units` is split into, if each has `each` at least. */
static int64_t pieces(int64_t units, int64_t each)
{
    return units == 0 ? 0 : units < each ? 1 : units / each;
}

int tr_buckets_plan(const int64_t *end, int n, int64_t at_least, int64_t unit,
                    struct tr_bucket **out)
{
    int64_t each = (at_least + unit - 1) / unit, first = 0, count = 0, units;
    struct tr_bucket *b;

    TR_ASSERT(n > 0 && at_least > 0 && unit > 0);
    for (int r = 0; r < n; first = end[r++]) {
        TR_ASSERT(end[r] >= first && end[r] % unit == 0);
        count += pieces((end[r] - first) / unit, each);
    }
    TR_ASSERT(count <= INT_MAX);
    *out = b = allocate_buckets(count);
    first = 0;
    for (int r = 0; r < n; r++) {
        units = (end[r] - first) / unit;
        count = pieces(units, each);
        /* The first units % count of them are longer by one. */
        for (int64_t i = 0; i < count; first += b++->count, i++)
            *b = (struct tr_bucket){first, (units / count + (i < units % count)) * unit};
    }
    return (int)(b - *out);
}

static struct tr_bucket slice(struct tr_bucket b, int rank, int replicas)
{
    int64_t count = b.count / replicas;

    TR_ASSERT(b.count % replicas == 0);
    return (struct tr_bucket){b.first + rank * count, count};
}

int tr_buckets_owned(const struct tr_bucket *buckets, int n, int rank, int replicas, bool sharded,
                     struct tr_bucket **out)
{
    const struct tr_bucket *last = &buckets[n - 1];
    struct tr_bucket *b;

    if (!sharded) {
        b = allocate_buckets(1);
        *b = (struct tr_bucket){buckets[0].first, last->first + last->count - buckets[0].first};
        *out = b;
        return 1;
    }
    b = allocate_buckets(n);
    for (int i = 0; i < n; i++)
        b[i] = slice(buckets[i], rank, replicas);
    *out = b;
    return n;
}

static struct tr_buckets *allocate(int n)
{
    struct tr_buckets *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->bucket = malloc((size_t)n * sizeof *x->bucket);
    x->grads = malloc((size_t)n * sizeof *x->grads);
    x->wire = malloc((size_t)n * sizeof *x->wire);
    x->values = malloc((size_t)n * sizeof *x->values);
    if (x->bucket && x->grads && x->wire && x->values)
        return x;
    tr_buckets_close(x);
    return NULL;
}

static int most_in_flight(const struct tr_tensor *sent, const struct tr_bucket *buckets, int n)
{
    int64_t largest = 1, fit;

    for (int i = 0; i < n; i++)
        largest = buckets[i].count > largest ? buckets[i].count : largest;
    fit = BYTES_IN_FLIGHT / (largest * tr_dtype_bytes(sent->dtype));
    return fit < 2 ? 2 : fit > IN_FLIGHT ? IN_FLIGHT : (int)fit;
}

static bool open_flow(struct flow *f, int most)
{
    f->most = most;
    f->under_way = malloc((size_t)most * sizeof *f->under_way);
    return f->under_way;
}

static bool open_flows(struct tr_buckets *x, bool queues, const struct tr_tensor *sent,
                       const struct tr_bucket *buckets, int n)
{
    int most = most_in_flight(sent, buckets, n);

    return open_flow(&x->reduce, queues ? n : most) && open_flow(&x->gather, queues ? 1 : most);
}

enum tr_status tr_buckets_open(struct tr_comm *group, const struct tr_tensor *grads,
                               const struct tr_tensor *values, const struct tr_bucket *buckets,
                               int n, struct tr_buckets_how how, struct tr_buckets **out)
{
    struct tr_buckets *x = allocate(n);
    enum tr_status status = TR_OK;

    TR_ASSERT(n > 0);
    *out = NULL;
    if (!x || !open_flows(x, group->via->queues, how.wire.data ? &how.wire : grads, buckets, n))
        status = TR_FAIL(TR_ERESOURCE, "no memory left for %d gradient buckets", n);
    status = tr_comm_agree(group, status);
    if (status != TR_OK) {
        tr_buckets_close(x);
        return status;
    }
    x->group = group;
    x->how = how;
    /* Nothing to do where there is one replica. */
    x->n = group->size > 1 ? n : 0;
    for (int i = 0; i < n; i++) {
        x->bucket[i] = buckets[i];
        x->grads[i] = tr_tensor_span(grads, buckets[i].first, buckets[i].count);
        x->wire[i] =
            tr_tensor_span(how.wire.data ? &how.wire : grads, buckets[i].first, buckets[i].count);
        x->values[i] = tr_tensor_span(values, buckets[i].first, buckets[i].count);
    }
    x->gather.started = x->gather.done = x->n;
    *out = x;
    return TR_OK;
}

void tr_buckets_close(struct tr_buckets *x)
{
    if (!x)
        return;
    TR_ASSERT(x->reduce.started == 0 && x->gather.done == x->n);
    free(x->bucket);
    free(x->grads);
    free(x->wire);
    free(x->values);
    free(x->reduce.under_way);
    free(x->gather.under_way);
    free(x);
}

static bool has_room(const struct tr_buckets *x, const struct flow *f)
{
    return f->started < x->n && f->started - f->done < f->most;
}

static void tell(const struct tr_buckets *x, int i, enum tr_bucket_moment moment)
{
    if (x->how.watch.at)
        x->how.watch.at(x->how.watch.ctx, i, moment);
}

/* What this rank gets of bucket `i`, or all of it, in one of the lists of spans. */
static struct tr_tensor mine_of(const struct tr_buckets *x, const struct tr_tensor *span, int i)
{
    const struct tr_bucket own = slice(x->bucket[i], x->group->rank, x->group->size);

    return x->how.sharded ? tr_tensor_span(&span[i], own.first - x->bucket[i].first, own.count)
                          : span[i];
}

/* The sums of a bucket are there, and cast back. */
static void land(struct tr_buckets *x, struct tr_queue *q, int i)
{
    const struct tr_tensor from = mine_of(x, x->wire, i), to = mine_of(x, x->grads, i);

    if (from.data != to.data) {
        tell(x, i, TR_BUCKET_ARRIVED);
        q->on->copy(q, &to, &from);
    }
    tell(x, i, TR_BUCKET_DONE);
}

/* Wait for the oldest. */
static void finish_one(struct tr_buckets *x, struct tr_queue *q, struct flow *f)
{
    x->group->via->finish(x->group, q, &f->under_way[f->done % f->most]);
    if (f == &x->reduce)
        land(x, q, f->done);
    f->done++;
}

/* Work of a device needs no polling, and nothing may depend on its progress. */
static void progress(struct tr_buckets *x, struct tr_queue *q, struct flow *f)
{
    for (int i = f->done; i < f->started && !x->group->via->queues; i++)
        if (x->group->via->poll(x->group, &f->under_way[i % f->most]) && i == f->done)
            finish_one(x, q, f);
}

void tr_grads_look_at(const struct tr_grads_look *look, int64_t first,
                      const struct tr_tensor *grads)
{
    if (look && look->at)
        look->at(look->ctx, first, grads);
}

static void reduce_next(struct tr_buckets *x, struct tr_queue *q)
{
    struct tr_comm *c = x->group;
    int i = x->reduce.started++;
    struct tr_pending *p = &x->reduce.under_way[i % x->reduce.most];
    const struct tr_tensor mine = mine_of(x, x->wire, i);

    tr_grads_look_at(x->how.look, x->bucket[i].first, &x->grads[i]);
    if (x->wire[i].data != x->grads[i].data) {
        tell(x, i, TR_BUCKET_START_CAST);
        q->on->copy(q, &x->wire[i], &x->grads[i]);
        tell(x, i, TR_BUCKET_CAST);
    } else {
        tell(x, i, TR_BUCKET_START);
    }
    if (x->how.sharded)
        c->via->reduce_scatter_start(c, q, &mine, &x->wire[i], TR_SUM, p);
    else
        c->via->allreduce_start(c, q, &x->wire[i], TR_SUM, p);
    if (x->how.params)
        tr_params_names(x->how.params, x->bucket[i].first, x->bucket[i].count, p->about,
                        sizeof p->about);
    tell(x, i, TR_BUCKET_SENT);
}

static void find_ready(struct tr_buckets *x, int64_t upto)
{
    while (x->ready < x->n && x->bucket[x->ready].first + x->bucket[x->ready].count <= upto)
        tell(x, x->ready++, TR_BUCKET_READY);
}

/* Ranks start the buckets in one order, however they call this, so it does no harm that one has
   room for the next bucket and another does not.  Where transfers are work of the device there is
   always room. */
void tr_buckets_ready(struct tr_buckets *x, struct tr_queue *q, int64_t upto)
{
    if (!x->how.overlap_reduce)
        return;
    TR_ASSERT(x->gather.done == x->n);
    find_ready(x, upto);
    progress(x, q, &x->reduce);
    while (has_room(x, &x->reduce)) {
        const struct tr_bucket *next = &x->bucket[x->reduce.started];

        if (next->first + next->count > upto)
            return;
        reduce_next(x, q);
    }
}

bool tr_buckets_overlaps(const struct tr_buckets *x)
{
    return x->how.overlap_reduce && x->n > 0;
}

void tr_buckets_finish(struct tr_buckets *x, struct tr_queue *q)
{
    TR_ASSERT(x->gather.done == x->n);
    find_ready(x, INT64_MAX);
    while (x->reduce.done < x->n) {
        while (has_room(x, &x->reduce))
            reduce_next(x, q);
        finish_one(x, q, &x->reduce);
    }
    x->reduce.started = x->reduce.done = x->ready = 0;
    tell(x, 0, TR_BUCKET_ALL_DONE);
}

static void gather_more(struct tr_buckets *x, struct tr_queue *q)
{
    struct flow *f = &x->gather;

    for (; has_room(x, f); f->started++)
        x->group->via->allgather_start(x->group, q, &x->values[x->n - 1 - f->started],
                                       &f->under_way[f->started % f->most]);
}

void tr_buckets_gather(struct tr_buckets *x, struct tr_queue *q)
{
    if (!x->how.sharded)
        return;
    TR_ASSERT(x->gather.done == x->n && x->reduce.started == 0);
    x->gather.started = x->gather.done = 0;
    gather_more(x, q);
    if (!x->how.overlap_gather)
        tr_buckets_need(x, q, 0);
}

/* The first element from which on all values are there. */
static int64_t gathered(const struct tr_buckets *x)
{
    if (x->gather.done == 0)
        return INT64_MAX;
    return x->gather.done == x->n ? 0 : x->bucket[x->n - x->gather.done].first;
}

void tr_buckets_need(struct tr_buckets *x, struct tr_queue *q, int64_t from)
{
    struct flow *f = &x->gather;

    if (f->done == x->n)
        return;
    progress(x, q, f);
    gather_more(x, q);
    while (f->done < x->n && from < gathered(x)) {
        finish_one(x, q, f);
        gather_more(x, q);
    }
}
