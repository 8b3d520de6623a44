/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_overlap [REPEATS [ROUNDS]]: how much of the traffic between replicas, and between two tensor-parallel ranks,
 * hides behind computation.
 *
 * Replicas.  Each rank that it is started with is a replica of a model of eight layers of width 256 (fp32, one
 * thread, one micro-batch of 512 tokens), and they talk over the slow transport (comm/slow.h),
 * whose rate is set so that a sum of all gradients takes half of the time of a backward pass
 * without any traffic.  Small vocabulary and small buckets, so that the last bucket, which nothing
 * can hide, is small.  For each way to exchange gradients and weights:
 *
 *   network    what the bytes of a step take on that network, one transfer after the other
 *   fwd gather, bwd gather, bwd reduce    exposed: waiting inside forward and backward for weights, and for gradients
 *              whose place the next ones need
 *   reduce, gather    exposed: the same between the backward pass and the next forward pass
 *   exposed    all of these
 *   no network all of these over one that takes no time: waiting for the other rank, and for copies
 *   forward, backward, step    times with this waiting
 *   hidden     1 - exposed / network, and that of the worst and of the best round
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
 * All are medians over steps, and of replicas over rounds of these.  Of the ranks the slowest counts; in waiting the one
 * that waits least, because it came last and waits for the network only, not for other ranks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "comm/slow.h"
#include "train/step.h"
#include "telemetry/timer.h"

enum {
    WARM_UP = 2,
    REPEATS = 7,
    ROUNDS = 3,
    MOST = 1000,
    LAYERS = 8,
    WIDTH = 256,
    TOKENS = 4 * 128
};

#define FAST 1e15 /* bits per second: no network */

static const char model[] =
    "--num-layers 8 --hidden-size 256 --num-attention-heads 4 --max-position-embeddings 128 "
    "--vocab-size 256 --seq-length 128 --micro-batch-size 4 --train-iters 1000000 --lr 1e-4 "
    "--attention-dropout 0 --hidden-dropout 0 --threads 1 --ddp-bucket-size 250000";

struct way {
    const char *name, *options;
};

enum { IN_FORWARD, IN_BACKWARD, OUTSIDE, PHASES };
enum { REDUCE, GATHER, KINDS };

/* Seconds, medians over the steps. */
struct found {
    double forward, backward, wait[KINDS][PHASES];
    double bytes; /* that a rank sends in a step */
    struct tr_bench_times step;
};

/* ---- where a rank waits ---- */

enum { UNDER_WAY = 256 };

/* The slow transport, with a clock around finish(). */
static struct {
    struct tr_transport table;
    const struct tr_transport *slow;
    struct tr_stage stage; /* of the run that is measured, as it was */
    int phase, count;
    struct {
        const struct tr_pending *pending;
        int kind;
    } under_way[UNDER_WAY];
    double waited[KINDS][PHASES];
} watch;

static void started(const struct tr_pending *p, int kind)
{
    TR_ASSERT(watch.count < UNDER_WAY);
    watch.under_way[watch.count].pending = p;
    watch.under_way[watch.count++].kind = kind;
}

static void allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    watch.slow->allreduce_start(c, q, inout, op, p);
    started(p, REDUCE);
}

static void reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    watch.slow->reduce_scatter_start(c, q, out, in, op, p);
    started(p, REDUCE);
}

static void allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    watch.slow->allgather_start(c, q, inout, p);
    started(p, GATHER);
}

static void finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    const double began = tr_now();

    watch.slow->finish(c, q, p);
    for (int i = 0; i < watch.count; i++)
        if (watch.under_way[i].pending == p) {
            watch.waited[watch.under_way[i].kind][watch.phase] += tr_now() - began;
            watch.under_way[i] = watch.under_way[--watch.count];
            return;
        }
}

static void forward(void *ctx, struct tr_slot at)
{
    watch.phase = IN_FORWARD;
    watch.stage.forward(ctx, at);
    watch.phase = OUTSIDE;
}

