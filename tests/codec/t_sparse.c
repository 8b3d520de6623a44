/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/sparse.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "util/half.h"
#include "util/rng.h"

/* Sizes by hand. */
static void sizes(void **state)
{
    static const struct {
        struct tr_sparse_how how;
        int64_t n, kept, bucket, buckets, bytes;
    } known[] = {
        {{.bits = 4, .bucket = 128, .keep = 0.2}, 12800, 2560, 128, 20, 40 + 1280 + 1600},
        {{.bits = 4, .bucket = 128, .keep = 0.2}, 12801, 2560, 128, 20, 40 + 1280 + 1601},
        {{.bits = 8, .bucket = 128, .keep = 1.0}, 256, 256, 128, 2, 4 + 256},
        {{.bits = 8, .bucket = 128, .keep = 1.0}, 300, 256, 128, 2, 4 + 256 + 38},
        {{.bits = 3, .bucket = 128, .keep = 0.1}, 1000, 100, 100, 1, 2 + 38 + 125},
        {{.bits = 1, .bucket = 128, .keep = 1e-9}, 1000, 1, 1, 1, 2 + 1 + 125},
        {{.bits = TR_SPARSE_FLOATS, .bucket = 128, .keep = 1.0}, 1000, 1000, 1, 1000, 4000},
        {{.bits = TR_SPARSE_FLOATS, .bucket = 128, .keep = 0.5}, 1001, 500, 1, 500, 2000 + 126},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tr_sparse s;

        tr_sparse_plan(&known[i].how, known[i].n, &s);
        assert_int_equal(s.kept, known[i].kept);
        assert_int_equal(s.bucket, known[i].bucket);
        assert_int_equal(s.buckets, known[i].buckets);
        assert_int_equal(s.bytes, known[i].bytes);
    }
}

/* Eight numbers of sixteen, worked out by hand: smaller ones lie between them, so that the mask says
   something. */
static void golden(void **state)
{
    static const float y[16] = {1.0F,  0.01F, -0.5F, 0.02F, 0.25F, -0.01F, 0.1F,   0.001F,
                                -1.0F, 0.0F,  0.3F,  0.0F,  0.06F, 0.004F, -0.05F, 0.003F};
    /* Kept: 1, -1/2, 1/4, 0.1, -1, 0.3, 0.06, -0.05 in two columns; scales 1 and 1/2.  Codes: 15 0, 10 10,
       0 13, 8 7. */
    static const unsigned char message[] = {0x00, 0x3c, 0x00, 0x38, 0xf0,
                                            0xaa, 0x0d, 0x87, 0xaa, 0xaa};
    static const float decoded[16] = {0.875F, 0, -0.5F,   0, 0.25F, 0, 0.125F,   0,
                                      -1.0F,  0, 0.3125F, 0, 0.0F,  0, -0.0625F, 0};
    struct tr_sparse_how how = {.bits = 4, .bucket = 4, .keep = 0.5};
    struct tr_tensor in = tr_f32_1((float *)(uintptr_t)y, 16), out, wire, scratch;
    float back[16], room[8];
    _Alignas(4) unsigned char bytes[16];
    struct tr_queue q = {.on = &tr_ref};
    struct tr_sparse s;

    (void)state;
    tr_sparse_plan(&how, 16, &s);
    assert_int_equal(s.bytes, sizeof message);
    wire = tr_tensor_1(bytes, TR_U8, s.bytes);
    scratch = tr_f32_1(room, 8);
    out = tr_f32_1(back, 16);
    tr_sparse_encode(&s, &q, &wire, &in, &scratch);
    assert_memory_equal(bytes, message, sizeof message);
    tr_sparse_decode(&s, &q, &out, &wire, &scratch);
    for (int i = 0; i < 16; i++)
        assert_true(back[i] == decoded[i]);
    tr_sparse_add(&s, &q, &out, &wire, -1.0F, &scratch);
    for (int i = 0; i < 16; i++)
        assert_true(back[i] == 0.0F);
}

/* ---- against plain loops ---- */

static bool is_kept(const struct tr_sparse *s, const unsigned char *mask, int64_t i)
{
    return s->kept == s->n || mask[i / 8] >> (7 - i % 8) & 1;
}

/* The largest of what is kept in one bucket. */
static float largest(const struct tr_sparse *s, const float *y, const unsigned char *mask,
                     int64_t bucket)
{
    float most = 0.0F;
    int64_t j = 0;

    for (int64_t i = 0; i < s->n; i++)
        if (is_kept(s, mask, i) && j++ % s->buckets == bucket)
            most = fmaxf(most, fabsf(y[i]));
    return most;
}

/* What is kept comes back within half a step of its bucket's scale, within a step at the upper end, where
   there is no code for the scale itself; the rest is 0, and no larger than what is kept. */
static void check_lossy(const struct tr_sparse *s, const float *y, const float *back,
                        const unsigned char *mask)
{
    float least = INFINITY, most_left = 0.0F;
    int64_t k = 0;

    for (int64_t i = 0; i < s->n; i++) {
        float scale, step;

        if (!is_kept(s, mask, i)) {
            assert_true(back[i] == 0.0F);
            most_left = fmaxf(most_left, fabsf(y[i]));
            continue;
        }
        scale = largest(s, y, mask, k++ % s->buckets);
        step = scale / (float)(1 << (s->bits - 1));
        assert_true(fabsf(y[i] - back[i]) <=
                    step * (y[i] < scale - step ? 0.502F : 1.002F) + 0.001F * scale + 1e-6F);
        least = fminf(least, fabsf(y[i]));
    }
    assert_int_equal(k, s->kept);
    assert_true(most_left <= least);
}

