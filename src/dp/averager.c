/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/averager.h"

#include <stdlib.h>
#include <string.h>

#include "codec/sparse.h"
#include "telemetry/timer.h"

/* Where messages lie in memory, and those of spans in that of all. */
enum { MEMORY_UNIT = 256, WIRE_UNIT = 16 };

struct span {
    int pieces;
    struct tr_bucket *piece; /* owned */
    int64_t chunk;           /* numbers of a chunk, padding included */
    int64_t at;              /* where its chunk begins among those of all spans */
    int64_t wire_at;         /* where its message begins in that of all spans */
    struct tr_sparse pack;
};

struct tr_averager {
    int bits, rank, replicas, spans;
    struct span span[TR_DP_SPANS];
    int64_t numbers, bytes, stride;   /* of a message; and from one to the next in memory */
    struct tr_tensor e, s;            /* TR_F16 [replicas * numbers], [numbers] */
    struct tr_tensor y, v;            /* TR_F32 [the largest chunk] */
    struct tr_tensor send, came, own; /* TR_U8: messages for each replica, from each, and to all */
    struct tr_pending *pending;       /* [replicas - 1], owned */
    struct tr_averager_spent spent;
};

static int64_t up_to(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- what follows from the sizes ---- */

static void open_span(struct tr_averager *a, const struct tr_dp_span *from)
{
    const struct tr_sparse_how how = {.bits = a->bits, .bucket = TR_AVERAGER_BUCKET, .keep = 1.0};
    struct span *s = &a->span[a->spans++];
    int64_t total = 0;

    s->pieces = from->pieces;
    s->piece = calloc((size_t)from->pieces, sizeof *s->piece);
    if (!s->piece)
        tr_die(TR_ERESOURCE, "no memory left for the list of what replicas average");
    for (int i = 0; i < from->pieces; i++) {
        s->piece[i] = from->piece[i];
        total += from->piece[i].count;
    }
    s->chunk = up_to(total, (int64_t)a->replicas * TR_AVERAGER_BUCKET * 4) / a->replicas;
    s->at = a->numbers;
    s->wire_at = up_to(a->bytes, WIRE_UNIT);
    tr_sparse_plan(&how, s->chunk, &s->pack);
    a->numbers += s->chunk;
    a->bytes = s->wire_at + s->pack.bytes;
}

enum tr_status tr_averager_open(int bits, const struct tr_dp_span *spans, int n, int rank,
                                int replicas, struct tr_averager **out)
{
    struct tr_averager *a = calloc(1, sizeof *a);

    TR_ASSERT(n > 0 && n <= TR_DP_SPANS && replicas > 1);
    *out = a;
    if (a)
        a->pending = calloc((size_t)replicas, sizeof *a->pending);
    if (!a || !a->pending)
        return TR_FAIL(TR_ERESOURCE, "no memory left for what replicas average");
    a->bits = bits;
    a->rank = rank;
    a->replicas = replicas;
    for (int i = 0; i < n; i++)
        open_span(a, &spans[i]);
    a->stride = up_to(a->bytes, MEMORY_UNIT);
    return TR_OK;
}

void tr_averager_close(struct tr_averager *a)
{
    if (!a)
        return;
    for (int i = 0; i < a->spans; i++)
        free(a->span[i].piece);
    free(a->pending);
    free(a);
}

/* ---- memory ---- */

static struct tr_tensor take(struct tr_arena *a, enum tr_dtype type, int64_t n)
{
    return tr_tensor_1(tr_arena_take(a, TR_LABEL_COMPRESSION, (size_t)(n * tr_dtype_bytes(type))),
                       type, n);
}

void tr_averager_plan(struct tr_averager *a, struct tr_arena *device)
{
    int64_t most = 0;

    for (int i = 0; i < a->spans; i++)
        most = a->span[i].chunk > most ? a->span[i].chunk : most;
    a->e = take(device, TR_F16, a->replicas * a->numbers);
    a->s = take(device, TR_F16, a->numbers);
    a->y = take(device, TR_F32, most);
    a->v = take(device, TR_F32, most);
    a->send = take(device, TR_U8, a->replicas * a->stride);
    a->came = take(device, TR_U8, a->replicas * a->stride);
    a->own = take(device, TR_U8, a->stride);
}

/* ---- chunks ---- */

/* What of span `s` is in chunk `c`, piece by piece: `put` copies y there, else y is made of it.  What lies beyond the
   last piece is zero. */
static void move_chunk(const struct span *s, int c, struct tr_queue *q, const struct tr_tensor *x,
                       const struct tr_tensor *y, bool put)
{
    const int64_t first = c * s->chunk, end = first + s->chunk;
    int64_t at = 0;

    if (!put)
        q->on->fill(q, y, 0.0F);
    for (int i = 0; i < s->pieces; at += s->piece[i++].count) {
        const int64_t lo = at > first ? at : first;
        const int64_t piece_end = at + s->piece[i].count;
        const int64_t n = (piece_end < end ? piece_end : end) - lo;
        struct tr_tensor there, here;

        if (n <= 0)
            continue;
        there = tr_tensor_span(x, s->piece[i].first + lo - at, n);
        here = tr_tensor_span(y, lo - first, n);
        q->on->copy(q, put ? &there : &here, put ? &here : &there);
    }
}

static struct tr_tensor room(const struct tr_tensor *t, const struct span *s)
{
    return tr_tensor_span(t, 0, s->chunk);
}

/* The message of a span to or from replica c. */
static struct tr_tensor part_of(const struct tr_averager *a, const struct span *s,
                                const struct tr_tensor *all, int c)
{
    return tr_tensor_1((unsigned char *)all->data + c * a->stride + s->wire_at, TR_U8,
                       s->pack.bytes);
}

/* y + error is sent, and error what is left. */
static void compress(const struct tr_averager *a, const struct span *s, struct tr_queue *q,
                     const struct tr_tensor *y, const struct tr_tensor *error,
                     const struct tr_tensor *wire)
{
    const struct tr_tensor v = room(&a->v, s);

    q->on->add(q, y, error);
    tr_sparse_encode(&s->pack, q, wire, y, &v);
    tr_sparse_add(&s->pack, q, y, wire, -1.0F, &v);
    q->on->copy(q, error, y);
}

static void compress_worker(const struct tr_averager *a, const struct span *s, int c,
                            struct tr_queue *q, const struct tr_tensor *x)
{
    const struct tr_tensor y = room(&a->y, s), wire = part_of(a, s, &a->send, c);
    const struct tr_tensor e = tr_tensor_span(&a->e, c * a->numbers + s->at, s->chunk);

    move_chunk(s, c, q, x, &y, false);
    compress(a, s, q, &y, &e, &wire);
}

static void compress_server(const struct tr_averager *a, const struct span *s, struct tr_queue *q)
{
    const struct tr_tensor y = room(&a->y, s), v = room(&a->v, s);
    const struct tr_tensor wire = part_of(a, s, &a->own, 0);
    const struct tr_tensor error = tr_tensor_span(&a->s, s->at, s->chunk);

    q->on->fill(q, &y, 0.0F);
    for (int j = 0; j < a->replicas; j++) {
        const struct tr_tensor from = part_of(a, s, j == a->rank ? &a->send : &a->came, j);

        tr_sparse_add(&s->pack, q, &y, &from, 1.0F, &v);
    }
    q->on->scale(q, &y, 1.0F / (float)a->replicas);
    compress(a, s, q, &y, &error, &wire);
}

static void decompress(const struct tr_averager *a, const struct span *s, int c, struct tr_queue *q,
                       const struct tr_tensor *x)
{
    const bool mine = c == a->rank;
    const struct tr_tensor wire = part_of(a, s, mine ? &a->own : &a->came, mine ? 0 : c);
    const struct tr_tensor y = room(&a->y, s), v = room(&a->v, s);

    tr_sparse_decode(&s->pack, q, &y, &wire, &v);
    move_chunk(s, c, q, x, &y, true);
}

/* ---- a step ---- */

/* To and from each of the others, the next rank first, so that not all send to the same one. */
static void exchange(struct tr_averager *a, struct tr_comm *group, struct tr_queue *q, bool down)
{
    const int all = a->replicas;

    for (int i = 1; i < all; i++) {
        const int to = (a->rank + i) % all, from = (a->rank + all - i) % all;
        unsigned char *give = down ? a->own.data : (unsigned char *)a->send.data + to * a->stride;
        const struct tr_leg legs[] = {
            {TR_LEG_RECV, from, (unsigned char *)a->came.data + from * a->stride, a->bytes},
            {TR_LEG_SEND, to, give, a->bytes},
        };

        group->via->exchange_start(group, q, legs, 2, &a->pending[i - 1]);
    }
    for (int i = 1; i < all; i++)
        group->via->finish(group, q, &a->pending[i - 1]);
}

/* The seconds that one part of a run takes are those of its timer. */
static double begin(struct tr_queue *q, enum tr_timer t)
{
    q->on->wait(q);
    tr_timer_start(t);
    return tr_now();
}

static double end(struct tr_queue *q, enum tr_timer t, double began)
{
    q->on->wait(q);
    tr_timer_stop(t);
    return tr_now() - began;
}

static void send_messages(struct tr_averager *a, struct tr_comm *group, struct tr_queue *q,
                          bool down)
{
    const enum tr_timer t = down ? TR_TIMER_DISTRIBUTE_GRADS : TR_TIMER_GATHER_GRADS;
    const double began = begin(q, t);

    exchange(a, group, q, down);
    a->spent.wire += end(q, t, began);
}

void tr_averager_run(struct tr_averager *a, struct tr_comm *group, struct tr_queue *q,
                     const struct tr_tensor *x)
{
    double began = begin(q, TR_TIMER_WORKER_COMPRESS);

    TR_ASSERT(x->dtype == TR_F32);
    a->spent = (struct tr_averager_spent){0};
    for (int i = 0; i < a->spans; i++)
        for (int c = 0; c < a->replicas; c++)
            compress_worker(a, &a->span[i], c, q, x);
    a->spent.compress += end(q, TR_TIMER_WORKER_COMPRESS, began);
    send_messages(a, group, q, false);
    began = begin(q, TR_TIMER_SERVER_COMPRESS);
    for (int i = 0; i < a->spans; i++)
        compress_server(a, &a->span[i], q);
    a->spent.compress += end(q, TR_TIMER_SERVER_COMPRESS, began);
    send_messages(a, group, q, true);
    began = tr_now();
    for (int i = 0; i < a->spans; i++)
        for (int c = 0; c < a->replicas; c++)
            decompress(a, &a->span[i], c, q, x);
    q->on->wait(q);
    a->spent.decompress = tr_now() - began;
}

struct tr_averager_spent tr_averager_spent(const struct tr_averager *a)
{
    return a->spent;
}

int64_t tr_averager_bytes(const struct tr_averager *a)
{
    return a->bytes;
}

int64_t tr_averager_numbers(const struct tr_averager *a)
{
    return a->numbers;
}

struct tr_tensor tr_averager_worker_error(const struct tr_averager *a)
{
    return a->e;
}

struct tr_tensor tr_averager_server_error(const struct tr_averager *a)
{
    return a->s;
}
