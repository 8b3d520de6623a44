/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_step [alone] [REPEATS] [--option value ...]: how long a training step takes, and its rate relative to
 * GEMMs on the same machine.
 *
 * The model is GPT-2 with 124 million parameters, 4 samples of 64 tokens, fp32, no dropout; options
 * are those of `trireme train` and change any of it.  --model-family NAME takes another family's layers, 12 of
 * width 768 as well, with its heads and groups in the proportions below.  Before and after the steps every library
 * that configure found is measured, with the threads of the step, in its type and by all ranks at once, with
 * large squares and with the GEMMs of the step, those of its work list (config/work.h).  A library that takes
 * other threads or another type is not compared, and a sentence says so.  With `alone` none is measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_device.h"
#include "bench_library.h"
#include "bench_like.h"
#include "bench_run.h"
#include "config/flops.h"
#include "config/work.h"
#include "model/count.h"
#include "telemetry/gpus.h"
#include "train/step.h"
#include "util/text.h"
#include "telemetry/timer.h"

static const char gpt2_124m[] =
    "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --max-position-embeddings 1024 "
    "--vocab-size 50257 --seq-length 64 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0";

/* Heads and groups at width 768, where they are not 12 heads of 64 in 12 groups: as many heads to a group as the
   named model has, and queries as wide, relative to the model.  All else is the family's own. */
static const struct {
    const char *family, *options;
} proportions[] = {
    {"llama3", "--num-query-groups 3"},                        /* 8B: 32 heads, 8 groups */
    {"llama3.1", "--num-query-groups 3"},                      /* the same */
    {"mistral", "--num-query-groups 3"},                       /* 7B: the same */
    {"qwen2", "--num-query-groups 2"},                         /* 0.5B, 7B: 7 heads to a group */
    {"qwen3", "--num-query-groups 6"},                         /* 0.6B: 16 heads of 128, 8 groups */
    {"gemma", "--num-attention-heads 3 --num-query-groups 1"}, /* 2B: 8 heads of 256, 1 group */
    {"starcoder2", "--num-query-groups 1"},                    /* 3B: 24 heads, 2 groups */
};

enum { WARM_UP = 3, REPEATS = 20, MOST = 100000 };

/* ---- GEMMs to compare with ---- */

struct yardstick {
    double square; /* GFLOP/s of all ranks, the best of the squares; 0: no library is alike */
    double shapes; /* the same over all GEMMs of a step; 0 on a GPU */
    double mhz;    /* of the slowest rank, before the libraries are measured */
};

static double sum_over_ranks(struct tr_comm *world, double mine)
{
    struct tr_tensor t = tr_f64_1(&mine, 1);

    world->via->allreduce(world, NULL, &t, TR_SUM);
    return mine;
}

static double max_over_ranks(struct tr_comm *world, double mine)
{
    struct tr_tensor t = tr_f64_1(&mine, 1);

    world->via->allreduce(world, NULL, &t, TR_MAX);
    return mine;
}

static double min_over_ranks(struct tr_comm *world, double mine)
{
    return -max_over_ranks(world, -mine);
}

static double best_square(const struct bench_library *l, enum tr_dtype type)
{
    double best = 0.0;

    for (int64_t n = 1024; n <= 3072; n += 1024) {
        struct bench_rates r = bench_library_rates(l, type, n, n, n, 0.2);

        best = fmax(best, fmax(r.forward, fmax(r.dgrad, r.wgrad)));
    }
    return best;
}

/* Adds the operations of the linear layers of one part of the model, `times` over, and the seconds that the
   library takes for them. */
struct shapes {
    const struct bench_library *library;
    enum tr_dtype type;
    double gflop, seconds;
};

