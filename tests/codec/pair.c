/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/pair.h"
#include "util/half.h"
#include "util/rng.h"

static void take(struct end *e, const struct tr_codec_how *how)
{
    int64_t n = how->samples * how->tokens * how->width;
    void *x = tr_arena_take(&e->arena, TR_LABEL_SCRATCH, (size_t)(n * tr_dtype_bytes(how->dtype)));
    void *wire = tr_arena_take(&e->arena, TR_LABEL_SCRATCH, MAX_WIRE);

    e->e->on->plan(e->e, &e->arena);
    e->x = tr_tensor_3(x, how->dtype, how->samples, how->tokens, how->width);
    e->wire = tr_tensor_1(wire, TR_U8, MAX_WIRE);
}

/* One of each backend, open until the end: opening a GPU takes longer than what is done with it. */
static struct tr_device *device_of(const struct tr_backend *on)
{
    static struct {
        const char *name;
        struct tr_device *device;
    } open[4];
    const struct tr_device_how how = {.threads = 1, .local_size = 1, .share = true};
    int i = 0;

    while (open[i].name && strcmp(open[i].name, on->name) != 0)
        i++;
    assert_true(i < 4);
    if (!open[i].name)
        assert_ok(on->open(&how, &open[i].device));
    open[i].name = on->name;
    return open[i].device;
}

static void open_end(struct end *e, const char *codec, struct tr_codec_how how, bool sends,
                     const struct tr_backend *on)
{
    const struct tr_codec *c = tr_codec_find(codec);
    void *memory;

    assert_non_null(c);
    how.sends = sends;
    e->q.device = device_of(on);
    e->q.on = on;
    assert_ok(c->open(&how, &e->e));
    tr_arena_init(&e->arena);
    take(e, &how);
    assert_ok(on->reserve(e->q.device, e->arena.used_bytes, &memory));
    tr_arena_open(&e->arena, memory);
    take(e, &how);
    assert_int_equal(e->arena.used_bytes, e->arena.capacity_bytes);
    assert_ok(c->start(e->e));
}

void open_pair(struct pair *p, const char *codec, const struct tr_codec_how *how,
               const struct tr_backend *from, const struct tr_backend *to)
{
    open_end(&p->from, codec, *how, true, from);
    open_end(&p->to, codec, *how, false, to);
}

void close_pair(struct pair *p)
{
    p->from.e->on->close(p->from.e);
    p->to.e->on->close(p->to.e);
}

static void as_stored(enum tr_dtype type, const float *x, int64_t n, unsigned char *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = type == TR_F16 ? tr_f16_from_float(x[i]) : tr_bf16_from_float(x[i]);
        if (type == TR_F32)
            memcpy(out + 4 * i, x + i, 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

static void as_floats(enum tr_dtype type, const unsigned char *in, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, 2);
        if (type == TR_F32)
            memcpy(x + i, in + 4 * i, 4);
        else
            x[i] = type == TR_F16 ? tr_f16_to_float(half) : tr_bf16_to_float(half);
    }
}

void check_prints(struct pair *p)
{
    uint64_t from = p->from.e->on->fingerprint(p->from.e, &p->from.q);
    uint64_t to = p->to.e->on->fingerprint(p->to.e, &p->to.q);

    assert_true(from == to);
}

static void upload_block(struct end *e, const float *x)
{
    unsigned char stored[4 * MAX_NUMBERS];

    as_stored(e->x.dtype, x, tr_tensor_elems(&e->x), stored);
    e->q.on->upload(&e->q, &e->x, stored);
}

