/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan/plan_parts.h"
#include "plan/profiles.h"
#include "sim/engine.h"

#define LAYERS                                                                       \
    "--num-layers 48 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 " \
    "--max-position-embeddings 2048 --fp16 "
#define GPT LAYERS "--vocab-size 50257 --checkpoint-activations "

static void plan_of(const struct tr_machine *m, const char *model, const char *options,
                    struct tr_config *c, struct tr_plan *p)
{
    tr_config_init(c);
    assert_ok(tr_config_parse_text(c, model));
    assert_ok(tr_config_parse_text(c, options));
    assert_ok(tr_plan_itself(c, m, p));
}

static void plan_on(const struct tr_machine *m, const char *options, struct tr_config *c,
                    struct tr_plan *p)
{
    plan_of(m, GPT, options, c, p);
}

/* One iteration of all ranks, and the same with one for all that are alike. */
struct both {
    struct tr_plan p;
    struct tr_sim_world whole, few;
    struct tr_sim_result all, alike;
    struct tr_config c;
};

static void open_world(const struct tr_sim_fabric *fabric, const struct tr_sim_speed *speed,
                       int speeds, struct both *b)
{
    struct tr_sim_speed slow[4];
    const struct tr_sim_like like = {.fabric = *fabric, .speeds = speeds, .speed = slow};

    for (int i = 0; i < speeds; i++)
        slow[i] = speed[i];
    tr_sim_world_open(&b->p, &like, &b->whole);
    tr_sim_classes(&b->whole, &b->few);
    tr_sim_run(&b->whole, &(struct tr_sim_how){0}, &b->all);
    tr_sim_run(&b->few, &(struct tr_sim_how){0}, &b->alike);
}

static void open_both(const struct tr_machine *m, const char *options,
                      const struct tr_sim_fabric *fabric, const struct tr_sim_speed *speed,
                      int speeds, struct both *b)
{
    plan_on(m, options, &b->c, &b->p);
    open_world(fabric, speed, speeds, b);
}

static void close_both(struct both *b)
{
    tr_sim_result_release(&b->all);
    tr_sim_result_release(&b->alike);
    tr_sim_world_release(&b->few);
    tr_sim_world_release(&b->whole);
    tr_plan_release(&b->p);
    tr_config_release(&b->c);
}

/* To the bit: the iteration, and what each rank spends it on, the sum of which is the iteration. */
static void assert_same(const struct both *b)
{
    assert_memory_equal(&b->all.seconds, &b->alike.seconds, sizeof b->all.seconds);
    for (int i = 0; i < b->whole.units; i++) {
        double sum = 0.0;

        assert_memory_equal(b->all.spent[i], b->alike.spent[b->few.class_of[i]],
                            sizeof b->all.spent[i]);
        for (int cause = 0; cause < TR_SIM_CAUSES; cause++)
            sum += b->all.spent[i][cause];
        assert_true(fabs(sum / b->all.seconds - 1.0) < 1e-9);
    }
}

/* An iteration over the planned one, less 1. */
static double off(const struct both *b)
{
    return b->all.seconds / b->p.time.total - 1.0;
}