/* Numbers and their message. */
struct trial {
    struct tr_sparse s;
    float *y, *back;
    struct tr_tensor in, out, wire, scratch;
};

static void make(struct trial *t, struct tr_sparse_how how, int64_t n, enum tr_dtype type)
{
    tr_sparse_plan(&how, n, &t->s);
    t->y = malloc((size_t)n * 4);
    t->back = malloc((size_t)n * 4);
    t->out = tr_f32_1(t->back, n);
    t->in = tr_tensor_1(malloc((size_t)n * 4), type, n);
    t->wire = tr_tensor_1(malloc((size_t)t->s.bytes), TR_U8, t->s.bytes);
    t->scratch = tr_f32_1(malloc((size_t)t->s.kept * 4), t->s.kept);
    tr_rng_normal(tr_rng_key(3, TR_STREAM_INIT, how.bits, n), 0, n, t->y);
    for (int64_t i = 0; i < n; i++) {
        if (type == TR_F32) {
            tr_f32(&t->in)[i] = t->y[i];
            continue;
        }
        tr_half(&t->in)[i] = tr_f16_from_float(t->y[i]);
        t->y[i] = tr_f16_to_float(tr_half(&t->in)[i]);
    }
}

static void unmake(struct trial *t)
{
    free(t->y);
    free(t->back);
    free(t->in.data);
    free(t->wire.data);
    free(t->scratch.data);
}

static void one(struct tr_queue *q, struct tr_sparse_how how, int64_t n, enum tr_dtype type)
{
    const unsigned char *bytes;
    struct trial t;

    make(&t, how, n, type);
    bytes = t.wire.data;
    tr_sparse_encode(&t.s, q, &t.wire, &t.in, &t.scratch);
    assert_true(tr_sparse_finite(&t.s, bytes));
    tr_sparse_decode(&t.s, q, &t.out, &t.wire, &t.scratch);
    if (how.bits > 1 && how.bits < TR_SPARSE_FLOATS)
        check_lossy(&t.s, t.y, t.back, bytes + t.s.mask_at);
    for (int64_t i = 0; i < n && how.bits == TR_SPARSE_FLOATS; i++)
        assert_true(t.back[i] == (is_kept(&t.s, bytes + t.s.mask_at, i) ? t.y[i] : 0.0F));
    memcpy(t.y, t.back, (size_t)n * 4);
    tr_sparse_add(&t.s, q, &t.out, &t.wire, 1.0F, &t.scratch);
    for (int64_t i = 0; i < n; i++)
        assert_true(t.back[i] == 2.0F * t.y[i]);
    unmake(&t);
}

static void with(struct tr_queue *q)
{
    static const int bits[] = {1, 2, 3, 4, 5, 6, 7, 8, TR_SPARSE_FLOATS};
    static const double keep[] = {0.01, 0.2, 0.5, 1.0};
    static const int64_t n[] = {1, 7, 64, 129, 640, 1003};

    for (int b = 0; b < 9; b++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 6; i++)
                for (int t = 0; t < 2; t++)
                    one(q, (struct tr_sparse_how){.bits = bits[b], .bucket = 16, .keep = keep[k]},
                        n[i], t ? TR_F16 : TR_F32);
}

static void comes_back(void **state)
{
    const struct tr_device_how how = {.threads = 2};
    struct tr_queue ref = {.on = &tr_ref}, cpu = {.on = &tr_cpu};

    (void)state;
    with(&ref);
    assert_ok(tr_cpu.open(&how, &cpu.device));
    with(&cpu);
    tr_cpu.close(cpu.device);
}

/* One bit keeps the root mean square and the sign. */
static void one_bit(void **state)
{
    float y[4] = {3.0F, -4.0F, 0.0F, 0.0F}, back[4], room[4];
    struct tr_sparse_how how = {.bits = 1, .bucket = 4, .keep = 1.0};
    struct tr_tensor in = tr_f32_1(y, 4), out = tr_f32_1(back, 4), scratch = tr_f32_1(room, 4);
    _Alignas(4) unsigned char bytes[8];
    struct tr_queue q = {.on = &tr_ref};
    struct tr_tensor wire;
    struct tr_sparse s;

    (void)state;
    tr_sparse_plan(&how, 4, &s);
    wire = tr_tensor_1(bytes, TR_U8, s.bytes);
    tr_sparse_encode(&s, &q, &wire, &in, &scratch);
    tr_sparse_decode(&s, &q, &out, &wire, &scratch);
    assert_true(back[0] == 2.5F && back[1] == -2.5F && back[2] == 2.5F && back[3] == 2.5F);
}

/* A number that is not finite is always kept, and whoever has the message sees it. */
static void not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const int bits[] = {1, 4, 8, TR_SPARSE_FLOATS};
    struct tr_queue q = {.on = &tr_ref};

    (void)state;
    for (int b = 0; b < 4; b++) {
        for (int at = 0; at < 100; at += 9) {
            struct trial t;

            make(&t, (struct tr_sparse_how){.bits = bits[b], .bucket = 4, .keep = 0.1}, 100,
                 TR_F32);
            tr_sparse_encode(&t.s, &q, &t.wire, &t.in, &t.scratch);
            assert_true(tr_sparse_finite(&t.s, t.wire.data));
            tr_f32(&t.in)[at] = bad[(at + b) % 3];
            tr_sparse_encode(&t.s, &q, &t.wire, &t.in, &t.scratch);
            assert_false(tr_sparse_finite(&t.s, t.wire.data));
            unmake(&t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),   cmocka_unit_test(golden),     cmocka_unit_test(comes_back),
        cmocka_unit_test(one_bit), cmocka_unit_test(not_finite),
    };
    return run_tap(tests);
}
