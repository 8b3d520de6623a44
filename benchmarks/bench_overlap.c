/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_overlap [REPEATS]: how much of the traffic between replicas, and between two tensor-parallel ranks, hides
 * behind computation.
 *
 * Replicas.  Each rank that it is started with is a replica of a model of eight layers of width 256 (fp32, one
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
 * Tensor-parallel ranks, if two started it: the same model on both, over a network on which a sum of activations
 * takes as long as the gradient of a weight, the mean of those of a layer.  A layer has two sums forward and two
 * backward, the embedding one forward and the head one backward; with sequence parallelism a sum is a
 * reduce-scatter and an all-gather, and backward gathers the inputs of products once more.
 *
 *   network    what the transfers of forward, and of backward, take
 *   forward, backward    exposed: how much longer that was than without a network
 *   layer      both together, for a layer
 *   hidden     of those of backward: 1 - exposed / network
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

enum { WARM_UP = 2, REPEATS = 7, MOST = 1000, LAYERS = 8, WIDTH = 256, TOKENS = 4 * 128 };

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

/* Seconds of the gradient of a weight of a layer, the mean of its four. */
static double weight_gradient(struct tr_run *r)
{
    static const enum tr_param_row rows[] = {TR_PARAM_QKV_WEIGHT, TR_PARAM_PROJ_WEIGHT,
                                             TR_PARAM_FC1_WEIGHT, TR_PARAM_FC2_WEIGHT};
    enum { ROWS = sizeof rows / sizeof *rows, TIMES = 20 };
    struct tr_model *m = &r->model;
    const struct tr_tensor dy[ROWS] = {m->dqkv, m->row, m->wide, m->row};
    const struct tr_tensor x[ROWS] = {m->row2, m->dctx, m->row2, m->wide};
    double seconds = 0.0;

    for (int i = -2; i < TIMES; i++) {
        double began = tr_now();

        for (int k = 0; k < ROWS; k++) {
            struct tr_tensor dw = tr_model_grad(m, rows[k], 0);

            m->q->on->linear_wgrad(m->q, &dw, NULL, &dy[k], &x[k], false);
        }
        m->q->on->wait(m->q);
        seconds += i < 0 ? 0.0 : tr_now() - began;
    }
    return seconds / (TIMES * ROWS);
}

/* `gradient`, if not NULL: what the gradient of a weight takes. */
static struct found measure(struct tr_comm *world, struct tr_comm *network, const char *options,
                            int repeats, int64_t *elems, double *gradient)
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
    if (gradient)
        *gradient = weight_gradient(&run);
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

/* ---- replicas ---- */

static void replicas(struct tr_comm *world, int repeats, int argc, char **argv)
{
    static const struct way ways[] = {
        {"no network", "--no-overlap-grad-reduce", 0.0},
        {"all-reduce after backward", "--no-overlap-grad-reduce", 1.0},
        {"all-reduce during backward", "--overlap-grad-reduce", 1.0},
        {"ZeRO-1, nothing overlapped", "--use-distributed-optimizer --no-overlap-grad-reduce", 1.0},
        {"ZeRO-1, reduce-scatter overlapped", "--use-distributed-optimizer", 1.0},
        {"ZeRO-1, both overlapped", "--use-distributed-optimizer --overlap-param-gather", 1.0},
    };
    struct tr_comm network;
    struct found alone = {0};
    double rate = 1e15;

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *line = bench_line("overlap", argc, argv);
        int64_t elems;
        struct found f;

        tr_comm_slow_open(world, (struct tr_slow_how){.rate = rate}, &network);
        f = measure(world, &network, ways[i].options, repeats, &elems, NULL);
        network.via->release(&network);
        if (i == 0) {
            double bytes = 2.0 * (world->size - 1) / world->size * 4.0 * (double)elems;

            alone = f;
            rate = bytes * 8.0 / (0.5 * f.backward);
            if (world->rank == 0)
                printf("%d replicas of %lld parameters, links of %.2f Gbit/s; times in ms\n"
                       "%-34s %8s %8s %8s %8s %8s %8s %8s\n",
                       world->size, (long long)elems, rate / 1e9, "mode", "network", "reduce",
                       "gather", "forward", "backward", "step", "hidden");
        }
        f.network = ways[i].times * 0.5 * alone.backward;
        if (world->rank == 0)
            report(line, &ways[i], &f, rate);
        if (world->rank == 0)
            bench_print(line);
        else
            json_decref(line);
    }
}

/* ---- tensor-parallel ranks ---- */