static void as_planned(void **state)
{
    static const char *const layouts[] = {
        "--world-size 1 --micro-batch-size 1 --global-batch-size 4",
        "--world-size 8 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 8",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size "
        "64",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size "
        "64 --use-distributed-optimizer",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size "
        "64 --no-overlap-grad-reduce",
        "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
        "--micro-batch-size 1 --global-batch-size 64",
        "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
        "--micro-batch-size 1 --global-batch-size 8",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
        "--micro-batch-size 1 --global-batch-size 64",
        "--world-size 128 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 "
        "--micro-batch-size 1 --global-batch-size 128",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--micro-batch-size 1 --global-batch-size 64 --pipeline-schedule gpipe",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--micro-batch-size 1 --global-batch-size 64 --num-layers-per-virtual-pipeline-stage 4",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--micro-batch-size 1 --global-batch-size 64 --num-layers-per-virtual-pipeline-stage 4 "
        "--no-overlap-p2p-communication",
        "--world-size 64 --pipeline-model-parallel-size 8 --micro-batch-size 2 --global-batch-size "
        "128",
        "--world-size 16 --pipeline-model-parallel-size 16 --micro-batch-size 2 "
        "--global-batch-size 128",
        "--world-size 16 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
        "--micro-batch-size 1 --global-batch-size 64",
        "--world-size 64 --zero-stage 2 --micro-batch-size 1 --global-batch-size 128",
        "--world-size 64 --zero-stage 3 --micro-batch-size 1 --global-batch-size 128",
    };
    const struct tr_sim_fabric fabric = {0};
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    for (size_t i = 0; i < 2 * sizeof layouts / sizeof *layouts; i++) {
        struct both b;

        m.overlap = i % 2 == 0 ? 1.0 : 0.4;
        open_both(&m, layouts[i / 2], &fabric, NULL, 0, &b);
        print_message("# %s: %+.3f %% with an overlap of %g, %d of %d groups\n", layouts[i / 2],
                      100.0 * off(&b), m.overlap, b.few.units, b.whole.units);
        assert_true(fabs(off(&b)) < 0.01);
        assert_same(&b);
        assert_true(b.few.units <= b.whole.stages);
        close_both(&b);
    }
}

/*
 * Runs of two ranks, one thread each, that were measured on two idle cores of an Intel Xeon (family 6, model 207) on 2026-11-20,
 * ms, as benchmarks/README.md has them: `run pipeline`, schedules of 8 layers of 384 without the optimizer, and `run overlap`,
 * steps of two replicas of 8 layers of 256 over links of 3.43 Gbit/s.  The profile is of the same machine: GEMMs of 1024
 * columns at 158 GFLOP/s on a core, less what they wait for memory; 32 bytes for each of 124 M parameters in 91 ms on two cores,
 * AdamW and the norm; attention as `run ops` has it (the least times of 2026-11-28), forward and backward 1.95 ms for 4
 * samples of 64 tokens and 12 heads of 64.
 *
 * And steps of two tensor ranks, the same 8 layers of 256, over links of 8.59 Gbit/s, of `run overlap` on two idle cores of an
 * AMD EPYC on 2026-11-23.  GEMMs at 221 GFLOP/s on a core (family 26, the same day), AdamW's 28 bytes for each of 64 M parameters in
 * 48 ms on two cores; attention as above, since it was not measured there.
 *
 * No number is fitted to these runs, and all are within 15 %.
 */
