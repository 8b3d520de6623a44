/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_step [REPEATS] [--option value ...]: how long a training step takes, and what part of the
 * machine's matrix products that is.
 *
 * The model is GPT-2 with 124 million parameters, 4 samples of 64 tokens, fp32, no dropout; options
 * are those of `trireme train` and change any of it.  Before and after the steps every library that
 * configure found is measured, in fp32 and by all ranks at once, with large squares and with the very
 * products that the step consists of.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_device.h"
#include "bench_library.h"
#include "bench_run.h"
#include "train/step.h"
#include "util/timer.h"

static const char gpt2_124m[] =
    "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --max-position-embeddings 1024 "
    "--vocab-size 50257 --seq-length 64 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0";

enum { WARM_UP = 3, REPEATS = 20, MOST = 100000 };

/* ---- the yardstick ---- */

struct yardstick {
    double square; /* GFLOP/s of all ranks together, the best of the squares */
    double shapes; /* the same over all products of a step; 0 on a GPU */
};

/* What a data sheet promises for dense bf16 and fp16, in TFLOP/s. */
static const struct {
    const char *name;
    double tflops;
} peaks[] = {{"H200", 989.0}, {"H100", 989.0}, {"A100", 312.0}, {"V100", 125.0}};

static double peak_of(const char *device)
{
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        if (strstr(device, peaks[i].name))
            return peaks[i].tflops;
    return 0.0;
}

static double sum_over_ranks(struct tr_comm *world, double mine)
{
    struct tr_tensor t = tr_f64_1(&mine, 1);

    world->via->allreduce(world, NULL, &t, TR_SUM);
    return mine;
}

static double best_square(const struct bench_library *l)
{
    double best = 0.0;

    for (int64_t n = 1024; n <= 3072; n += 1024) {
        struct bench_rates r = bench_library_rates(l, TR_F32, n, n, n, 0.2);

        best = fmax(best, fmax(r.forward, fmax(r.dgrad, r.wgrad)));
    }
    return best;
}

/* Adds the operations of `times` linear layers of one micro-batch, and the seconds that the library
   takes for them. */
static void add_layer(const struct bench_library *l, const struct tr_shape *s, int64_t outputs,
                      int64_t inputs, int64_t times, double *gflop, double *seconds)
{
    int64_t rows = s->micro_batch * s->seq;
    struct bench_rates r = bench_library_rates(l, TR_F32, rows, outputs, inputs, 0.1);
    double one = 2e-9 * (double)rows * (double)outputs * (double)inputs * (double)times;

    *gflop += 3.0 * one;
    *seconds += one / r.forward + one / r.dgrad + one / r.wgrad;
}

static double step_shapes(const struct bench_library *l, const struct tr_shape *s)
{
    double gflop = 0.0, seconds = 0.0;

    add_layer(l, s, 3 * s->hidden / s->w, s->hidden, s->layers, &gflop, &seconds);
    add_layer(l, s, s->hidden, s->hidden / s->w, s->layers, &gflop, &seconds);
    add_layer(l, s, s->ffn / s->w, s->hidden, s->layers, &gflop, &seconds);
    add_layer(l, s, s->hidden, s->ffn / s->w, s->layers, &gflop, &seconds);
    add_layer(l, s, s->vocab_padded / s->w, s->hidden, 1, &gflop, &seconds);
    return gflop / seconds;
}

/* The device's own product of two squares, in the type of the model. */
static double device_square(struct tr_run *r)
{
    const int64_t n = 8192;
    const size_t bytes = (size_t)(n * n) * (size_t)tr_dtype_bytes(r->model.type);
    struct tr_queue *q = &r->queue;
    struct tr_tensor x[3];
    double best = 0.0;

    for (int i = 0; i < 3; i++) {
        void *memory;

        bench_must(q->on->reserve(r->device, bytes, &memory));
        x[i] = tr_tensor_2(memory, r->model.type, n, n);
        bench_random(q, &x[i]);
    }
    for (int i = 0; i < 20; i++) {
        q->on->mark(q, 0);
        q->on->linear(q, &x[2], NULL, &x[0], &x[1], NULL, TR_ACT_NONE);
        q->on->mark(q, 1);
        q->on->wait(q);
        best = fmax(best, 2e-9 * (double)(n * n * n) / q->on->between(q, 0, 1));
    }
    return best;
}

