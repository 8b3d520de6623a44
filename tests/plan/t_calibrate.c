/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan/calibrate.h"
#include "plan/plan_parts.h"
#include "plan/profiles.h"

/*
 * Profiles from runs whose times were made with known constants, 2 % of noise on them: the constants come back, those
 * that no run says stay, and what is promised for further runs holds.
 */
#define MODEL "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 --fp16 "

static const char *const shapes[] = {
    MODEL "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --world-size 8 "
          "--micro-batch-size 8 --global-batch-size 256 --no-overlap-grad-reduce",
    MODEL "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --world-size 64 "
          "--micro-batch-size 1 --global-batch-size 64 --no-overlap-grad-reduce",
    MODEL "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --world-size 32 "
          "--tensor-model-parallel-size 8 --micro-batch-size 4 --global-batch-size 64",
    MODEL "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --world-size 8 "
          "--tensor-model-parallel-size 8 --micro-batch-size 4 --global-batch-size 64",
    MODEL "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --world-size 32 "
          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 2 "
          "--global-batch-size 128",
    MODEL "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --world-size 128 "
          "--tensor-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 64 "
          "--no-overlap-grad-reduce",
    MODEL "--num-layers 48 --hidden-size 6144 --num-attention-heads 48 --world-size 64 "
          "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 "
          "--global-batch-size 64 --checkpoint-activations",
    MODEL "--num-layers 48 --hidden-size 8192 --num-attention-heads 64 --world-size 64 "
          "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --micro-batch-size 1 "
          "--global-batch-size 32 --checkpoint-activations",
    MODEL "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --world-size 16 "
          "--micro-batch-size 1 --global-batch-size 16 --no-overlap-grad-reduce",
    MODEL "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --world-size 8 "
          "--tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64",
    MODEL "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --world-size 32 "
          "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --micro-batch-size 1 "
          "--global-batch-size 32 --use-distributed-optimizer --no-overlap-grad-reduce",
    MODEL "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --world-size 16 "
          "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 --micro-batch-size 4 "
          "--global-batch-size 128",
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct tr_machine profile; /* what is known before */
static struct tr_config config[SHAPES];

/* Between -1 and 1, always the same. */
static double draw(int which)
{
    uint32_t x = 2654435761u * (uint32_t)(which + 1);

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x / 2147483648.0 - 1.0;
}

/* Normally distributed: twelve of them. */
static double normal(int which)
{
    double sum = 0.0;

    for (int i = 0; i < 12; i++)
        sum += 0.5 * draw(12 * which + i);
    return sum;
}

static double planned(const struct tr_measured *r, const struct tr_machine *m)
{
    return tr_plan_time_of(&r->config, &r->shape, m, r->params, true).total;
}

/* Runs of the first `n` shapes on `truth`. */
static void run_on(const struct tr_machine *truth, int n, double noise, struct tr_measured *run)
{
    for (int i = 0; i < n; i++) {
        assert_ok(tr_measured_open(&config[i], &profile, shapes[i], 1.0, &run[i]));
        run[i].seconds = planned(&run[i], truth) * exp(noise * normal(i));
    }
}

static const struct tr_calibrated *constant(const struct tr_calibration *c, const char *key)
{
    int i = 0;

    while (i < c->constants - 1 && strcmp(c->constant[i].key, key) != 0)
        i++;
    return &c->constant[i];
}

static void is_near(const struct tr_calibration *c, const char *key, double truth)
{
    const struct tr_calibrated *x = constant(c, key);
    const double off = fabs(log(x->now / truth));

    print_message("# %s: %.4g, is %.4g, was %.4g; +-%.3f\n", key, x->now, truth, x->was, x->error);
    assert_true(x->fitted && off < 0.1 && off < 2.0 * x->error);
}

/* Constants that take most of the time come back within 10 %, and within two of the standard deviations that are said. */
static void recovers(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_machine truth = profile;
    struct tr_calibration c;

    (void)state;
    truth.gemm *= 0.7;
    truth.node_link *= 0.6;
    truth.net_link *= 0.5;
    run_on(&truth, SHAPES, 0.02, run);
    assert_ok(tr_calibrate(&profile, run, SHAPES, &c));
    assert_true(c.shapes == SHAPES && !c.scaled);
    is_near(&c, "gemm-efficiency", truth.gemm);
    is_near(&c, "intra-node-gbs", truth.node_link);
    is_near(&c, "inter-node-gbs", truth.net_link);
    print_message("# errors: %.3f before, %.3f, %.3f left out, %.3f to %.3f\n", c.error_was,
                  c.error_now, c.error_held, c.machine.time_low, c.machine.time_high);
    assert_true(c.error_was > 0.2 && c.error_now < 0.02 && c.error_held < 0.04);
    assert_true(c.error_now < c.error_held);
}

/* Inside one node nothing is said of the network: its constant is what it was, to the bit. */
static void keeps(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_machine truth = profile;
    struct tr_calibration c;
    int n = 0;

    (void)state;
    truth.gemm *= 0.7;
    truth.net_link *= 0.5;
    run_on(&truth, SHAPES, 0.02, run);
    for (int i = 0; i < SHAPES; i++)
        if (run[i].shape.layout.world <= profile.gpus_per_node)
            run[n++] = run[i];
    assert_int_equal(n, 3);
    assert_ok(tr_calibrate(&profile, run, n, &c));
    assert_false(constant(&c, "inter-node-gbs")->fitted);
    assert_memory_equal(&c.machine.net_link, &profile.net_link, sizeof c.machine.net_link);
    assert_true(constant(&c, "gemm-efficiency")->fitted);
    assert_true(fabs(c.machine.gemm / truth.gemm - 1.0) < 0.1);
}

/* Two shapes say one factor: the root of the product of measured over planned.  All times grow by it. */
static void scales(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_calibration c;

    (void)state;
    run_on(&profile, 3, 0.0, run);
    run[0].seconds *= 1.5;
    run[1].seconds *= 1.2;
    assert_ok(tr_calibrate(&profile, run, 2, &c));
    assert_true(c.scaled && fabs(c.factor / sqrt(1.5 * 1.2) - 1.0) < 1e-12);
    assert_true(isnan(c.error_held) && isnan(run[0].held) && c.machine.time_high <= 0.0);
    for (int i = 0; i < 3; i++) /* four digits of each constant */
        assert_true(fabs(planned(&run[i], &c.machine) / planned(&run[i], &profile) / c.factor -
                         1.0) < 1e-3);
    run[0].seconds *= 1e-3;
    run[1].seconds *= 1e-3;
    assert_ok(tr_calibrate(&profile, run, 2, &c));
    assert_true(c.machine.gemm >= 1.0 && c.machine.gemm <= 1.0);
    run[2] = run[1];
    assert_fails(TR_EDATA, "all 2 runs have one shape", tr_calibrate(&profile, &run[1], 2, &c));
    assert_fails(TR_EDATA, "there is no run", tr_calibrate(&profile, run, 0, &c));
    assert_ok(tr_calibrate(&profile, run, 1, &c));
    assert_true(c.scaled);
}

/* A day on which the network broke, three times as slow as others: the others decide. */
static void slow_day(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_machine truth = profile;
    struct tr_calibration c;

    (void)state;
    truth.gemm *= 0.8;
    run_on(&truth, SHAPES, 0.02, run);
    run[4].seconds *= 3.0;
    assert_ok(tr_calibrate(&profile, run, SHAPES, &c));
    assert_true(fabs(c.machine.gemm / truth.gemm - 1.0) < 0.1);
    assert_true(run[4].held < 0.5 * run[4].seconds);
    assert_true(c.machine.time_high > 2.5); /* the greatest of twelve, which nobody hides */
}

/* Runs that scatter by 15 % determine less than those that do by 2 %, say so, and promise less. */
static void scattered(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_calibration few, c;

    (void)state;
    run_on(&profile, SHAPES, 0.02, run);
    assert_ok(tr_calibrate(&profile, run, SHAPES, &few));
    run_on(&profile, SHAPES, 0.15, run);
    assert_ok(tr_calibrate(&profile, run, SHAPES, &c));
    for (int i = 0; i < c.constants; i++) {
        print_message("# %s: %.3f, %.3f\n", c.constant[i].key, few.constant[i].error,
                      c.constant[i].error);
        assert_true(c.constant[i].error >= 0.9 * few.constant[i].error);
    }
    assert_true(constant(&c, "gemm-efficiency")->error >
                2.0 * constant(&few, "gemm-efficiency")->error);
    assert_true(few.machine.time_high < 1.2 * few.machine.time_low);
    assert_true(c.machine.time_high > 1.3 * c.machine.time_low);
}

/* An optimizer's timer says what no total says. */
static void timers(void **state)
{
    struct tr_measured run[SHAPES];
    struct tr_machine truth = profile;
    struct tr_calibration c;

    (void)state;
    truth.optimizer_bytes *= 1.5;
    run_on(&truth, SHAPES, 0.02, run);
    assert_ok(tr_calibrate(&profile, run, SHAPES, &c));
    assert_false(constant(&c, "optimizer-bytes")->fitted);
    for (int i = 0; i < SHAPES; i++)
        run[i].optimizer =
            tr_plan_time_of(&run[i].config, &run[i].shape, &truth, run[i].params, true).optimizer;
    assert_ok(tr_calibrate(&profile, run, SHAPES, &c));
    assert_true(constant(&c, "optimizer-bytes")->fitted);
    /* It is bytes over memory-gbs that a timer says. */
    assert_true(
        fabs(c.machine.optimizer_bytes / c.machine.stream / (truth.optimizer_bytes / truth.stream) -
             1.0) < 0.05);
}

/*
 * The interval by hand, and what it promises: of many draws of n values and one more, the one more is inside in
 * eight of ten or more.  Four standard deviations of 3000 such draws are 2.9 points.
 */
static void intervals(void **state)
{
    double three[] = {1.0, -1.0, 0.0}, low, high;
    enum { DRAWS = 3000 };

    (void)state;
    tr_calibrate_interval(three, 3, &low, &high);
    assert_true(fabs(high - 1.886 * sqrt(4.0 / 3.0)) < 1e-12 && fabs(low + high) < 1e-12);
    for (int n = 3, seed = 0; n <= 20; n++) {
        int inside = 0;

        for (int k = 0; k < DRAWS; k++) {
            double x[20], next;

            for (int i = 0; i < n; i++)
                x[i] = normal(seed++);
            next = normal(seed++);
            tr_calibrate_interval(x, n, &low, &high);
            inside += next >= low && next <= high;
        }
        print_message("# %d values: %.1f %%\n", n, 100.0 * inside / DRAWS);
        assert_true(inside > (0.8 - 0.029) * DRAWS);
        assert_true(n < 9 || inside < ((n + 1.0 - 2 * ((n + 1) / 10)) / (n + 1) + 0.029) * DRAWS);
    }
}

/* Fitted on every other shape, the rest lies in what is promised: of six, one may be outside. */
static void covers(void **state)
{
    struct tr_measured run[SHAPES], half[SHAPES / 2];
    struct tr_machine truth = profile;
    struct tr_calibration c;
    int inside = 0;

    (void)state;
    truth.gemm *= 0.75;
    truth.node_link *= 0.7;
    run_on(&truth, SHAPES, 0.02, run);
    for (int i = 0; i < SHAPES / 2; i++)
        half[i] = run[2 * i];
    assert_ok(tr_calibrate(&profile, half, SHAPES / 2, &c));
    for (int i = 1; i < SHAPES; i += 2) {
        const double ratio = run[i].seconds / planned(&run[i], &c.machine);

        print_message("# %.3f in %.3f to %.3f\n", ratio, c.machine.time_low, c.machine.time_high);
        inside += ratio >= c.machine.time_low && ratio <= c.machine.time_high;
    }
    assert_true(inside >= SHAPES / 2 - 1);
    assert_true(c.machine.time_high < 1.5 * c.machine.time_low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recovers),  cmocka_unit_test(keeps),     cmocka_unit_test(scales),
        cmocka_unit_test(slow_day),  cmocka_unit_test(scattered), cmocka_unit_test(timers),
        cmocka_unit_test(intervals), cmocka_unit_test(covers),
    };

    profiles();
    if (tr_machine_find("a100-hdr4", &profile) != TR_OK)
        return 1;
    for (int i = 0; i < SHAPES; i++) {
        tr_config_init(&config[i]);
        if (tr_config_parse_text(&config[i], shapes[i]) != TR_OK)
            return 1;
    }
    return run_tap(tests);
}
