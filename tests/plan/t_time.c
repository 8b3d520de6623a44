/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "check.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "plan/profiles.h"
#include "plan/published.h"

/* The rule by which rows are fitted on or not, and that all of them can be planned. */
static void split(void **state)
{
    int fitted = 0;

    (void)state;
    assert_int_equal(published_crc("123456789"), 0xcbf43926u);
    for (int first = 0, end; first < PUBLISHED; first = end) {
        int in = 0;

        end = published_end(first);
        for (int i = first; i < end; i++) {
            in += published[i].fitted;
            assert_true(i == first || published[i].crc > published[i - 1].crc);
            assert_true(i == first || !published[i].fitted || published[i - 1].fitted);
        }
        assert_true(in >= 3 && 4 * in >= end - first && (in == 3 || 4 * (in - 1) < end - first));
        fitted += in;
    }
    assert_true(fitted < PUBLISHED / 2);
}

/* Every published run has a time, and those of other planners are in the same unit. */
static void rows(void **state)
{
    (void)state;
    published_all();
    for (int i = 0; i < PUBLISHED; i++) {
        print_message("# %s %s: %+.1f %%%s\n", published[i].machine, published[i].name,
                      100.0 * published[i].error, published[i].fitted ? ", fitted" : "");
        assert_true(published[i].error > -1.0 && published[i].error < 10.0);
        assert_true(isnan(published[i].calculon) || fabs(published[i].calculon) < 0.9);
    }
}

static int rows_of(const char *set, const char *name)
{
    int n = 0;

    for (int i = 0; i < PUBLISHED; i++)
        n += strcmp(set ? published[i].set : published[i].name, set ? set : name) == 0;
    return n;
}

/* What other planners say is of a row that is there, and is said once; a mean of all rows of a set is of as many as are
   there. */
static void others(void **state)
{
    (void)state;
    for (int i = 0; i < PUBLISHED_CALCULON; i++) {
        const struct published_other *x = &published_calculon[i];

        assert_int_equal(rows_of(NULL, x->name), 1);
        assert_true(published_seconds_of_calculon(x->name) == x->seconds);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(published_calculon[k].name, x->name);
    }
    for (int i = 0; i < PUBLISHED_MEANS; i++)
        assert_int_equal(rows_of(published_means[i].set, NULL), published_means[i].rows);
    assert_true(isnan(published_seconds_of_calculon("a row that is not there")));
}

/*
 * A profile promises what the rows say that it was not fitted on: two digits of their 10th and 90th
 * percentile.  And where the model has its reasons right, the middle one of these rows is near: 8 % on
 * every profile but the nodes of 32 GB, half of whose rows are slow days.
 */
static void promises(void **state)
{
    (void)state;
    for (int first = 0, end; first < PUBLISHED; first = end) {
        double low, high, off[PUBLISHED];
        struct tr_machine m;
        int n = 0;

        end = published_end(first);
        published_range(first, end, &low, &high);
        assert_ok(tr_machine_find(published[first].machine, &m));
        assert_true(fabs(m.time_low - low) <= 0.0051 && fabs(m.time_high - high) <= 0.0051);
        for (int i = first; i < end; i++)
            if (!published[i].fitted)
                off[n++] = fabs(published[i].error);
        qsort(off, (size_t)n, sizeof *off, published_by_ratio);
        print_message("# %s: the middle row is off by %.1f %%\n", m.name, 100.0 * off[n / 2]);
        assert_true(off[n / 2] < (strcmp(m.name, "jean-zay-v100-32g") == 0 ? 0.2 : 0.12));
    }
}

/* What replicas exchange in an iteration: gradients, a few bits for each parameter, or nothing. */
static void exchanged(void **state)
{
    static const char *const modes[] = {
        "", "--dp-mode cocktail_sgd --quant-bits 4 --topk-ratio .2 --randomp-ratio .1",
        "--dp-mode local"};
    double seconds[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tr_machine m;
        struct tr_config c;
        struct tr_plan p;

        assert_ok(tr_machine_find("jean-zay-v100-16g", &m));
        tr_config_init(&c);
        assert_ok(tr_config_parse_text(
            &c, "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                "--max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 1 "
                "--global-batch-size 64 --lr 1e-4 --train-iters 10 --fp16 --world-size 64 "
                "--no-overlap-grad-reduce"));
        assert_ok(tr_config_parse_text(&c, modes[i]));
        assert_ok(tr_plan_make(&c, &m, &p));
        seconds[i] = p.time.reduce;
        tr_plan_release(&p);
        tr_config_release(&c);
    }
    /* 0.1825 bits in place of 16, and the same two waits. */
    assert_true(seconds[1] > seconds[0] * 0.1825 / 16.0 && seconds[1] < seconds[0] * 0.02 + 1e-3);
    assert_true(seconds[2] <= 0.0);
}

