/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/dims.h"
#include "config/relative.h"
#include "device/cuda/cuda_attention.h"
#include "device/alone.h"
#include "device/device.h"
#include "util/half.h"

/*
 * Disentangled attention: the plain loops against differences of their own results, and the fast ones against the
 * plain ones, in several blocks, with padding, with dropout and in each type.  With TR_TEST_KERNELS the fast ones are
 * the kernels of the cuda backend, emulated; with TR_TEST_FAKES that backend itself over fakes.
 */
struct size {
    int64_t b, t, heads, d, buckets;
    double drop;
    bool padded;
    enum tr_dtype type;
    bool mixed; /* results are fp32 */
};

enum { GUARD = 64, OPERANDS = 10 };

/* Where an operand lies: on the host between guards, and on the device. */
struct place {
    struct tr_tensor *of;
    unsigned char *block, *there;
    size_t bytes; /* of the block */
};

struct call {
    struct size of;
    struct tr_queue q;
    struct tr_tensor qkv, rel, bucket, lengths, ctx, lse, dctx, dqkv, drel, sample;
    struct place place[OPERANDS];
};

void trk_emulate_seed(uint64_t seed) __attribute__((weak));

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 33) / 4294967296.0 * 2.0 - 0.5;
}

static double element(const struct tr_tensor *t, int64_t i)
{
    if (t->dtype == TR_F32)
        return (double)tr_f32(t)[i];
    return (double)(t->dtype == TR_F16 ? tr_f16_to_float(((const uint16_t *)t->data)[i])
                                       : tr_bf16_to_float(((const uint16_t *)t->data)[i]));
}

static void fill(const struct tr_tensor *t, uint64_t seed)
{
    uint64_t state = seed;

    for (int64_t i = 0; i < tr_tensor_elems(t); i++) {
        const float x = (float)uniform(&state);

        if (t->dtype == TR_F32)
            ((float *)t->data)[i] = x;
        else
            ((uint16_t *)t->data)[i] =
                t->dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
    }
}

static void place(struct place *p, struct tr_tensor *t)
{
    const size_t bytes = (size_t)tr_tensor_bytes(t);

    p->of = t;
    p->bytes = (bytes + 3 * GUARD - 1) / GUARD * GUARD;
    p->block = aligned_alloc(GUARD, p->bytes);
    assert_non_null(p->block);
    memset(p->block, 0xA5, p->bytes);
    t->data = memset(p->block + GUARD, 0, bytes);
}

static bool is_guarded(const struct place *p)
{
    const size_t end = GUARD + (size_t)tr_tensor_bytes(p->of);

    for (size_t i = 0; i < p->bytes; i++)
        if ((i < GUARD || i >= end) && p->block[i] != 0xA5)
            return false;
    return true;
}

static void place_all(struct call *c)
{
    struct tr_tensor *const all[OPERANDS] = {&c->qkv,  &c->rel,   &c->bucket, &c->lengths,
                                             &c->ctx,  &c->lse,   &c->dctx,   &c->dqkv,
                                             &c->drel, &c->sample};
    size_t bytes = 0;
    void *room;

    for (int i = 0; i < OPERANDS; i++) {
        place(&c->place[i], all[i]);
        bytes += (c->place[i].bytes + 255) / 256 * 256;
    }
    if (!c->q.on->apart)
        return;
    assert_int_equal(c->q.on->reserve(c->q.device, bytes, &room), TR_OK);
    for (int i = 0; i < OPERANDS; i++) {
        c->place[i].there = room;
        room = c->place[i].there + (c->place[i].bytes + 255) / 256 * 256;
    }
}

/* Between these two operands are where the device has them. */
static void go(struct call *c)
{
    for (int i = 0; c->q.on->apart && i < OPERANDS; i++) {
        struct place *p = &c->place[i];
        const struct tr_tensor there = tr_u8_1(p->there, (int64_t)p->bytes);

        c->q.on->upload(&c->q, &there, p->block);
        p->of->data = p->there + GUARD;
    }
}

static void come_back(struct call *c)
{
    c->q.on->wait(&c->q);
    for (int i = 0; i < OPERANDS; i++) {
        struct place *p = &c->place[i];
        const struct tr_tensor there = tr_u8_1(p->there, (int64_t)p->bytes);

        if (c->q.on->apart)
            c->q.on->download(&c->q, p->block, &there);
        p->of->data = p->block + GUARD;
        assert_true(is_guarded(p));
    }
}

