/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/dims.h"
#include "device/device.h"
#include "config/relative.h"
#include "util/half.h"

/*
 * Disentangled attention: the plain loops against differences of their own results, and the fast ones against the
 * plain ones, in several blocks, with padding, with dropout and in each type.
 */
struct size {
    int64_t b, t, heads, d, buckets;
    double drop;
    bool padded;
    enum tr_dtype type;
};

struct call {
    struct size of;
    struct tr_queue q;
    struct tr_tensor qkv, rel, bucket, lengths, ctx, lse, dctx, dqkv, drel;
    int64_t sample[8];
};

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 33) / 4294967296.0 * 2.0 - 0.5;
}

static struct tr_tensor floats(enum tr_dtype type, int64_t rows, int64_t columns, uint64_t seed)
{
    void *p = calloc((size_t)(rows * columns), 4);
    uint64_t state = seed;

    assert_non_null(p);
    for (int64_t i = 0; i < rows * columns && seed; i++) {
        const float x = (float)uniform(&state);

        if (type == TR_F32)
            ((float *)p)[i] = x;
        else
            ((uint16_t *)p)[i] = type == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
    }
    return tr_tensor_2(p, type, rows, columns);
}

static double element(const struct tr_tensor *t, int64_t i)
{
    if (t->dtype == TR_F32)
        return (double)tr_f32(t)[i];
    return (double)(t->dtype == TR_F16 ? tr_f16_to_float(((const uint16_t *)t->data)[i])
                                       : tr_bf16_to_float(((const uint16_t *)t->data)[i]));
}

static void open_call(struct call *c, const char *backend, const struct size *of)
{
    const struct tr_device_how how = {.threads = 2};
    const int64_t n = of->b * of->t, width = 3 * of->heads * of->d;
    struct tr_dims dims = {.seq = of->t};
    int32_t *bucket = calloc((size_t)(2 * of->t), sizeof *bucket);
    int32_t *lengths = calloc((size_t)of->b, sizeof *lengths);

    assert_true(bucket && lengths);
    *c = (struct call){.of = *of};
    c->q.on = tr_backend_find(backend);
    assert_int_equal(c->q.on->open(&how, &c->q.device), TR_OK);
    dims.family.position_buckets = of->buckets;
    dims.family.relative_longest = of->t > 2 * of->buckets ? of->t : 2 * of->buckets;
    tr_relative_table(&dims, of->t, bucket);
    for (int64_t b = 0; b < of->b; b++) {
        c->sample[b] = 5 + 3 * b;
        lengths[b] = (int32_t)(of->padded ? 1 + (of->t - 1) * b / of->b : of->t);
    }
    c->bucket = tr_i32_1(bucket, 2 * of->t - 1);
    c->lengths = tr_i32_1(lengths, of->b);
    c->qkv = floats(of->type, n, width, 11);
    c->rel = floats(of->type, tr_relative_rows(&dims, of->t), width, 12);
    c->dctx = floats(of->type, n, width / 3, 13);
    c->ctx = floats(of->type, n, width / 3, 14);
    c->lse = tr_f32_3(calloc((size_t)(n * of->heads), sizeof(float)), of->b, of->heads, of->t);
    c->dqkv = floats(of->type, n, width, 15);
    c->drel = floats(of->type, c->rel.dim[0], width, 16);
}

static void close_call(struct call *c)
{
    struct tr_tensor *const all[] = {&c->qkv, &c->rel,  &c->bucket, &c->lengths, &c->ctx,
                                     &c->lse, &c->dctx, &c->dqkv,   &c->drel};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
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
                               .sample = c->sample,
                               .tokens = c->of.t};
}

static void forward(struct call *c)
{
    const struct tr_relative to = to_of(c);

    c->q.on->attention_relative(&c->q, &c->ctx, &c->lse, &c->qkv, &to, how_of(c), drop_of(c));
}

static void backward(struct call *c)
{
    const struct tr_relative to = to_of(c);

    c->q.on->attention_relative_bwd(&c->q, &c->dqkv, &c->drel, &c->dctx, &c->ctx, &c->lse, &c->qkv,
                                    &to, how_of(c), drop_of(c));
}

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
    static const struct size sizes[] = {{2, 9, 2, 3, 4, 0.0, false, TR_F32},
                                        {3, 7, 1, 4, 4, 0.3, true, TR_F32}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct call c;

        open_call(&c, "ref", &sizes[i]);
        forward(&c);
        backward(&c);
        check_differences(&c, &c.qkv, &c.dqkv);
        check_differences(&c, &c.rel, &c.drel);
        close_call(&c);
    }
}

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

