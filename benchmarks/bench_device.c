/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_device.h"

#include <math.h>

#include "util/timer.h"

struct tr_queue bench_queue(int threads)
{
    struct tr_queue q = {.on = tr_backend_find("auto")};

    bench_must(q.on->open(threads, &q.device));
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

struct product {
    struct tr_queue q;
    struct tr_tensor x, w, y; /* [n,i] [o,i] [n,o] */
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
    p->q.on->linear_wgrad(&p->q, &p->w, NULL, &p->y, &p->x, true);
    p->q.on->wait(&p->q);
}

static double rate(struct product *p, void (*product)(struct product *), double seconds)
{
    double least = INFINITY, until = tr_now() + seconds;

    for (int i = 0; i < 3 || tr_now() < until; i++) {
        double began = tr_now(), took;

        product(p);
        took = tr_now() - began;
        if (took < least)
            least = took;
    }
    return 2e-9 * (double)p->x.dim[0] * (double)p->w.dim[0] * (double)p->w.dim[1] / least;
}

struct bench_sgemm bench_linear(int threads, int64_t n, int64_t o, int64_t i, double seconds)
{
    struct product p = {.q = bench_queue(threads)};
    struct bench_sgemm r;

    p.x = tr_f32_2(bench_floats(&p.q, n * i), n, i);
    p.w = tr_f32_2(bench_floats(&p.q, o * i), o, i);
    p.y = tr_f32_2(bench_floats(&p.q, n * o), n, o);
    r.wgrad = rate(&p, wgrad, seconds);
    r.forward = rate(&p, forward, seconds);
    r.dgrad = rate(&p, dgrad, seconds);
    p.q.on->close(p.q.device);
    return r;
}
