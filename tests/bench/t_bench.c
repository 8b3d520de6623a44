/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "bench/bench.h"

/*
 * The bench over real ranks, and over a transport, a device and a machine that are not as they should be:
 * what it says must follow.
 */
static struct tr_config config;
static struct tr_run run;
static struct tr_bench bench;

static void begin(const char *more)
{
    char options[1024];

    snprintf(
        options, sizeof options,
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--max-position-embeddings 32 --vocab-size 100 --tokenizer-type NullTokenizer "
        "--micro-batch-size 2 --train-iters 1 --lr 1e-4 --mock-data --backend cpu --threads 1 %s",
        more);
    tr_config_init(&config);
    assert_all_ok(tr_config_parse_text(&config, options));
    assert_all_ok(tr_run_reach(&run, &config, &world));
    tr_bench_open(&bench, &run);
    bench.quiet = true;
    bench.repeats = 3;
}

static void end(void)
{
    tr_bench_close(&bench);
    tr_run_close(&run);
    tr_config_release(&config);
}

static double real_of(const json_t *row, const char *name)
{
    const json_t *x = json_object_get(row, name);

    assert_all(json_is_number(x));
    return json_number_value(x);
}

static const char *text_of(const json_t *row, const char *name)
{
    assert_all(json_is_string(json_object_get(row, name)));
    return json_string_value(json_object_get(row, name));
}

static void assert_all_fails(enum tr_status want, const char *text, enum tr_status got)
{
    assert_all(got == want);
    assert_all(world.rank != 0 || strstr(tr_last_error(), text) != NULL);
}

static void statistics(void **state)
{
    double odd[] = {3.0, 1.0, 2.0}, even[] = {4.0, 1.0, 2.0, 3.0}, many[100];
    struct tr_bench_times t = tr_bench_times_of(odd, 3);

    (void)state;
    assert_all(t.median == 2.0 && t.min == 1.0 && t.max == 3.0);
    t = tr_bench_times_of(even, 4);
    assert_all(t.median == 2.5 && t.min == 1.0 && t.max == 4.0 && t.count == 4);
    for (int i = 0; i < 100; i++)
        many[i] = 100.0 - i;
    assert_all(tr_bench_times_of(many, 100).p95 == 95.0);
}

/* ---- calls ---- */

/* 8, 64, 512 and 4096 bytes, and the largest. */
enum { SIZES = 5 };
static const struct tr_bench_coll small = {TR_BENCH_CALLS, TR_BENCH_WORLD, TR_F32, 8, 1 << 14, 8};

/* Bus bandwidth as nccl-tests has it, from the row's own bytes and time. */
static double factor(const char *call, int n)
{
    if (strcmp(call, "all-reduce") == 0)
        return 2.0 * (n - 1) / n;
    if (strcmp(call, "reduce-scatter") == 0 || strcmp(call, "all-gather") == 0)
        return (double)(n - 1) / n;
    return 1.0;
}

static void calls(void **state)
{
    const enum tr_dtype types[] = {TR_F32, TR_F16, TR_BF16};
    const int n = world.size;
    size_t index;
    json_t *row;

    (void)state;
    begin("");
    for (int i = 0; i < 3; i++) {
        struct tr_bench_coll how = small;

        how.dtype = types[i];
        assert_all_ok(tr_bench_coll(&bench, &how));
    }
    assert_all(bench.wrong == 0);
    assert_all(bench.results > 0);
    assert_all(json_array_size(bench.rows) == 3 * TR_BENCH_CALLS * SIZES);
    json_array_foreach(bench.rows, index, row)
    {
        double us = real_of(row, "us"), bytes = real_of(row, "bytes");
        double busbw = 1e-3 * bytes / us * factor(text_of(row, "call"), n);

        assert_all(us > 0.0 && us >= real_of(row, "us_min") && us <= real_of(row, "us_max"));
        assert_all(fmod(real_of(row, "elements"), n) == 0.0);
        assert_all(fabs(real_of(row, "busbw_gbs") - busbw) <= 1e-6 * busbw);
    }
    end();
}

/* One number of one rank is off by one. */
static void (*right_allreduce)(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                               enum tr_redop op);

static void wrong_allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op)
{
    right_allreduce(c, q, inout, op);
    if (c->rank == c->size - 1)
        tr_f32(inout)[tr_tensor_elems(inout) - 1] += 1.0f;
}

