/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_pipe [REPEATS]: what a pipeline of all ranks that it is started with takes, next to what its
 * schedule says.
 *
 * Eight layers of width 384, 256 tokens in a micro-batch, one thread per rank; every schedule that the
 * number of ranks allows.  Embedding and logits are small (vocabulary 256), so that stages are alike.
 *
 *   forward    time of the forwards of a whole stage for one micro-batch, and of its backwards:
 *   backward   measured before, each chunk by itself, no rank waiting for another; mean over ranks.
 *              It is processor time, so that it stays the same where ranks share cores; the middle
 *              one of some repetitions.
 *   ideal      the lists of all ranks, run against one another with those times of each rank's chunks
 *              and with transfers that take none
 *   shared     all work divided by the cores: no schedule is faster where there are fewer than ranks
 *   predicted  the larger of the two
 *   step       measured: the schedule from its first instruction on all ranks to its last, and the sum
 *              of the tied embedding's gradient; median
 *   ratio      step / predicted
 *   bubble     part of the ranks' time in which they have nothing to compute: as the schedule has it,
 *              and measured
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench_run.h"
#include "train/step.h"
#include "util/text.h"

enum { WARM_UP = 1, REPEATS = 3, MOST = 1000, LAYERS = 8, CALIBRATIONS = 9 };

static const char model[] =
    "--num-layers 8 --hidden-size 384 --num-attention-heads 6 --max-position-embeddings 64 "
    "--vocab-size 256 --seq-length 64 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0 --threads 1";

struct cell {
    enum tr_sched_kind kind;
    int micros, chunks;
    bool overlap;
};

/* ---- processor time of the chunks ---- */

static double processor_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of forward and backward of each chunk of this rank, in forward[K] and backward[K].  All
   ranks measure at once, as they compute at once in a step.  Micro-batch 1 is not the last one, so no
   sum over replicas starts. */
static void calibrate(struct tr_comm *world, struct tr_run *r, double *forward, double *backward)
{
    double times[2][CALIBRATIONS];

    for (int c = 0; c < r->shape.layout.k; c++) {
        const struct tr_slot at = {c, 1};

        world->via->barrier(world);
        for (int i = 0; i < CALIBRATIONS; i++) {
            double began = processor_now(), between;

            r->stage.forward(r->stage.ctx, at);
            between = processor_now();
            r->stage.backward(r->stage.ctx, at);
            times[0][i] = between - began;
            times[1][i] = processor_now() - between;
        }
        forward[c] = tr_bench_times_of(times[0], CALIBRATIONS).median;
        backward[c] = tr_bench_times_of(times[1], CALIBRATIONS).median;
    }
}

/* ---- one cell of the table ---- */

static void step(void *ctx)
{
    struct tr_run *r = ctx;

    tr_step_gradients(r);
    tr_step_loss(r);
}

