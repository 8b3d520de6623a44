/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/half.h"
#include "util/log.h"
#include "telemetry/timer.h"

/* Seconds that a repetition should take, so that a clock is exact and nobody waits; most calls in one. */
static const double FILL = 0.02;
enum { MOST_CALLS = 10000 };

/* Memory without which the benchmark cannot run. */
static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for %zu results of a measurement", count);
    return p;
}

void tr_bench_open(struct tr_bench *b, struct tr_run *run)
{
    *b = (struct tr_bench){
        .run = run, .warm_up = 1, .repeats = 5, .host = run->launch.host, .rows = json_array()};
}

void tr_bench_close(struct tr_bench *b)
{
    json_decref(b->rows);
    memset(b, 0, sizeof *b);
}

/* ---- times ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct tr_bench_times tr_bench_times_of(double *seconds, int n)
{
    TR_ASSERT(n > 0);
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    return (struct tr_bench_times){
        .median = 0.5 * (seconds[(n - 1) / 2] + seconds[n / 2]),
        .min = seconds[0],
        .max = seconds[n - 1],
        .p95 = seconds[(int)ceil(0.95 * n) - 1],
        .count = n,
    };
}

/* Seconds of one of `calls` calls on this rank; all begin together. */
static double round_of(struct tr_bench *b, int calls, void (*body)(void *ctx), void *ctx)
{
    struct tr_run *r = b->run;
    double began;

    r->queue.on->wait(&r->queue);
    r->world->via->barrier(r->world);
    began = tr_now();
    for (int i = 0; i < calls; i++)
        body(ctx);
    r->queue.on->wait(&r->queue);
    return (tr_now() - began) / calls;
}

/* The same, counted. */
static double next_round(struct tr_bench *b, int calls, void (*body)(void *ctx), void *ctx)
{
    const double seconds = round_of(b, calls, body, ctx);

    tr_meter_add(b->meter, 1);
    return seconds;
}

int tr_bench_rounds(const struct tr_bench *b)
{
    return b->warm_up + 1 + b->repeats;
}

static double slowest(const double *all, int ranks, int stride)
{
    double most = 0.0;

    for (int r = 0; r < ranks; r++)
        most = fmax(most, all[r * stride]);
    return most;
}

/* Warm-up rounds set how many calls fill a round; the same on all ranks. */
static int calibrate(struct tr_bench *b, void (*body)(void *ctx), void *ctx)
{
    struct tr_comm *world = b->run->world;
    double *all = need((size_t)world->size, sizeof *all), mine, most = 0.0;

    for (int i = 0; i < b->warm_up + 1; i++) {
        mine = next_round(b, 1, body, ctx);
        world->via->gather_all(world, &mine, sizeof mine, all);
        most = slowest(all, world->size, 1);
    }
    free(all);
    if (most * MOST_CALLS <= FILL)
        return MOST_CALLS;
    return most >= FILL ? 1 : (int)ceil(FILL / most);
}

struct tr_bench_times tr_bench_time(struct tr_bench *b, void (*body)(void *ctx), void *ctx,
                                    double *own)
{
    struct tr_comm *world = b->run->world;
    const int calls = calibrate(b, body, ctx), n = b->repeats;
    double *mine = need((size_t)n, sizeof *mine), *worst = need((size_t)n, sizeof *worst);
    double *all = need((size_t)n * (size_t)world->size, sizeof *all);
    struct tr_bench_times t;

    for (int i = 0; i < n; i++)
        mine[i] = next_round(b, calls, body, ctx);
    world->via->gather_all(world, mine, n * (int64_t)sizeof *mine, all);
    for (int i = 0; i < n; i++)
        worst[i] = slowest(all + i, world->size, n);
    t = tr_bench_times_of(worst, n);
    if (own)
        *own = tr_bench_times_of(mine, n).median;
    free(mine);
    free(worst);
    free(all);
    return t;
}

const struct tr_adamw tr_bench_adamw = {
    .lr = 1e-4F,
    .beta1 = 0.9F,
    .beta2 = 0.999F,
    .eps = 1e-8F,
    .decay = 0.01F,
    .bias1 = 0.1F,
    .bias2 = 1e-3F,
    .grad_scale = 1.0F,
};

/* ---- results ---- */

int64_t tr_bench_count(struct tr_bench *b, int64_t compared, int64_t wrong)
{
    struct tr_comm *world = b->run->world;
    const int64_t mine[2] = {compared, wrong};
    int64_t(*all)[2] = need((size_t)world->size, sizeof *all), sum = 0;

    world->via->gather_all(world, mine, sizeof mine, all);
    for (int r = 0; r < world->size; r++) {
        b->results += all[r][0];
        sum += all[r][1];
    }
    b->wrong += sum;
    free(all);
    return sum;
}

void tr_bench_print(const struct tr_bench *b, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (b->quiet)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tr_print_rank0("%s", text);
}