/* The best library in each of the two. */
static struct yardstick measure(struct tr_comm *world, struct tr_run *run)
{
    const struct tr_shape *s = &run->shape;
    struct yardstick y = {.square = 0.0};

    if (run->queue.on->apart) {
        y.square = sum_over_ranks(world, device_square(run));
        return y;
    }
    for (const struct bench_library *const *l = bench_libraries(); *l; l++) {
        world->via->barrier(world);
        y.square = fmax(y.square, sum_over_ranks(world, best_square(*l)));
        world->via->barrier(world);
        y.shapes = fmax(y.shapes, sum_over_ranks(world, step_shapes(*l, s)));
    }
    return y;
}

/* ---- the step ---- */

struct bench {
    struct tr_run run;
    double first_loss, loss; /* of the last stage */
    int steps;
};

static void step(void *ctx)
{
    struct bench *b = ctx;
    struct tr_step_result result;

    tr_step(&b->run, &result);
    b->loss = result.loss;
    if (b->steps++ == 0)
        b->first_loss = result.loss;
}

static double max_over_ranks(struct tr_comm *world, double mine)
{
    struct tr_tensor t = tr_f64_1(&mine, 1);

    world->via->allreduce(world, NULL, &t, TR_MAX);
    return mine;
}

static void describe(const struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;

    printf(
        "GPT-2: %lld layers of %lld, %lld heads, MLP %lld, vocabulary %lld; %s, dropout %g, %g\n",
        (long long)s->layers, (long long)s->hidden, (long long)s->heads, (long long)s->ffn,
        (long long)s->vocab,
        !s->half  ? "fp32"
        : s->bf16 ? "bf16"
                  : "fp16",
        r->model.attention_dropout, r->model.hidden_dropout);
    printf("step: %lld samples of %lld tokens, in micro-batches of %lld\n",
           (long long)s->global_batch, (long long)s->seq, (long long)s->micro_batch);
    printf("ranks: %d (tensor %d, pipeline %d, data %d), each %s\n", s->world, s->w, s->p, s->d,
           r->queue.on->describe(r->device));
    printf("operations: 6 B s (l (4 h^2 + 2 h f) + h V) + 6 B s^2 l h = %.4g GFLOP\n",
           1e-9 * bench_run_flop(s));
}

/* The timers of the slowest rank each, per step; they do not add up where ranks differ. */
static void report_timers(struct tr_comm *world, json_t *line, int repeats)
{
    for (int t = 0; t < TR_TIMERS; t++) {
        double ms = 1e3 * max_over_ranks(world, tr_timer_take((enum tr_timer)t)) / repeats;

        if (ms == 0.0 || tr_timer_kind((enum tr_timer)t) == TR_TIMER_SETUP)
            continue;
        json_object_set_new(line, tr_timer_name((enum tr_timer)t), json_real(ms));
        if (world->rank == 0)
            printf("  %-46s %9.2f ms\n", tr_timer_name((enum tr_timer)t), ms);
    }
}

static void add_number(json_t *line, const char *key, double value)
{
    json_object_set_new(line, key, json_real(value));
}

static void report_yardstick(json_t *line, double rate, const struct yardstick *before,
                             const struct yardstick *after)
{
    /* The larger one, so that a moment in which others had the machine does not flatter the ratio. */
    double square = fmax(before->square, after->square);
    double shapes = fmax(before->shapes, after->shapes);

    if (!bench_libraries()[0])
        return;
    printf("sgemm: %.1f GFLOP/s before, %.1f after, squares; %.1f and %.1f, the step's products "
           "(%s)\n",
           before->square, after->square, before->shapes, after->shapes, bench_library_names());
    printf("ratio: %.3f of the squares, %.3f of the step's products\n", rate / square,
           rate / shapes);
    add_number(line, "sgemm_before", before->square);
    add_number(line, "sgemm_after", after->square);
    add_number(line, "sgemm_shapes_before", before->shapes);
    add_number(line, "sgemm_shapes_after", after->shapes);
    add_number(line, "ratio", rate / square);
    add_number(line, "ratio_shapes", rate / shapes);
}