/* Of a layer, in sums; and those of the embedding or of the head. */
struct tensor_way {
    const char *name, *options;
    double forward, backward;
};

static void report_tensor(json_t *line, const struct tensor_way *w, const struct found *f,
                          const struct found *alone, double sum)
{
    const double forward = sum * (w->forward * LAYERS + 1.0),
                 backward = sum * (w->backward * LAYERS + 1.0),
                 late_forward = f->forward - alone->forward,
                 late_backward = f->backward - alone->backward,
                 layer = (late_forward + late_backward) / LAYERS,
                 hidden = 1.0 - late_backward / backward;

    printf("%-34s %8.1f %8.1f %8.1f %8.1f %8.2f %8.1f %7.0f%%\n", w->name, 1e3 * forward,
           1e3 * backward, 1e3 * late_forward, 1e3 * late_backward, 1e3 * layer,
           1e3 * f->step.median, 100.0 * hidden);
    json_object_set_new(line, "mode", json_string(w->name));
    json_object_set_new(line, "sum_seconds", json_real(sum));
    json_object_set_new(line, "network_forward_seconds", json_real(forward));
    json_object_set_new(line, "network_backward_seconds", json_real(backward));
    json_object_set_new(line, "exposed_forward_seconds", json_real(late_forward));
    json_object_set_new(line, "exposed_backward_seconds", json_real(late_backward));
    json_object_set_new(line, "exposed_layer_seconds", json_real(layer));
    json_object_set_new(line, "hidden", json_real(hidden));
    bench_add_times(line, &f->step);
}

static void tensor_ranks(struct tr_comm *world, int repeats, int argc, char **argv)
{
#define TENSOR "--tensor-model-parallel-size 2 "
#define BLOCKS "--no-async-tensor-model-parallel-allreduce "
    static const struct tensor_way ways[] = {
        {"blocking", TENSOR BLOCKS, 2.0, 2.0},
        {"overlapped", TENSOR, 2.0, 2.0},
        {"sequence parallel, blocking", TENSOR BLOCKS "--sequence-parallel", 2.0, 3.0},
        {"sequence parallel, overlapped", TENSOR "--sequence-parallel", 2.0, 3.0},
    };
    double sum = 0.0, rate = 0.0;

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *line = bench_line("overlap-tensor", argc, argv);
        struct found alone, f;
        struct tr_comm network;
        int64_t elems;

        tr_comm_slow_open(world, (struct tr_slow_how){.rate = 1e15}, &network);
        alone = measure(world, &network, ways[i].options, repeats, &elems, i == 0 ? &sum : NULL);
        network.via->release(&network);
        if (i == 0) {
            struct tr_tensor slowest = tr_f64_1(&sum, 1);

            world->via->allreduce(world, NULL, &slowest, TR_MAX);
            rate = 8.0 * 4.0 * TOKENS * WIDTH / sum; /* of two ranks each sends all once */
        }
        if (i == 0 && world->rank == 0)
            printf("2 tensor-parallel ranks, links of %.2f Gbit/s: %.2f ms for a sum, as for the "
                   "gradient of a weight; times in ms\n"
                   "%-34s %17s %17s\n%-34s %8s %8s %8s %8s %8s %8s %8s\n",
                   rate / 1e9, 1e3 * sum, "", "network", "exposed", "mode", "forward", "backward",
                   "forward", "backward", "layer", "step", "hidden");
        tr_comm_slow_open(world, (struct tr_slow_how){.rate = rate}, &network);
        f = measure(world, &network, ways[i].options, repeats, &elems, NULL);
        network.via->release(&network);
        if (world->rank == 0)
            report_tensor(line, &ways[i], &f, &alone, sum);
        if (world->rank == 0)
            bench_print(line);
        else
            json_decref(line);
    }
#undef TENSOR
#undef BLOCKS
}

int main(int argc, char **argv)
{
    long repeats = argc > 1 ? strtol(argv[1], NULL, 10) : REPEATS;
    struct tr_comm world;

    bench_must(tr_comm_mpi_start(&world));
    if (repeats < 1 || repeats > MOST)
        tr_die(TR_ECONFIG, "bench_overlap repeats from 1 to %d times, not '%s'", MOST, argv[1]);
    if (world.size < 2)
        tr_die(TR_ECONFIG, "bench_overlap runs on 2 ranks or more, not on %d", world.size);
    replicas(&world, (int)repeats, argc, argv);
    if (world.size == 2)
        tensor_ranks(&world, (int)repeats, argc, argv);
    tr_comm_mpi_stop(&world);
    return 0;
}
