/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/alone.h"
#include "device/device.h"
#include "golden/golden.h"
#include "util/half.h"

/*
 * Adam with moments in 8 bits: the code books and a run of 100 steps against numpy (tests/golden/make_adam8.py), all
 * backends against the plain loops, and numbers that go to a checkpoint in fp32 and come back as the bytes that they
 * were.  With TR_TEST_KERNELS the backend is the kernels of the cuda backend, emulated; with TR_TEST_FAKES there is that
 * backend itself over fakes.
 */
enum { MOST = 40000, STEPS = 100 };

static struct tr_adamw rule_of(int t, double decay, double scale)
{
    struct tr_adamw how = {.lr = 0.01f,
                           .beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .eps = 1e-8f,
                           .decay = (float)decay,
                           .grad_scale = (float)scale};

    how.bias1 = (float)(1.0 - pow((double)how.beta1, t));
    how.bias2 = (float)(1.0 - pow((double)how.beta2, t));
    return how;
}

/* -1 .. 1, exact in fp32, as in make_adam8.py. */
static float draw(uint64_t stream, uint64_t i)
{
    return (float)(tr_golden_splitmix64((stream << 32) + i) >> 40) * 0x1p-23f - 1.0f;
}

static bool same_bits(const float *a, const float *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Operands in memory of a device, and what comes from there. */
struct side {
    struct tr_queue q;
    void *block;
    struct tr_tensor p, m, v, g, half;
};

/* False where a build for GPUs finds none. */
static bool opened(struct side *s, const struct tr_backend *b, int threads)
{
    enum tr_status status;

    s->q.on = b;
    share_small_work();
    status = b->open(&(struct tr_device_how){.threads = threads}, &s->q.device);
#if !defined TR_TEST_KERNELS && !defined TR_TEST_FAKES
    if (b->apart && status != TR_OK)
        return false;
#endif
    assert_ok(status);
    assert_ok(b->reserve(s->q.device, 16 * MOST + 4096, &s->block));
    return true;
}

/* n elements, gradients of type `g`, a copy of type `half`. */
static void lay_out(struct side *s, int64_t n, struct tr_code_blocks blocks, enum tr_dtype g,
                    enum tr_dtype half)
{
    const int64_t bytes = tr_code_bytes(blocks, n), room = (bytes + 63) / 64 * 64;
    char *at = s->block;

    s->p = tr_tensor_1(at, TR_F32, n);
    s->g = tr_tensor_1(at += 4 * MOST, g, n);
    s->half = tr_tensor_1(at += 4 * MOST, half, n);
    s->m = tr_u8_1((uint8_t *)(at += 2 * MOST), bytes);
    s->v = tr_u8_1((uint8_t *)(at + room), bytes);
}

/* ---- the books ---- */

static void books(void **state)
{
    struct tr_golden *golden = tr_golden_open("adam8");

    (void)state;
    assert_true(same_bits(tr_code_book(TR_BOOK_SIGNED)->value,
                          tr_golden_get(golden, "signed", TR_BOOK_CODES), TR_BOOK_CODES));
    assert_true(same_bits(tr_code_book(TR_BOOK_UNSIGNED)->value,
                          tr_golden_get(golden, "unsigned", TR_BOOK_CODES), TR_BOOK_CODES));
    tr_golden_close(golden);
}

/* ---- to a checkpoint and back ---- */

/* All codes in one block, in which the code of the largest is 0 or 255. */
static void there_and_back(enum tr_book book, uint8_t first, float scale)
{
    const struct tr_code_blocks blocks = {300, 300};
    uint8_t block[304] = {0}, again[304];
    float x[300];

    memcpy(block, &scale, sizeof scale);
    for (int i = 0; i < 300; i++)
        block[TR_BOOK_SCALE_BYTES + i] = i < TR_BOOK_CODES ? (uint8_t)i : first;
    if (first == 0 && book == TR_BOOK_SIGNED) /* none is the scale itself */
        block[TR_BOOK_SCALE_BYTES + 255] = 254;
    tr_code_decode(book, blocks, block, 300, x);
    memset(again, 0xff, sizeof again);
    tr_code_encode(book, blocks, x, 300, again);
    if (memcmp(block, again, sizeof block) != 0)
        fail_msg("book %d, scale %a: other bytes", (int)book, (double)scale);
}

/* With the smallest and the largest scale that there are, and 199 between them. */
static void every_code_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 201; i++) {
        const float scale = i == 0   ? TR_BOOK_TINY
                            : i == 1 ? 0x1.fffffep+124f
                                     : ldexpf(1.5f + draw(7, (uint64_t)i) / 2.0f, i - 100);

        there_and_back(TR_BOOK_SIGNED, 0, scale);
        there_and_back(TR_BOOK_SIGNED, 255, scale);
        there_and_back(TR_BOOK_UNSIGNED, 255, scale);
    }
}