static void backward(void *ctx, struct tr_slot at)
{
    watch.phase = IN_BACKWARD;
    watch.stage.backward(ctx, at);
    watch.phase = OUTSIDE;
}

/* Groups that are split from `network` have its table. */
static void watch_network(struct tr_comm *network)
{
    watch.slow = network->via;
    watch.table = *network->via;
    watch.table.allreduce_start = allreduce_start;
    watch.table.reduce_scatter_start = reduce_scatter_start;
    watch.table.allgather_start = allgather_start;
    watch.table.finish = finish;
    watch.phase = OUTSIDE;
    network->via = &watch.table;
}

static void watch_passes(struct tr_run *r)
{
    watch.stage = r->stage;
    r->stage.forward = forward;
    r->stage.backward = backward;
}

static int64_t bytes_sent(struct tr_comm network)
{
    int64_t sum = 0;

    network.via = watch.slow;
    for (int kind = 0; kind < TR_SLOW_KINDS; kind++)
        sum += tr_comm_slow_bytes(&network, (enum tr_slow_kind)kind);
    return sum;
}

enum { STEP, FORWARD, BACKWARD, WAITS, NUMBERS = WAITS + KINDS * PHASES };

/* One step: numbers[NUMBERS], the same on all ranks. */
static void measure_step(struct tr_comm *world, struct tr_run *run, double *numbers)
{
    struct tr_tensor t = tr_f64_1(numbers, NUMBERS);
    struct tr_step_result result;
    double began;

    for (int i = 0; i < TR_TIMERS; i++)
        tr_timer_take((enum tr_timer)i);
    memset(watch.waited, 0, sizeof watch.waited);
    world->via->barrier(world);
    began = tr_now();
    tr_step(run, &result);
    numbers[STEP] = tr_now() - began;
    numbers[FORWARD] = tr_timer_take(TR_TIMER_FORWARD_COMPUTE);
    numbers[BACKWARD] = tr_timer_take(TR_TIMER_BACKWARD_COMPUTE);
    for (int i = 0; i < KINDS * PHASES; i++)
        numbers[WAITS + i] = -watch.waited[i / PHASES][i % PHASES];
    world->via->allreduce(world, NULL, &t, TR_MAX);
    for (int i = 0; i < KINDS * PHASES; i++)
        numbers[WAITS + i] = -numbers[WAITS + i];
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
    struct found found;
    char text[1024];
    int64_t sent = 0;

    snprintf(text, sizeof text, "%s %s", model, options);
    bench_run_options(&config, world, text, 0, NULL);
    watch_network(network);
    bench_run_open(&run, &config, network);
    watch_passes(&run);
    for (int i = -WARM_UP; i < repeats; i++) {
        sent = i <= 0 ? bytes_sent(*network) : sent;
        measure_step(world, &run, numbers);
        for (int k = 0; k < NUMBERS && i >= 0; k++)
            all[k * repeats + i] = numbers[k];
    }
    for (int k = 0; k < NUMBERS; k++)
        of[k] = tr_bench_times_of(all + k * repeats, repeats);
    sent = bytes_sent(*network) - sent;
    *elems = run.model.params.size;
    if (gradient)
        *gradient = weight_gradient(&run);
    bench_run_close(&run);
    tr_config_release(&config);
    free(all);
    network->via = watch.slow;
    found.forward = of[FORWARD].median;
    found.backward = of[BACKWARD].median;
    found.bytes = (double)sent / repeats;
    found.step = of[STEP];
    for (int i = 0; i < KINDS * PHASES; i++)
        found.wait[i / PHASES][i % PHASES] = of[WAITS + i].median;
    return found;
}

/* ---- replicas ---- */

