/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "device/alone.h"
#include "device/device.h"
#include "util/half.h"
#include "util/rng.h"

/*
 * Products of few rows, which tokens make one after the other, take a way of their own through the cpu backend.
 * They have the bits that the same rows have among many, of any types, with depths and widths that no vector
 * divides, with bias and activation, on one thread and on three.  t_ops holds the many against `ref`.
 */
enum { MANY = 20 };

struct product {
    int64_t inner, columns; /* of x and w, and rows of w */
    enum tr_dtype x, w, y;
    enum tr_act act;
    bool bias;
};

static void *zeros(int64_t bytes)
{
    void *p = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);

    assert_non_null(p);
    memset(p, 0, (size_t)(bytes + 255) / 256 * 256);
    return p;
}

static struct tr_tensor drawn(enum tr_dtype type, int64_t rows, int64_t columns, int site)
{
    struct tr_tensor t = tr_tensor_2(zeros(rows * columns * 4), type, rows, columns);
    struct tr_rng rng = tr_rng_key(19, TR_STREAM_INIT, site, 0);

    for (int64_t i = 0; i < rows * columns; i++) {
        float x;

        tr_rng_normal(rng, (uint64_t)i, 1, &x);
        if (type == TR_F32)
            tr_f32(&t)[i] = x;
        else
            tr_half(&t)[i] = type == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
    }
    return t;
}

/* The first `rows` rows of x in y, whose memory is guarded by a row of zeros. */
static struct tr_tensor multiply(const struct product *p, int threads, int64_t rows,
                                 const struct tr_tensor *x, const struct tr_tensor *w,
                                 const struct tr_tensor *bias)
{
    const int64_t wide = tr_act_gated(p->act) ? p->columns / 2 : p->columns;
    struct tr_queue q = {.on = tr_backend_find("cpu")};
    struct tr_tensor y = tr_tensor_2(zeros((rows + 1) * wide * 4), p->y, rows, wide);
    const struct tr_tensor some = tr_tensor_2(x->data, x->dtype, rows, p->inner);

    share_small_work();
    assert_ok(
        q.on->open(&(struct tr_device_how){.threads = threads, .gemm = TR_GEMM_OWN}, &q.device));
    q.on->linear(&q, &y, NULL, &some, w, p->bias ? bias : NULL, p->act);
    q.on->close(q.device);
    for (int64_t i = 0; i < wide * tr_dtype_bytes(p->y); i++)
        assert_int_equal(((const char *)y.data)[rows * wide * tr_dtype_bytes(p->y) + i], 0);
    return y;
}

static void one(const struct product *p)
{
    struct tr_tensor x = drawn(p->x, MANY, p->inner, 1), w = drawn(p->w, p->columns, p->inner, 2);
    struct tr_tensor bias = drawn(p->w, 1, p->columns, 3);
    struct tr_tensor all, y;

    bias = tr_tensor_1(bias.data, p->w, p->columns);
    all = multiply(p, 1, MANY, &x, &w, &bias);
    for (int rows = 1; rows < MANY; rows++) {
        y = multiply(p, rows % 2 ? 1 : 3, rows, &x, &w, &bias);
        assert_memory_equal(y.data, all.data, (size_t)tr_tensor_bytes(&y));
        free(y.data);
    }
    free(all.data);
    free(x.data);
    free(w.data);
    free(bias.data);
}

static void same_bits(void **state)
{
    static const struct product list[] = {
        {64, 96, TR_F32, TR_F32, TR_F32, TR_ACT_NONE, false},
        {1, 1, TR_F32, TR_F32, TR_F32, TR_ACT_NONE, true},
        {17, 33, TR_F32, TR_F32, TR_F32, TR_ACT_GELU_TANH, true},
        {300, 31, TR_F32, TR_F32, TR_F32, TR_ACT_NONE, true},
        {515, 1030, TR_F32, TR_F32, TR_F32, TR_ACT_NONE, false},
        {768, 130, TR_BF16, TR_BF16, TR_BF16, TR_ACT_NONE, true},
        {259, 70, TR_F16, TR_F16, TR_F16, TR_ACT_GELU_TANH, true},
        {259, 70, TR_BF16, TR_F32, TR_F32, TR_ACT_NONE, false},
        {96, 48, TR_F32, TR_BF16, TR_BF16, TR_ACT_NONE, true},
        {300, 74, TR_F32, TR_F32, TR_F32, TR_ACT_SWIGLU, false},
        {40, 130, TR_BF16, TR_BF16, TR_BF16, TR_ACT_SWIGLU, true},
        {30000, 40, TR_BF16, TR_BF16, TR_F32, TR_ACT_NONE, true}, /* too deep to convert at once */
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        one(&list[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};

    return run_tap(tests);
}