/* On a GPU: of the peak that its data sheet has, and of the product measured beside the steps. */
static void report_utilization(json_t *line, const struct tr_run *r, double rate,
                               const struct yardstick *before, const struct yardstick *after)
{
    double peak = 1e3 * peak_of(r->queue.on->describe(r->device)) * r->world->size;
    double square = fmax(before->square, after->square);

    printf("product of 8192^3: %.1f TFLOP/s before, %.1f after\n", 1e-3 * before->square,
           1e-3 * after->square);
    printf("MFU: %.4f of that", rate / square);
    if (peak > 0.0)
        printf(", %.4f of %.0f TFLOP/s", rate / peak, 1e-3 * peak);
    printf("\n");
    add_number(line, "tflops", 1e-3 * rate);
    add_number(line, "mfu_gemm", rate / square);
    if (peak > 0.0)
        add_number(line, "mfu", rate / peak);
}

static void report(json_t *line, const struct tr_run *r, const struct tr_bench_times *t,
                   const struct yardstick *before, const struct yardstick *after)
{
    const struct tr_shape *s = &r->shape;
    double gflop = 1e-9 * bench_run_flop(s), tokens = (double)(s->global_batch * s->seq);

    printf("tokens/s: %.1f\n", tokens / t->median);
    printf("model: %.1f GFLOP/s\n", gflop / t->median);
    add_number(line, "gflop", gflop);
    add_number(line, "tokens_per_second", tokens / t->median);
    add_number(line, "gflops", gflop / t->median);
    if (r->queue.on->apart)
        report_utilization(line, r, gflop / t->median, before, after);
    else
        report_yardstick(line, gflop / t->median, before, after);
}

static void bench(struct tr_comm *world, int repeats, const struct tr_config *c, json_t *line)
{
    struct bench b = {.steps = 0};
    struct yardstick before, after;
    struct tr_bench_times t;
    double first, last;

    bench_run_open(&b.run, c, world);
    if (world->rank == 0)
        describe(&b.run);
    before = measure(world, &b.run);
    for (int i = 0; i < WARM_UP; i++)
        step(&b);
    for (int i = 0; i < TR_TIMERS; i++)
        tr_timer_take((enum tr_timer)i);
    t = bench_repeat(world, 0, repeats, step, &b);
    first = max_over_ranks(world, b.first_loss);
    last = max_over_ranks(world, b.loss);
    if (world->rank == 0)
        printf("time: %.1f ms, median of %d after %d; least %.1f, 95 of 100 within %.1f\n",
               1e3 * t.median, t.count, WARM_UP, 1e3 * t.min, 1e3 * t.p95);
    bench_add_times(line, &t);
    report_timers(world, line, repeats);
    after = measure(world, &b.run);
    if (world->rank == 0) {
        report(line, &b.run, &t, &before, &after);
        printf("loss: %.4f at first, %.4f after %d steps\n", first, last, b.steps);
    }
    bench_run_close(&b.run);
}

int main(int argc, char **argv)
{
    long repeats = REPEATS;
    int words = 1;
    struct tr_comm world;
    struct tr_config c;
    json_t *line;

    bench_must(tr_comm_mpi_start(&world));
    if (argc > 1 && argv[1][0] != '-' && argv[1][0] != '@')
        repeats = strtol(argv[words++], NULL, 10);
    if (repeats < 1 || repeats > MOST)
        tr_die(TR_ECONFIG, "bench_step repeats from 1 to %d times, not '%s'", MOST, argv[1]);
    bench_run_options(&c, &world, gpt2_124m, argc - words, argv + words);
    line = bench_line("step", argc, argv);
    json_object_set_new(line, "ranks", json_integer(world.size));
    bench(&world, (int)repeats, &c, line);
    if (world.rank == 0)
        bench_print(line);
    else
        json_decref(line);
    tr_config_release(&c);
    tr_comm_mpi_stop(&world);
    return 0;
}