enum {
    NETWORK,
    FORWARD_GATHER,
    BACKWARD_GATHER,
    BACKWARD_REDUCE,
    LATE_REDUCE,
    LATE_GATHER,
    EXPOSED,
    ALONE,
    WHOLE_FORWARD,
    WHOLE_BACKWARD,
    WHOLE_STEP,
    HIDDEN,
    COLUMNS
};
static const char *const column[COLUMNS] = {"network", "fwd gather", "bwd gather", "bwd reduce",
                                            "reduce",  "gather",     "exposed",    "no network",
                                            "forward", "backward",   "step",       "hidden"};

static double waits_of(const struct found *f)
{
    double sum = 0.0;

    for (int i = 0; i < KINDS * PHASES; i++)
        sum += f->wait[i / PHASES][i % PHASES];
    return sum;
}

/* Seconds, and a fraction; of one round. */
static void columns_of(const struct found *f, const struct found *alone, double rate,
                       double out[COLUMNS])
{
    out[NETWORK] = f->bytes * 8.0 / rate;
    out[FORWARD_GATHER] = f->wait[GATHER][IN_FORWARD];
    out[BACKWARD_GATHER] = f->wait[GATHER][IN_BACKWARD];
    out[BACKWARD_REDUCE] = f->wait[REDUCE][IN_BACKWARD];
    out[LATE_REDUCE] = f->wait[REDUCE][OUTSIDE];
    out[LATE_GATHER] = f->wait[GATHER][OUTSIDE];
    out[EXPOSED] = waits_of(f);
    out[ALONE] = waits_of(alone);
    out[WHOLE_FORWARD] = f->forward;
    out[WHOLE_BACKWARD] = f->backward;
    out[WHOLE_STEP] = f->step.median;
    out[HIDDEN] = 1.0 - out[EXPOSED] / out[NETWORK];
}

static void report(json_t *line, const struct way *w, struct tr_bench_times of[COLUMNS],
                   const double hidden[2], double rate)
{
    printf("%-34s", w->name);
    json_object_set_new(line, "mode", json_string(w->name));
    json_object_set_new(line, "gbit_per_second", json_real(rate / 1e9));
    for (int k = 0; k < COLUMNS; k++) {
        char key[64];

        snprintf(key, sizeof key, "%s%s", column[k], k == HIDDEN ? "" : "_seconds");
        for (char *blank = strchr(key, ' '); blank; blank = strchr(key, ' '))
            *blank = '_';
        json_object_set_new(line, key, json_real(of[k].median));
        if (k != HIDDEN)
            printf(" %10.1f", 1e3 * of[k].median);
    }
    printf(" %9.0f%% (%.0f to %.0f%%)\n", 100.0 * of[HIDDEN].median, 100.0 * hidden[0],
           100.0 * hidden[1]);
    json_object_set_new(line, "hidden_least", json_real(hidden[0]));
    json_object_set_new(line, "hidden_most", json_real(hidden[1]));
}

/* One way over both networks, alternately, ROUNDS times. */
static void measure_way(struct tr_comm *world, const struct way *way, double rate, int repeats,
                        int rounds, json_t *line)
{
    double *all = bench_memory(rounds, COLUMNS * sizeof *all);
    double ends[2] = {INFINITY, -INFINITY};
    struct tr_bench_times of[COLUMNS];

    for (int i = 0; i < rounds; i++) {
        double numbers[COLUMNS];
        struct found f[2];
        int64_t elems;

        for (int k = 0; k < 2; k++) {
            struct tr_comm network;

            tr_comm_slow_open(world, (struct tr_slow_how){.rate = k == 0 ? FAST : rate}, &network);
            f[k] = measure(world, &network, way->options, repeats, &elems, NULL);
            network.via->release(&network);
        }
        columns_of(&f[1], &f[0], rate, numbers);
        for (int k = 0; k < COLUMNS; k++)
            all[k * rounds + i] = numbers[k];
        ends[0] = fmin(ends[0], numbers[HIDDEN]);
        ends[1] = fmax(ends[1], numbers[HIDDEN]);
    }
    for (int k = 0; k < COLUMNS; k++)
        of[k] = tr_bench_times_of(all + k * rounds, rounds);
    if (world->rank == 0)
        report(line, way, of, ends, rate);
    free(all);
}

