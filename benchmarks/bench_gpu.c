/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_gpu [--backend NAME] [--type bf16|fp16] [--flash 1] [--scale N] [PART ...]: the operations of a step in
 * 16 bits, by themselves.
 *
 * Parts: copy, products, memory, attention; all of them unless some are named.  Sizes are those of GPT
 * models with 8 samples of 1024 tokens or what is named; --scale N divides the number of samples and
 * the sizes of squares by N, to try the program on a small machine.  --flash 1 computes attention with
 * the kernels of this program and not with cuDNN.
 *
 * Times come from marks on the queue around a number of calls, so what the host does between them is
 * in them only where the device waits for it.  A line of JSON for each:
 *   copy        GB/s read and written, the measure of what is bound by memory
 *   products    TFLOP/s in forward, dgrad and wgrad
 *   memory      GB/s of the bytes that an operation has to move, and that as part of the copy rate
 *   attention   TFLOP/s of the products that a causal mask leaves, forward and backward
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench_device.h"

enum { WARM_UP = 3, ROUNDS = 5 };
static const double ROUND_SECONDS = 0.02;

struct bench {
    struct tr_queue q;
    int argc;
    char **argv;
    int64_t scale;
    bool flash;
    enum tr_dtype type; /* bf16, or fp16 for GPUs that have no other */
    double copy_rate;   /* bytes per second */
    unsigned char *memory;
    size_t used, bytes;
};

/* ---- operands ---- */

static struct tr_tensor take(struct bench *b, enum tr_dtype type, int64_t rows, int64_t columns)
{
    struct tr_tensor t = tr_tensor_2(b->memory + b->used, type, rows, columns);

    b->used += ((size_t)tr_tensor_bytes(&t) + 255) / 256 * 256;
    if (b->used > b->bytes)
        tr_die(TR_ERESOURCE, "the operands need more than the %.1f GiB that bench_gpu reserved",
               (double)b->bytes / 1073741824.0);
    return t;
}

static struct tr_tensor numbers(struct bench *b, enum tr_dtype type, int64_t rows, int64_t columns)
{
    struct tr_tensor t = take(b, type, rows, columns);

    bench_random(&b->q, &t);
    return t;
}

static struct tr_tensor positive(struct bench *b, int64_t n)
{
    struct tr_tensor t = take(b, TR_F32, 1, n);

    b->q.on->fill(&b->q, &t, 1.0F);
    return t;
}

/* n integers, a permutation of 0 .. most - 1 over and over. */
static struct tr_tensor indices(struct bench *b, int64_t n, int64_t most)
{
    struct tr_tensor t = take(b, TR_I32, 1, n);
    int32_t *x = bench_memory(n, sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(i * 7919 % most);
    b->q.on->upload(&b->q, &t, x);
    free(x);
    return t;
}

/* ---- time ---- */

typedef void work(struct bench *b, void *operands);

static double seconds_of(struct bench *b, work *f, void *operands, int calls)
{
    b->q.on->mark(&b->q, 0);
    for (int i = 0; i < calls; i++)
        f(b, operands);
    b->q.on->mark(&b->q, 1);
    b->q.on->wait(&b->q);
    return b->q.on->between(&b->q, 0, 1) / calls;
}

/* Of one call: the middle one of ROUNDS rounds. */
static struct tr_bench_times timed(struct bench *b, work *f, void *operands)
{
    double round[ROUNDS], once;
    int calls;