/* What is too small is zero, once and for all. */
static void tiny_blocks_are_zero(void **state)
{
    const struct tr_code_blocks blocks = {3, 3};
    float x[3] = {0x1.fffffep-101f, -0x1p-149f, 0.0f};
    uint8_t block[8], zero[8] = {0, 0, 0, 0, 127, 127, 127, 0};

    (void)state;
    memset(block, 0, sizeof block);
    tr_code_encode(TR_BOOK_SIGNED, blocks, x, 3, block);
    assert_memory_equal(block, zero, sizeof zero);
    tr_code_decode(TR_BOOK_SIGNED, blocks, zero, 3, x);
    assert_true(x[0] == 0.0f && x[1] == 0.0f && x[2] == 0.0f);
}

/* ---- 100 steps ---- */

static float gradient(int t, int i, int n)
{
    float g = draw((uint64_t)t, (uint64_t)i);

    if (i % 97 == 5)
        g *= 256.0f;
    if (i % 31 == 7)
        g = 0.0f;
    if (i % 61 == 9)
        g *= 0x1p-130f;
    if (i >= n - 40)
        g *= 0x1p-60f;
    if (t == 50 && i == 11)
        g = INFINITY;
    if (t == 50 && i == 300)
        g = NAN;
    if (t == 50 && i == 301)
        g = -INFINITY;
    return g;
}

static void compare_moments(const struct tr_golden *golden, const char *name, const char *moment,
                            struct tr_code_blocks blocks, int n, const uint8_t *bytes)
{
    char text[64];
    const float *code, *scale;
    float there;
    int block = 0;
    const int count = 1 + (int)((n - blocks.lead + blocks.size - 1) / blocks.size);

    snprintf(text, sizeof text, "%s/%s.code", name, moment);
    code = tr_golden_get(golden, text, n);
    snprintf(text, sizeof text, "%s/%s.scale", name, moment);
    scale = tr_golden_get(golden, text, count);
    for (int64_t at = 0, in; at < n; at += in, block++) {
        in = tr_code_next(blocks, at, n);
        memcpy(&there, bytes + tr_code_bytes(blocks, at), sizeof there);
        assert_true(same_bits(&there, &scale[block], 1));
        for (int64_t i = 0; i < in; i++)
            assert_int_equal(bytes[tr_code_bytes(blocks, at) + TR_BOOK_SCALE_BYTES + i],
                             (int)code[at + i]);
    }
    assert_int_equal(block, count);
}

/* To the bit: numpy's fp32 operations are these. */
static void trajectory(const struct tr_backend *b, const char *name, struct tr_code_blocks blocks,
                       int n)
{
    struct tr_golden *golden;
    static float x[MOST];
    static uint8_t bytes[2 * MOST];
    char text[64];
    struct side s = {0};

    if (!opened(&s, b, 2))
        return;
    golden = tr_golden_open("adam8");
    lay_out(&s, n, blocks, TR_F32, TR_F16);
    memset(bytes, 0, sizeof bytes);
    b->upload(&s.q, &s.m, bytes);
    b->upload(&s.q, &s.v, bytes);
    for (int i = 0; i < n; i++)
        x[i] = draw(1000, (uint64_t)i);
    b->upload(&s.q, &s.p, x);
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < n; i++)
            x[i] = gradient(t, i, n);
        b->upload(&s.q, &s.g, x);
        b->adam8(&s.q, NULL, &s.p, &s.m, &s.v, &s.g, rule_of(t, 0.1, 0.5), blocks);
    }
    b->download(&s.q, x, &s.p);
    snprintf(text, sizeof text, "%s/p", name);
    assert_true(same_bits(x, tr_golden_get(golden, text, n), n));
    b->download(&s.q, bytes, &s.m);
    compare_moments(golden, name, "m", blocks, n, bytes);
    b->download(&s.q, bytes, &s.v);
    compare_moments(golden, name, "v", blocks, n, bytes);
    b->close(s.q.device);
    tr_golden_close(golden);
}