/* With padding the first sample has one token, and of three the second has none. */
static void fill_numbers(struct call *c, const struct tr_dims *dims)
{
    const struct size *of = &c->of;
    struct tr_tensor *const numbers[] = {&c->qkv, &c->rel, &c->dctx, &c->ctx, &c->dqkv, &c->drel};

    tr_relative_table(dims, of->t, tr_i32(&c->bucket));
    for (int64_t b = 0; b < of->b; b++) {
        ((int64_t *)c->sample.data)[b] = 5 + 3 * b;
        tr_i32(&c->lengths)[b] = (int32_t)(!of->padded            ? of->t
                                           : b == 1 && of->b == 3 ? 0
                                                                  : 1 + (of->t - 1) * b / of->b);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fill(numbers[i], 11 + i);
}

static void open_call(struct call *c, const struct tr_backend *b, const struct size *of)
{
    const struct tr_device_how how = {.threads = 2};
    const enum tr_dtype result = of->mixed ? TR_F32 : of->type;
    const int64_t n = of->b * of->t, width = 3 * of->heads * of->d;
    struct tr_dims dims = {.seq = of->t};
    int64_t rows;

    *c = (struct call){.of = *of};
    c->q.on = b;
    share_small_work();
    assert_int_equal(b->open(&how, &c->q.device), TR_OK);
    dims.family.position_buckets = of->buckets;
    dims.family.relative_longest = of->t > 2 * of->buckets ? of->t : 2 * of->buckets;
    rows = tr_relative_rows(&dims, of->t);
    c->bucket = tr_i32_1(NULL, 2 * of->t - 1);
    c->lengths = tr_i32_1(NULL, of->b);
    c->sample = tr_tensor_1(NULL, TR_I64, of->b);
    c->qkv = tr_tensor_2(NULL, of->type, n, width);
    c->rel = tr_tensor_2(NULL, of->type, rows, width);
    c->dctx = tr_tensor_2(NULL, of->type, n, width / 3);
    c->ctx = tr_tensor_2(NULL, result, n, width / 3);
    c->lse = tr_f32_3(NULL, of->b, of->heads, of->t);
    c->dqkv = tr_tensor_2(NULL, result, n, width);
    c->drel = tr_tensor_2(NULL, result, rows, width);
    place_all(c);
    fill_numbers(c, &dims);
}

static void close_call(struct call *c)
{
    for (int i = 0; i < OPERANDS; i++)
        free(c->place[i].block);
    c->q.on->close(c->q.device);
}

static struct tr_relative to_of(const struct call *c)
{
    return (struct tr_relative){&c->rel, &c->bucket, c->of.padded ? &c->lengths : NULL};
}

static struct tr_attention_how how_of(const struct call *c)
{
    return (struct tr_attention_how){.first_head = 1,
                                     .scale = (float)(1.0 / sqrt(3.0 * (double)c->of.d))};
}

static struct tr_dropout drop_of(const struct call *c)
{
    return (struct tr_dropout){.p = c->of.drop,
                               .seed = 4,
                               .stream = TR_STREAM_ATTN_DROPOUT,
                               .site = 2,
                               .sample = c->sample.data,
                               .tokens = c->of.t};
}

/* Emulated threads run in another order every time. */
static void forward(struct call *c)
{
    static uint64_t runs;
    const struct tr_relative to = to_of(c);

    if (trk_emulate_seed)
        trk_emulate_seed(runs++);
    go(c);
    c->q.on->attention_relative(&c->q, &c->ctx, &c->lse, &c->qkv, &to, how_of(c), drop_of(c));
    come_back(c);
}

static void backward(struct call *c)
{
    const struct tr_relative to = to_of(c);

    go(c);
    c->q.on->attention_relative_bwd(&c->q, &c->dqkv, &c->drel, &c->dctx, &c->ctx, &c->lse, &c->qkv,
                                    &to, how_of(c), drop_of(c));
    come_back(c);
}

#if !defined TR_TEST_KERNELS && !defined TR_TEST_FAKES
/* The sum of ctx times dctx, whose gradient backward computes. */
static double loss(struct call *c)
{
    double sum = 0.0;

    forward(c);
    for (int64_t i = 0; i < tr_tensor_elems(&c->ctx); i++)
        sum += element(&c->ctx, i) * element(&c->dctx, i);
    return sum;
}

/* Results are fp32, so a difference of a loss near 1 is exact to 1e-7 / (2 STEP); its own error is of STEP^2. */
static void check_differences(struct call *c, const struct tr_tensor *x, const struct tr_tensor *dx)
{
    static const float STEP = 0.01f;
    double largest = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(dx); i++)
        largest = fmax(largest, fabs(element(dx, i)));
    assert_true(largest > 0.01);
    for (int64_t i = 0; i < tr_tensor_elems(x); i++) {
        const float was = tr_f32(x)[i];
        double up, slope;

        tr_f32(x)[i] = was + STEP;
        up = loss(c);
        tr_f32(x)[i] = was - STEP;
        slope = (up - loss(c)) / (2.0 * (double)STEP);
        tr_f32(x)[i] = was;
        if (!(fabs(slope - element(dx, i)) <= 3e-4 * fmax(largest, 1.0)))
            fail_msg("element %lld: %g by differences, %g", (long long)i, slope, element(dx, i));
    }
}