    seconds_of(b, f, operands, WARM_UP);
    once = seconds_of(b, f, operands, 1);
    calls = once * 1000 > ROUND_SECONDS ? (int)(ROUND_SECONDS / once) : 1000;
    for (int i = 0; i < ROUNDS; i++)
        round[i] = seconds_of(b, f, operands, calls > 0 ? calls : 1);
    return tr_bench_times_of(round, ROUNDS);
}

static json_t *line_of(struct bench *b, const char *part, const char *what, struct tr_bench_times t)
{
    json_t *line = bench_line("gpu", b->argc, b->argv);

    json_object_set_new(line, "part", json_string(part));
    json_object_set_new(line, "what", json_string(what));
    json_object_set_new(line, "type", json_string(tr_dtype_name(b->type)));
    json_object_set_new(line, "device", json_string(b->q.on->describe(b->q.device)));
    bench_add_times(line, &t);
    return line;
}

/* ---- copy ---- */

struct pair {
    struct tr_tensor y, x;
};

static void copy_work(struct bench *b, void *operands)
{
    struct pair *p = operands;

    b->q.on->copy(&b->q, &p->y, &p->x);
}

static void part_copy(struct bench *b, bool print)
{
    int64_t n = ((int64_t)1 << 28) / b->scale;
    struct pair p;
    struct tr_bench_times t;
    json_t *line;

    b->used = 0;
    p.x = positive(b, n);
    p.y = take(b, TR_F32, 1, n);
    t = timed(b, copy_work, &p);
    b->copy_rate = 8.0 * (double)n / t.median;
    if (!print)
        return;
    line = line_of(b, "copy", "fp32", t);
    json_object_set_new(line, "gbytes_per_second", json_real(1e-9 * b->copy_rate));
    bench_print(line);
}

/* ---- products ---- */

struct product {
    struct tr_tensor x, w, y, pre, bias, dw;
    enum tr_act act;
};

static void forward_work(struct bench *b, void *operands)
{
    struct product *p = operands;

    b->q.on->linear(&b->q, &p->y, p->act == TR_ACT_NONE ? NULL : &p->pre, &p->x, &p->w, &p->bias,
                    p->act);
}

static void dgrad_work(struct bench *b, void *operands)
{
    struct product *p = operands;

    b->q.on->linear_dgrad(&b->q, &p->x, &p->y, &p->w, NULL, TR_ACT_NONE);
}

static void wgrad_work(struct bench *b, void *operands)
{
    struct product *p = operands;

    b->q.on->linear_wgrad(&b->q, &p->dw, NULL, &p->y, &p->x, true);
}

static void product(struct bench *b, const char *what, int64_t n, int64_t o, int64_t i,
                    enum tr_act act)
{
    const struct {
        const char *name;
        work *f;
    } way[] = {{"forward", forward_work}, {"dgrad", dgrad_work}, {"wgrad", wgrad_work}};
    struct product p = {.act = act};