static void steps_of_numpy(void **state)
{
    const struct tr_backend *const *all = tr_backends();

    (void)state;
    for (int i = 0; all[i]; i++) {
        trajectory(all[i], "256", (struct tr_code_blocks){256, 100}, 700);
        trajectory(all[i], "2048", (struct tr_code_blocks){2048, 500}, 2600);
    }
}

/* ---- backends against each other ---- */

static void put(struct side *s, struct tr_tensor *t, const float *x)
{
    static uint16_t half[MOST];

    for (int64_t i = 0; i < tr_tensor_elems(t) && t->dtype != TR_F32; i++)
        half[i] = t->dtype == TR_F16 ? tr_f16_from_float(x[i]) : tr_bf16_from_float(x[i]);
    s->q.on->upload(&s->q, t, t->dtype == TR_F32 ? (const void *)x : half);
}

/* The same step on both; bytes of all that it changes. */
static void compare_step(struct side *a, struct side *b, struct tr_adamw how,
                         struct tr_code_blocks blocks, bool half)
{
    static uint8_t x[4 * MOST], y[4 * MOST];
    struct side *const both[] = {a, b};

    for (int i = 0; i < 2; i++)
        both[i]->q.on->adam8(&both[i]->q, half ? &both[i]->half : NULL, &both[i]->p, &both[i]->m,
                             &both[i]->v, &both[i]->g, how, blocks);
    for (int k = 0; k < (half ? 4 : 3); k++) {
        const struct tr_tensor *const ta[] = {&a->p, &a->m, &a->v, &a->half};
        const struct tr_tensor *const tb[] = {&b->p, &b->m, &b->v, &b->half};

        a->q.on->download(&a->q, x, ta[k]);
        b->q.on->download(&b->q, y, tb[k]);
        if (memcmp(x, y, (size_t)tr_tensor_bytes(ta[k])) != 0)
            fail_msg("%s: operand %d differs with blocks of %lld, %lld first", b->q.on->name, k,
                     (long long)blocks.size, (long long)blocks.lead);
    }
}

static void start(struct side *s, int trial, int64_t n, struct tr_code_blocks blocks)
{
    static const enum tr_dtype types[] = {TR_F32, TR_F16, TR_BF16};
    static float x[MOST];
    static uint8_t bytes[2 * MOST];

    lay_out(s, n, blocks, types[trial % 3], types[1 + trial % 2]);
    for (int64_t i = 0; i < n; i++)
        x[i] = draw(2000 + (uint64_t)trial, (uint64_t)i);
    put(s, &s->p, x);
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexpf(draw(3000 + (uint64_t)trial, (uint64_t)i), -(int)(i % 40));
    tr_code_encode(TR_BOOK_SIGNED, blocks, x, n, bytes);
    s->q.on->upload(&s->q, &s->m, bytes);
    for (int64_t i = 0; i < n; i++)
        x[i] *= x[i];
    tr_code_encode(TR_BOOK_UNSIGNED, blocks, x, n, bytes);
    s->q.on->upload(&s->q, &s->v, bytes);
    for (int64_t i = 0; i < n; i++)
        x[i] = gradient(50, (int)i, (int)n);
    put(s, &s->g, x);
}

static void as_plain_loops(void **state)
{
    const struct tr_backend *const *all = tr_backends();
    struct side plain = {0};

    (void)state;
    assert_true(opened(&plain, tr_backend_find("ref"), 1));
    for (int k = 0; all[k]; k++) {
        struct side s = {0};

        if (!opened(&s, all[k], 3))
            continue;
        for (int trial = 0; trial < 40; trial++) {
            const bool many = trial == 3; /* blocks: 10000, more than a GPU has at a time */
            const int64_t size = many             ? 4
                                 : trial % 4 == 0 ? 2048
                                 : trial % 4 == 1 ? 5 + trial
                                                  : 256;
            const struct tr_code_blocks blocks = {size, 1 + (trial * 7919) % size};
            const bool most = trial % 5 == 0 && size >= 256;
            const int64_t n = many        ? 39998
                              : trial < 4 ? 1 + trial
                              : most      ? 39999
                                          : 1000 + 37 * trial;

            start(&plain, trial, n, blocks);
            start(&s, trial, n, blocks);
            compare_step(&plain, &s, rule_of(1 + trial, trial % 2 ? 0.1 : 0.0, 0.5), blocks,
                         trial % 3 != 0);
        }
        all[k]->close(s.q.device);
    }
    plain.q.on->close(plain.q.device);
}

