/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_overlap [REPEATS]: how much of the traffic between replicas hides behind computation.
 *
 * Each rank that it is started with is a replica of a model of eight layers of width 256 (fp32, one
 * thread, one micro-batch of 512 tokens), and they talk over the slow transport (comm/slow.h),
 * whose rate is set so that a sum of all gradients takes half of the time of a backward pass
 * without any traffic.  Small vocabulary and small buckets, so that the last bucket, which nothing
 * can hide, is small.  For each way to exchange gradients and weights:
 *
 *   network    what a step's transfers take, one after the other, on that network
 *   reduce     exposed: a step waited for gradient reductions (backward-params-all-reduce)
 *   gather     exposed: it waited for weights after the update (params-all-gather)
 *   forward, backward   with the last way waiting for weights is part of forward
 *   step       the whole step
 *   hidden     1 - (reduce + gather) / network
 *
 * All are medians over steps.  Of the ranks the slowest counts; in reduce and gather the one that
 * waits least, because it came last and waits for the network only, not for other ranks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench_run.h"
#include "comm/slow.h"
#include "train/step.h"
#include "telemetry/timer.h"

enum { WARM_UP = 2, REPEATS = 7, MOST = 1000 };

static const char model[] =
    "--num-layers 8 --hidden-size 256 --num-attention-heads 4 --max-position-embeddings 128 "
    "--vocab-size 256 --seq-length 128 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0 --threads 1 --ddp-bucket-size 250000";

struct way {
    const char *name, *options;
    double times; /* what the network carries, in sums of all gradients */
};

/* Seconds, medians over the steps. */
struct found {
    double network, forward, backward, reduce, gather;
    struct tr_bench_times step;
};

enum { STEP, FORWARD, BACKWARD, REDUCE, GATHER, NUMBERS };

/* One step: numbers[NUMBERS], the same on all ranks. */
static void measure_step(struct tr_comm *world, struct tr_run *run, double *numbers)
{
    struct tr_tensor t = tr_f64_1(numbers, NUMBERS);
    struct tr_step_result result;
    double began;

    for (int i = 0; i < TR_TIMERS; i++)
        tr_timer_take((enum tr_timer)i);
    world->via->barrier(world);
    began = tr_now();
    tr_step(run, &result);
    numbers[STEP] = tr_now() - began;
    numbers[FORWARD] = tr_timer_take(TR_TIMER_FORWARD_COMPUTE);
    numbers[BACKWARD] = tr_timer_take(TR_TIMER_BACKWARD_COMPUTE);
    numbers[REDUCE] = -tr_timer_take(TR_TIMER_PARAMS_ALL_REDUCE);
    numbers[GATHER] = -tr_timer_take(TR_TIMER_PARAMS_ALL_GATHER);
    world->via->allreduce(world, NULL, &t, TR_MAX);
    numbers[REDUCE] = -numbers[REDUCE];
    numbers[GATHER] = -numbers[GATHER];
}

static struct found measure(struct tr_comm *world, struct tr_comm *network, const char *options,
                            int repeats, int64_t *elems)
{
    double *all = bench_memory(repeats, NUMBERS * sizeof *all), numbers[NUMBERS];
    struct tr_bench_times of[NUMBERS];
    struct tr_config config;
    struct tr_run run;
    char text[1024];

    snprintf(text, sizeof text, "%s %s", model, options);
    bench_run_options(&config, world, text, 0, NULL);
    bench_run_open(&run, &config, network);
    for (int i = -WARM_UP; i < repeats; i++) {
        measure_step(world, &run, numbers);
        for (int k = 0; k < NUMBERS && i >= 0; k++)
            all[k * repeats + i] = numbers[k];
    }
    for (int k = 0; k < NUMBERS; k++)
        of[k] = tr_bench_times_of(all + k * repeats, repeats);
    *elems = run.model.params.size;
    bench_run_close(&run);
    tr_config_release(&config);
    free(all);
    return (struct found){
        .forward = of[FORWARD].median,
        .backward = of[BACKWARD].median,
        .reduce = of[REDUCE].median,
        .gather = of[GATHER].median,
        .step = of[STEP],
    };
}

static void report(json_t *line, const struct way *w, const struct found *f, double rate)
{
    double hidden = 1.0 - (f->reduce + f->gather) / f->network;

    printf("%-34s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f", w->name, 1e3 * f->network, 1e3 * f->reduce,
           1e3 * f->gather, 1e3 * f->forward, 1e3 * f->backward, 1e3 * f->step.median);
    if (f->network > 0.0)
        printf(" %7.0f%%", 100.0 * hidden);
    printf("\n");
    json_object_set_new(line, "mode", json_string(w->name));
    json_object_set_new(line, "gbit_per_second", json_real(rate / 1e9));
    json_object_set_new(line, "network_seconds", json_real(f->network));
    json_object_set_new(line, "reduce_seconds", json_real(f->reduce));
    json_object_set_new(line, "gather_seconds", json_real(f->gather));
    json_object_set_new(line, "forward_seconds", json_real(f->forward));
    json_object_set_new(line, "backward_seconds", json_real(f->backward));
    if (f->network > 0.0)
        json_object_set_new(line, "hidden", json_real(hidden));
    bench_add_times(line, &f->step);
}

int main(int argc, char **argv)
{
    static const struct way ways[] = {
        {"no network", "--no-overlap-grad-reduce", 0.0},
        {"all-reduce after backward", "--no-overlap-grad-reduce", 1.0},
        {"all-reduce during backward", "--overlap-grad-reduce", 1.0},
        {"ZeRO-1, nothing overlapped", "--use-distributed-optimizer --no-overlap-grad-reduce", 1.0},
        {"ZeRO-1, reduce-scatter overlapped", "--use-distributed-optimizer", 1.0},
        {"ZeRO-1, both overlapped", "--use-distributed-optimizer --overlap-param-gather", 1.0},
    };
    long repeats = argc > 1 ? strtol(argv[1], NULL, 10) : REPEATS;
    struct tr_comm world, network;
    struct found alone = {0};
    double rate = 1e15;

    bench_must(tr_comm_mpi_start(&world));
    if (repeats < 1 || repeats > MOST)
        tr_die(TR_ECONFIG, "bench_overlap repeats from 1 to %d times, not '%s'", MOST, argv[1]);
    if (world.size < 2)
        tr_die(TR_ECONFIG, "bench_overlap runs on 2 ranks or more, not on %d", world.size);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *line = bench_line("overlap", argc, argv);
        int64_t elems;
        struct found f;

        tr_comm_slow_open(&world, (struct tr_slow_how){.rate = rate}, &network);
        f = measure(&world, &network, ways[i].options, (int)repeats, &elems);
        network.via->release(&network);
        if (i == 0) {
            double bytes = 2.0 * (world.size - 1) / world.size * 4.0 * (double)elems;

            alone = f;
            rate = bytes * 8.0 / (0.5 * f.backward);
            if (world.rank == 0)
                printf("%d replicas of %lld parameters, links of %.2f Gbit/s; times in ms\n"
                       "%-34s %8s %8s %8s %8s %8s %8s %8s\n",
                       world.size, (long long)elems, rate / 1e9, "mode", "network", "reduce",
                       "gather", "forward", "backward", "step", "hidden");
        }
        f.network = ways[i].times * 0.5 * alone.backward;
        if (world.rank == 0)
            report(line, &ways[i], &f, rate);
        if (world.rank == 0)
            bench_print(line);
        else
            json_decref(line);
    }
    tr_comm_mpi_stop(&world);
    return 0;
}
