/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "codec/parts.h"
#include "codec/store.h"
#include "util/file.h"

/*
 * delta and delta-lowbits.  In the buffers of an end samples have another order than in the block:
 * first those in the activation cache, then the others, so that the former are one tensor for
 * quantization.  Both ends have the same order.
 */
struct delta {
    struct tr_codec_end base;
    struct tr_store *store;
    bool few;            /* delta-lowbits */
    int64_t *place;      /* [B] of each sample of the block among the buffers */
    struct tr_tensor m;  /* TR_F16 [B,T,H] */
    struct tr_tensor d;  /* TR_F32 [B,T,H] x - m; of the end that sends */
    unsigned char *kept; /* B records of delta-lowbits */
    void *own;           /* the buffers of records: of m, or kept */
};

static struct delta *of(struct tr_codec_end *e)
{
    return (struct delta *)e;
}

/* ---- sizes ---- */

static bool has_few(const struct tr_codec *c)
{
    return c == &tr_codec_delta_lowbits;
}

/* How delta-lowbits stores [1,T,H]. */
static struct tr_fix few_bits(const struct tr_codec_how *how)
{
    return (struct tr_fix){.bits = how->keep_bits, .over = 2, .scale = TR_SCALE_MAX};
}

/* T H, and the bytes of a sample that is sent uncompressed. */
static int64_t numbers(const struct tr_codec_how *how)
{
    return how->tokens * how->width;
}

static int64_t whole_bytes(const struct tr_codec_how *how)
{
    return 2 * numbers(how);
}

static struct tr_fix_bytes kept_bytes(const struct tr_codec_how *how)
{
    return tr_fix_bytes(few_bits(how), 1, how->tokens, how->width);
}

static int64_t record_bytes(const struct tr_codec_how *how, bool few)
{
    return few ? kept_bytes(how).total : whole_bytes(how);
}

static struct tr_store_how store_of(const struct tr_codec_how *how, bool few)
{
    return (struct tr_store_how){.capacity = how->capacity,
                                 .bytes = record_bytes(how, few),
                                 .folder = how->folder,
                                 .ahead = how->ahead};
}

static int64_t delta_host_bytes(const struct tr_codec_how *how)
{
    struct tr_store_how store = store_of(how, false);

    return tr_store_host_bytes(&store);
}

static int64_t lowbits_host_bytes(const struct tr_codec_how *how)
{
    struct tr_store_how store = store_of(how, true);

    return tr_store_host_bytes(&store);
}

static int64_t delta_sample_bytes(const struct tr_codec_how *how)
{
    return tr_store_stride(record_bytes(how, false));
}

static int64_t lowbits_sample_bytes(const struct tr_codec_how *how)
{
    return tr_store_stride(record_bytes(how, true));
}

/* Bytes on the wire of the quantized part with `old` samples. */
static int64_t delta_bytes(const struct tr_codec_how *how, int64_t old)
{
    return tr_fix_bytes(how->fix, old, how->tokens, how->width).total;
}

static int64_t wire_of(const struct tr_codec_how *how, int64_t old)
{
    return delta_bytes(how, old) + (how->samples - old) * whole_bytes(how);
}

static int64_t delta_wire_limit(const struct tr_codec_end *e)
{
    int64_t most = 0;

    for (int64_t old = 0; old <= e->how.samples; old++)
        if (wire_of(&e->how, old) > most)
            most = wire_of(&e->how, old);
    return most;
}

static void check_key(const struct tr_codec_end *e, const struct tr_codec_key *key)
{
    TR_ASSERT(key->samples == e->how.samples);
    for (int b = 0; b < key->samples; b++) {
        TR_ASSERT(key->sample[b] >= 0);
        for (int i = 0; i < b; i++)
            TR_ASSERT(key->sample[i] != key->sample[b]);
    }
}

static int64_t count_old(const struct tr_codec_end *e, const struct tr_codec_key *key)
{
    const struct tr_store *store = ((const struct delta *)e)->store;
    int64_t old = 0;

    check_key(e, key);
    for (int b = 0; b < key->samples; b++)
        old += tr_store_has(store, key->sample[b]);
    return old;
}

static int64_t delta_wire_bytes(const struct tr_codec_end *e, const struct tr_codec_key *key)
{
    return wire_of(&e->how, count_old(e, key));
}

/* ---- open and close ---- */

