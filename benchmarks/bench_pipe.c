/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_pipe [REPEATS]: what a pipeline of all ranks that it is started with takes, next to what its
 * schedule says.
 *
 * Eight layers of width 512, 256 tokens in a micro-batch, one thread per rank; every schedule that the
 * number of ranks allows, with 4 and 8 micro-batches.  Embedding and logits are small (vocabulary
 * 256), so that stages are alike.
 *
 *   tick       processor time of a forward or a backward of one chunk, mean over ranks and both.  It is
 *              processor time so that it stays the same where ranks share cores.
 *   ideal      ticks of the schedule, each of that length
 *   shared     all work divided by the cores: no schedule is faster where there are fewer than ranks
 *   predicted  the larger of the two
 *   step       measured: the schedule from its first instruction on all ranks to its last, and the sum
 *              of the tied embedding's gradient; median
 *   bubble     part of the ranks' time in which they did not compute: as the schedule has it, and
 *              measured
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench_run.h"
#include "train/step.h"
#include "util/timer.h"

enum { WARM_UP = 1, REPEATS = 5, MOST = 1000, LAYERS = 8 };

static const char model[] =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 64 "
    "--vocab-size 256 --seq-length 64 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0 --threads 1";

struct cell {
    enum tr_sched_kind kind;
    int micros, chunks;
};

/* ---- processor time of the chunks ---- */

struct tally {
    struct tr_stage stage; /* the run's own */
    double seconds;
};

static double processor_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void forward(void *ctx, struct tr_slot at)
{
    struct tally *t = ctx;
    double began = processor_now();

    t->stage.forward(t->stage.ctx, at);
    t->seconds += processor_now() - began;
}

static void backward(void *ctx, struct tr_slot at)
{
    struct tally *t = ctx;
    double began = processor_now();

    t->stage.backward(t->stage.ctx, at);
    t->seconds += processor_now() - began;
}

static struct tr_tensor message(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tally *t = ctx;

    return t->stage.message(t->stage.ctx, at, leg);
}

static void arrived(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tally *t = ctx;

    t->stage.arrived(t->stage.ctx, at, leg);
}

static void watch(struct tr_run *r, struct tally *t)
{
    *t = (struct tally){.stage = r->stage};
    r->stage.ctx = t;
    r->stage.forward = forward;
    r->stage.backward = backward;
    r->stage.message = message;
    r->stage.arrived = arrived;
}

/* ---- one cell of the table ---- */

static void step(void *ctx)
{
    struct tr_run *r = ctx;

    tr_step_gradients(r);
}

/* What the checker says of the lists of all ranks. */
static struct tr_sched_cost cost_of(const struct tr_run *run)
{
    const int ranks = run->shape.p;
    struct tr_sched *all = bench_memory(ranks, sizeof *all);
    struct tr_sched_cost cost;
    const char *fault;

    for (int r = 0; r < ranks; r++) {
        all[r] = run->train_list;
        all[r].rank = r;
        bench_must(tr_sched_build(&all[r]));
    }
    fault = tr_sched_check(all, &cost);
    if (fault)
        tr_die(TR_EINTERNAL, "%s", fault);
    for (int r = 0; r < ranks; r++)
        tr_sched_release(&all[r]);
    free(all);
    return cost;
}

/* Cores that the ranks of this host have together. */
static int cores_of(const struct tr_launch *l)
{
    return l->cores * l->local_size / l->sharers;
}