static void differences(void **state)
{
    static const struct size sizes[] = {{2, 9, 2, 3, 4, 0.0, false, TR_F32, false},
                                        {3, 7, 1, 4, 4, 0.3, true, TR_F32, false}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct call c;

        open_call(&c, tr_backend_find("ref"), &sizes[i]);
        forward(&c);
        backward(&c);
        check_differences(&c, &c.qkv, &c.dqkv);
        check_differences(&c, &c.rel, &c.drel);
        close_call(&c);
    }
}
#endif

static void compare(const char *what, const struct tr_tensor *got, const struct tr_tensor *want,
                    double tolerance)
{
    double off = 0.0, all = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(want); i++) {
        const double error = element(got, i) - element(want, i);

        off += isfinite(error) ? error * error : INFINITY;
        all += element(want, i) * element(want, i);
    }
    if (!(off <= tolerance * all))
        fail_msg("%s: squared error %g of %g, more than %g", what, off, all, tolerance);
}

/* f(backend) for each that has fast ones here. */
static void for_fast(void (*f)(const struct tr_backend *b))
{
    for (int i = 0; tr_backends()[i]; i++)
        if (strcmp(tr_backends()[i]->name, "ref") != 0)
            f(tr_backends()[i]);
}

static double of_type(enum tr_dtype type, double tolerance)
{
    const double u = type == TR_F16 ? 0x1p-11 : type == TR_BF16 ? 0x1p-8 : 0.0;

    return fmax(tolerance, 4 * u * u);
}

static void one_as_plain(const struct tr_backend *b, const struct size *of)
{
    const enum tr_dtype type = of->mixed ? TR_F32 : of->type;
    struct call ref, fast;

    open_call(&ref, tr_backend_find("ref"), of);
    open_call(&fast, b, of);
    print_message("# %s, %s, %lld tokens, %lld wide\n", b->name, tr_dtype_name(of->type),
                  (long long)of->t, (long long)of->d);
    forward(&ref);
    forward(&fast);
    compare("ctx", &fast.ctx, &ref.ctx, of_type(type, 1e-11));
    compare("lse", &fast.lse, &ref.lse, 1e-11);
    /* From the same results. */
    memcpy(fast.ctx.data, ref.ctx.data, (size_t)tr_tensor_bytes(&ref.ctx));
    memcpy(fast.lse.data, ref.lse.data, (size_t)tr_tensor_bytes(&ref.lse));
    backward(&ref);
    backward(&fast);
    compare("dqkv", &fast.dqkv, &ref.dqkv, of_type(type, 1e-10));
    if (of->t > 1)
        compare("drel", &fast.drel, &ref.drel, of_type(type, 1e-10));
    close_call(&ref);
    close_call(&fast);
}