static enum tr_status open_one(const struct tr_codec *on, const struct tr_codec_how *how,
                               struct tr_codec_end **out)
{
    TR_ASSERT(how->capacity > 0 && how->ahead > 0);
    TR_ASSERT(!has_few(on) || how->keep_bits == 2 || how->keep_bits == 4 || how->keep_bits == 8);
    TR_TRY(tr_end_open(on, how, sizeof(struct delta), out));
    of(*out)->few = has_few(on);
    of(*out)->place = calloc((size_t)how->samples, sizeof(int64_t));
    if (of(*out)->place)
        return TR_OK;
    tr_end_close(*out);
    *out = NULL;
    return TR_FAIL(TR_ERESOURCE, "no memory left for one end of a compressed link");
}

static enum tr_status delta_open(const struct tr_codec_how *how, struct tr_codec_end **out)
{
    return open_one(&tr_codec_delta, how, out);
}

static enum tr_status lowbits_open(const struct tr_codec_how *how, struct tr_codec_end **out)
{
    return open_one(&tr_codec_delta_lowbits, how, out);
}

static void *take(const struct tr_codec_how *how, struct tr_arena *a, int64_t bytes)
{
    return tr_arena_take(a, TR_LABEL_COMPRESSION, (size_t)(how->samples * bytes));
}

static void delta_plan(struct tr_codec_end *e, struct tr_arena *a)
{
    const struct tr_codec_how *how = &e->how;
    struct delta *x = of(e);

    tr_end_plan(e, a);
    x->m =
        tr_tensor_3(take(how, a, whole_bytes(how)), TR_F16, how->samples, how->tokens, how->width);
    x->d = tr_tensor_3(NULL, TR_F32, how->samples, how->tokens, how->width);
    if (how->sends)
        x->d.data = take(how, a, 4 * numbers(how));
    if (x->few)
        x->kept = take(how, a, kept_bytes(how).total);
    x->own = x->few ? x->kept : x->m.data;
}

static enum tr_status delta_start(struct tr_codec_end *e)
{
    struct tr_store_how how = store_of(&e->how, of(e)->few);

    TR_ASSERT(!of(e)->store);
    return tr_store_open(&how, &of(e)->store);
}

static void delta_close(struct tr_codec_end *e)
{
    if (!e)
        return;
    tr_store_close(of(e)->store);
    free(of(e)->place);
    tr_end_close(e);
}

/* ---- activation cache ---- */

/* The m in buffer i; those of the first `count`; the record of delta-lowbits in buffer i. */
static struct tr_tensor m_at(struct delta *x, int64_t i)
{
    int64_t n = numbers(&x->base.how);
    struct tr_tensor span = tr_tensor_span(&x->m, i * n, n);

    return tr_tensor_3(span.data, TR_F16, 1, x->base.how.tokens, x->base.how.width);
}

static struct tr_tensor first_of(const struct tr_tensor *t, int64_t count)
{
    return tr_tensor_3(t->data, t->dtype, count, t->dim[1], t->dim[2]);
}

static struct tr_tensor kept_at(struct delta *x, int64_t i)
{
    int64_t bytes = kept_bytes(&x->base.how).total;

    return tr_tensor_1(x->kept + i * bytes, TR_U8, bytes);
}

/* What goes to and from the store for buffer i, on the device. */
static struct tr_tensor record_at(struct delta *x, int64_t i)
{
    return x->few ? kept_at(x, i) : m_at(x, i);
}

/* The places of the samples, in order: cached ones from 0 on, others from `old` on. */
static void assign(struct delta *x, const struct tr_codec_key *key, int64_t old)
{
    int64_t next[2] = {old, 0};

    for (int b = 0; b < key->samples; b++)
        x->place[b] = next[tr_store_has(x->store, key->sample[b])]++;
}

/* Whether the record of the one sample of a block is its buffer, and not a copy of it: the same
   bits, sooner. */
static bool in_place(const struct delta *x, const struct tr_queue *q)
{
    return x->base.how.samples == 1 && !q->on->apart;
}

static void set_buffers(struct delta *x, void *records)
{
    if (x->few)
        x->kept = records;
    else
        x->m.data = records;
}