static void recorded_runs(void **state)
{
#define SMALL                                                                     \
    "--world-size 2 --vocab-size 256 --tokenizer-type NullTokenizer --mock-data " \
    "--micro-batch-size 4 --attention-dropout 0 --hidden-dropout 0 --num-layers 8 "
#define STAGES                                                                      \
    SMALL "--hidden-size 384 --num-attention-heads 6 --max-position-embeddings 64 " \
          "--seq-length 64 --pipeline-model-parallel-size 2 "
#define REPLICAS                                                                     \
    SMALL "--hidden-size 256 --num-attention-heads 4 --max-position-embeddings 128 " \
          "--seq-length 128 --global-batch-size 8 --ddp-bucket-size 250000 "
#define TENSOR                                                                       \
    SMALL "--hidden-size 256 --num-attention-heads 4 --max-position-embeddings 128 " \
          "--seq-length 128 --global-batch-size 4 --tensor-model-parallel-size 2 "
    enum { XEON, EPYC };
    enum { PASSES, STEP }; /* without the optimizer; with it */
    static const struct {
        const char *options;
        double ms;
        int machine, what;
    } run[] = {
        {STAGES "--global-batch-size 16", 455.6, XEON, PASSES},
        {STAGES "--global-batch-size 32", 786.0, XEON, PASSES},
        {STAGES "--global-batch-size 64", 1500.0, XEON, PASSES},
        {STAGES "--global-batch-size 128", 2871.8, XEON, PASSES},
        {STAGES "--global-batch-size 32 --pipeline-schedule gpipe", 786.5, XEON, PASSES},
        {STAGES "--global-batch-size 32 --num-layers-per-virtual-pipeline-stage 2 "
                "--no-overlap-p2p-communication",
         746.9, XEON, PASSES},
        {STAGES "--global-batch-size 32 --num-layers-per-virtual-pipeline-stage 2", 758.9, XEON,
         PASSES},
        {REPLICAS "--no-overlap-grad-reduce", 261.8, XEON, STEP},
        {REPLICAS "--overlap-grad-reduce", 203.8, XEON, STEP},
        {REPLICAS "--no-overlap-grad-reduce --use-distributed-optimizer", 244.7, XEON, STEP},
        {REPLICAS "--overlap-grad-reduce --use-distributed-optimizer", 225.7, XEON, STEP},
        {REPLICAS "--overlap-grad-reduce --use-distributed-optimizer --overlap-param-gather", 199.7,
         XEON, STEP},
        {TENSOR "--no-async-tensor-model-parallel-allreduce", 81.6, EPYC, STEP},
        {TENSOR, 75.5, EPYC, STEP},
        {TENSOR "--sequence-parallel --no-async-tensor-model-parallel-allreduce", 90.2, EPYC, STEP},
        {TENSOR "--sequence-parallel", 81.9, EPYC, STEP},
    };
    struct tr_machine machine[] = {
        [XEON] = {.peak_fp32 = 0.165, .stream = 22.0, .node_link = 3.43 / 8.0},
        [EPYC] = {.peak_fp32 = 0.2375, .stream = 18.7, .node_link = 8.59 / 8.0},
    };
    const struct tr_sim_fabric fabric = {0};

    (void)state;
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        struct tr_machine *m = &machine[run[i].machine];
        struct both b;
        double ms;

        m->gpus_per_node = 2;
        m->peak_fp16 = m->peak_fp32;
        m->gemm = 1.0;
        m->optimizer_bytes = 32.0;
        m->attention_passes = 5.1;
        m->net_link = m->node_link;
        m->overlap = 1.0; /* slow links wait for no core */
        plan_of(m, run[i].options, "", &b.c, &b.p);
        open_world(&fabric, NULL, 0, &b);
        ms = 1e3 *
             (b.all.seconds - (run[i].what == PASSES ? b.all.spent[0][TR_SIM_OPTIMIZER] : 0.0));
        print_message("# %s: %.1f ms simulated, %.1f measured, %+.1f %%\n",
                      strstr(run[i].options, "--hidden-size"), ms, run[i].ms,
                      100.0 * (ms / run[i].ms - 1.0));
        assert_true(fabs(ms / run[i].ms - 1.0) < 0.15);
        close_both(&b);
    }
}

/* Where messages take no time and gradients travel after the passes, the schedule is all that there is: rounding. */
static void without_messages(void **state)
{
    static const char *const layouts[] = {
        "--pipeline-model-parallel-size 8 --no-overlap-p2p-communication",
        "--pipeline-model-parallel-size 4 --pipeline-schedule gpipe",
        "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
        "--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2",
        "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1",
    };
    const struct tr_sim_fabric fabric = {0};
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    m.net_link = m.node_link = 1e9;
    m.net_us = m.node_us = 0.0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char options[512];
        struct both b;

        snprintf(options, sizeof options,
                 "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 "
                 "--global-batch-size 64 --no-overlap-grad-reduce %s",
                 layouts[i]);
        open_both(&m, options, &fabric, NULL, 0, &b);
        print_message("# %s: %+.3g\n", layouts[i], off(&b));
        /* Stages have other numbers of parameters; the plan takes the largest for the optimizer. */
        assert_true(fabs(off(&b)) < 1e-6);
        close_both(&b);
    }
}

/*
 * Where all stages are alike zb-h1 waits (P - 1) (T_F + T_B - T_W) (Qi et al., ICLR 2024, table 2), and 1f1b
 * (P - 1) (T_F + T_B + T_W).  The embedding and the head of a small vocabulary make the ends of this model longer by
 * less than one percent; 3 % is what is left for them.
 */
