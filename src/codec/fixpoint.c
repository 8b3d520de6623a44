/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/parts.h"

/* ---- quantized numbers in bytes ---- */

struct tr_fix_bytes tr_fix_bytes(struct tr_fix fix, int64_t d0, int64_t tokens, int64_t width)
{
    const int64_t dim[3] = {d0, tokens, width};
    struct tr_fix_bytes at = {.scales = 1};

    if (d0 == 0)
        return (struct tr_fix_bytes){0};
    for (int i = 0; i < 3; i++)
        if (!(fix.over >> i & 1U))
            at.scales *= dim[i];
    at.codes = (d0 * tokens * width * fix.bits + 7) / 8;
    at.scales_at = at.codes + at.codes % 2;
    at.total = at.scales_at + 2 * at.scales;
    return at;
}

struct tr_tensor tr_fix_codes(struct tr_fix_bytes at, void *data)
{
    return tr_tensor_1(data, TR_U8, at.codes);
}

struct tr_tensor tr_fix_scales(struct tr_fix_bytes at, void *data)
{
    return tr_tensor_1((unsigned char *)data + at.scales_at, TR_F16, at.scales);
}

/* The byte between codes and scales, and the last one of codes before it, are part of what is sent
   and hashed: the latter is whole because fix_encode fills it up with zeros. */
static void clear_gap(struct tr_queue *q, struct tr_fix_bytes at, void *data)
{
    static const unsigned char zero;
    struct tr_tensor gap = tr_tensor_1((unsigned char *)data + at.codes, TR_U8, 1);

    if (at.scales_at > at.codes)
        q->on->upload(q, &gap, &zero);
}

void tr_fix_put(struct tr_queue *q, struct tr_fix fix, void *data, const struct tr_tensor *x)
{
    struct tr_fix_bytes at = tr_fix_bytes(fix, x->dim[0], x->dim[1], x->dim[2]);
    struct tr_tensor codes = tr_fix_codes(at, data), scales = tr_fix_scales(at, data);

    TR_ASSERT(x->ndim == 3);
    q->on->fix_scale(q, &scales, x, fix);
    q->on->fix_encode(q, &codes, x, &scales, fix);
    clear_gap(q, at, data);
}

void tr_fix_get(struct tr_queue *q, struct tr_fix fix, const struct tr_tensor *y, void *data,
                bool add)
{
    struct tr_fix_bytes at = tr_fix_bytes(fix, y->dim[0], y->dim[1], y->dim[2]);
    struct tr_tensor codes = tr_fix_codes(at, data), scales = tr_fix_scales(at, data);

    TR_ASSERT(y->ndim == 3);
    q->on->fix_decode(q, y, &codes, &scales, fix, add);
}

/* ---- the codec ---- */

static enum tr_status fixpoint_open(const struct tr_codec_how *how, struct tr_codec_end **out)
{
    return tr_end_open(&tr_codec_fixpoint, how, sizeof(struct tr_codec_end), out);
}

static int64_t fixpoint_limit(const struct tr_codec_end *e)
{
    return tr_fix_bytes(e->how.fix, e->how.samples, e->how.tokens, e->how.width).total;
}

static int64_t fixpoint_bytes(const struct tr_codec_end *e, const struct tr_codec_key *key)
{
    (void)key;
    return fixpoint_limit(e);
}

static void note(struct tr_codec_end *e, struct tr_queue *q, const struct tr_codec_key *key,
                 const struct tr_tensor *wire)
{
    struct tr_tensor sent = tr_tensor_span(wire, 0, fixpoint_limit(e));

    tr_end_note_key(e, key);
    tr_end_note(e, q, &sent);
}

static enum tr_status fixpoint_encode(struct tr_codec_end *e, struct tr_queue *q,
                                      const struct tr_codec_key *key, const struct tr_tensor *wire,
                                      const struct tr_tensor *x)
{
    struct tr_tensor block = tr_end_block(e, x);

    tr_end_check(e, key, x);
    TR_ASSERT(wire->dtype == TR_U8 && tr_tensor_bytes(wire) >= fixpoint_limit(e));
    tr_fix_put(q, e->how.fix, wire->data, &block);
    note(e, q, key, wire);
    return TR_OK;
}

static enum tr_status fixpoint_decode(struct tr_codec_end *e, struct tr_queue *q,
                                      const struct tr_codec_key *key, const struct tr_tensor *x,
                                      const struct tr_tensor *wire)
{
    struct tr_tensor block = tr_end_block(e, x);

    tr_end_check(e, key, x);
    TR_ASSERT(wire->dtype == TR_U8 && tr_tensor_bytes(wire) >= fixpoint_limit(e));
    tr_fix_get(q, e->how.fix, &block, wire->data, false);
    note(e, q, key, wire);
    return TR_OK;
}

const struct tr_codec tr_codec_fixpoint = {
    .name = "fixpoint",
    .open = fixpoint_open,
    .plan = tr_end_plan,
    .start = tr_end_start,
    .close = tr_end_close,
    .host_bytes = tr_end_no_bytes,
    .sample_bytes = tr_end_no_bytes,
    .wire_limit = fixpoint_limit,
    .wire_bytes = fixpoint_bytes,
    .encode = fixpoint_encode,
    .decode = fixpoint_decode,
    .learn = tr_end_learn,
    .prefetch = tr_end_prefetch,
    .fingerprint = tr_end_fingerprint,
};