/* The record of sample b to its buffer, if it has one. */
static enum tr_status fetch_one(struct delta *x, struct tr_queue *q, const struct tr_codec_key *key,
                                int b, bool has)
{
    struct tr_tensor record = record_at(x, x->place[b]);
    void *host;

    if (in_place(x, q)) {
        TR_TRY(tr_store_take(x->store, key->sample[b], !has, &host));
        set_buffers(x, host);
    } else if (has) {
        TR_TRY(tr_store_take(x->store, key->sample[b], false, &host));
        q->on->upload(q, &record, host);
        tr_store_give(x->store, TR_STORE_SAME);
    }
    return TR_OK;
}

/* m of the `old` cached samples. */
static enum tr_status fetch(struct delta *x, struct tr_queue *q, const struct tr_codec_key *key,
                            int64_t old)
{
    for (int b = 0; b < key->samples; b++) {
        bool has = x->place[b] < old;
        TR_TRY(fetch_one(x, q, key, b, has));
        if (has && x->few) {
            struct tr_tensor record = record_at(x, x->place[b]), m = m_at(x, x->place[b]);
            tr_fix_get(q, few_bits(&x->base.how), &m, record.data, false);
        }
    }
    return TR_OK;
}

/* Whether all numbers of a record are finite: m in fp16, or its scales. */
static bool is_finite(const struct delta *x, const unsigned char *record)
{
    struct tr_fix_bytes at = kept_bytes(&x->base.how);
    int64_t first = x->few ? at.scales_at : 0;
    int64_t count = x->few ? at.scales : numbers(&x->base.how);
    unsigned odd = 0;

    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, record + first + 2 * i, 2);
        odd |= (half & 0x7c00U) == 0x7c00U;
    }
    return !odd;
}

/* The buffers enter the activation cache and the fingerprint. */
static enum tr_status cache(struct delta *x, struct tr_queue *q, const struct tr_codec_key *key)
{
    tr_end_note_key(&x->base, key);
    tr_end_note(&x->base, q, &x->m);
    for (int b = 0; x->few && b < key->samples; b++) {
        struct tr_tensor m = m_at(x, b), kept = kept_at(x, b);
        tr_fix_put(q, few_bits(&x->base.how), kept.data, &m);
        tr_end_note(&x->base, q, &kept);
    }
    for (int b = 0; b < key->samples; b++) {
        struct tr_tensor record = record_at(x, x->place[b]);
        void *host = record.data;
        if (!in_place(x, q)) {
            TR_TRY(tr_store_take(x->store, key->sample[b], true, &host));
            q->on->download(q, host, &record);
        }
        tr_store_give(x->store, is_finite(x, host) ? TR_STORE_NEW : TR_STORE_GONE);
    }
    set_buffers(x, x->own);
    return TR_OK;
}

/* ---- blocks ---- */

/* Where the sample in buffer i, which is not cached, is on the wire: as [1,T,H]. */
static struct tr_tensor whole_at(const struct delta *x, const struct tr_tensor *wire, int64_t old,
                                 int64_t i)
{
    int64_t at = delta_bytes(&x->base.how, old) + (i - old) * whole_bytes(&x->base.how);

    return tr_tensor_3((unsigned char *)wire->data + at, TR_F16, 1, x->base.how.tokens,
                       x->base.how.width);
}

/* The quantized part of the wire is added to m at both ends. */
static void add_deltas(struct delta *x, struct tr_queue *q, const struct tr_tensor *wire,
                       int64_t old)
{
    struct tr_tensor m = first_of(&x->m, old);

    if (old > 0)
        tr_fix_get(q, x->base.how.fix, &m, wire->data, true);
}

static int64_t begin(struct delta *x, const struct tr_codec_key *key, const struct tr_tensor *wire,
                     const struct tr_tensor *block)
{
    int64_t old = count_old(&x->base, key);

    tr_end_check(&x->base, key, block);
    TR_ASSERT(wire->dtype == TR_U8 && tr_tensor_bytes(wire) >= wire_of(&x->base.how, old));
    assign(x, key, old);
    return old;
}