/* The parts of an iteration of these options on that machine. */
static struct tr_plan_time time_on(const struct tr_machine *m, const char *options)
{
    struct tr_plan_time t;
    struct tr_config c;
    struct tr_plan p;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    assert_ok(tr_plan_make(&c, m, &p));
    t = p.time;
    tr_plan_release(&p);
    tr_config_release(&c);
    return t;
}

#define SMALL                                                                            \
    "--num-layers 24 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 512 " \
    "--micro-batch-size 1 --fp16 --checkpoint-activations "

/* In the order tensor, pipeline, data the four stages of a replica share a node of 4, and each of four
   replicas has a node; in the other it is the replicas of a stage that share one.  Without latency a
   message of n bytes takes n over the link, and an all-reduce over four ranks 2 * 3 / 4 of that. */
static void orders(void **state)
{
    static const char options[] =
        SMALL "--hidden-size 1024 --num-attention-heads 16 --global-batch-size 32 --lr 1e-4 "
              "--pipeline-model-parallel-size 4 --train-iters 10 ";
    const double message = 1024.0 * 1024.0 * 2.0, params = 1e8, gradients = 2.0 * params;
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("jean-zay-v100-16g", &m));
    assert_int_equal(m.gpus_per_node, 4);
    m.node_us = m.net_us = 0.0;
    m.net_link = 2.0;
    m.node_link = 50.0;
    for (int inside = 0; inside < 2; inside++) {
        const double stages = inside ? 50e9 : 2e9, replicas = inside ? 2e9 : 50e9;
        struct tr_config c;
        struct tr_shape s;
        struct tr_cost x;
        double during;

        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, options));
        c.use_tp_pp_dp_mapping = inside;
        assert_ok(tr_shape_of(&c, 16, &s));
        tr_cost_init(&x, &s, &m);
        assert_true(fabs(tr_cost_transfer(&x) / (message / stages) - 1.0) < 1e-9);
        assert_true(fabs(tr_cost_reduce(&x, params, &during) / (1.5 * gradients / replicas) - 1.0) <
                    1e-9);
        assert_true(during > 0.0);
        assert_true(fabs(tr_cost_tied(&x) / (512.0 * 1024.0 * 2.0 / stages) - 1.0) < 1e-9);
        tr_config_release(&c);
    }
}

/* The head of a large vocabulary takes as long as several layers, and the last stage has fewer. */
static void balanced(void **state)
{
    struct tr_machine m;
    struct tr_config c;
    struct tr_plan even, p;
    char list[TR_LAYOUT_TEXT];
    int64_t last;

    (void)state;
    assert_ok(tr_machine_find("jean-zay-v100-16g", &m));
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(
        &c, "--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 "
            "--max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 1 --fp16 "
            "--global-batch-size 32 --pipeline-model-parallel-size 8 --world-size 8 --lr 1e-4 "
            "--train-iters 10"));
    assert_ok(tr_plan_alone(&c, &m, &even));
    last = tr_plan_balanced(&even.shape, &m);
    assert_true(last >= 2 && last < 6); /* AC-SGD has 3, on other cards */
    tr_plan_layout(48, 8, last, list);
    assert_ok(tr_config_set(&c, "pipeline-model-parallel-layout", list));
    assert_ok(tr_plan_alone(&c, &m, &p));
    assert_int_equal(tr_layout_layers(&p.shape.layout, 7, 0), last);
    assert_true(p.time.total < 0.98 * even.time.total);
    assert_int_equal(tr_plan_balanced(&p.shape, &m), TR_PLAN_EVEN);
    tr_plan_release(&p);
    tr_config_release(&c);
    tr_plan_release(&even);
    assert_string_equal(tr_plan_layout(48, 8, 3, list), "6*4,7*3,3");
}

/* Where the host is slower than the device, a layer takes what it needs for a forward pass, its
   repetition and a backward pass; where it is quicker, nothing. */
static void launches(void **state)
{
    static const char options[] =
        SMALL "--hidden-size 1024 --num-attention-heads 16 --global-batch-size 10 --world-size 1";
    struct tr_machine m;
    double slow, quick, bare;

    (void)state;
    assert_ok(tr_machine_find("a100-hdr4", &m));
    m.launch_us = 1e5;
    slow = time_on(&m, options).compute;
    assert_true(fabs(slow / (10 * 24 * 3 * 0.1) - 1.0) < 0.01);
    m.launch_us = 1.0;
    quick = time_on(&m, options).compute;
    m.launch_us = 0.0;
    bare = time_on(&m, options).compute;
    assert_true(quick <= bare && quick >= bare && bare < 0.1 * slow);
}

