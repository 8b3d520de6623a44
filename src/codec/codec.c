/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/codec.h"

#include <stdlib.h>
#include <string.h>

#include "codec/parts.h"

/* ---- what every end has ---- */

static void check_how(const struct tr_codec_how *how)
{
    TR_ASSERT(how->samples > 0 && how->tokens > 0 && how->width > 0);
    TR_ASSERT(tr_dtype_is_float(how->dtype));
    TR_ASSERT(how->fix.bits >= 1 && how->fix.bits <= 8 && how->fix.over < 8);
}

enum tr_status tr_end_open(const struct tr_codec *on, const struct tr_codec_how *how, size_t bytes,
                           struct tr_codec_end **out)
{
    struct tr_codec_end *e = calloc(1, bytes);

    *out = NULL;
    check_how(how);
    if (!e)
        return TR_FAIL(TR_ERESOURCE, "no memory left for one end of a compressed link");
    e->on = on;
    e->how = *how;
    *out = e;
    return TR_OK;
}

void tr_end_plan(struct tr_codec_end *e, struct tr_arena *a)
{
    e->print = tr_i64_1(tr_arena_take(a, TR_LABEL_COMPRESSION, sizeof(int64_t)), 1);
}

enum tr_status tr_end_start(struct tr_codec_end *e)
{
    (void)e;
    return TR_OK;
}

void tr_end_close(struct tr_codec_end *e)
{
    free(e);
}

int64_t tr_end_no_bytes(const struct tr_codec_how *how)
{
    (void)how;
    return 0;
}

enum tr_status tr_end_learn(struct tr_codec_end *e, struct tr_queue *q,
                            const struct tr_codec_key *key, const struct tr_tensor *x)
{
    (void)e, (void)q, (void)key, (void)x;
    return TR_OK;
}

enum tr_status tr_end_prefetch(struct tr_codec_end *e, const struct tr_codec_key *next)
{
    (void)e, (void)next;
    return TR_OK;
}

/* ---- fingerprints ---- */

/* The finalizer of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void note_word(struct tr_codec_end *e, int64_t word)
{
    e->keys = mixed(e->keys * 0x9e3779b97f4a7c15u + (uint64_t)word + 1);
}

void tr_end_note_key(struct tr_codec_end *e, const struct tr_codec_key *key)
{
    note_word(e, key->step);
    for (int b = 0; b < key->samples; b++)
        note_word(e, key->sample[b]);
}

void tr_end_note(struct tr_codec_end *e, struct tr_queue *q, const struct tr_tensor *x)
{
    q->on->fingerprint(q, &e->print, x);
}

uint64_t tr_end_fingerprint(struct tr_codec_end *e, struct tr_queue *q)
{
    int64_t print;

    q->on->download(q, &print, &e->print);
    return mixed((uint64_t)print ^ mixed(e->keys));
}

/* ---- blocks ---- */

int64_t tr_end_numbers(const struct tr_codec_end *e)
{
    return e->how.samples * e->how.tokens * e->how.width;
}

void tr_end_check(const struct tr_codec_end *e, const struct tr_codec_key *key,
                  const struct tr_tensor *x)
{
    TR_ASSERT(x->dtype == e->how.dtype && tr_tensor_elems(x) == tr_end_numbers(e));
    TR_ASSERT(key->samples == e->how.samples);
}

struct tr_tensor tr_end_block(const struct tr_codec_end *e, const struct tr_tensor *x)
{
    return tr_tensor_3(x->data, x->dtype, e->how.samples, e->how.tokens, e->how.width);
}

struct tr_tensor tr_end_sample(const struct tr_codec_end *e, const struct tr_tensor *x, int b)
{
    int64_t n = e->how.tokens * e->how.width;
    struct tr_tensor span = tr_tensor_span(x, b * n, n);

    return tr_tensor_3(span.data, span.dtype, 1, e->how.tokens, e->how.width);
}

/* ---- none ---- */

static enum tr_status none_open(const struct tr_codec_how *how, struct tr_codec_end **out);

static int64_t none_limit(const struct tr_codec_end *e)
{
    return tr_end_numbers(e) * tr_dtype_bytes(e->how.dtype);
}

static int64_t none_bytes(const struct tr_codec_end *e, const struct tr_codec_key *key)
{
    (void)key;
    return none_limit(e);
}

/* The bytes on the wire, as what they are. */
static struct tr_tensor as_numbers(const struct tr_codec_end *e, const struct tr_tensor *wire)
{
    TR_ASSERT(wire->dtype == TR_U8 && tr_tensor_bytes(wire) >= none_limit(e));
    return tr_tensor_1(wire->data, e->how.dtype, tr_end_numbers(e));
}

static enum tr_status none_encode(struct tr_codec_end *e, struct tr_queue *q,
                                  const struct tr_codec_key *key, const struct tr_tensor *wire,
                                  const struct tr_tensor *x)
{
    struct tr_tensor numbers = as_numbers(e, wire);

    tr_end_check(e, key, x);
    q->on->copy(q, &numbers, x);
    tr_end_note_key(e, key);
    tr_end_note(e, q, &numbers);
    return TR_OK;
}

static enum tr_status none_decode(struct tr_codec_end *e, struct tr_queue *q,
                                  const struct tr_codec_key *key, const struct tr_tensor *x,
                                  const struct tr_tensor *wire)
{
    struct tr_tensor numbers = as_numbers(e, wire);

    tr_end_check(e, key, x);
    q->on->copy(q, x, &numbers);
    tr_end_note_key(e, key);
    tr_end_note(e, q, &numbers);
    return TR_OK;
}

static const struct tr_codec none = {
    .name = "none",
    .open = none_open,
    .plan = tr_end_plan,
    .start = tr_end_start,
    .close = tr_end_close,
    .host_bytes = tr_end_no_bytes,
    .sample_bytes = tr_end_no_bytes,
    .wire_limit = none_limit,
    .wire_bytes = none_bytes,
    .encode = none_encode,
    .decode = none_decode,
    .learn = tr_end_learn,
    .prefetch = tr_end_prefetch,
    .fingerprint = tr_end_fingerprint,
};

static enum tr_status none_open(const struct tr_codec_how *how, struct tr_codec_end **out)
{
    return tr_end_open(&none, how, sizeof(struct tr_codec_end), out);
}

const struct tr_codec *tr_codec_find(const char *name)
{
    static const struct tr_codec *const all[] = {&none, &tr_codec_fixpoint, &tr_codec_delta,
                                                 &tr_codec_delta_lowbits};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