static void zero_bubble(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    m.net_link = m.node_link = 1e9;
    m.net_us = m.node_us = 0.0;
    for (int p = 2; p <= 8; p *= 2) {
        char options[512];
        struct tr_cost_chunk c;
        struct tr_cost x;
        double waits;
        struct both b;

        snprintf(options, sizeof options,
                 "--world-size %d "
                 "--pipeline-model-parallel-size %d --micro-batch-size 1 --global-batch-size 64 "
                 "--pipeline-schedule zb-h1",
                 p, p);
        plan_of(&m, LAYERS "--vocab-size 1000 ", options, &b.c, &b.p);
        open_world(&fabric, NULL, 0, &b);
        assert_true(fabs(off(&b)) < 1e-6);
        assert_same(&b);
        tr_cost_init(&x, &b.p.shape, &b.p.machine);
        c = tr_cost_chunk(&x, p / 2, 0);
        assert_true(c.weights > 0.25 * c.forward && c.weights < c.backward);
        waits = (p - 1) * (c.forward + c.backward - c.weights);
        print_message("# P %d: waits %.3f ms, the formula says %.3f\n", p, 1e3 * b.p.time.bubble,
                      1e3 * waits);
        assert_true(fabs(b.p.time.bubble / waits - 1.0) < 0.03);
        close_both(&b);
    }
}

/*
 * zb-v waits (P - 1) T_B of a chunk where stages are alike and B takes longest (tests/golden/zero_bubble_v.txt has such
 * times).  Here the first stage has embedding and head besides, and the others wait for it: its own waits are by up
 * to a seventh fewer.
 */
static void vee(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    m.net_link = m.node_link = 1e9;
    m.net_us = m.node_us = 0.0;
    for (int p = 2; p <= 8; p *= 2) {
        struct tr_plan_time estimate;
        struct tr_cost_chunk c;
        char options[512];
        struct tr_cost x;
        struct both b;

        snprintf(options, sizeof options,
                 "--world-size %d "
                 "--pipeline-model-parallel-size %d --micro-batch-size 1 --global-batch-size 64 "
                 "--pipeline-schedule zb-v",
                 p, p);
        plan_of(&m, LAYERS "--vocab-size 1000 ", options, &b.c, &b.p);
        open_world(&fabric, NULL, 0, &b);
        assert_true(fabs(off(&b)) < 1e-6);
        assert_same(&b);
        tr_cost_init(&x, &b.p.shape, &b.p.machine);
        c = tr_cost_chunk(&x, p - 1, 0);
        estimate = tr_plan_time_of(&b.c, &b.p.shape, &b.p.machine, 1, false);
        print_message("# P %d: waits %.3f ms, the formula says %.3f, the estimate %.3f\n", p,
                      1e3 * b.p.time.bubble, 1e3 * (p - 1) * c.backward, 1e3 * estimate.bubble);
        assert_true(c.backward > c.forward && c.forward > c.weights);
        assert_true(b.p.time.bubble < (p - 1) * c.backward);
        assert_true(b.p.time.bubble > 0.85 * (p - 1) * c.backward);
        assert_true(fabs(estimate.bubble / ((p - 1) * c.backward) - 1.0) < 0.03);
        close_both(&b);
    }
}

/* Two stages pay for each message as the plan does, here with a latency of some hundredths of a pass. */
static void with_messages(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    struct tr_machine m;
    struct both b;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    m.net_us = 2000.0;
    open_both(&m,
              "--world-size 16 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 "
              "--micro-batch-size 1 --global-batch-size 16",
              &fabric, NULL, 0, &b);
    print_message("# transfer %.4f of %.4f s, %+.3g\n", b.p.time.transfer, b.p.time.total, off(&b));
    assert_true(b.p.time.transfer > 0.02 * b.p.time.total);
    assert_true(fabs(off(&b)) < 1e-6);
    close_both(&b);
}