/* As many operations in heads of 144 and of 150 numbers: the latter miss the tensor cores. */
static void widths(void **state)
{
    struct tr_machine m;
    double even, odd;

    (void)state;
    assert_ok(tr_machine_find("a100-hdr4", &m));
    m.attention_passes = 0.0;
    even = time_on(&m, SMALL "--hidden-size 7200 --num-attention-heads 50 --global-batch-size 8 "
                             "--world-size 1")
               .compute;
    odd = time_on(&m, SMALL "--hidden-size 7200 --num-attention-heads 48 --global-batch-size 8 "
                            "--world-size 1")
              .compute;
    assert_true(odd > 1.05 * even);
}

/* The exposed part of reductions after backward passes is their last bucket. */
static void buckets(void **state)
{
    static const char options[] =
        SMALL "--hidden-size 2048 --num-attention-heads 16 --global-batch-size 512 --world-size 16 "
              "--ddp-bucket-size ";
    static const char *const size[] = {"10000000", "100000000"};
    struct tr_machine m;
    double seconds[2];

    (void)state;
    assert_ok(tr_machine_find("a100-hdr4", &m));
    for (int i = 0; i < 2; i++) {
        char text[512];

        snprintf(text, sizeof text, "%s%s", options, size[i]);
        seconds[i] = time_on(&m, text).reduce;
    }
    assert_true(fabs(seconds[1] / seconds[0] - 10.0) < 1e-6);
}

/* Messages beside computation: of what hides where links carry them alone, a quarter less is a quarter of it more, and
   where the cores that compute carry them nothing hides. */
static void beside(void **state)
{
    static const char tensor[] =
        SMALL "--hidden-size 2048 --num-attention-heads 16 --global-batch-size 8 --world-size 8 "
              "--tensor-model-parallel-size 8";
    static const char replicas[] =
        SMALL "--hidden-size 2048 --num-attention-heads 16 --global-batch-size 64 --world-size 16 "
              "--use-distributed-optimizer --overlap-param-gather";
    static const char stages[] =
        SMALL "--hidden-size 2048 --num-attention-heads 16 --global-batch-size 64 --world-size 8 "
              "--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 1 ";
    static const int of[] = {TR_PLAN_TRAFFIC_TENSOR, TR_PLAN_TRAFFIC_REDUCE, TR_PLAN_TRAFFIC_GATHER,
                             TR_PLAN_TRAFFIC_STAGES};
    const char *const options[] = {tensor, replicas, replicas, stages};
    struct tr_machine m;
    char in_turn[512];

    (void)state;
    assert_ok(tr_machine_find("a100-hdr4", &m));
    assert_true(m.overlap == 1.0); /* what a profile has that does not say it */
    for (int i = 0; i < 4; i++) {
        static const double overlap[] = {1.0, 0.75, 0.0};
        struct tr_plan_wire w[3];
        double part;

        for (int k = 0; k < 3; k++) {
            m.overlap = overlap[k];
            w[k] = time_on(&m, options[i]).wire[of[i]];
        }
        assert_true(w[0].exposed < 0.98 * w[2].exposed);
        part = (w[1].exposed - w[0].exposed) / (w[2].exposed - w[0].exposed);
        print_message("# %d: %.4f ms of %.4f, %.4f of the rest\n", i, 1e3 * w[0].exposed,
                      1e3 * w[2].exposed, part);
        /* Stages wait for one another, too. */
        assert_true(fabs(part - 0.25) < (options[i] == stages ? 0.05 : 1e-6));
        if (options[i] != stages)
            assert_true(fabs(w[2].exposed / w[2].link - 1.0) < 1e-9);
        assert_true(w[0].link == w[2].link);
    }
    snprintf(in_turn, sizeof in_turn, "%s--no-overlap-p2p-communication", stages);
    assert_true(time_on(&m, stages).transfer == time_on(&m, in_turn).transfer);
}