static enum tr_status delta_encode(struct tr_codec_end *e, struct tr_queue *q,
                                   const struct tr_codec_key *key, const struct tr_tensor *wire,
                                   const struct tr_tensor *block)
{
    struct delta *x = of(e);
    int64_t old = begin(x, key, wire, block), n = numbers(&e->how);
    struct tr_tensor deltas = first_of(&x->d, old);

    TR_ASSERT(e->how.sends);
    TR_TRY(fetch(x, q, key, old));
    for (int b = 0; b < key->samples; b++) {
        struct tr_tensor from = tr_end_sample(e, block, b), m = m_at(x, x->place[b]);
        if (x->place[b] < old) {
            struct tr_tensor d = tr_tensor_span(&x->d, x->place[b] * n, n);
            q->on->subtract(q, &d, &from, &m);
        } else {
            struct tr_tensor sent = whole_at(x, wire, old, x->place[b]);
            q->on->copy(q, &m, &from);
            q->on->copy(q, &sent, &m);
        }
    }
    if (old > 0)
        tr_fix_put(q, e->how.fix, wire->data, &deltas);
    add_deltas(x, q, wire, old);
    return cache(x, q, key);
}

static enum tr_status delta_decode(struct tr_codec_end *e, struct tr_queue *q,
                                   const struct tr_codec_key *key, const struct tr_tensor *block,
                                   const struct tr_tensor *wire)
{
    struct delta *x = of(e);
    int64_t old = begin(x, key, wire, block);

    TR_TRY(fetch(x, q, key, old));
    add_deltas(x, q, wire, old);
    for (int b = 0; b < key->samples; b++) {
        struct tr_tensor to = tr_end_sample(e, block, b), m = m_at(x, x->place[b]);
        if (x->place[b] >= old) {
            struct tr_tensor sent = whole_at(x, wire, old, x->place[b]);
            q->on->copy(q, &m, &sent);
        }
        q->on->copy(q, &to, &m);
    }
    return cache(x, q, key);
}

static enum tr_status delta_learn(struct tr_codec_end *e, struct tr_queue *q,
                                  const struct tr_codec_key *key, const struct tr_tensor *block)
{
    struct delta *x = of(e);

    check_key(e, key);
    tr_end_check(e, key, block);
    for (int b = 0; b < key->samples; b++)
        x->place[b] = b;
    TR_TRY(fetch(x, q, key, 0));
    q->on->copy(q, &x->m, block);
    return cache(x, q, key);
}

static enum tr_status delta_prefetch(struct tr_codec_end *e, const struct tr_codec_key *next)
{
    return tr_store_prefetch(of(e)->store, next->sample, next->samples);
}

/* ---- save and load ---- */

/* Bits on the wire and scales may differ in a run that resumes: m can still be used. */
static char *full_title(const struct tr_codec_end *e, const char *title)
{
    long long t = e->how.tokens, h = e->how.width;

    TR_ASSERT(strlen(title) <= 200);
    if (has_few(e->on))
        return tr_format("%s, delta-lowbits %d of %lldx%lld", title, e->how.keep_bits, t, h);
    return tr_format("%s, delta of %lldx%lld", title, t, h);
}

static enum tr_status delta_save(struct tr_codec_end *e, struct tr_queue *q, const char *path,
                                 const char *title)
{
    char *full = full_title(e, title);
    uint64_t word[2] = {0, e->keys};
    enum tr_status s;

    q->on->download(q, &word[0], &e->print);
    s = tr_store_save(of(e)->store, path, full, word);
    free(full);
    return s;
}

static enum tr_status delta_load(struct tr_codec_end *e, struct tr_queue *q, const char *path,
                                 const char *title)
{
    char *full = full_title(e, title);
    uint64_t word[2];
    enum tr_status s = tr_store_load(of(e)->store, path, full, word);

    free(full);
    TR_TRY(s);
    q->on->upload(q, &e->print, &word[0]);
    e->keys = word[1];
    return TR_OK;
}

#define DELTA(title, prefix)                                                                 \
    {                                                                                        \
        .name = title, .remembers = true, .open = prefix##_open, .plan = delta_plan,         \
        .start = delta_start, .close = delta_close, .host_bytes = prefix##_host_bytes,       \
        .sample_bytes = prefix##_sample_bytes, .wire_limit = delta_wire_limit,               \
        .wire_bytes = delta_wire_bytes, .encode = delta_encode, .decode = delta_decode,      \
        .learn = delta_learn, .prefetch = delta_prefetch, .fingerprint = tr_end_fingerprint, \
        .save = delta_save, .load = delta_load,                                              \
    }

const struct tr_codec tr_codec_delta = DELTA("delta", delta);
const struct tr_codec tr_codec_delta_lowbits = DELTA("delta-lowbits", lowbits);