#define RING                                                                                    \
    "--world-size 128 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size " \
    "64 --no-overlap-grad-reduce "

/*
 * A ring through 16 nodes leaves each of 4 leaf switches once for each of 8 tensor ranks, at the rate of a GPU.  So 32
 * GPUs may be oversubscribed 4 times without loss, 8 times takes twice as long, 20 times five times.
 */
static void oversubscribed(void **state)
{
    static const double over[] = {1.0, 4.0, 8.0, 20.0}, slower[] = {1.0, 1.0, 2.0, 5.0};
    double seconds[4];
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    for (int i = 0; i < 4; i++) {
        const struct tr_sim_fabric fabric = {.leaf_nodes = 4, .leaf_over = over[i]};
        struct both b;

        open_both(&m, RING, &fabric, NULL, 0, &b);
        assert_same(&b);
        seconds[i] = b.all.spent[0][TR_SIM_REDUCE];
        assert_true(fabs(seconds[i] / (slower[i] * seconds[0]) - 1.0) < 1e-9);
        for (int l = 0; l < b.whole.net.links; l++) {
            const struct tr_net_link *x = &b.whole.net.link[l];

            if (x->kind == TR_NET_LEAF) /* busy all the time of the reduction, if it is the limit */
                assert_true(fabs(x->bytes / x->capacity / seconds[i] - (i > 0 ? 1.0 : 0.25)) <
                            1e-9);
        }
        close_both(&b);
    }
}

/* A rank at half the speed: its replica computes for twice as long, and all others wait for it. */
static void straggler(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    const struct tr_sim_speed slow = {37, 37, 2.0};
    double compute, seconds;
    struct tr_machine m;
    struct both b;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    open_both(&m, RING, &fabric, NULL, 0, &b);
    compute = b.all.spent[0][TR_SIM_COMPUTE];
    seconds = b.all.seconds;
    close_both(&b);
    open_both(&m, RING, &fabric, &slow, 1, &b);
    assert_same(&b);
    assert_int_equal(b.few.units, 2);
    assert_true(fabs(b.all.seconds - seconds - compute) < 1e-9);
    assert_true(fabs(b.all.spent[0][TR_SIM_SLOWER] - compute) < 1e-9);
    /* Of the 8 tensor ranks of its group one computes, and 7 wait, so the mean is an eighth. */
    assert_true(fabs(b.all.spent[4][TR_SIM_COMPUTE] - compute * 9.0 / 8.0) < 1e-9);
    assert_true(b.all.spent[4][TR_SIM_SLOWER] < 1e-9);
    close_both(&b);
}

/* Groups whose ranks take as long on average, but whose slowest do not, are not alike. */
static void same_mean(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    const struct tr_sim_speed slow[] = {{0, 0, 2.0}, {8, 9, 1.5}};
    struct tr_machine m;
    struct both b;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    open_both(&m, RING, &fabric, slow, 2, &b);
    assert_true(b.whole.unit[0].mean >= b.whole.unit[1].mean &&
                b.whole.unit[0].mean <= b.whole.unit[1].mean);
    assert_int_equal(b.few.units, 3);
    assert_same(&b);
    close_both(&b);
}

/* Ranks that are not alike: some slow ones, and switches that replicas share unevenly. */
static void alike(void **state)
{
    static const struct tr_sim_speed slow[] = {{3, 3, 1.1}, {20, 35, 1.3}, {100, 100, 1.01}};
    static const struct tr_sim_fabric fabric[] = {
        {.leaf_nodes = 3, .leaf_over = 5.0},
        {.leaf_nodes = 2, .leaf_over = 3.0, .spine_leaves = 2, .spine_over = 4.0},
        {.rail = 3.0},
    };
    static const char *const layouts[] = {
        "--world-size 128 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 ",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--num-layers-per-virtual-pipeline-stage 3 ",
        "--world-size 128 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 "
        "--use-tp-pp-dp-mapping ",
    };
    struct tr_machine m;
    int fewer = 0;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    for (int i = 0; i < 9; i++) {
        char options[256];
        struct both b;

        snprintf(options, sizeof options, "%s--micro-batch-size 1 --global-batch-size 128",
                 layouts[i % 3]);
        open_both(&m, options, &fabric[i / 3], slow, 3, &b);
        print_message("# %s: %.4f s, %d of %d groups, %lld of %lld events\n", layouts[i % 3],
                      b.all.seconds, b.few.units, b.whole.units, (long long)b.alike.events,
                      (long long)b.all.events);
        fewer += b.few.units < b.whole.units;
        assert_same(&b);
        close_both(&b);
    }
    assert_true(fewer > 0);
}

