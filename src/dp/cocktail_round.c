/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "dp/cocktail_parts.h"

/* The computation of a round, with the steps as dp/cocktail.h numbers them. */

struct tr_tensor cocktail_message(const struct tr_cocktail *x, const struct tr_tensor *all, int c)
{
    return tr_tensor_1((unsigned char *)all->data + c * x->stride, TR_U8, x->bytes);
}

static struct tr_tensor part_of(const struct tr_cocktail *x, const struct cocktail_span *s,
                                const struct tr_tensor *all, int c)
{
    return tr_tensor_1((unsigned char *)all->data + c * x->stride + s->wire_at, TR_U8,
                       s->pack.bytes);
}

/* The first `n` numbers of a scratch, in another type if need be. */
static struct tr_tensor room(const struct tr_tensor *t, enum tr_dtype type, int64_t n)
{
    return tr_tensor_1(t->data, type, n);
}

/* ---- random-k: the elements of a round ---- */

/* The piece in which element `at` of the span is. */
static int piece_of(const struct cocktail_span *s, int64_t at)
{
    int low = 0, high = s->pieces - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (at < s->before[middle])
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

/* Elements of chunk c, counted in the span, to where they are in the flat buffers. */
static void to_flat(const struct cocktail_span *s, int c, int32_t *list)
{
    int p = 0;

    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = c * s->chunk + list[i];

        if (list[i] < 0)
            continue;
        /* Most come in order. */
        if (at < s->before[p] || at - s->before[p] >= s->piece[p].count)
            p = piece_of(s, at);
        /* Beyond the last piece there is nothing. */
        at -= s->before[p];
        list[i] = at < s->piece[p].count ? (int32_t)(s->piece[p].first + at) : -1;
    }
}

static struct tr_tensor list_of(const struct cocktail_span *s, int c)
{
    return tr_tensor_span(&s->list, c * s->count, s->count);
}

static void put_list(struct tr_queue *q, const struct tr_tensor *to, const int32_t *list)
{
    if (q->on->apart)
        q->on->upload(q, to, list);
    else if (to->data != (const void *)list)
        memcpy(to->data, list, (size_t)tr_tensor_bytes(to));
}

/* The elements of chunk c that this round takes, where that is a list. */
static void choose(struct tr_cocktail *x, const struct cocktail_span *s, int c, struct tr_queue *q)
{
    struct tr_tensor list = list_of(s, c);
    int32_t *out = q->on->apart ? x->list : tr_i32(&list);

    tr_mask_list(&x->how.mask, s->chunk, x->round, s->id * x->replicas + c, out, x->seen);
    if (c == x->rank)
        put_list(q, &s->own_list, out);
    if (!s->whole)
        to_flat(s, c, out);
    put_list(q, &list, out);
}

/* The elements of chunk c that the round takes: of which part of a flat buffer, and which elements
   of that. */
struct choice {
    struct tr_tensor list, of;
    struct tr_select s;
};

static void choice_of(const struct tr_cocktail *x, const struct cocktail_span *s, int c,
                      const struct tr_tensor *flat, struct choice *out)
{
    out->of = *flat;
    if (s->whole)
        out->of = tr_tensor_span(flat, s->piece[0].first + c * s->chunk, s->chunk);
    out->s = (struct tr_select){0};
    if (s->listed) {
        out->list = list_of(s, c);
        out->s.index = &out->list;
    } else {
        TR_ASSERT(tr_mask_regular(&x->how.mask, s->chunk, x->round, &out->s));
    }
}

/* The same of e. */
static void choice_of_error(const struct tr_cocktail *x, const struct cocktail_span *s,
                            struct choice *out)
{
    out->of = s->e;
    out->s = (struct tr_select){0};
    if (!tr_mask_regular(&x->how.mask, s->chunk, x->round, &out->s))
        out->s.index = &s->own_list;
}

/* ---- 1 ---- */

/* The message for chunk c, or the average for c = replicas. */
static void encode(const struct tr_cocktail *x, const struct cocktail_span *s, int c,
                   struct tr_queue *q, const struct tr_tensor *wire, const struct tr_tensor *y,
                   const struct tr_tensor *v)
{
    const int64_t span = (int64_t)x->how.part * TR_DP_SPANS + s->id;

    tr_sparse_encode_drawn(&s->pack, q, wire, y, v,
                           tr_rng_key(x->how.mask.seed, TR_STREAM_QUANT, x->rank, x->round),
                           (uint64_t)(span * (x->replicas + 1) + c) << 36);
}

static void compress_chunk(struct tr_cocktail *x, const struct cocktail_span *s, int c,
                           struct tr_queue *q)
{
    const enum tr_dtype type = s->pack.bits == TR_SPARSE_FLOATS ? TR_F32 : TR_F16;
    struct tr_tensor wire = part_of(x, s, &x->send, c), y = room(&x->y, type, s->count);
    const struct tr_tensor v = room(&x->v, TR_F32, s->pack.kept);
    struct choice at, ref;

    if (s->listed)
        choose(x, s, c, q);
    choice_of(x, s, c, &x->x, &at);
    if (x->exact) {
        y = tr_tensor_1(wire.data, TR_F32, s->count);
        q->on->select_take(q, &y, &at.of, NULL, at.s);
        return;
    }
    choice_of(x, s, c, &x->g, &ref);
    q->on->select_take(q, &y, &at.of, &ref.of, at.s);
    encode(x, s, c, q, &wire, &y, &v);
}