void tr_bench_row(struct tr_bench *b, json_t *row)
{
    TR_ASSERT(row);
    json_array_append_new(b->rows, row);
}

/* ---- operands ---- */

enum tr_status tr_bench_reserve(struct tr_bench *b, struct tr_tensor *const *t, int n)
{
    enum { ALIGN = 256 };
    struct tr_run *r = b->run;
    size_t all = 0;
    void *memory;

    for (int i = 0; i < n; i++)
        all += ((size_t)tr_tensor_bytes(t[i]) + ALIGN - 1) / ALIGN * ALIGN;
    TR_TRY(tr_comm_agree(r->world, r->queue.on->reserve(r->device, all, &memory)));
    all = 0;
    for (int i = 0; i < n; i++) {
        t[i]->data = (unsigned char *)memory + all;
        all += ((size_t)tr_tensor_bytes(t[i]) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return TR_OK;
}

/* A few bits of an integer product with long periods, so that neighbours and rows differ. */
float tr_bench_value(int64_t i, int which, int rank)
{
    uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u +
                 (uint64_t)(which * 64 + 1) * 0xc2b2ae3d27d4eb4fu +
                 (uint64_t)rank * 0x165667b19e3779f9u;

    return (float)((int)((x >> 40) % 5) - 2);
}

float tr_bench_element(const void *data, enum tr_dtype type, int64_t i)
{
    if (type == TR_F16)
        return tr_f16_to_float(((const uint16_t *)data)[i]);
    if (type == TR_BF16)
        return tr_bf16_to_float(((const uint16_t *)data)[i]);
    return ((const float *)data)[i];
}

void tr_bench_set(void *data, enum tr_dtype type, int64_t i, float x)
{
    if (type == TR_F16)
        ((uint16_t *)data)[i] = tr_f16_from_float(x);
    else if (type == TR_BF16)
        ((uint16_t *)data)[i] = tr_bf16_from_float(x);
    else
        ((float *)data)[i] = x;
}

enum tr_status tr_bench_fill(struct tr_bench *b, const struct tr_tensor *t, int which, int rank)
{
    struct tr_run *r = b->run;
    int64_t n = tr_tensor_elems(t);
    void *host = calloc((size_t)n, (size_t)tr_dtype_bytes(t->dtype));
    enum tr_status s =
        host ? TR_OK
             : TR_FAIL(TR_ERESOURCE, "no memory left for %lld numbers on the host", (long long)n);

    TR_TRY(tr_comm_agree(r->world, s));
    for (int64_t i = 0; i < n; i++)
        tr_bench_set(host, t->dtype, i, tr_bench_value(i, which, rank));
    r->queue.on->upload(&r->queue, t, host);
    free(host);
    return TR_OK;
}

/* ---- bodies ---- */

void tr_bench_swap(struct tr_bench *b, struct tr_comm *c, int to, int from, void *out, void *in,
                   int64_t bytes)
{
    struct tr_queue *q = &b->run->queue;
    struct tr_leg legs[2] = {
        {.dir = TR_LEG_SEND, .peer = to, .buf = out, .bytes = bytes},
        {.dir = TR_LEG_RECV, .peer = from, .buf = in, .bytes = bytes},
    };
    struct tr_pending p;

    c->via->exchange_start(c, q, legs, 2, &p);
    c->via->finish(c, q, &p);
}

void tr_bench_probe_init(struct tr_bench_probe *p, struct tr_bench *b)
{
    enum { HOST_WIDTH = 1024, GPU_WIDTH = 8192 };
    const bool gpu = b->run->queue.on->apart;
    const int64_t n = gpu ? GPU_WIDTH : HOST_WIDTH, mib = gpu ? 1024 : 64;

    p->b = b;
    p->a = p->c = p->y = tr_tensor_2(NULL, TR_F32, n, n);
    p->from = p->to = tr_tensor_1(NULL, TR_F32, (mib << 20) / 4);
}

enum tr_status tr_bench_probe_set_type(struct tr_bench_probe *p, enum tr_dtype type)
{
    p->a.dtype = p->c.dtype = p->y.dtype = type;
    TR_TRY(tr_bench_fill(p->b, &p->a, 0, 0));
    return tr_bench_fill(p->b, &p->c, 1, 0);
}

void tr_bench_probe_product(void *probe)
{
    const struct tr_bench_probe *p = probe;
    struct tr_queue *q = &p->b->run->queue;

    q->on->linear(q, &p->y, NULL, &p->a, &p->c, NULL, TR_ACT_NONE);
}

void tr_bench_probe_copy(void *probe)
{
    const struct tr_bench_probe *p = probe;
    struct tr_queue *q = &p->b->run->queue;

    q->on->copy(q, &p->to, &p->from);
}

double tr_bench_probe_tflop(const struct tr_bench_probe *p)
{
    return 2e-12 * pow((double)p->a.dim[0], 3.0);
}

double tr_bench_probe_gb(const struct tr_bench_probe *p)
{
    return 2e-9 * (double)tr_tensor_bytes(&p->from);
}
