/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include "device/cpu/cpu_math.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/* GEMMs with their epilogues, done on each part while it is in the cache. */

static int64_t width(const struct tr_tensor *t)
{
    return t->dim[t->ndim - 1];
}

#define ACT(symbol, name)                                                                   \
    static void activate_##symbol(float *y, int64_t n)                                      \
    {                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = act_##symbol(y[i]);      \
    }                                                                                       \
    static void turn_back_##symbol(float *d, const float *pre, int64_t n)                   \
    {                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) d[i] *= slope_##symbol(pre[i]); \
    }
/* z and pre are [2 n], gates and what they open in turns; so is dx. */
#define GATED(symbol, name, of)                                                            \
    static void open_##symbol(float *y, const float *z, int64_t n)                         \
    {                                                                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] =                         \
            act_##of(z[2 * i]) * z[2 * i + 1];                                             \
    }                                                                                      \
    static void open_back_##symbol(float *dx, const float *d, const float *pre, int64_t n) \
    {                                                                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                \
        {                                                                                  \
            const float gate = pre[2 * i];                                                 \
                                                                                           \
            dx[2 * i] = d[i] * slope_##of(gate) * pre[2 * i + 1];                          \
            dx[2 * i + 1] = d[i] * act_##of(gate);                                         \
        }                                                                                  \
    }
#include "family/acts.def"

/* y = act(y) and d = d act'(pre), n elements, by activation. */
static const struct {
    void (*forward)(float *y, int64_t n);
    void (*backward)(float *d, const float *pre, int64_t n);
} acts[] = {
#define ACT(symbol, name) {activate_##symbol, turn_back_##symbol},
#include "family/acts.def"
};

/* Elements of a flat operand that one task has. */
enum { FLAT = 4096 };

void tr_cpu_activate(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     enum tr_act act)
{
    const int64_t n = tr_sizes_flat(y, x, x, x);
    const int threads = q->device->threads;

    TR_ASSERT(!tr_act_gated(act));
#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += FLAT) {
        const int64_t count = n - i < FLAT ? n - i : FLAT;
        float line[FLAT], in[FLAT];

        memcpy(line, tr_cpu_in(x, i, count, in), (size_t)count * sizeof *line);
        acts[act].forward(line, count);
        if (y->dtype == TR_F32)
            memcpy(tr_f32(y) + i, line, (size_t)count * sizeof *line);
        else
            tr_cpu_put(y, i, count, line);
    }
}

void tr_cpu_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *x, enum tr_act act)
{
    const int64_t n = tr_sizes_flat(dx, dy, x, x);
    const int threads = q->device->threads;

    TR_ASSERT(!tr_act_gated(act));
#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += FLAT) {
        const int64_t count = n - i < FLAT ? n - i : FLAT;
        float line[FLAT], in[2][FLAT];

        memcpy(line, tr_cpu_in(dy, i, count, in[0]), (size_t)count * sizeof *line);
        acts[act].backward(line, tr_cpu_in(x, i, count, in[1]), count);
        if (dx->dtype == TR_F32)
            memcpy(tr_f32(dx) + i, line, (size_t)count * sizeof *line);
        else
            tr_cpu_put(dx, i, count, line);
    }
}

/* The same by gated activation, from the first on. */
static const struct {
    void (*forward)(float *y, const float *z, int64_t n);
    void (*backward)(float *dx, const float *d, const float *pre, int64_t n);
} gates[] = {
#define GATED(symbol, name, of) {open_##symbol, open_back_##symbol},
#include "family/acts.def"
};

struct forward {
    const struct tr_tensor *y, *bias, *pre;
    enum tr_act act;
};

static void add_bias(const struct tr_tensor *bias, const struct tr_part *part)
{
    float line[BLOCK_COLUMNS];
    const float *plus = tr_cpu_in(bias, part->j, part->columns, line);

    for (int64_t r = 0; r < part->rows; r++) {
        float *y = part->sum + r * part->stride;

#pragma omp simd
        for (int64_t c = 0; c < part->columns; c++)
            y[c] += plus[c];
    }
}