static void add_part(struct shapes *x, const struct tr_work_how *how, enum tr_work_part part,
                     int64_t times)
{
    struct tr_work work;

    tr_work_of(how, part, &work);
    for (int i = 0; i < work.gemms; i++) {
        const struct tr_work_gemm *g = &work.gemm[i];
        struct bench_rates r = bench_library_rates(x->library, x->type, (int64_t)g->rows,
                                                   (int64_t)g->columns, (int64_t)g->inner, 0.1);
        double one = 2e-9 * g->rows * g->columns * g->inner * (double)times;

        x->gflop += 3.0 * one;
        x->seconds += one / r.forward + one / r.dgrad + one / r.wgrad;
    }
}

static double step_shapes(const struct bench_library *l, enum tr_dtype type,
                          const struct tr_shape *s)
{
    const struct tr_work_how how = tr_work_how_of(s);
    struct shapes x = {.library = l, .type = type};

    add_part(&x, &how, TR_WORK_EMBED, 1);
    add_part(&x, &how, TR_WORK_LAYER, s->dims.layers);
    add_part(&x, &how, TR_WORK_HEAD, 1);
    return x.gflop / x.seconds;
}

/* The device's own GEMM of two squares, in the type of the model. */
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

/* What the step runs with; threads are those of the rank that has least. */
static struct bench_side side_of(struct tr_run *run)
{
    int threads = run->queue.on->threads(run->device);

    return (struct bench_side){.name = "the step",
                               .threads = (int)min_over_ranks(run->world, threads),
                               .ranks = run->world->size,
                               .type = tr_dtype_name(run->model.type)};
}

/* Every rank measures the library at once, so there are as many of it. */
static bool like_the_step(const struct bench_library *l, struct tr_run *run, bool say)
{
    const struct bench_side ours = side_of(run);
    enum tr_dtype type = l->bf16 && run->model.type == TR_BF16 ? TR_BF16 : TR_F32;
    struct bench_side theirs = {l->name(), l->threads(ours.threads), ours.ranks,
                                tr_dtype_name(type)};
    char why[512];

    theirs.threads = (int)min_over_ranks(run->world, theirs.threads);
    if (bench_alike(&ours, &theirs, why, sizeof why))
        return true;
    if (say && run->world->rank == 0)
        printf("%s\n", why);
    return false;
}

/* The best library in each of the two, of those that are like the step. */
static struct yardstick measure(struct tr_comm *world, struct tr_run *run, bool first)
{
    const struct tr_shape *s = &run->shape;
    struct yardstick y = {.square = 0.0};

