/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/cocktail.h"

#include <stdlib.h>
#include <string.h>

#include "dp/cocktail_parts.h"
#include "telemetry/timer.h"

/* Where the messages of spans begin in that of all, and where messages lie in memory. */
enum { WIRE_UNIT = 16, MEMORY_UNIT = 256 };

static int64_t up_to(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- what follows from the sizes ---- */

static void *allocate(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the plan of what replicas exchange");
    return p;
}

static void open_pieces(const struct tr_dp_span *from, struct cocktail_span *s, int64_t *total)
{
    s->id = from->id;
    s->pieces = from->pieces;
    s->piece = allocate((size_t)from->pieces, sizeof *s->piece);
    s->before = allocate((size_t)from->pieces, sizeof *s->before);
    *total = 0;
    for (int i = 0; i < from->pieces; i++) {
        s->piece[i] = from->piece[i];
        s->before[i] = *total;
        *total += from->piece[i].count;
    }
}

static enum tr_status open_span(struct tr_cocktail *x, const struct tr_dp_span *from)
{
    struct cocktail_span *s = &x->span[x->n++];
    struct tr_select regular;
    int64_t total;

    open_pieces(from, s, &total);
    TR_ASSERT(total > 0 && (s->id + 1) * x->replicas < 1 << 16);
    s->chunk = (total + x->replicas - 1) / x->replicas;
    s->whole = s->pieces == 1 && total % x->replicas == 0;
    s->count = tr_mask_count(&x->how.mask, s->chunk);
    s->listed = !s->whole || !tr_mask_regular(&x->how.mask, s->chunk, 0, &regular);
    if (s->listed && x->elems > INT32_MAX)
        return TR_FAIL(
            TR_ECONFIG,
            "a rank holds %lld parameters, and a choice among more than 2147483647 that is a "
            "list has no numbers for them: shard the model over more ranks, or use "
            "--random-method random_rolling",
            (long long)x->elems);
    tr_sparse_plan(&x->how.pack, s->count, &s->pack);
    s->wire_at = up_to(x->bytes, WIRE_UNIT);
    x->bytes = s->wire_at + s->pack.bytes;
    x->numbers += s->chunk;
    return TR_OK;
}

enum tr_status tr_cocktail_open(const struct tr_cocktail_how *how, const struct tr_dp_span *spans,
                                int n, int64_t elems, int rank, int replicas,
                                struct tr_cocktail **out)
{
    struct tr_cocktail *x = allocate(1, sizeof *x);
    enum tr_status s = TR_OK;

    TR_ASSERT(n > 0 && n <= TR_DP_SPANS && replicas > 1);
    *out = NULL;
    x->how = *how;
    x->how.mask.multiple = how->pack.bits == TR_SPARSE_FLOATS ? 1 : how->pack.bucket;
    x->exact =
        how->pack.bits == TR_SPARSE_FLOATS && how->pack.keep >= 1.0 && how->mask.ratio >= 1.0;
    x->elems = elems;
    x->rank = rank;
    x->replicas = replicas;
    x->round = -1;
    for (int i = 0; i < n && s == TR_OK; i++)
        s = open_span(x, &spans[i]);
    if (s != TR_OK) {
        tr_cocktail_close(x);
        return s;
    }
    x->stride = up_to(x->bytes, MEMORY_UNIT);
    *out = x;
    return TR_OK;
}

void tr_cocktail_close(struct tr_cocktail *x)
{
    if (!x)
        return;
    cocktail_worker_close(x);
    for (int i = 0; i < x->n; i++) {
        free(x->span[i].piece);
        free(x->span[i].before);
    }
    free(x->pending);
    free(x->look);
    free(x->list);
    free(x->seen);
    free(x);
}

/* ---- memory ---- */

static struct tr_tensor take(struct tr_arena *a, enum tr_dtype type, int64_t n)
{
    return tr_tensor_1(tr_arena_take(a, TR_LABEL_COMPRESSION, (size_t)(n * tr_dtype_bytes(type))),
                       type, n);
}

/* In a dry arena there is no address to begin from. */
static struct tr_tensor part(const struct tr_tensor *t, int64_t first, int64_t count)
{
    return t->data ? tr_tensor_span(t, first, count) : *t;
}

static void plan_span(struct tr_cocktail *x, struct cocktail_span *s, struct tr_arena *a,
                      int64_t error_at)
{
    if (!x->exact) {
        s->e = part(&x->e, error_at, s->chunk);
        s->left = take(a, TR_F16, s->count);
    }
    if (s->listed) {
        s->list = take(a, TR_I32, x->replicas * s->count);
        s->own_list = take(a, TR_I32, s->count);
    }
}

void tr_cocktail_plan(struct tr_cocktail *x, struct tr_arena *a)
{
    int64_t count = 0, kept = 0, at = 0;

    for (int i = 0; i < x->n; i++) {
        const struct cocktail_span *s = &x->span[i];

        count = s->count > count ? s->count : count;
        kept = s->pack.kept > kept ? s->pack.kept : kept;
    }
    if (!x->exact) {
        x->g = take(a, TR_F16, x->elems);
        x->e = take(a, TR_F16, x->numbers);
        x->y = take(a, TR_F32, count);
        x->sum = take(a, TR_F32, count);
        x->v = take(a, TR_F32, kept);
    }
    x->send = take(a, TR_U8, x->replicas * x->stride);
    x->take = take(a, TR_U8, x->replicas * x->stride);
    x->own = take(a, TR_U8, x->stride);
    x->print = take(a, TR_I64, 1);
    for (int i = 0; i < x->n; i++) {
        plan_span(x, &x->span[i], a, at);
        at += x->span[i].chunk;
    }
}

/* ---- transfers ---- */

/* Host memory that a round needs besides. */
static void open_host(struct tr_cocktail *x, bool apart)
{
    int64_t look = 1, list = 1, seen = 1;

    for (int i = 0; i < x->n; i++) {
        const struct cocktail_span *s = &x->span[i];

        look = tr_sparse_look(&s->pack) > look ? tr_sparse_look(&s->pack) : look;
        list = s->count > list ? s->count : list;
        seen = (s->chunk + 7) / 8 > seen ? (s->chunk + 7) / 8 : seen;
    }
    x->pending = allocate((size_t)x->replicas, sizeof *x->pending);
    x->seen = allocate((size_t)seen, 1);
    if (!apart)
        return;
    x->look = allocate((size_t)look, 1);
    x->list = allocate((size_t)list, sizeof *x->list);
}

enum tr_status tr_cocktail_connect(struct tr_cocktail *x, struct tr_comm *group,
                                   const struct tr_queue *q, const struct tr_tensor *values)
{
    enum tr_status s = TR_OK;

    TR_ASSERT(group->size == x->replicas && group->rank == x->rank);
    TR_ASSERT(values->dtype == TR_F32 && tr_tensor_elems(values) == x->elems);
    x->x = *values;
    open_host(x, q->on->apart);
    if (x->how.overlap && !q->on->apart)
        s = cocktail_worker_open(x);
    x->group = group;
    return tr_comm_agree(group, s);
}

/* To and from each of the others, the next rank first, so that not all send to the same one. */
static void start(struct tr_cocktail *x, struct tr_queue *q, bool down)
{
    const int all = x->replicas;

    for (int i = 1; i < all; i++) {
        const int to = (x->rank + i) % all, from = (x->rank + all - i) % all;
        struct tr_tensor give =
            down ? tr_tensor_span(&x->own, 0, x->bytes) : cocktail_message(x, &x->send, to);
        struct tr_tensor get = cocktail_message(x, &x->take, from);
        const struct tr_leg legs[] = {
            {TR_LEG_RECV, from, get.data, x->bytes},
            {TR_LEG_SEND, to, give.data, x->bytes},
        };

        x->group->via->exchange_start(x->group, q, legs, 2, &x->pending[i - 1]);
    }
    x->under_way = all - 1;
    x->arrived = 0;
}

static bool arrived(struct tr_cocktail *x, struct tr_queue *q, bool wait)
{
    const struct tr_transport *via = x->group->via;

    for (int i = x->arrived; i < x->under_way && !wait; i++)
        if (via->poll(x->group, &x->pending[i]) && i == x->arrived)
            via->finish(x->group, q, &x->pending[x->arrived++]);
    while (wait && x->arrived < x->under_way)
        via->finish(x->group, q, &x->pending[x->arrived++]);
    return x->arrived == x->under_way;
}

/* ---- the round ---- */

void tr_cocktail_begin(struct tr_cocktail *x, struct tr_queue *q)
{
    TR_ASSERT(x->stage == COCKTAIL_IDLE);
    if (x->round < 0 && !x->exact)
        q->on->copy(q, &x->g, &x->x);
    x->round++;
    x->spent = (struct tr_cocktail_spent){0};
    x->worker.seconds = 0.0;
    x->began = tr_now();
    x->stage = COCKTAIL_COMPRESS;
    if (x->threaded)
        cocktail_worker_begin(x, cocktail_compress);
}

/* The next thing of a round whose thread computes; false where that has to wait, or the round is ready.
   The thread is between two jobs when a transfer starts or ends, so no queue is concerned. */
static bool advance(struct tr_cocktail *x, bool wait)
{
    switch (x->stage) {
    case COCKTAIL_COMPRESS:
    case COCKTAIL_AVERAGE:
        if (!cocktail_worker_done(x, wait))
            return false;
        x->sent = tr_now();
        start(x, NULL, x->stage == COCKTAIL_AVERAGE);
        x->stage = x->stage == COCKTAIL_AVERAGE ? COCKTAIL_DOWN : COCKTAIL_UP;
        return true;
    case COCKTAIL_UP:
        if (!arrived(x, NULL, wait))
            return false;
        x->spent.wire += tr_now() - x->sent;
        cocktail_worker_begin(x, cocktail_average);
        x->stage = COCKTAIL_AVERAGE;
        return true;
    case COCKTAIL_DOWN:
        if (!arrived(x, NULL, wait))
            return false;
        x->ready = tr_now();
        x->spent.wire += x->ready - x->sent;
        x->stage = COCKTAIL_READY;
        return true;
    default:
        return false;
    }
}

bool tr_cocktail_poll(struct tr_cocktail *x)
{
    if (!x || !x->threaded)
        return false;
    while (advance(x, false))
        continue;
    return x->stage != COCKTAIL_IDLE && x->stage != COCKTAIL_READY;
}

/* When all that was queued is done. */
static double done(struct tr_queue *q)
{
    q->on->wait(q);
    return tr_now();
}

/* All of it, on the caller's queue.  Nothing overlaps it, so waiting for each part only measures
   its time. */
static void run_here(struct tr_cocktail *x, struct tr_queue *q)
{
    double began = done(q), packed, sent, averaged;

    cocktail_compress(x, q);
    packed = done(q);
    start(x, q, false);
    arrived(x, q, true);
    sent = done(q);
    cocktail_average(x, q);
    averaged = done(q);
    start(x, q, true);
    arrived(x, q, true);
    x->spent.compress = packed - began + averaged - sent;
    x->spent.wire = sent - packed + done(q) - averaged;
    x->spent.exposed = x->spent.wire;
    x->stage = COCKTAIL_READY;
}

bool tr_cocktail_join(struct tr_cocktail *x, struct tr_queue *q)
{
    double began = tr_now();

    TR_ASSERT(x->stage != COCKTAIL_IDLE);
    if (!x->threaded) {
        run_here(x, q);
        return cocktail_finite(x, q);
    }
    if (x->stage == COCKTAIL_READY)
        began = x->ready;
    x->spent.hidden = began - x->began;
    while (advance(x, true))
        continue;
    TR_ASSERT(x->stage == COCKTAIL_READY);
    x->spent.compress = x->worker.seconds;
    x->spent.exposed = x->ready - began;
    return cocktail_finite(x, q);
}

void tr_cocktail_commit(struct tr_cocktail *x, struct tr_queue *q, bool good)
{
    double began = tr_now();

    TR_ASSERT(x->stage == COCKTAIL_READY);
    if (good)
        cocktail_commit(x, q);
    x->stage = COCKTAIL_IDLE;
    x->spent.decompress = done(q) - began;
}

/* ---- status ---- */

uint64_t tr_cocktail_print(struct tr_cocktail *x, struct tr_queue *q)
{
    int64_t print = 0;

    q->on->upload(q, &x->print, &print);
    q->on->fingerprint(q, &x->print, x->exact ? &x->x : &x->g);
    q->on->download(q, &print, &x->print);
    return (uint64_t)print;
}

int64_t tr_cocktail_bytes(const struct tr_cocktail *x)
{
    return x->bytes;
}

int64_t tr_cocktail_numbers(const struct tr_cocktail *x)
{
    return x->numbers;
}

struct tr_cocktail_spent tr_cocktail_spent(const struct tr_cocktail *x)
{
    return x->spent;
}

struct tr_cocktail_state tr_cocktail_state(struct tr_cocktail *x)
{
    return (struct tr_cocktail_state){.round = &x->round, .g = x->g, .e = x->e};
}
