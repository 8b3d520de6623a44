/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/sparse.h"

#include <math.h>
#include <string.h>

void tr_sparse_plan(const struct tr_sparse_how *how, int64_t n, struct tr_sparse *out)
{
    const bool floats = how->bits == TR_SPARSE_FLOATS;
    int64_t bucket = floats ? 1 : how->bucket;
    int64_t kept = (int64_t)(how->keep * (double)n);

    TR_ASSERT(n > 0 && bucket > 0 && how->keep > 0.0 && how->keep <= 1.0);
    TR_ASSERT(floats || (how->bits >= 1 && how->bits <= 8));
    kept = kept > 1 ? kept : 1;
    kept = kept >= bucket ? kept / bucket * bucket : kept;
    bucket = bucket < kept ? bucket : kept;
    *out = (struct tr_sparse){.bits = how->bits,
                              .stochastic = how->stochastic,
                              .distance = how->distance,
                              .n = n,
                              .kept = kept,
                              .bucket = bucket,
                              .buckets = kept / bucket};
    out->codes_at = floats ? 0 : 2 * out->buckets;
    out->mask_at = out->codes_at + (kept * how->bits + 7) / 8;
    out->bytes = out->mask_at + (kept < n ? (n + 7) / 8 : 0);
}

/* The parts of a message. */
struct parts {
    struct tr_tensor scale, code, mask;
    struct tr_fix how;
};

static struct parts parts_of(const struct tr_sparse *s, const struct tr_tensor *wire)
{
    unsigned char *at = wire->data;
    struct parts p = {.how = {.bits = s->bits, .over = 1U << 1, .scale = TR_SCALE_MAX}};

    TR_ASSERT(wire->dtype == TR_U8 && tr_tensor_bytes(wire) == s->bytes);
    if (s->bits == TR_SPARSE_FLOATS) {
        p.code = tr_tensor_1(at, TR_F32, s->kept);
    } else {
        p.scale = tr_tensor_1(at, TR_F16, s->buckets);
        p.code = tr_tensor_1(at + s->codes_at, TR_U8, s->mask_at - s->codes_at);
    }
    if (s->kept < s->n)
        p.mask = tr_tensor_1(at + s->mask_at, TR_U8, s->bytes - s->mask_at);
    return p;
}

/* A row for each number of a bucket, a column for each bucket. */
static struct tr_tensor in_buckets(const struct tr_sparse *s, const struct tr_tensor *v)
{
    return tr_tensor_3(v->data, v->dtype, 1, s->bucket, s->buckets);
}

static void encode(const struct tr_sparse *s, struct tr_queue *q, const struct parts *parts,
                   const struct tr_tensor *y, const struct tr_tensor *scratch)
{
    const struct parts p = *parts;
    struct tr_tensor kept = *y, table;

    TR_ASSERT(tr_tensor_elems(y) == s->n);
    if (s->kept < s->n) {
        q->on->topk_mask(q, &p.mask, y, s->kept);
        kept = s->bits == TR_SPARSE_FLOATS ? p.code : tr_tensor_1(scratch->data, y->dtype, s->kept);
        q->on->mask_take(q, &kept, y, &p.mask);
    }
    if (s->bits == TR_SPARSE_FLOATS) {
        if (s->kept == s->n)
            q->on->copy(q, &p.code, y);
        return;
    }
    table = in_buckets(s, &kept);
    q->on->fix_scale(q, &p.scale, &table, p.how);
    q->on->fix_encode(q, &p.code, &table, &p.scale, p.how);
}

void tr_sparse_encode(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *wire,
                      const struct tr_tensor *y, const struct tr_tensor *scratch)
{
    const struct parts p = parts_of(s, wire);

    TR_ASSERT(!s->stochastic);
    encode(s, q, &p, y, scratch);
}

void tr_sparse_encode_drawn(const struct tr_sparse *s, struct tr_queue *q,
                            const struct tr_tensor *wire, const struct tr_tensor *y,
                            const struct tr_tensor *scratch, struct tr_rng draws, uint64_t first)
{
    struct parts p = parts_of(s, wire);

    p.how.stochastic = s->stochastic;
    p.how.distance = s->distance;
    p.how.draws = draws;
    p.how.first = first;
    encode(s, q, &p, y, scratch);
}

/* The numbers that are kept, in fp32: in the message itself, or in `room`. */
static struct tr_tensor numbers(const struct tr_sparse *s, struct tr_queue *q,
                                const struct parts *p, const struct tr_tensor *room)
{
    struct tr_tensor v = p->code, table;

    if (s->bits == TR_SPARSE_FLOATS)
        return v;
    v = tr_tensor_1(room->data, TR_F32, s->kept);
    table = in_buckets(s, &v);
    q->on->fix_decode(q, &table, &p->code, &p->scale, p->how, false);
    return v;
}

void tr_sparse_decode(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *y,
                      const struct tr_tensor *wire, const struct tr_tensor *scratch)
{
    const struct parts p = parts_of(s, wire);
    struct tr_tensor v;

    TR_ASSERT(y->dtype == TR_F32 && tr_tensor_elems(y) == s->n);
    if (s->kept < s->n) {
        q->on->fill(q, y, 0.0F);
        tr_sparse_add(s, q, y, wire, 1.0F, scratch);
        return;
    }
    v = numbers(s, q, &p, y);
    if (s->bits == TR_SPARSE_FLOATS)
        q->on->copy(q, y, &v);
}

void tr_sparse_add(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *y,
                   const struct tr_tensor *wire, float factor, const struct tr_tensor *scratch)
{
    const struct parts p = parts_of(s, wire);
    const struct tr_tensor v = numbers(s, q, &p, scratch);

    TR_ASSERT(y->dtype == TR_F32 && tr_tensor_elems(y) == s->n);
    if (s->kept < s->n)
        q->on->mask_add(q, y, &v, &p.mask, factor);
    else
        q->on->select_add(q, y, &v, (struct tr_select){.first = 0, .step = 1}, factor);
}

int64_t tr_sparse_look(const struct tr_sparse *s)
{
    return s->bits == TR_SPARSE_FLOATS ? s->mask_at : s->codes_at;
}

bool tr_sparse_finite(const struct tr_sparse *s, const void *wire)
{
    const unsigned char *at = wire;
    bool finite = true;

    if (s->bits == TR_SPARSE_FLOATS) {
        for (int64_t i = 0; i < s->kept; i++) {
            float v;

            memcpy(&v, at + 4 * i, sizeof v);
            finite &= isfinite(v) != 0;
        }
        return finite;
    }
    for (int64_t i = 0; i < s->buckets; i++) {
        uint16_t half;

        memcpy(&half, at + 2 * i, sizeof half);
        finite &= (half & 0x7c00) != 0x7c00;
    }
    return finite;
}