    b->used = 0;
    p.x = numbers(b, b->type, n, i);
    p.w = numbers(b, b->type, o, i);
    p.y = numbers(b, b->type, n, o);
    p.pre = take(b, b->type, n, o);
    p.bias = numbers(b, b->type, 1, o);
    p.dw = take(b, TR_F32, o, i);
    b->q.on->fill(&b->q, &p.dw, 0.0F);
    for (int k = 0; k < 3; k++) {
        struct tr_bench_times t = timed(b, way[k].f, &p);
        json_t *line = line_of(b, "products", what, t);

        json_object_set_new(line, "way", json_string(way[k].name));
        json_object_set_new(line, "n", json_integer(n));
        json_object_set_new(line, "o", json_integer(o));
        json_object_set_new(line, "i", json_integer(i));
        json_object_set_new(line, "tflops",
                            json_real(2e-12 * (double)n * (double)o * (double)i / t.median));
        bench_print(line);
    }
}

static void part_products(struct bench *b)
{
    const int64_t n = 8192 / b->scale;
    const struct {
        const char *name;
        int64_t hidden;
    } model[] = {{"124M", 768}, {"1.5B", 1600}, {"7B", 4096}};
    char what[64];

    product(b, "square", 8192 / b->scale, 8192 / b->scale, 8192 / b->scale, TR_ACT_NONE);
    for (int k = 0; k < 3; k++) {
        const int64_t h = model[k].hidden / b->scale / 8 * 8;

        snprintf(what, sizeof what, "%s qkv", model[k].name);
        product(b, what, n, 3 * h, h, TR_ACT_NONE);
        snprintf(what, sizeof what, "%s proj", model[k].name);
        product(b, what, n, h, h, TR_ACT_NONE);
        snprintf(what, sizeof what, "%s fc1, gelu", model[k].name);
        product(b, what, n, 4 * h, h, TR_ACT_GELU_TANH);
        snprintf(what, sizeof what, "%s fc2", model[k].name);
        product(b, what, n, h, 4 * h, TR_ACT_NONE);
        snprintf(what, sizeof what, "%s logits", model[k].name);
        product(b, what, n, 50304 / b->scale / 8 * 8, h, TR_ACT_NONE);
    }
}

/* ---- what memory bounds ---- */

struct rows {
    int64_t n, h, v;
    struct tr_tensor x, y, a, gain, bias, dgain, dbias, mean, rstd;
    struct tr_tensor logits, max, stats, labels, weight, table, dtable, ids;
    struct tr_tensor p, m, m2, g, half, out;
    struct tr_dropout none;
};

#define WORK(name, call)                                \
    static void name##_work(struct bench *b, void *arg) \
    {                                                   \
        struct rows *r = arg;                           \
        const struct tr_backend *on = b->q.on;          \
                                                        \
        call;                                           \
    }

WORK(fill, on->fill(&b->q, &r->g, 0.0F))
WORK(add, on->add(&b->q, &r->y, &r->x))
WORK(layernorm, on->norm(&b->q, &r->y, &r->mean, &r->rstd, &r->x, &r->gain, &r->bias,
                         (struct tr_norm_how){.eps = 1e-5F}))
WORK(layernorm_bwd, on->norm_bwd(&b->q, &r->y, &r->dgain, &r->dbias, &r->a, &r->y, &r->x, &r->gain,
                                 &r->mean, &r->rstd, (struct tr_norm_how){.eps = 1e-5F}))
WORK(residual, on->residual(&b->q, &r->y, &r->x, &r->a, &r->bias, r->none))
WORK(residual_bwd, on->residual_bwd(&b->q, &r->a, &r->dbias, &r->y, r->none))
WORK(embed, on->embed(&b->q, &r->y, &r->ids, &r->table, 0))
WORK(embed_bwd, on->embed_bwd(&b->q, &r->dtable, &r->y, &r->ids, 0))
WORK(xent_max, on->xent_max(&b->q, &r->max, &r->logits, r->v))
WORK(xent_sum, on->xent_sum(&b->q, &r->stats, &r->logits, &r->max, &r->labels, 0, r->v))
WORK(xent_bwd, on->xent_bwd(&b->q, &r->logits, &r->max, &r->stats, &r->labels, &r->weight, 0, r->v))
WORK(sumsq, on->sumsq(&b->q, &r->out, &r->g))
WORK(adamw, on->adamw(&b->q, &r->half, &r->p, &r->m, &r->m2, &r->g, tr_bench_adamw))

static void make_rows(struct bench *b, struct rows *r, int64_t n, int64_t h)
{
    const int64_t params = ((int64_t)1 << 27) / b->scale;

    b->used = 0;
    *r = (struct rows){.n = n, .h = h, .v = 50257 / b->scale};
    r->x = numbers(b, b->type, n, h);
    r->y = numbers(b, b->type, n, h);
    r->a = numbers(b, b->type, n, h);
    r->gain = numbers(b, b->type, 1, h);
    r->bias = numbers(b, b->type, 1, h);
    r->dgain = positive(b, h);
    r->dbias = positive(b, h);
    r->mean = positive(b, n);
    r->rstd = positive(b, n);
    r->logits = numbers(b, b->type, n, (r->v + 127) / 128 * 128);
    r->max = positive(b, n);
    r->stats = positive(b, 2 * n);
    r->stats = tr_tensor_2(r->stats.data, TR_F32, 2, n);
    r->labels = indices(b, n, r->v);
    r->weight = positive(b, n);
    r->table = numbers(b, b->type, r->v, h);
    r->dtable = take(b, TR_F32, r->v, h);
    b->q.on->fill(&b->q, &r->dtable, 0.0F);
    r->ids = indices(b, n, r->v);
    r->p = numbers(b, TR_F32, 1, params);
    r->m = positive(b, params);
    r->m2 = positive(b, params);
    r->g = numbers(b, TR_F32, 1, params);
    r->half = take(b, b->type, 1, params);
    r->out = take(b, TR_F64, 1, 1);
    b->q.on->fill(&b->q, &r->out, 0.0F);
}

/* What an operation has to read and write at least, in bytes. */
static void part_memory(struct bench *b, int64_t h)
{
    struct rows r;

    make_rows(b, &r, 8192 / b->scale, h / b->scale / 8 * 8);
    {
        const double nh = (double)r.n * (double)r.h, params = (double)tr_tensor_elems(&r.p);
        const double logits = (double)r.n * (double)r.v, stat = 4.0 * (double)r.n;
        const struct {
            const char *name;
            work *f;
            double bytes;
        } job[] = {
            {"fill", fill_work, 4 * params},
            {"add", add_work, 6 * nh},
            {"layernorm", layernorm_work, 4 * nh + 2 * stat},
            {"layernorm_bwd", layernorm_bwd_work, 8 * nh + 2 * stat},
            {"residual", residual_work, 6 * nh},
            {"residual_bwd", residual_bwd_work, 4 * nh},
            {"embed", embed_work, 4 * nh},
            {"embed_bwd", embed_bwd_work, 2 * nh + 8 * nh},
            {"xent_max", xent_max_work, 2 * logits},
            {"xent_sum", xent_sum_work, 2 * logits},
            {"xent_bwd", xent_bwd_work, 4 * logits},
            {"sumsq", sumsq_work, 4 * params},
            {"adamw", adamw_work, 30 * params},
        };

        for (size_t i = 0; i < sizeof job / sizeof job[0]; i++) {
            struct tr_bench_times t = timed(b, job[i].f, &r);
            json_t *line = line_of(b, "memory", job[i].name, t);

            json_object_set_new(line, "rows", json_integer(r.n));
            json_object_set_new(line, "width", json_integer(r.h));
            json_object_set_new(line, "gbytes_per_second",
                                json_real(1e-9 * job[i].bytes / t.median));
            json_object_set_new(line, "of_copy", json_real(job[i].bytes / t.median / b->copy_rate));
            bench_print(line);
        }
    }
}

/* ---- attention ---- */

struct attention {
    struct tr_tensor qkv, ctx, lse, dctx, dqkv;
    float scale;
};

static void attention_work(struct bench *b, void *operands)
{
    struct attention *a = operands;

    b->q.on->attention(&b->q, &a->ctx, &a->lse, &a->qkv, NULL,
                       (struct tr_attention_how){.first_head = 0, .scale = a->scale},
                       (struct tr_dropout){.p = 0.0});
}

static void attention_bwd_work(struct bench *b, void *operands)
{
    struct attention *a = operands;

    b->q.on->attention_bwd(&b->q, &a->dqkv, &a->dctx, &a->ctx, &a->lse, &a->qkv, NULL,
                           (struct tr_attention_how){.first_head = 0, .scale = a->scale},
                           (struct tr_dropout){.p = 0.0});
}

static void attention(struct bench *b, int64_t samples, int64_t heads, int64_t t, int64_t d)
{
    const int64_t n = samples * t;
    /* Two products of which the mask leaves half; five backward. */
    const double flop = 2.0 * (double)n * (double)heads * (double)t * (double)d;
    struct attention a = {.scale = 1.0F / sqrtf((float)d)};
    char what[64];

    b->used = 0;
    a.qkv = numbers(b, b->type, n, 3 * heads * d);
    a.ctx = take(b, b->type, n, heads * d);
    a.lse = take(b, TR_F32, samples * heads, t);
    a.lse = tr_tensor_3(a.lse.data, TR_F32, samples, heads, t);
    a.dctx = numbers(b, b->type, n, heads * d);
    a.dqkv = take(b, b->type, n, 3 * heads * d);
    snprintf(what, sizeof what, "B %lld heads %lld T %lld D %lld", (long long)samples,
             (long long)heads, (long long)t, (long long)d);
    for (int backward = 0; backward < 2; backward++) {
        struct tr_bench_times s = timed(b, backward ? attention_bwd_work : attention_work, &a);
        json_t *line = line_of(b, "attention", what, s);

        json_object_set_new(line, "way", json_string(backward ? "backward" : "forward"));
        json_object_set_new(line, "tflops",
                            json_real(1e-12 * flop * (backward ? 2.5 : 1.0) / s.median));
        bench_print(line);
    }
}

static void part_attention(struct bench *b)
{
    const struct {
        int64_t samples, heads, t, d;
    } shape[] = {{8, 12, 1024, 64},  {8, 25, 1024, 64},  {4, 25, 2048, 64},
                 {8, 32, 1024, 128}, {4, 32, 2048, 128}, {1, 32, 8192, 128}};

    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        attention(b, shape[i].samples, (shape[i].heads + b->scale - 1) / b->scale,
                  shape[i].t / b->scale, shape[i].d);
}

/* ---- all ---- */

static void open_bench(struct bench *b, const char *backend)
{
    const struct tr_device_how how = {
        .local_size = 1,
        .tune = true,
        .attention = b->flash ? TR_ATTENTION_FLASH : TR_ATTENTION_AUTO,
    };
    void *memory;

    b->q.on = tr_backend_find(backend);
    if (!b->q.on)
        tr_die(TR_ECONFIG, "there is no backend '%s' in this program", backend);
    bench_must(b->q.on->open(&how, &b->q.device));
    /* The largest part takes 5 GiB, and the smallest V100 has 16. */
    b->bytes = ((size_t)8 << 30) / (size_t)b->scale;
    bench_must(b->q.on->reserve(b->q.device, b->bytes, &memory));
    b->memory = memory;
}

static bool asked(int argc, char **argv, int first, const char *part)
{
    for (int i = first; i < argc; i++)
        if (strcmp(argv[i], part) == 0)
            return true;
    return first == argc;
}

int main(int argc, char **argv)
{
    struct bench b = {.argc = argc, .argv = argv, .scale = 1, .type = TR_BF16};
    const char *backend = "cuda";
    int first = 1;

    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        if (strcmp(argv[first], "--backend") == 0)
            backend = argv[first + 1];
        else if (strcmp(argv[first], "--scale") == 0)
            b.scale = strtol(argv[first + 1], NULL, 10);
        else if (strcmp(argv[first], "--type") == 0 && strcmp(argv[first + 1], "fp16") == 0)
            b.type = TR_F16;
        else if (strcmp(argv[first], "--type") == 0 && strcmp(argv[first + 1], "bf16") == 0)
            b.type = TR_BF16;
        else if (strcmp(argv[first], "--flash") == 0)
            b.flash = strcmp(argv[first + 1], "1") == 0;
        else
            b.scale = 0;
    }
    if (b.scale < 1 || b.scale > 64) {
        fprintf(stderr, "usage: bench_gpu [--backend NAME] [--type bf16|fp16] [--flash 1] "
                        "[--scale 1..64] [copy|products|memory|attention ...]\n");
        return 64;
    }
    open_bench(&b, backend);
    part_copy(&b, asked(argc, argv, first, "copy"));
    if (asked(argc, argv, first, "memory")) {
        part_memory(&b, 768);
        part_memory(&b, 1600);
        part_memory(&b, 4096);
    }
    if (asked(argc, argv, first, "products"))
        part_products(&b);
    if (asked(argc, argv, first, "attention"))
        part_attention(&b);
    b.q.on->close(b.q.device);
    return 0;
}