static void finish_forward(const void *with, const struct tr_part *part)
{
    const struct forward *f = with;

    if (f->bias)
        add_bias(f->bias, part);
    for (int64_t r = 0; r < part->rows; r++) {
        float *y = part->sum + r * part->stride;

        if (f->pre)
            tr_cpu_narrow(f->pre->dtype, y, part->columns,
                          tr_cpu_at(f->pre, (part->i + r) * width(f->pre) + part->j));
        if (f->act != TR_ACT_NONE)
            acts[f->act].forward(y, part->columns);
    }
}

/* The sums, with the bias, are what becomes of c, which is `pre` or nothing.  A part has whole pairs of columns,
   for blocks are of whole tiles. */
static void finish_gated(const void *with, const struct tr_part *part)
{
    const struct forward *f = with;
    float line[BLOCK_COLUMNS / 2];

    if (f->bias)
        add_bias(f->bias, part);
    for (int64_t r = 0; r < part->rows; r++) {
        int64_t first = (part->i + r) * width(f->y) + part->j / 2;
        float *y = tr_cpu_out(f->y, first, line);

        gates[f->act - TR_ACT_FIRST_GATED].forward(y, part->sum + r * part->stride,
                                                   part->columns / 2);
        tr_cpu_put(f->y, first, part->columns / 2, y);
    }
}

void tr_cpu_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                   const struct tr_tensor *x, const struct tr_tensor *w,
                   const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear(y, pre, x, w, bias, act);
    struct forward f = {y, bias, pre, act};
    struct tr_product p = {.m = s.n,
                           .n = s.o,
                           .k = s.i,
                           .a = {.p = x->data, .stride = s.i, .type = x->dtype},
                           .b = {.p = w->data, .stride = s.i, .turned = true, .type = w->dtype},
                           .c = tr_act_gated(act) ? pre : y,
                           .finish = tr_act_gated(act) ? finish_gated : finish_forward,
                           .with = &f,
                           .library = q->device->dnnl};

    tr_cpu_product(&p, q->device->threads, q->device->scratch);
}

struct backward {
    const struct tr_tensor *dx, *pre;
    enum tr_act act;
};

static void finish_dgrad(const void *with, const struct tr_part *part)
{
    const struct backward *b = with;
    const struct tr_tensor *all = b->pre;
    float line[BLOCK_COLUMNS];

    for (int64_t r = 0; r < part->rows; r++) {
        int64_t first = (part->i + r) * width(all) + part->j;
        const float *pre = tr_cpu_in(all, first, part->columns, line);

        acts[b->act].backward(part->sum + r * part->stride, pre, part->columns);
    }
}

/* dx is twice as wide as the product, of which nothing is kept. */
static void finish_gated_dgrad(const void *with, const struct tr_part *part)
{
    const struct backward *b = with;
    float line[2 * BLOCK_COLUMNS], out[2 * BLOCK_COLUMNS];

    for (int64_t r = 0; r < part->rows; r++) {
        int64_t first = (part->i + r) * width(b->dx) + 2 * part->j;
        const float *pre = tr_cpu_in(b->pre, first, 2 * part->columns, line);
        float *dx = tr_cpu_out(b->dx, first, out);

        gates[b->act - TR_ACT_FIRST_GATED].backward(dx, part->sum + r * part->stride, pre,
                                                    part->columns);
        tr_cpu_put(b->dx, first, 2 * part->columns, dx);
    }
}

void tr_cpu_linear_dgrad(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *w, const struct tr_tensor *pre, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear_dgrad(dx, dy, w, pre, act);
    const struct backward b = {dx, pre, act};
    struct tr_product p = {.m = s.n,
                           .n = s.i,
                           .k = s.o,
                           .a = {.p = dy->data, .stride = s.o, .type = dy->dtype},
                           .b = {.p = w->data, .stride = s.i, .type = w->dtype},
                           .c = dx,
                           .library = q->device->dnnl};

    if (act != TR_ACT_NONE) {
        p.finish = tr_act_gated(act) ? finish_gated_dgrad : finish_dgrad;
        p.with = &b;
    }
    if (tr_act_gated(act))
        p.c = NULL;
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
                           .a = {.p = dy->data, .stride = s.o, .turned = true, .type = dy->dtype},
                           .b = {.p = x->data, .stride = s.i, .type = x->dtype},
                           .c = dw,
                           .add = add,
                           .library = q->device->dnnl};

    tr_cpu_product(&p, q->device->threads, q->device->scratch);
    if (dbias)
        tr_cpu_column_sums(q->device->threads, dbias, dy, add);
}