/* The rate at which an all-reduce of all gradients takes half of a backward pass. */
static double find_rate(struct tr_comm *world, int repeats, int rounds)
{
    struct tr_comm network;
    struct found f;
    int64_t elems;
    double rate;

    tr_comm_slow_open(world, (struct tr_slow_how){.rate = FAST}, &network);
    f = measure(world, &network, "--no-overlap-grad-reduce", repeats, &elems, NULL);
    network.via->release(&network);
    rate = 2.0 * (world->size - 1) / world->size * 4.0 * (double)elems * 8.0 / (0.5 * f.backward);
    if (world->rank != 0)
        return rate;
    printf(
        "%d replicas of %lld parameters, 1 thread each, links of %.2f Gbit/s: an all-reduce of all "
        "gradients takes half of a backward pass of %.1f ms; medians of %d rounds of %d steps, ms\n"
        "%-34s",
        world->size, (long long)elems, rate / 1e9, 1e3 * f.backward, rounds, repeats, "mode");
    for (int k = 0; k < COLUMNS; k++)
        printf(" %10s", column[k]);
    printf("\n");
    return rate;
}

static void replicas(struct tr_comm *world, int repeats, int rounds, int argc, char **argv)
{
    static const struct way ways[] = {
        {"all-reduce after backward", "--no-overlap-grad-reduce"},
        {"all-reduce during backward", "--overlap-grad-reduce"},
        {"ZeRO-1, nothing overlapped", "--use-distributed-optimizer --no-overlap-grad-reduce"},
        {"ZeRO-1, reduce-scatter overlapped", "--use-distributed-optimizer"},
        {"ZeRO-1, both overlapped", "--use-distributed-optimizer --overlap-param-gather"},
        {"ZeRO-2, nothing overlapped", "--zero-stage 2 --no-overlap-grad-reduce"},
        {"ZeRO-2, reduce-scatter overlapped", "--zero-stage 2"},
        {"ZeRO-2, both overlapped", "--zero-stage 2 --overlap-param-gather"},
        {"ZeRO-3, gathers overlapped", "--zero-stage 3 --no-overlap-grad-reduce"},
        {"ZeRO-3, both overlapped", "--zero-stage 3"},
    };
    const double rate = find_rate(world, repeats, rounds);

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *line = bench_line("overlap", argc, argv);

        json_object_set_new(line, "ranks", json_integer(world->size));
        json_object_set_new(line, "threads", json_integer(1));
        json_object_set_new(line, "rounds", json_integer(rounds));
        measure_way(world, &ways[i], rate, repeats, rounds, line);
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

        tr_comm_slow_open(world, (struct tr_slow_how){.rate = FAST}, &network);
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

static long number(int argc, char **argv, int i, long otherwise)
{
    const long n = argc > i ? strtol(argv[i], NULL, 10) : otherwise;

    if (n < 1 || n > MOST)
        tr_die(TR_ECONFIG, "bench_overlap takes steps and rounds from 1 to %d, not '%s'", MOST,
               argv[i]);
    return n;
}

int main(int argc, char **argv)
{
    const int repeats = (int)number(argc, argv, 1, REPEATS);
    const int rounds = (int)number(argc, argv, 2, ROUNDS);
    struct tr_comm world;

    bench_must(tr_comm_mpi_start(&world));
    if (world.size < 2)
        tr_die(TR_ECONFIG, "bench_overlap runs on 2 ranks or more, not on %d", world.size);
    replicas(&world, repeats, rounds, argc, argv);
    if (world.size == 2)
        tensor_ranks(&world, repeats, argc, argv);
    tr_comm_mpi_stop(&world);
    return 0;
}