static void sizes_as_plain(const struct tr_backend *b)
{
    static const struct size sizes[] = {
        {2, 9, 2, 3, 4, 0.0, false, TR_F32, false},
        {1, 1, 1, 1, 4, 0.0, false, TR_F32, false},
        {3, 64, 2, 8, 16, 0.1, true, TR_F32, false},
        {2, 65, 3, 16, 32, 0.1, true, TR_F32, false},
        {2, 150, 1, 20, 64, 0.0, true, TR_F32, false},
        {1, 131, 1, 64, 256, 0.2, false, TR_F32, false},
        {1, 193, 1, 5, 8, 0.5, false, TR_F32, false},
        {1, 66, 1, 100, 64, 0.1, false, TR_F32, false},
        {2, 66, 1, 320, 256, 0.0, true, TR_F32, false},
        {2, 90, 2, 16, 32, 0.1, true, TR_BF16, false},
        {2, 90, 2, 16, 32, 0.1, true, TR_F16, false},
        {1, 70, 1, 72, 32, 0.1, false, TR_BF16, false},
        {1, 20, 1, 160, 32, 0.0, false, TR_F16, false},
        {3, 70, 1, 7, 32, 0.1, true, TR_BF16, true},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        one_as_plain(b, &sizes[i]);
}

static void as_plain(void **state)
{
    (void)state;
    for_fast(sizes_as_plain);
}

/* Nothing of padding reaches what is no padding, and its own rows are zero. */
static void pads(const struct tr_backend *b)
{
    static const struct size size = {3, 70, 2, 8, 16, 0.0, true, TR_F32, false};
    struct call c, other;

    open_call(&c, b, &size);
    open_call(&other, b, &size);
    for (int64_t n = 0; n < size.b * size.t; n++)
        for (int64_t i = 0; n % size.t >= tr_i32(&c.lengths)[n / size.t] && i < c.qkv.dim[1]; i++)
            tr_f32(&other.qkv)[n * c.qkv.dim[1] + i] = NAN;
    forward(&c);
    forward(&other);
    assert_memory_equal(c.ctx.data, other.ctx.data, (size_t)tr_tensor_bytes(&c.ctx));
    backward(&c);
    backward(&other);
    assert_memory_equal(c.dqkv.data, other.dqkv.data, (size_t)tr_tensor_bytes(&c.dqkv));
    assert_memory_equal(c.drel.data, other.drel.data, (size_t)tr_tensor_bytes(&c.drel));
    for (int64_t n = 0; n < size.b * size.t; n++) {
        if (n % size.t < tr_i32(&c.lengths)[n / size.t])
            continue;
        for (int64_t i = 0; i < c.ctx.dim[1]; i++)
            assert_true(tr_f32(&c.ctx)[n * c.ctx.dim[1] + i] == 0.0f);
        for (int64_t i = 0; i < c.dqkv.dim[1]; i++)
            assert_true(tr_f32(&c.dqkv)[n * c.dqkv.dim[1] + i] == 0.0f);
        for (int64_t h = 0; h < size.heads; h++)
            assert_true(tr_f32(&c.lse)[(n / size.t * size.heads + h) * size.t + n % size.t] ==
                        0.0f);
    }
    close_call(&c);
    close_call(&other);
}

static void padding(void **state)
{
    (void)state;
    pads(tr_backend_find("ref"));
    for_fast(pads);
}

/* The same bits in every run. */
static void repeats(const struct tr_backend *b)
{
    static const struct size size = {2, 70, 2, 8, 32, 0.1, true, TR_F32, false};
    struct call c, other;

    open_call(&c, b, &size);
    open_call(&other, b, &size);
    forward(&c);
    forward(&other);
    assert_memory_equal(c.ctx.data, other.ctx.data, (size_t)tr_tensor_bytes(&c.ctx));
    assert_memory_equal(c.lse.data, other.lse.data, (size_t)tr_tensor_bytes(&c.lse));
    backward(&c);
    backward(&other);
    assert_memory_equal(c.dqkv.data, other.dqkv.data, (size_t)tr_tensor_bytes(&c.dqkv));
    assert_memory_equal(c.drel.data, other.drel.data, (size_t)tr_tensor_bytes(&c.drel));
    close_call(&c);
    close_call(&other);
}

static void same_bits(void **state)
{
    (void)state;
    for_fast(repeats);
}

#ifdef TR_TEST_KERNELS
/* What has no room in scratch comes later: heads, and parts of one. */
static void little_scratch(void **state)
{
    static const struct size size = {2, 70, 2, 8, 32, 0.1, true, TR_F32, false};
    /* Of a tile and of all else; a head has 4 tiles. */
    enum { BY = 64 * 64 * 4, REST = 256 + 2 * 2048 + 2 * 768 };
    static const size_t tiles[] = {1, 3, 4, 8};
    const size_t all = tr_cuda_attention_scratch;

    (void)state;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        tr_cuda_attention_scratch = REST + tiles[i] * BY;
        one_as_plain(tr_backend_find("kernels"), &size);
    }
    tr_cuda_attention_scratch = all;
}
#endif