/* A hundred thousand ranks are as many groups as there are stages. */
static void many(void **state)
{
    const struct tr_sim_fabric fabric = {.leaf_nodes = 125, .leaf_over = 1.0};
    struct tr_machine m;
    struct tr_sim_world whole, few;
    struct tr_sim_result r;
    struct tr_config c;
    struct tr_plan p;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    plan_on(&m,
            "--world-size 100000 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 10 "
            "--num-layers 50 --micro-batch-size 1 --global-batch-size 40000",
            &c, &p);
    tr_sim_world_open(&p, &(struct tr_sim_like){.fabric = fabric}, &whole);
    tr_sim_classes(&whole, &few);
    tr_sim_run(&few, &(struct tr_sim_how){0}, &r);
    print_message("# %d groups of %d, %.4f s, planned %.4f\n", few.units, whole.units, r.seconds,
                  p.time.total);
    assert_int_equal(whole.units, 12500);
    assert_true(few.units < 100);
    assert_true(fabs(r.seconds / p.time.total - 1.0) < 0.01);
    tr_sim_result_release(&r);
    tr_sim_world_release(&few);
    tr_sim_world_release(&whole);
    tr_plan_release(&p);
    tr_config_release(&c);
}

/* Draws are those of their numbers: the mean of the logarithm of compute is near 0, and a step of many ranks, which wait
   for the slowest, is longer than that of the plan. */
static void jitter(void **state)
{
    const struct tr_sim_fabric fabric = {0};
    struct tr_sim_how how = {.jitter = 0.1, .seed = 7};
    struct tr_machine m;
    struct tr_sim_world whole;
    struct tr_sim_result r, again;
    struct tr_config c;
    struct tr_plan p;
    double mean = 0.0;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    plan_on(&m, RING, &c, &p);
    tr_sim_world_open(&p, &(struct tr_sim_like){.fabric = fabric}, &whole);
    tr_sim_run(&whole, &how, &r);
    tr_sim_run(&whole, &how, &again);
    assert_memory_equal(&r.seconds, &again.seconds, sizeof r.seconds);
    assert_true(r.seconds > 1.1 * p.time.total);
    for (int i = 0; i < whole.units; i++)
        mean += r.spent[i][TR_SIM_COMPUTE] / whole.units;
    /* exp(0.1^2 / 2); 1024 draws have a deviation of 0.1 / 32 of their mean, of which this is five. */
    assert_true(fabs(mean / p.time.compute - exp(0.005)) < 0.016);
    tr_sim_result_release(&again);
    how.draw = 1;
    tr_sim_run(&whole, &how, &again);
    assert_true(again.seconds < r.seconds || again.seconds > r.seconds);
    tr_sim_result_release(&again);
    tr_sim_result_release(&r);
    tr_sim_world_release(&whole);
    tr_plan_release(&p);
    tr_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_planned),
        cmocka_unit_test(recorded_runs),
        cmocka_unit_test(without_messages),
        cmocka_unit_test(oversubscribed),
        cmocka_unit_test(straggler),
        cmocka_unit_test(alike),
        cmocka_unit_test(many),
        cmocka_unit_test(with_messages),
        cmocka_unit_test(same_mean),
        cmocka_unit_test(jitter),
        cmocka_unit_test(zero_bubble),
        cmocka_unit_test(vee),
    };

    profiles();
    return run_tap(tests);
}
