/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "util/half.h"
#include "util/rng.h"

/*
 * attention_cached of ref and of cpu: tokens in pieces of all sizes, several samples at different places, with groups,
 * windows and slopes, and no more keys than are needed.  ref must agree with attention of whole samples, cpu with
 * ref.
 */
struct trial {
    int heads, groups, d, window, tokens, batch, piece;
    bool slopes;
    enum tr_dtype type, cache;
};

static struct tr_tensor take(enum tr_dtype type, int64_t rows, int64_t columns)
{
    size_t bytes = (size_t)(rows * columns * tr_dtype_bytes(type));
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);

    memset(p, 0, bytes);
    return tr_tensor_2(p, type, rows, columns);
}

static double get(const struct tr_tensor *t, int64_t i)
{
    return t->dtype == TR_F32   ? (double)tr_f32(t)[i]
           : t->dtype == TR_F16 ? (double)tr_f16_to_float(tr_half(t)[i])
                                : (double)tr_bf16_to_float(tr_half(t)[i]);
}

static void set(const struct tr_tensor *t, int64_t i, float x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = x;
    else
        tr_half(t)[i] = t->dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

/* Tokens of all samples in pieces of at most x->piece, sample b one piece behind sample b - 1.  All of ctx. */
static struct tr_tensor in_pieces(const struct tr_backend *on, const struct trial *x,
                                  const struct tr_tensor *qkv, struct tr_attention_how how)
{
    const int64_t keys = x->window > 0 ? x->window + x->piece - 1 : x->tokens;
    const int64_t width = (x->heads + 2 * x->groups) * x->d, out = x->heads * x->d;
    const int rows = x->batch * x->piece;
    struct tr_tensor ctx = take(x->type, x->batch * x->tokens, out);
    struct tr_tensor some = take(x->type, rows, width), made = take(x->type, rows, out), place;
    struct tr_tensor flat = take(x->cache, 2 * x->batch * x->groups, keys * x->d);
    struct tr_tensor cache = tr_tensor_3(flat.data, x->cache, 2 * x->batch * x->groups, keys, x->d);
    struct tr_queue q = {.on = on};
    int32_t *at = calloc((size_t)rows, sizeof *at);
    const int64_t bytes = tr_dtype_bytes(x->type);

    assert_ok(on->open(&(struct tr_device_how){.threads = 3}, &q.device));
    place = tr_i32_1(at, rows);
    for (int step = 0; step * x->piece < x->tokens + x->batch * x->piece; step++) {
        for (int n = 0; n < rows; n++) {
            const int b = n / x->piece, p = (step - b) * x->piece + n % x->piece;
            const bool there = p >= 0 && p < x->tokens;

            at[n] = there ? p : -1;
            memset((char *)some.data + n * width * bytes, 0x3f, (size_t)(width * bytes));
            if (there)
                memcpy((char *)some.data + n * width * bytes,
                       (char *)qkv->data + (b * x->tokens + p) * width * bytes,
                       (size_t)(width * bytes));
        }
        on->attention_cached(&q, &made, &cache, &some, &place, how);
        for (int n = 0; n < rows; n++)
            for (int64_t i = 0; i < out; i++) {
                if (at[n] >= 0)
                    set(&ctx, (n / x->piece * x->tokens + at[n]) * out + i,
                        (float)get(&made, n * out + i));
                else
                    assert_true(get(&made, n * out + i) == 0.0);
            }
    }
    on->close(q.device);
    free(some.data);
    free(made.data);
    free(flat.data);
    free(at);
    return ctx;
}

static struct tr_tensor whole(const struct trial *x, const struct tr_tensor *qkv,
                              struct tr_attention_how how)
{
    const struct tr_backend *on = tr_backend_find("ref");
    struct tr_tensor ctx = take(x->type, x->batch * x->tokens, x->heads * x->d);
    float *sums = calloc((size_t)(x->batch * x->heads * x->tokens), sizeof *sums);
    struct tr_tensor lse = tr_f32_3(sums, x->batch, x->heads, x->tokens);
    struct tr_queue q = {.on = on};

    assert_ok(on->open(&(struct tr_device_how){.threads = 1}, &q.device));
    on->attention(&q, &ctx, &lse, qkv, NULL, how, (struct tr_dropout){.p = 0.0});
    on->close(q.device);
    free(sums);
    return ctx;
}

static void near(const struct tr_tensor *x, const struct tr_tensor *y, double tolerance)
{
    double error = 0.0, norm = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(x); i++) {
        error += pow(get(x, i) - get(y, i), 2.0);
        norm += pow(get(y, i), 2.0);
    }
    if (!(error <= tolerance * norm) || !(norm > 0.0))
        fail_msg("relative error %g, at most %g", sqrt(error / norm), sqrt(tolerance));
}

static void one(const struct trial *x)
{
    struct tr_rng rng = tr_rng_key(11, TR_STREAM_INIT, 0, x->heads * 100 + x->tokens);
    float slope[16];
    struct tr_tensor slopes = tr_f32_1(slope, x->heads);
    struct tr_attention_how how = {
        .scale = 0.3F, .window = x->window, .slopes = x->slopes ? &slopes : NULL};
    struct tr_tensor qkv = take(x->type, x->batch * x->tokens, (x->heads + 2 * x->groups) * x->d);
    const double u = x->type == TR_F32 && x->cache == TR_F32     ? 0.0
                     : x->type == TR_BF16 || x->cache == TR_BF16 ? 1.0 / 256
                                                                 : 1.0 / 2048;
    struct tr_tensor all, ref, cpu;

    for (int64_t i = 0; i < tr_tensor_elems(&qkv); i++) {
        float draw;

        tr_rng_normal(rng, (uint64_t)i, 1, &draw);
        set(&qkv, i, draw);
    }
    for (int h = 0; h < x->heads; h++)
        slope[h] = 0.5F / (float)(h + 1);
    all = whole(x, &qkv, how);
    ref = in_pieces(tr_backend_find("ref"), x, &qkv, how);
    cpu = in_pieces(tr_backend_find("cpu"), x, &qkv, how);
    near(&ref, &all, 1e-11 + 16 * u * u);
    near(&cpu, &ref, 1e-11 + 16 * u * u);
    free(qkv.data);
    free(all.data);
    free(ref.data);
    free(cpu.data);
}

static void agree(void **state)
{
    static const struct trial trials[] = {
        {4, 4, 8, 0, 17, 2, 1, false, TR_F32, TR_F32},
        {4, 4, 8, 0, 17, 2, 5, true, TR_F32, TR_F32},
        {6, 2, 24, 0, 33, 3, 8, false, TR_F32, TR_F32},
        {6, 1, 5, 7, 40, 2, 4, true, TR_F32, TR_F32},
        {4, 2, 16, 1, 12, 2, 3, false, TR_F32, TR_F32},
        {2, 1, 320, 0, 9, 1, 9, false, TR_F32, TR_F32},
        {2, 2, 64, 0, 300, 1, 150, false, TR_F32, TR_F32}, /* several blocks of keys */
        {2, 2, 64, 131, 300, 1, 1, true, TR_F32, TR_F32},
        {4, 2, 16, 0, 20, 2, 4, false, TR_BF16, TR_BF16},
        {4, 2, 16, 6, 20, 2, 4, false, TR_F16, TR_F16},
        {4, 2, 16, 0, 20, 2, 4, true, TR_F32, TR_F16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        one(&trials[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agree)};

    return run_tap(tests);
}