static void a_wrong_call(void **state)
{
    struct tr_transport broken = *world.via;
    struct tr_comm transport = world;
    struct tr_bench_coll how = small;

    (void)state;
    right_allreduce = broken.allreduce;
    broken.allreduce = wrong_allreduce;
    begin("");
    transport.via = &broken;
    run.transport = &transport;
    how.call = TR_BENCH_ALLREDUCE;
    assert_all_ok(tr_bench_coll(&bench, &how));
    /* Once in each size, and all ranks know. */
    assert_all(bench.wrong == SIZES);
    run.transport = &world;
    end();
}

static void groups(void **state)
{
    struct tr_bench_coll how = small;

    (void)state;
    begin("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2");
    how.group = TR_BENCH_PP;
    how.call = TR_BENCH_SENDRECV;
    assert_all_ok(tr_bench_coll(&bench, &how));
    assert_all(strcmp(text_of(json_array_get(bench.rows, 0), "group"), run.grid.pp.name) == 0);
    assert_all(bench.wrong == 0);
    how.group = TR_BENCH_DP;
    assert_fails(TR_ECONFIG, "a group \"dp\" of 1 rank has nothing to communicate",
                 tr_bench_coll(&bench, &how));
    end();
}

/* ---- GEMMs ---- */

static void products(void **state)
{
    const char *types[] = {"", "--fp16", "--bf16"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const json_t *row;

        begin(types[i]);
        assert_all_ok(tr_bench_gemm(&bench));
        assert_all(bench.wrong == 0);
        assert_all(bench.results == 15 * 64 * world.size);
        assert_all(json_array_size(bench.rows) == 16);
        row = json_array_get(bench.rows, 6); /* fc1 */
        assert_all(strcmp(text_of(row, "product"), "fc1") == 0);
        assert_all(
            fabs(real_of(row, "tflops") - 2e-12 * 64 * 64 * 256 / (1e-3 * real_of(row, "ms"))) <=
            1e-6 * real_of(row, "tflops"));
        end();
    }
}

static void (*right_linear)(struct tr_queue *q, const struct tr_tensor *y,
                            const struct tr_tensor *pre, const struct tr_tensor *x,
                            const struct tr_tensor *w, const struct tr_tensor *bias,
                            enum tr_act act);

static void wrong_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                         const struct tr_tensor *x, const struct tr_tensor *w,
                         const struct tr_tensor *bias, enum tr_act act)
{
    right_linear(q, y, pre, x, w, bias, act);
    tr_f32(y)[0] += 1.0f;
}

static void a_wrong_product(void **state)
{
    struct tr_backend broken;

    (void)state;
    begin("");
    broken = *run.queue.on;
    right_linear = broken.linear;
    broken.linear = wrong_linear;
    run.queue.on = &broken;
    assert_all_ok(tr_bench_gemm(&bench));
    /* The first element is among those that are checked: five GEMMs, on each rank. */
    assert_all(bench.wrong == 5 * world.size);
    end();
}

/* ---- nodes, disks ---- */

static void nodes(void **state)
{
    int slow = -1;

    (void)state;
    begin("");
    assert_all_ok(tr_bench_node(&bench, 0.0, &slow));
    assert_all(slow == 0);
    assert_all(json_array_size(bench.rows) == 1);
    /* As if each rank were on a node of its own, and none fast enough. */
    for (int r = 0; r < world.size; r++)
        snprintf(bench.host[r], sizeof bench.host[r], "n%d", r);
    assert_all_ok(tr_bench_node(&bench, 1e6, &slow));
    assert_all(slow == world.size);
    assert_all((int)json_array_size(bench.rows) == 1 + world.size);
    assert_all(strcmp(text_of(json_array_get(bench.rows, 2), "host"), "n1") == 0);
    end();
}

