/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include "device/cpu_math.h"
#include "device/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/* Products with what belongs to them done on each part while it is in the cache. */

struct forward {
    const float *bias;
    float *pre;
    enum tr_act act;
};

static void finish_forward(const struct tr_product *p, int64_t i, int64_t j, int64_t rows,
                           int64_t columns)
{
    const struct forward *f = p->with;

    for (int64_t r = 0; r < rows; r++) {
        float *y = p->c + (i + r) * p->c_stride + j;

        if (f->bias) {
            const float *bias = f->bias + j;

#pragma omp simd
            for (int64_t c = 0; c < columns; c++)
                y[c] += bias[c];
        }
        if (f->pre)
            memcpy(f->pre + (i + r) * p->c_stride + j, y, (size_t)columns * sizeof(float));
        if (f->act == TR_ACT_GELU_TANH) {
#pragma omp simd
            for (int64_t c = 0; c < columns; c++)
                y[c] = gelu(y[c]);
        }
    }
}

void tr_cpu_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                   const struct tr_tensor *x, const struct tr_tensor *w,
                   const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear(y, pre, x, w, bias);
    struct forward f = {bias ? tr_f32(bias) : NULL, pre ? tr_f32(pre) : NULL, act};
    struct tr_product p = {.m = s.n,
                           .n = s.o,
                           .k = s.i,
                           .a = {.p = tr_f32(x), .stride = s.i},
                           .b = {.p = tr_f32(w), .stride = s.i, .turned = true},
                           .c = tr_f32(y),
                           .c_stride = s.o,
                           .finish = finish_forward,
                           .with = &f};

    tr_cpu_product(&p, q->device->threads, q->device->scratch);
}

static void finish_dgrad(const struct tr_product *p, int64_t i, int64_t j, int64_t rows,
                         int64_t columns)
{
    const float *all = p->with;

    for (int64_t r = 0; r < rows; r++) {
        float *dx = p->c + (i + r) * p->c_stride + j;
        const float *pre = all + (i + r) * p->c_stride + j;

#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            dx[c] *= gelu_slope(pre[c]);
    }
}

void tr_cpu_linear_dgrad(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *w, const struct tr_tensor *pre, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear_dgrad(dx, dy, w, pre, act);
    struct tr_product p = {.m = s.n,
                           .n = s.i,
                           .k = s.o,
                           .a = {.p = tr_f32(dy), .stride = s.o},
                           .b = {.p = tr_f32(w), .stride = s.i},
                           .c = tr_f32(dx),
                           .c_stride = s.i};

    if (act == TR_ACT_GELU_TANH) {
        p.finish = finish_dgrad;
        p.with = tr_f32(pre);
    }
    tr_cpu_product(&p, q->device->threads, q->device->scratch);
}

void tr_cpu_linear_wgrad(struct tr_queue *q, const struct tr_tensor *dw,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         const struct tr_tensor *x, bool add)
{
    struct tr_linear_sizes s = tr_sizes_linear_wgrad(dw, dbias, dy, x);
    struct tr_product p = {.m = s.o,
                           .n = s.i,
                           .k = s.n,
                           .a = {.p = tr_f32(dy), .stride = s.o, .turned = true},
                           .b = {.p = tr_f32(x), .stride = s.i},
                           .c = tr_f32(dw),
                           .c_stride = s.i,
                           .add = add};

    tr_cpu_product(&p, q->device->threads, q->device->scratch);
    if (dbias)
        tr_cpu_column_sums(q->device->threads, dbias, dy, add);
}