static void as_plain(void **state)
{
    static const struct size sizes[] = {
        {2, 9, 2, 3, 4, 0.0, false, TR_F32},     {1, 1, 1, 1, 4, 0.0, false, TR_F32},
        {3, 64, 2, 8, 16, 0.1, true, TR_F32},    {2, 65, 3, 16, 32, 0.1, true, TR_F32},
        {2, 150, 2, 20, 64, 0.0, true, TR_F32},  {1, 200, 1, 64, 256, 0.2, false, TR_F32},
        {2, 70, 1, 320, 256, 0.0, true, TR_F32}, {2, 90, 2, 16, 32, 0.1, true, TR_BF16},
        {2, 90, 2, 16, 32, 0.1, true, TR_F16}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double u = sizes[i].type == TR_F16    ? 0x1p-11
                         : sizes[i].type == TR_BF16 ? 0x1p-8
                                                    : 0.0;
        struct call ref, cpu;

        open_call(&ref, "ref", &sizes[i]);
        open_call(&cpu, "cpu", &sizes[i]);
        print_message("# %s, %lld tokens, %lld wide\n", tr_dtype_name(sizes[i].type),
                      (long long)sizes[i].t, (long long)sizes[i].d);
        forward(&ref);
        forward(&cpu);
        compare("ctx", &cpu.ctx, &ref.ctx, fmax(1e-11, 4 * u * u));
        compare("lse", &cpu.lse, &ref.lse, 1e-11);
        /* From the same results. */
        memcpy(cpu.ctx.data, ref.ctx.data, (size_t)tr_tensor_bytes(&ref.ctx));
        memcpy(cpu.lse.data, ref.lse.data, (size_t)tr_tensor_bytes(&ref.lse));
        backward(&ref);
        backward(&cpu);
        compare("dqkv", &cpu.dqkv, &ref.dqkv, fmax(1e-10, 4 * u * u));
        if (sizes[i].t > 1)
            compare("drel", &cpu.drel, &ref.drel, fmax(1e-10, 4 * u * u));
        close_call(&ref);
        close_call(&cpu);
    }
}

/* Nothing of padding reaches what is no padding, and its own rows are zero. */
static void padding(void **state)
{
    static const struct size size = {2, 70, 2, 8, 16, 0.0, true, TR_F32};
    static const char *const backends[] = {"ref", "cpu"};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct call c, other;

        open_call(&c, backends[k], &size);
        open_call(&other, backends[k], &size);
        for (int64_t b = 0; b < size.b; b++)
            for (int64_t t = tr_i32(&c.lengths)[b]; t < size.t; t++)
                for (int64_t i = 0; i < c.qkv.dim[1]; i++)
                    tr_f32(&other.qkv)[(b * size.t + t) * c.qkv.dim[1] + i] = NAN;
        forward(&c);
        forward(&other);
        assert_memory_equal(c.ctx.data, other.ctx.data, (size_t)tr_tensor_bytes(&c.ctx));
        backward(&c);
        backward(&other);
        assert_memory_equal(c.dqkv.data, other.dqkv.data, (size_t)tr_tensor_bytes(&c.dqkv));
        assert_memory_equal(c.drel.data, other.drel.data, (size_t)tr_tensor_bytes(&c.drel));
        for (int64_t t = tr_i32(&c.lengths)[0]; t < size.t; t++)
            for (int64_t i = 0; i < c.ctx.dim[1]; i++)
                assert_true(tr_f32(&c.ctx)[t * c.ctx.dim[1] + i] == 0.0f);
        close_call(&c);
        close_call(&other);
    }
}

/* The activation by itself is that of a product with the identity, to the bit. */
static void activations(void **state)
{
    enum { N = 5000 };
    static const char *const backends[] = {"ref", "cpu"};
    float one = 1.0f;
    const struct tr_tensor w = tr_tensor_2(&one, TR_F32, 1, 1);

    (void)state;
    for (int k = 0; k < 2; k++) {
        const struct tr_device_how how = {.threads = 2};
        struct tr_queue q = {.on = tr_backend_find(backends[k])};
        const struct tr_tensor x = floats(TR_F32, N, 1, 3), dy = floats(TR_F32, N, 1, 4);
        const struct tr_tensor y = floats(TR_F32, N, 1, 5), want = floats(TR_F32, N, 1, 6);

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
        free(x.data);
        free(dy.data);
        free(y.data);
        free(want.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),
        cmocka_unit_test(as_plain),
        cmocka_unit_test(padding),
        cmocka_unit_test(activations),
    };

    return run_tap(tests);
}