/* A profile of what was measured holds it; one that promises a thousand times as much finds all low. */
static void machines(void **state)
{
    struct tr_machine found, better, again;
    char *text = NULL;
    size_t bytes;
    int low = 0;
    FILE *f;

    (void)state;
    begin("");
    bench.repeats = 1;
    assert_all_ok(tr_bench_machine(&bench, "2026-11-22T00:00:00Z", NULL, 0.9, &low, &found));
    assert_all(low == 0);
    assert_all(found.gpus_per_node == world.size && found.peak_fp32 > 0.0 && found.peak_bf16 > 0.0);
    assert_all(found.node_link > 0.0 && found.node_us > 0.0 && found.net_link == found.node_link);
    assert_all(found.optimizer_bytes > 1.0);
    assert_all(found.attention_passes >= 0.0 && found.overlap >= 0.0 && found.overlap <= 1.0);
    /* Three peaks, memory, the optimizer, attention, the two numbers of the links inside the node, and what is saved
       beside them. */
    assert_all(json_array_size(bench.rows) == 9);
    f = open_memstream(&text, &bytes);
    tr_machine_write(&found, f);
    fclose(f);
    assert_all_ok(tr_machine_parse("here.conf", text, &again));
    assert_all(strcmp(again.date, "2026-11-22") == 0 && again.stream == found.stream);
    assert_all(again.optimizer_bytes == found.optimizer_bytes);
    free(text);
    better = found;
    better.peak_fp16 *= 1e3;
    better.peak_bf16 *= 1e3;
    better.peak_fp32 *= 1e3;
    better.stream *= 1e3;
    better.optimizer_bytes *= 1e-3;
    better.attention_passes = better.overlap = 0.0;
    better.node_link *= 1e3;
    better.node_us *= 1e-3;
    assert_all_ok(tr_bench_machine(&bench, "2026-11-22T00:00:00Z", &better, 0.1, &low, &found));
    assert_all(low == 7);
    end();
}

/* Of the shorter of two, what is saved where both go on at once: all, nothing, half; and no more than that where one ran
   longer, or shorter, than alone. */
static void overlaps(void **state)
{
    (void)state;
    assert_all(tr_bench_overlap(3.0, 1.0, 3.0) == 1.0);
    assert_all(tr_bench_overlap(3.0, 1.0, 4.0) == 0.0);
    assert_all(tr_bench_overlap(1.0, 3.0, 3.5) == 0.5);
    assert_all(tr_bench_overlap(1.0, 1.0, 0.5) == 1.0);
    assert_all(tr_bench_overlap(1.0, 1.0, 2.5) == 0.0);
}

/* Ranks that take turns are not measured, by masks or by a quota; nor where a rank has no whole processor. */
static void turns(void **state)
{
    (void)state;
    begin("");
    run.launch.cores = run.launch.processors = run.launch.local_size = run.launch.sharers = 4;
    run.launch.quota = 0.0;
    assert_all_ok(tr_bench_machine_check(&bench));
    run.launch.quota = 2.5;
    assert_all_fails(TR_ERESOURCE, "4 ranks with 1 thread each on ",
                     tr_bench_machine_check(&bench));
    assert_all(
        world.rank != 0 ||
        (strstr(tr_last_error(), "take turns on 2.5 processors, so no time of one is its own") &&
         strstr(tr_last_error(), "start 2 (mpiexec -n 2,")));
    run.launch.quota = 0.5;
    assert_all_fails(TR_ERESOURCE, "0.5 of a processor", tr_bench_machine_check(&bench));
    end();
}

static void disks(void **state)
{
    char folder[32] = "/tmp/trireme-bench.XXXXXX";

    (void)state;
    assert_all(world.rank != 0 || mkdtemp(folder));
    world.via->broadcast(&world, NULL, &(struct tr_tensor){folder, TR_F32, 1, {sizeof folder / 4}},
                         0);
    begin("");
    assert_all_ok(tr_bench_io(&bench, folder, 8 << 20));
    assert_all(bench.wrong == 0);
    assert_all(bench.results > 0);
    assert_all(real_of(json_array_get(bench.rows, 0), "bytes") == (8 << 20) * (double)world.size);
    /* The file is gone, or the folder would stay. */
    world.via->barrier(&world);
    assert_all(world.rank != 0 || rmdir(folder) == 0);
    assert_all_fails(TR_EIO, "cannot be opened", tr_bench_io(&bench, "/nonexistent", 8 << 20));
    assert_all_fails(TR_ERESOURCE, "has room for",
                     tr_bench_io(&bench, "/dev/shm", INT64_C(1) << 50));
    end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics), cmocka_unit_test(calls),    cmocka_unit_test(a_wrong_call),
        cmocka_unit_test(groups),     cmocka_unit_test(products), cmocka_unit_test(a_wrong_product),
        cmocka_unit_test(nodes),      cmocka_unit_test(machines), cmocka_unit_test(overlaps),
        cmocka_unit_test(disks),      cmocka_unit_test(turns),
    };
    (void)argc, (void)argv;
    return run_mpi_tap(tests);
}