int64_t send_block(struct pair *p, const struct tr_codec_key *key, const float *x,
                   unsigned char *wire, float *y)
{
    const struct tr_codec *codec = p->from.e->on;
    const int64_t n = tr_tensor_elems(&p->from.x), bytes = codec->wire_bytes(p->from.e, key);
    unsigned char before[4 * MAX_NUMBERS], after[MAX_WIRE], blank[MAX_WIRE];

    assert_int_equal(bytes, codec->wire_bytes(p->to.e, key));
    assert_true(bytes % 2 == 0 && bytes <= codec->wire_limit(p->from.e));
    assert_true(codec->wire_limit(p->from.e) == codec->wire_limit(p->to.e));
    memset(blank, 0xa5, sizeof blank);
    p->from.q.on->upload(&p->from.q, &p->from.wire, blank);
    upload_block(&p->from, x);
    p->from.q.on->download(&p->from.q, before, &p->from.x);
    assert_ok(codec->encode(p->from.e, &p->from.q, key, &p->from.wire, &p->from.x));
    p->from.q.on->download(&p->from.q, after, &p->from.x);
    assert_memory_equal(before, after, (size_t)tr_tensor_bytes(&p->from.x));
    p->from.q.on->download(&p->from.q, wire, &p->from.wire);
    assert_memory_equal(wire + bytes, blank + bytes, (size_t)(MAX_WIRE - bytes));

    memcpy(blank, wire, (size_t)bytes);
    p->to.q.on->upload(&p->to.q, &p->to.wire, blank);
    assert_ok(codec->decode(p->to.e, &p->to.q, key, &p->to.x, &p->to.wire));
    p->to.q.on->download(&p->to.q, after, &p->to.wire);
    assert_memory_equal(after, blank, MAX_WIRE);
    p->to.q.on->download(&p->to.q, after, &p->to.x);
    as_floats(p->to.x.dtype, after, n, y);
    check_prints(p);
    return bytes;
}

void learn_block(struct pair *p, const struct tr_codec_key *key, const float *x)
{
    upload_block(&p->from, x);
    upload_block(&p->to, x);
    assert_ok(p->from.e->on->learn(p->from.e, &p->from.q, key, &p->from.x));
    assert_ok(p->to.e->on->learn(p->to.e, &p->to.q, key, &p->to.x));
    check_prints(p);
}

/* ---- what is drawn ---- */

static uint64_t draws;

static uint32_t word(void)
{
    return tr_rng_u32(tr_rng_key(20231, TR_STREAM_MOCK, 0, 7), draws++);
}

int64_t below(int64_t n)
{
    return word() % n;
}

void draw_block(const struct tr_codec_how *how, bool wild, float *x)
{
    const int64_t n = how->samples * how->tokens * how->width;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 1e5F, -7e4F, 65504.0F, 0.0F, -0.0F};

    tr_rng_normal(tr_rng_key(11, TR_STREAM_MOCK, 1, (int64_t)word()), 0, n, x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = rounded_to(how->dtype, ldexpf(x[i], (int)(i % how->width % 7) - 3));
        if (wild && below(20) == 0)
            x[i] = rounded_to(how->dtype, odd[below(8)]);
    }
}

struct tr_codec_how draw_how(int number)
{
    static const enum tr_dtype types[] = {TR_F32, TR_F16, TR_BF16};
    static const int few[] = {2, 4, 8};

    return (struct tr_codec_how){
        .samples = 1 + below(4),
        .tokens = 1 + below(6),
        .width = 1 + below(12),
        .dtype = types[number % 3],
        .fix = {.bits = 1 + number / 3 % 8,
                .over = (unsigned)(number / 24 % 8),
                .scale = number / 192 % 2 == 0 ? TR_SCALE_MAX : TR_SCALE_L2},
        .keep_bits = few[below(3)],
        .capacity = 12,
        .ahead = 6,
    };
}

const struct tr_backend *backend(int number)
{
    const struct tr_backend *const *all = tr_backends();
    int count = 0;

    /* On a host with a GPU it is to be among them. */
    assert_true(!getenv("TR_TEST_GPU") || all[0]->apart);
    while (all[count])
        count++;
    number %= count + 1;
    return number < count ? all[number] : far_backend();
}

void check_block(const struct tr_codec_how *how, const float *got, const float *want)
{
    for (int64_t i = 0; i < how->samples * how->tokens * how->width; i++) {
        float w = rounded_to(how->dtype, want[i]);
        if (isnan(w) ? !isnan(got[i]) : got[i] != w)
            fail_msg("number %d is %.9g, not %.9g", (int)i, (double)got[i], (double)w);
    }
}