/* Of the lists of all ranks: what the checker says of them, and how long they take. */
static struct tr_sched_cost cost_of(const struct tr_run *run, const double *forward,
                                    const double *backward, double *seconds)
{
    const int ranks = run->shape.layout.p;
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
    *seconds = tr_sched_seconds(all, forward, backward, NULL);
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

static double sum(const double *x, int n)
{
    double all = 0.0;

    for (int i = 0; i < n; i++)
        all += x[i];
    return all;
}

/* forward[P * K] and backward[P * K] are those of all ranks. */
static void report(json_t *line, const struct cell *c, const struct tr_run *r,
                   const struct tr_bench_times *t, const double *forward, const double *backward)
{
    int ranks = r->shape.layout.p, chunks = ranks * r->shape.layout.k, cores = cores_of(&r->launch);
    double all_forward = sum(forward, chunks), all_backward = sum(backward, chunks), ideal;
    struct tr_sched_cost cost = cost_of(r, forward, backward, &ideal);
    double work = c->micros * (all_forward + all_backward);
    double shared = work / (cores < ranks ? cores : ranks), predicted = fmax(ideal, shared);
    double idle = (double)cost.idle / ((double)cost.ticks * ranks);
    double waited = 1.0 - work / (ranks * t->median);
    const char *name = tr_config_spelling("pipeline-schedule", (int)c->kind);

    printf("%-11s%c %2d %2d %2d %5d %8.2f %8.2f %9.1f %9.1f %9.1f %6.3f %7.3f %7.3f\n", name,
           c->overlap ? '+' : ' ', ranks, c->micros, c->chunks, cost.ticks,
           1e3 * all_forward / ranks, 1e3 * all_backward / ranks, 1e3 * ideal, 1e3 * shared,
           1e3 * t->median, t->median / predicted, idle, waited);
    json_object_set_new(line, "schedule", json_string(name));
    json_object_set_new(line, "overlap", json_boolean(c->overlap));
    json_object_set_new(line, "ranks", json_integer(ranks));
    json_object_set_new(line, "micros", json_integer(c->micros));
    json_object_set_new(line, "chunks", json_integer(c->chunks));
    json_object_set_new(line, "cores_of_ranks", json_integer(cores));
    json_object_set_new(line, "ticks", json_integer(cost.ticks));
    json_object_set_new(line, "forward_seconds", json_real(all_forward / ranks));
    json_object_set_new(line, "backward_seconds", json_real(all_backward / ranks));
    json_object_set_new(line, "ideal_seconds", json_real(ideal));
    json_object_set_new(line, "shared_seconds", json_real(shared));
    json_object_set_new(line, "ratio", json_real(t->median / predicted));
    json_object_set_new(line, "bubble", json_real(idle));
    json_object_set_new(line, "bubble_measured", json_real(waited));
    bench_add_times(line, t);
}

static json_t *bench(struct tr_comm *world, const struct cell *c, int repeats, json_t *line)
{
    const int chunks = c->chunks, all = world->size * chunks;
    double *mine = bench_memory(2 * (int64_t)chunks, sizeof *mine);
    double *forward = bench_memory(all, sizeof *forward);
    double *backward = bench_memory(all, sizeof *backward);
    char options[512];
    struct tr_config config;
    struct tr_run run;
    struct tr_bench_times t;

    snprintf(options, sizeof options,
             "%s --pipeline-model-parallel-size %d --global-batch-size %d --pipeline-schedule %s",
             model, world->size, 4 * c->micros,
             tr_config_spelling("pipeline-schedule", (int)c->kind));
    bench_run_options(&config, world, options, 0, NULL);
    if (chunks > 1)
        config.num_virtual_stages_per_pipeline_rank = chunks;
    config.overlap_p2p_communication = c->overlap;
    bench_run_open(&run, &config, world);
    for (int i = 0; i < WARM_UP; i++)
        step(&run);
    calibrate(world, &run, mine, mine + chunks);
    world->via->gather_all(world, mine, chunks * (int64_t)sizeof *mine, forward);
    world->via->gather_all(world, mine + chunks, chunks * (int64_t)sizeof *mine, backward);
    t = bench_repeat(world, 0, repeats, step, &run);
    if (world->rank == 0)
        report(line, c, &run, &t, forward, backward);
    bench_run_close(&run);
    tr_config_release(&config);
    free(backward);
    free(forward);
    free(mine);
    return line;
}

static void heading(struct tr_comm *world)
{
    struct tr_launch launch;

    tr_launch_read(world, &launch);
    tr_launch_release(&launch);
    if (world->rank != 0)
        return;
    printf("%d rank%s of one thread on %d core%s%s; times in ms\n", world->size,
           tr_plural(world->size), cores_of(&launch), tr_plural(cores_of(&launch)),
           cores_of(&launch) < world->size ? ", so that ranks wait for cores" : "");
    printf("%-12s %2s %2s %2s %5s %8s %8s %9s %9s %9s %6s %7s %7s\n", "schedule", "P", "M", "K",
           "ticks", "forward", "backward", "ideal", "shared", "step", "ratio", "bubble", "found");
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        {TR_SCHED_GPIPE, 8, 1, false},      {TR_SCHED_1F1B, 4, 1, false},
        {TR_SCHED_1F1B, 8, 1, false},       {TR_SCHED_1F1B, 16, 1, false},
        {TR_SCHED_1F1B, 32, 1, false},      {TR_SCHED_INTERLEAVED, 8, 2, false},
        {TR_SCHED_INTERLEAVED, 8, 2, true},
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