/* Of dctx, and in place. */
static void act(struct call *c, enum tr_act act)
{
    go(c);
    c->q.on->activate(&c->q, &c->ctx, &c->dctx, act);
    come_back(c);
}

static void act_back(struct call *c, enum tr_act act)
{
    go(c);
    c->q.on->activate_bwd(&c->q, &c->ctx, &c->ctx, &c->dctx, act);
    come_back(c);
}

static void acts_as_plain(const struct tr_backend *b)
{
    static const struct size sizes[] = {{2, 37, 3, 9, 4, 0.0, false, TR_F32, false},
                                        {2, 40, 3, 8, 4, 0.0, false, TR_BF16, false},
                                        {1, 40, 3, 8, 4, 0.0, false, TR_F16, true}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double tolerance = of_type(sizes[i].mixed ? TR_F32 : sizes[i].type, 1e-11);
        struct call ref, fast;

        open_call(&ref, tr_backend_find("ref"), &sizes[i]);
        open_call(&fast, b, &sizes[i]);
        for (int a = TR_ACT_NONE; a <= TR_ACT_LAST_PLAIN; a++) {
            act(&ref, (enum tr_act)a);
            act(&fast, (enum tr_act)a);
            compare("an activation", &fast.ctx, &ref.ctx, tolerance);
            memcpy(fast.ctx.data, ref.ctx.data, (size_t)tr_tensor_bytes(&ref.ctx));
            act_back(&ref, (enum tr_act)a);
            act_back(&fast, (enum tr_act)a);
            compare("its gradient", &fast.ctx, &ref.ctx, tolerance);
        }
        close_call(&ref);
        close_call(&fast);
    }
}

static void activations(void **state)
{
    (void)state;
    for_fast(acts_as_plain);
}

#if !defined TR_TEST_KERNELS && !defined TR_TEST_FAKES
/* The activation by itself is that of a product with the identity, to the bit. */
static void as_product(void **state)
{
    enum { N = 5000 };
    static const char *const backends[] = {"ref", "cpu"};
    float one = 1.0f;
    const struct tr_tensor w = tr_tensor_2(&one, TR_F32, 1, 1);

    (void)state;
    for (int k = 0; k < 2; k++) {
        const struct tr_device_how how = {.threads = 2};
        struct tr_queue q = {.on = tr_backend_find(backends[k])};
        float numbers[4][N];
        const struct tr_tensor x = tr_tensor_2(numbers[0], TR_F32, N, 1);
        const struct tr_tensor dy = tr_tensor_2(numbers[1], TR_F32, N, 1);
        const struct tr_tensor y = tr_tensor_2(numbers[2], TR_F32, N, 1);
        const struct tr_tensor want = tr_tensor_2(numbers[3], TR_F32, N, 1);

        fill(&x, 3);
        fill(&dy, 4);
        assert_int_equal(q.on->open(&how, &q.device), TR_OK);
        for (int act = TR_ACT_NONE; act <= TR_ACT_LAST_PLAIN; act++) {
            q.on->activate(&q, &y, &x, (enum tr_act)act);
            q.on->linear(&q, &want, NULL, &x, &w, NULL, (enum tr_act)act);
            assert_memory_equal(y.data, want.data, N * sizeof(float));
            if (act == TR_ACT_NONE)
                continue;
            q.on->activate_bwd(&q, &y, &dy, &x, (enum tr_act)act);
            q.on->linear_dgrad(&q, &want, &dy, &w, &x, (enum tr_act)act);
            assert_memory_equal(y.data, want.data, N * sizeof(float));
        }
        q.on->close(q.device);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !defined TR_TEST_KERNELS && !defined TR_TEST_FAKES
        cmocka_unit_test(differences),
        cmocka_unit_test(as_product),
#endif
        cmocka_unit_test(as_plain),
        cmocka_unit_test(padding),
        cmocka_unit_test(same_bits),
#ifdef TR_TEST_KERNELS
        cmocka_unit_test(little_scratch),
#endif
        cmocka_unit_test(activations),
    };

    return run_tap(tests);
}
