/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_device.h"

#include <math.h>
#include <stdlib.h>

#include "util/half.h"
#include "telemetry/timer.h"

struct tr_queue bench_queue(int threads)
{
    struct tr_queue q = {.on = tr_backend_find("cpu")};

    bench_must(q.on->open(&(struct tr_device_how){.threads = threads}, &q.device));
    return q;
}

/* None of them denormal, and so small that no sum of many repetitions overflows. */
float *bench_floats(struct tr_queue *q, int64_t count)
{
    void *memory;
    float *x;

    bench_must(q->on->reserve(q->device, (size_t)count * sizeof *x, &memory));
    x = memory;
    for (int64_t j = 0; j < count; j++)
        x[j] = 1e-3f * (float)(j % 977 - 488);
    return x;
}

void bench_random(struct tr_queue *q, const struct tr_tensor *t)
{
    enum { BLOCK = 1 << 20 };
    uint32_t state = 1;
    float *x = bench_memory(BLOCK, sizeof *x);
    uint16_t *half = (uint16_t *)x;
    int64_t n = tr_tensor_elems(t);

    for (int i = 0; i < BLOCK; i++) {
        float value;

        state = state * 1664525U + 1013904223U;
        value = 0.02F * ((float)(state >> 8) / 8388608.0F - 1.0F);
        if (t->dtype == TR_F32)
            x[i] = value;
        else
            half[i] = t->dtype == TR_F16 ? tr_f16_from_float(value) : tr_bf16_from_float(value);
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        struct tr_tensor part = tr_tensor_span(t, i, n - i < BLOCK ? n - i : BLOCK);

        q->on->upload(q, &part, x);
    }
    free(x);
}

struct tr_tensor bench_matrix(struct tr_queue *q, enum tr_dtype type, int64_t rows, int64_t columns)
{
    float *x = bench_floats(q, rows * columns);
    struct tr_tensor t = tr_tensor_2(x, type, rows, columns);

    /* Numbers in fp16 or bf16 are in the memory of the floats that they are made of. */
    for (int64_t i = 0; type != TR_F32 && i < rows * columns; i++)
        tr_half(&t)[i] = type == TR_F16 ? tr_f16_from_float(x[i]) : tr_bf16_from_float(x[i]);
    return t;
}

struct product {
    struct tr_queue q;
    struct tr_tensor x, w, y, dw; /* [n,i] [o,i] [n,o] [o,i] */
};

static void forward(struct product *p)
{
    p->q.on->linear(&p->q, &p->y, NULL, &p->x, &p->w, NULL, TR_ACT_NONE);
    p->q.on->wait(&p->q);
}

static void dgrad(struct product *p)
{
    p->q.on->linear_dgrad(&p->q, &p->x, &p->y, &p->w, NULL, TR_ACT_NONE);
    p->q.on->wait(&p->q);
}

static void wgrad(struct product *p)
{
    p->q.on->linear_wgrad(&p->q, &p->dw, NULL, &p->y, &p->x, false);
    p->q.on->wait(&p->q);
}

static double rate(struct product *p, void (*product)(struct product *), double seconds)
{
    double least = INFINITY, until = tr_now() + seconds;

    for (int i = 0; i < 3 || tr_now() < until; i++) {
        double began = tr_now();

        product(p);
        least = fmin(least, tr_now() - began);
    }
    return 2e-9 * (double)p->x.dim[0] * (double)p->w.dim[0] * (double)p->w.dim[1] / least;
}

struct bench_rates bench_linear(int threads, enum tr_dtype type, int64_t n, int64_t o, int64_t i,
                                double seconds)
{
    struct product p = {.q = bench_queue(threads)};
    struct bench_rates r;

    p.x = bench_matrix(&p.q, type, n, i);
    p.w = bench_matrix(&p.q, type, o, i);
    p.y = bench_matrix(&p.q, type, n, o);
    p.dw = bench_matrix(&p.q, TR_F32, o, i);
    r.forward = rate(&p, forward, seconds);
    r.dgrad = rate(&p, dgrad, seconds);
    r.wgrad = rate(&p, wgrad, seconds);
    p.q.on->close(p.q.device);
    return r;
}