void cocktail_compress(struct tr_cocktail *x, struct tr_queue *q)
{
    for (int i = 0; i < x->n; i++)
        for (int c = 0; c < x->replicas; c++)
            compress_chunk(x, &x->span[i], c, q);
}

/* ---- 2 ---- */

/* The message of replica j for the own chunk: that of this replica was not sent. */
static struct tr_tensor brought_by(const struct tr_cocktail *x, const struct cocktail_span *s,
                                   int j)
{
    return part_of(x, s, j == x->rank ? &x->send : &x->take, j);
}

static void average_exactly(struct tr_cocktail *x, const struct cocktail_span *s,
                            struct tr_queue *q)
{
    struct tr_tensor wire = part_of(x, s, &x->own, 0);
    struct tr_tensor sum = tr_tensor_1(wire.data, TR_F32, s->count);

    for (int j = 0; j < x->replicas; j++) {
        struct tr_tensor from = brought_by(x, s, j);
        struct tr_tensor y = tr_tensor_1(from.data, TR_F32, s->count);

        if (j == 0)
            q->on->copy(q, &sum, &y);
        else
            q->on->add(q, &sum, &y);
    }
    q->on->scale(q, &sum, 1.0F / (float)x->replicas);
}

static void average_span(struct tr_cocktail *x, const struct cocktail_span *s, struct tr_queue *q)
{
    struct tr_tensor sum = room(&x->sum, TR_F32, s->count), y = room(&x->y, TR_F32, s->count);
    const struct tr_tensor v = room(&x->v, TR_F32, s->pack.kept);
    struct tr_tensor wire = part_of(x, s, &x->own, 0);
    struct choice e;

    q->on->fill(q, &sum, 0.0F);
    for (int j = 0; j < x->replicas; j++) {
        struct tr_tensor from = brought_by(x, s, j);

        tr_sparse_add(&s->pack, q, &sum, &from, 1.0F, &v);
    }
    q->on->scale(q, &sum, 1.0F / (float)x->replicas);
    choice_of_error(x, s, &e);
    q->on->select_take(q, &y, &e.of, NULL, e.s);
    q->on->add(q, &sum, &y);
    encode(x, s, x->replicas, q, &wire, &sum, &v);
    tr_sparse_add(&s->pack, q, &sum, &wire, -1.0F, &v);
    q->on->copy(q, &s->left, &sum);
}

void cocktail_average(struct tr_cocktail *x, struct tr_queue *q)
{
    for (int i = 0; i < x->n; i++)
        if (x->exact)
            average_exactly(x, &x->span[i], q);
        else
            average_span(x, &x->span[i], q);
}

/* ---- check that all messages are finite ---- */

/* The average of chunk c: that of the own chunk was not sent. */
static struct tr_tensor average_of(const struct tr_cocktail *x, const struct cocktail_span *s,
                                   int c)
{
    return c == x->rank ? part_of(x, s, &x->own, 0) : part_of(x, s, &x->take, c);
}

bool cocktail_finite(struct tr_cocktail *x, struct tr_queue *q)
{
    bool finite = true;

    for (int i = 0; i < x->n; i++) {
        const struct cocktail_span *s = &x->span[i];

        for (int c = 0; c < x->replicas; c++) {
            struct tr_tensor wire = average_of(x, s, c);
            struct tr_tensor first = tr_tensor_span(&wire, 0, tr_sparse_look(&s->pack));

            if (q->on->apart)
                q->on->download(q, x->look, &first);
            finite &= tr_sparse_finite(&s->pack, q->on->apart ? x->look : wire.data);
        }
    }
    return finite;
}

/* ---- 3 ---- */

static void commit_chunk(struct tr_cocktail *x, const struct cocktail_span *s, int c,
                         struct tr_queue *q)
{
    const struct tr_tensor own = part_of(x, s, &x->send, c), all = average_of(x, s, c);
    const struct tr_tensor v = room(&x->v, TR_F32, s->pack.kept);
    struct tr_tensor y = room(&x->y, TR_F32, s->count), mean = room(&x->sum, TR_F32, s->count);
    struct choice at, ref;

    choice_of(x, s, c, &x->x, &at);
    if (x->exact) {
        y = tr_tensor_1(all.data, TR_F32, s->count);
        q->on->select_put(q, &at.of, &y, at.s);
        return;
    }
    choice_of(x, s, c, &x->g, &ref);
    tr_sparse_decode(&s->pack, q, &mean, &all, &v);
    q->on->select_add(q, &ref.of, &mean, ref.s, 1.0F);
    /* A single pass over x, which is long, in steps. */
    tr_sparse_decode(&s->pack, q, &y, &own, &v);
    q->on->subtract(q, &y, &mean, &y);
    q->on->select_add(q, &at.of, &y, at.s, 1.0F);
}

void cocktail_commit(struct tr_cocktail *x, struct tr_queue *q)
{
    for (int i = 0; i < x->n; i++) {
        const struct cocktail_span *s = &x->span[i];
        struct choice e;

        for (int c = 0; c < x->replicas; c++)
            commit_chunk(x, s, c, q);
        if (x->exact)
            continue;
        choice_of_error(x, s, &e);
        q->on->select_put(q, &e.of, &s->left, e.s);
    }
}