/* An offloaded update by hand, whatever of its three ways is the slowest. */
static void offloaded(void **state)
{
    const struct {
        double link, memory, files, seconds;
        const char *options;
    } cases[] = {
        /* bf16, 1e9 elements of 2 replicas with 8 GPUs in a node: gradients of 4 bytes over the link; 12 bytes of states
           read and written, 8 of gradients and 4 of weights in memory; 12 bytes each way on disks. */
        {2.0, 1e6, 0.0, 4.0 / 2.0, "--bf16 --zero-stage 1 --offload-optimizer cpu"},
        {1e6, 144.0, 0.0, 8.0 * 36.0 / 144.0, "--bf16 --zero-stage 1 --offload-optimizer cpu"},
        {1e6, 1e6, 48.0, 8.0 * 12.0 / 48.0, "--bf16 --zero-stage 1 --offload-optimizer /tmp"},
        /* fp32, half of 2e9 elements with the device at 1000 GB/s, 50 bytes of traffic. */
        {1.0, 1e6, 0.0, 4.0 + 0.05, "--offload-optimizer cpu --optimizer-offload-fraction 0.5"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_machine m = {.gpus_per_node = 8,
                               .peak_bf16 = 1.0,
                               .peak_fp32 = 1.0,
                               .gemm = 1.0,
                               .stream = 1000.0,
                               .optimizer_bytes = 50.0,
                               .host_link = cases[i].link,
                               .host_stream = cases[i].memory,
                               .files = cases[i].files};
        struct tr_config c;
        struct tr_shape s;
        struct tr_cost x;
        char options[512];

        tr_config_init(&c);
        snprintf(options, sizeof options,
                 "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
                 "--max-position-embeddings 64 --vocab-size 100 --micro-batch-size 1 "
                 "--global-batch-size 8 --lr 1 --train-iters 1 %s",
                 cases[i].options);
        assert_ok(tr_config_parse_text(&c, options));
        assert_ok(tr_shape_of(&c, 2, &s));
        tr_cost_init(&x, &s, &m);
        assert_null(tr_cost_lacks(&s, &m));
        assert_true(fabs(tr_cost_optimizer(&x, 2e9) / cases[i].seconds - 1.0) < 1e-12);
        m.host_stream = 0.0;
        assert_string_equal(tr_cost_lacks(&s, &m), "host-memory-gbs");
        tr_config_release(&c);
    }
}

static const struct tr_machine slow_host = {.gpus_per_node = 1,
                                            .peak_fp16 = 1.0,
                                            .peak_fp32 = 1.0,
                                            .gemm = 1.0,
                                            .stream = 1000.0,
                                            .optimizer_bytes = 32.0,
                                            .node_link = 1.0,
                                            .net_link = 1.0,
                                            .overlap = 1.0,
                                            .memory = 1000.0,
                                            .host_link = 1e-3,
                                            .host_stream = 1.0};

#define LITTLE                                                                           \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "           \
    "--max-position-embeddings 32 --vocab-size 128 --world-size 1 --micro-batch-size 1 " \
    "--global-batch-size 3 --lr 1e-4 --train-iters 1 "

/* Chunks of a layer each, 12 H^2 + 13 H = 49984 elements, in memory for 1 to 4 of weights and 2 of gradients: 3
   micro-batches fetch what the passes before them did not leave, and write all gradients.  Embeddings and the last norm come
   once.  In fp32 over 1e6 B/s. */
static void in_chunks(void **state)
{
    const double layer = 49984.0, ends = (128.0 + 32.0 + 2.0) * 64.0;

    (void)state;
    for (int slots = 1; slots <= 4; slots++) {
        const int fetches = 4 + (2 * 3 - 1) * (4 - slots);
        char options[512];
        struct tr_plan_time t;

        snprintf(options, sizeof options, LITTLE "--chunk-size 49984 --chunk-memory %d",
                 (slots + 2) * 4 * 49984);
        t = time_on(&slow_host, options);
        assert_true(fabs(t.wire[TR_PLAN_TRAFFIC_GATHER].link -
                         (fetches * layer + ends) * 4.0 / 1e6) < 1e-9);
        assert_true(fabs(t.wire[TR_PLAN_TRAFFIC_REDUCE].link -
                         3.0 * (4.0 * layer + ends) * 4.0 / 1e6) < 1e-9);
    }
}

/* Moments of 8 bits are read and written, 1 byte and 4/256 of a scale in place of 4, each. */
static void in_8_bits(void **state)
{
    const double saved = 2.0 * 2.0 * (3.0 - 4.0 / 256.0);
    struct tr_plan_time t[2];

    (void)state;
    t[0] = time_on(&slow_host, LITTLE);
    t[1] = time_on(&slow_host, LITTLE "--optimizer 8bit-adam --adam8bit-block 256");
    assert_true(fabs(t[1].optimizer / t[0].optimizer - (32.0 - saved) / 32.0) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_chunks), cmocka_unit_test(in_8_bits), cmocka_unit_test(split),
        cmocka_unit_test(rows),      cmocka_unit_test(others),    cmocka_unit_test(offloaded),
        cmocka_unit_test(promises),  cmocka_unit_test(orders),    cmocka_unit_test(balanced),
        cmocka_unit_test(exchanged), cmocka_unit_test(launches),  cmocka_unit_test(widths),
        cmocka_unit_test(buckets),   cmocka_unit_test(beside),
    };

    profiles();
    published_split();
    return run_tap(tests);
}