    if (run->queue.on->apart) {
        y.square = sum_over_ranks(world, device_square(run));
        return y;
    }
    y.mhz = min_over_ranks(world, bench_clock(side_of(run).threads));
    for (const struct bench_library *const *l = bench_libraries(); *l; l++) {
        if (!like_the_step(*l, run, first))
            continue;
        world->via->barrier(world);
        y.square = fmax(y.square, sum_over_ranks(world, best_square(*l, run->model.type)));
        world->via->barrier(world);
        y.shapes = fmax(y.shapes, sum_over_ranks(world, step_shapes(*l, run->model.type, s)));
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

static void describe(const struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;

    printf("%s: %lld layers of %lld, %lld heads of %lld in %lld groups, MLP %lld, vocabulary %lld; "
           "%s, "
           "dropout %g, %g\n",
           s->dims.family.name, (long long)s->dims.layers, (long long)s->dims.hidden,
           (long long)s->dims.heads, (long long)s->dims.head_dim, (long long)s->dims.groups,
           (long long)s->dims.ffn, (long long)s->dims.vocab,
           !s->precision.half  ? "fp32"
           : s->precision.bf16 ? "bf16"
                               : "fp16",
           r->model.attention_dropout, r->model.hidden_dropout);
    printf("step: %lld samples of %lld tokens, in micro-batches of %lld\n",
           (long long)s->batches.global_batch, (long long)s->dims.seq,
           (long long)s->batches.micro_batch);
    printf("ranks: %d (tensor %d, pipeline %d, data %d), each %s\n", s->layout.world, s->layout.w,
           s->layout.p, s->layout.d, r->queue.on->describe(r->device));
    if (!r->queue.on->apart)
        printf("threads: %d of each rank, ranks * threads: %d, cores for them: %d\n",
               r->queue.on->threads(r->device), s->layout.world * r->queue.on->threads(r->device),
               r->launch.cores * r->launch.local_size / r->launch.sharers);
    printf("operations: %.4g GFLOP; formula: %s\n",
           1e-9 * bench_run_flop(&s->dims, s->batches.global_batch),
           tr_flops_text(TR_FLOPS_CORE, &s->dims, false));
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

static void report_yardstick(json_t *line, const struct tr_run *r, double rate,
                             const struct yardstick *before, const struct yardstick *after)
{
    /* The larger one, so that a moment in which others had the machine does not flatter the ratio. */
    double square = fmax(before->square, after->square);
    double shapes = fmax(before->shapes, after->shapes);

    if (square == 0.0) {
        printf("ratio: none, no library here computes with what the step has\n");
        return;
    }
    printf("GEMMs: %.1f GFLOP/s before, %.1f after, squares; %.1f and %.1f, the step's GEMMs; "
           "%s, %d rank%s of %d thread%s (%s)\n",
           before->square, after->square, before->shapes, after->shapes,
           tr_dtype_name(r->model.type), r->shape.layout.world, tr_plural(r->shape.layout.world),
           r->queue.on->threads(r->device), tr_plural(r->queue.on->threads(r->device)),
           bench_library_names());
    printf("clock: %.0f MHz at the GEMMs before, %.0f after, %.0f at the steps\n", before->mhz,
           after->mhz, json_real_value(json_object_get(line, "mhz")));
    printf("ratio: %.3f of the squares, %.3f of the step's GEMMs\n", rate / square, rate / shapes);
    add_number(line, "products_before", before->square);
    add_number(line, "products_after", after->square);
    add_number(line, "products_shapes_before", before->shapes);
    add_number(line, "products_shapes_after", after->shapes);
    add_number(line, "products_mhz_before", before->mhz);
    add_number(line, "products_mhz_after", after->mhz);
    add_number(line, "ratio", rate / square);
    add_number(line, "ratio_shapes", rate / shapes);
}

/* On a GPU: of the peak that its data sheet has, and of the GEMM measured next to the steps. */
static void report_utilization(json_t *line, const struct tr_run *r, double rate,
                               const struct yardstick *before, const struct yardstick *after)
{
    double peak = 1e3 * tr_gpu_peak_in(r->queue.on->describe(r->device)) * r->world->size;
    double square = fmax(before->square, after->square);

    printf("GEMM of 8192^3: %.1f TFLOP/s before, %.1f after\n", 1e-3 * before->square,
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

/* Returns GFLOP/s. */
static double report(json_t *line, const struct tr_run *r, const struct tr_bench_times *t)
{
    const struct tr_shape *s = &r->shape;
    double gflop = 1e-9 * bench_run_flop(&s->dims, s->batches.global_batch),
           tokens = (double)(s->batches.global_batch * s->dims.seq);

    printf("tokens/s: %.1f\n", tokens / t->median);
    printf("model: %.1f GFLOP/s\n", gflop / t->median);
    json_object_set_new(line, "family", json_string(s->dims.family.name));
    json_object_set_new(line, "heads", json_integer(s->dims.heads));
    json_object_set_new(line, "groups", json_integer(s->dims.groups));
    json_object_set_new(line, "head_width", json_integer(s->dims.head_dim));
    json_object_set_new(line, "inner", json_integer(s->dims.ffn));
    json_object_set_new(line, "parameters",
                        json_integer((json_int_t)tr_count_parameters(&s->dims, true)));
    json_object_set_new(line, "samples", json_integer(s->batches.global_batch));
    json_object_set_new(line, "tokens", json_integer(s->dims.seq));
    add_number(line, "dropout", fmax(r->model.attention_dropout, r->model.hidden_dropout));
    add_number(line, "gflop", gflop);
    add_number(line, "tokens_per_second", tokens / t->median);
    add_number(line, "gflops", gflop / t->median);
    return gflop / t->median;
}

/* Compared with GEMMs of libraries, or on a GPU with its own. */
static void report_ratio(json_t *line, const struct tr_run *r, double rate,
                         const struct yardstick *before, const struct yardstick *after)
{
    if (r->queue.on->apart)
        report_utilization(line, r, rate, before, after);
    else
        report_yardstick(line, r, rate, before, after);
}

static void bench(struct tr_comm *world, int repeats, bool alone, const struct tr_config *c,
                  json_t *line)
{
    struct bench b = {.steps = 0};
    struct yardstick before = {0}, after = {0};
    struct tr_bench_times t;
    double first, last;

    bench_run_open(&b.run, c, world);
    if (world->rank == 0)
        describe(&b.run);
    if (!alone)
        before = measure(world, &b.run, true);
    for (int i = 0; i < WARM_UP; i++)
        step(&b);
    bench_add_side(line, b.run.queue.on->threads(b.run.device), tr_dtype_name(b.run.model.type),
                   b.run.queue.on->describe(b.run.device));
    for (int i = 0; i < TR_TIMERS; i++)
        tr_timer_take((enum tr_timer)i);
    t = bench_repeat(world, 0, repeats, step, &b);
    first = max_over_ranks(world, b.first_loss);
    last = max_over_ranks(world, b.loss);
    if (!isfinite(first) || !isfinite(last))
        tr_die(TR_EINTERNAL,
               "the loss is %g at first and %g after %d steps: nothing is timed of a "
               "step that is wrong; please report it",
               first, last, b.steps);
    if (world->rank == 0)
        printf("time: %.1f ms, median of %d after %d; least %.1f, 95 of 100 within %.1f\n",
               1e3 * t.median, t.count, WARM_UP, 1e3 * t.min, 1e3 * t.p95);
    bench_add_times(line, &t);
    report_timers(world, line, repeats);
    if (!alone)
        after = measure(world, &b.run, false);
    if (world->rank == 0) {
        double rate = report(line, &b.run, &t);

        if (!alone)
            report_ratio(line, &b.run, rate, &before, &after);
        printf("loss: %.4f at first, %.4f after %d steps\n", first, last, b.steps);
        add_number(line, "first_loss", first);
        add_number(line, "loss", last);
    }
    bench_run_close(&b.run);
}

/* The options of the step, those of the command line last. */
static void take_options(struct tr_config *c, struct tr_comm *world, int argc, char **argv)
{
    char text[sizeof gpt2_124m + 128];
    const char *own = NULL;

    bench_run_options(c, world, gpt2_124m, argc, argv);
    for (size_t i = 0; i < sizeof proportions / sizeof proportions[0]; i++)
        if (strcmp(c->model_family, proportions[i].family) == 0)
            own = proportions[i].options;
    if (!own)
        return;
    tr_config_release(c);
    snprintf(text, sizeof text, "%s %s", gpt2_124m, own);
    bench_run_options(c, world, text, argc, argv);
}

int main(int argc, char **argv)
{
    long repeats = REPEATS;
    bool alone = argc > 1 && strcmp(argv[1], "alone") == 0;
    int words = alone ? 2 : 1;
    struct tr_comm world;
    struct tr_config c;
    json_t *line;

    bench_must(tr_comm_mpi_start(&world));
    if (argc > words && argv[words][0] != '-' && argv[words][0] != '@')
        repeats = strtol(argv[words++], NULL, 10);
    if (repeats < 1 || repeats > MOST)
        tr_die(TR_ECONFIG, "bench_step repeats from 1 to %d times, not '%s'", MOST,
               argv[words - 1]);
    take_options(&c, &world, argc - words, argv + words);
    line = bench_line("step", argc, argv);
    json_object_set_new(line, "ranks", json_integer(world.size));
    bench(&world, (int)repeats, alone, &c, line);
    if (world.rank == 0)
        bench_print(line);
    else
        json_decref(line);
    tr_config_release(&c);
    tr_comm_mpi_stop(&world);
    return 0;
}