static void report(json_t *line, const struct cell *c, const struct tr_run *r,
                   const struct bench_times *t, double work)
{
    struct tr_sched_cost cost = cost_of(r);
    int ranks = r->shape.p, cores = cores_of(&r->launch);
    double tick = work / (2.0 * c->micros * c->chunks * ranks);
    double ideal = tick * cost.ticks, shared = work / (cores < ranks ? cores : ranks);
    double predicted = fmax(ideal, shared);
    double idle = (double)cost.idle / ((double)cost.ticks * ranks);
    double waited = 1.0 - work / (ranks * t->median);
    const char *name = tr_config_spelling("pipeline-schedule", (int)c->kind);

    printf("%-11s %2d %2d %2d %5d %8.2f %9.1f %9.1f %9.1f %6.3f %7.3f %7.3f\n", name, ranks,
           c->micros, c->chunks, cost.ticks, 1e3 * tick, 1e3 * ideal, 1e3 * shared, 1e3 * t->median,
           t->median / predicted, idle, waited);
    json_object_set_new(line, "schedule", json_string(name));
    json_object_set_new(line, "ranks", json_integer(ranks));
    json_object_set_new(line, "micros", json_integer(c->micros));
    json_object_set_new(line, "chunks", json_integer(c->chunks));
    json_object_set_new(line, "cores_of_ranks", json_integer(cores));
    json_object_set_new(line, "ticks", json_integer(cost.ticks));
    json_object_set_new(line, "tick_seconds", json_real(tick));
    json_object_set_new(line, "ideal_seconds", json_real(ideal));
    json_object_set_new(line, "shared_seconds", json_real(shared));
    json_object_set_new(line, "ratio", json_real(t->median / predicted));
    json_object_set_new(line, "bubble", json_real(idle));
    json_object_set_new(line, "bubble_measured", json_real(waited));
    bench_add_times(line, t);
}

static json_t *bench(struct tr_comm *world, const struct cell *c, int repeats, json_t *line)
{
    char options[512];
    struct tr_config config;
    struct tr_run run;
    struct tally tally;
    struct bench_times t;
    struct tr_tensor work;

    snprintf(options, sizeof options,
             "%s --pipeline-model-parallel-size %d --global-batch-size %d --pipeline-schedule %s",
             model, world->size, 4 * c->micros,
             tr_config_spelling("pipeline-schedule", (int)c->kind));
    bench_run_options(&config, world, options, 0, NULL);
    if (c->chunks > 1)
        config.num_virtual_stages_per_pipeline_rank = c->chunks;
    bench_run_open(&run, &config, world);
    watch(&run, &tally);
    for (int i = 0; i < WARM_UP; i++)
        step(&run);
    tally.seconds = 0.0;
    t = bench_repeat(world, 0, repeats, step, &run);
    tally.seconds /= repeats;
    work = tr_f64_1(&tally.seconds, 1);
    world->via->allreduce(world, NULL, &work, TR_SUM);
    if (world->rank == 0)
        report(line, c, &run, &t, tally.seconds);
    bench_run_close(&run);
    tr_config_release(&config);
    return line;
}

static void heading(struct tr_comm *world)
{
    struct tr_launch launch;

    tr_launch_read(world, &launch);
    if (world->rank != 0)
        return;
    printf("%d rank%s of one thread on %d core%s%s; times in ms\n", world->size,
           world->size == 1 ? "" : "s", cores_of(&launch), cores_of(&launch) == 1 ? "" : "s",
           cores_of(&launch) < world->size ? ", so that ranks wait for cores" : "");
    printf("%-11s %2s %2s %2s %5s %8s %9s %9s %9s %6s %7s %7s\n", "schedule", "P", "M", "K",
           "ticks", "tick", "ideal", "shared", "step", "ratio", "bubble", "found");
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        {TR_SCHED_GPIPE, 4, 1}, {TR_SCHED_GPIPE, 8, 1},       {TR_SCHED_1F1B, 4, 1},
        {TR_SCHED_1F1B, 8, 1},  {TR_SCHED_INTERLEAVED, 4, 2}, {TR_SCHED_INTERLEAVED, 8, 2},
    };
    long repeats = argc > 1 ? strtol(argv[1], NULL, 10) : REPEATS;
    struct tr_comm world;

    bench_must(tr_comm_mpi_start(&world));
    if (repeats < 1 || repeats > MOST)
        tr_die(TR_ECONFIG, "bench_pipe repeats from 1 to %d times, not '%s'", MOST, argv[1]);
    if (world.size > 4 || LAYERS % (2 * world.size) != 0)
        tr_die(TR_ECONFIG, "bench_pipe runs on 1, 2 or 4 ranks, not on %d", world.size);
    heading(&world);
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        json_t *line;

        if (cells[i].chunks > 1 && world.size == 1)
            continue;
        line = bench(&world, &cells[i], (int)repeats, bench_line("pipeline", argc, argv));
        if (world.rank == 0)
            bench_print(line);
        else
            json_decref(line);
    }
    tr_comm_mpi_stop(&world);
    return 0;
}