/* The largest first moment of one block is just large enough for a scale, that of the next is not. */
static void tiny_gradients(void **state)
{
    const struct tr_backend *const *all = tr_backends();
    const struct tr_code_blocks blocks = {256, 256};
    static const uint8_t zero[2 * MOST];
    struct side plain = {0};
    float x[512];

    (void)state;
    for (int i = 0; i < 512; i++)
        x[i] = ldexpf(draw(8, (uint64_t)i), i < 256 ? -95 : -98);
    assert_true(opened(&plain, tr_backend_find("ref"), 1));
    for (int i = 0; all[i]; i++) {
        struct side s = {0};

        if (!opened(&s, all[i], 1))
            continue;
        for (int k = 0; k < 2; k++) {
            struct side *const one = k ? &s : &plain;

            start(one, 0, 512, blocks);
            one->q.on->upload(&one->q, &one->m, zero);
            one->q.on->upload(&one->q, &one->v, zero);
            put(one, &one->g, x);
        }
        compare_step(&plain, &s, rule_of(1, 0.0, 1.0), blocks, false);
        all[i]->close(s.q.device);
    }
    plain.q.on->close(plain.q.device);
}

/* The first step of gradients x[n], of which the largest in a block is 1: they become m, and their squares v. */
static void moments_as_plain_loops(const float *x, int n)
{
    const struct tr_backend *const *all = tr_backends();
    const struct tr_code_blocks blocks = {2048, 2048};
    const struct tr_adamw how = {
        .lr = 0.1f, .eps = 1e-8f, .bias1 = 1.0f, .bias2 = 1.0f, .grad_scale = 1.0f};
    struct side plain = {0};

    assert_true(opened(&plain, tr_backend_find("ref"), 1));
    for (int i = 0; all[i]; i++) {
        struct side s = {0};

        if (!opened(&s, all[i], 1))
            continue;
        start(&plain, 0, n, blocks);
        start(&s, 0, n, blocks);
        put(&plain, &plain.g, x);
        put(&s, &s.g, x);
        compare_step(&plain, &s, how, blocks, false);
        all[i]->close(s.q.device);
    }
    plain.q.on->close(plain.q.device);
}

/* Moments next to every limit between two codes: m up to 10 floats away, v squares of such floats of its root. */
static void at_every_limit(void **state)
{
    static float x[MOST];
    int n = 0;

    (void)state;
    for (int i = 0; i < 255 * 2 * 21; i++) {
        const bool root = i % 2;
        const struct tr_code_book *book = tr_code_book(root ? TR_BOOK_UNSIGNED : TR_BOOK_SIGNED);
        const int k = i / 2 % 255, away = i / 510 - 10;
        float l;

        if (k >= book->magnitudes - 1)
            continue;
        l = root ? sqrtf(book->limit[k]) : book->limit[k];
        for (int d = 0; d < abs(away); d++)
            l = nextafterf(l, away > 0 ? 2.0f : 0.0f);
        if (n % 2048 == 0)
            x[n++] = 1.0f;
        x[n++] = i / 2 % 2 ? l : -l;
    }
    for (int i = 0; i < 64;
         i++) /* moments, too, become negative zeros, of which the codes have none */
        x[n++] = -0.0f;
    x[n / 2048 * 2048] = 1.0f;
    moments_as_plain_loops(x, n);
}

/* Every 211th float of 2^-24 to 1, or with TR_TEST_ALL every 7th, of either sign. */
static void at_floats_everywhere(void **state)
{
    const uint32_t step = getenv("TR_TEST_ALL") ? 7 : 211, end = 127U << 23;
    static float x[MOST];

    (void)state;
    for (uint32_t bits = 103U << 23; bits < end;) {
        int n = 0;

        for (; n < MOST - 1 && bits < end; n++) {
            uint32_t here = end;

            if (n % 2048 != 0) {
                here = bits | (uint32_t)(n % 3 == 1) << 31;
                bits += step;
            }
            memcpy(&x[n], &here, sizeof here);
        }
        moments_as_plain_loops(x, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(books),
        cmocka_unit_test(every_code_comes_back),
        cmocka_unit_test(tiny_blocks_are_zero),
        cmocka_unit_test(steps_of_numpy),
        cmocka_unit_test(as_plain_loops),
        cmocka_unit_test(tiny_gradients),
        cmocka_unit_test(at_every_limit),
        cmocka_unit_test(at_floats_everywhere),
    };

    return run_tap(tests);
}
