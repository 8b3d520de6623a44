/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/curve.h"

#include "optim/stat.h"

/*
 * --zero-stage 2 and 3: gradients and weights that are sharded over replicas train as those that are not.  Where
 * sums are the same, to the bit; where they are taken in another order, as close as that allows.  What a rank
 * holds is the closed form, and a checkpoint of one stage is resumed in another.
 */
enum { ITERATIONS = 5, HIDDEN = 32, LAYERS = 4, VOCAB = 104, POSITIONS = 20 };

/* Losses of a stage, "" for none. */
static void stage_of(const char *layout, const char *stage, struct curve *out)
{
    char options[512];

    snprintf(options, sizeof options, "%s %s", layout, stage);
    curve_of(ITERATIONS, options, out);
}

/* One micro-batch in a step, so that sums over replicas are all there are.  Without a norm, which is summed in the
   order of what ranks own; with two replicas an all-reduce adds the same two numbers. */
static void same_bits(void **state)
{
    static const char *const layouts[] = {
        "",
        "--tensor-model-parallel-size 2",
        "--pipeline-model-parallel-size 2",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16",
        ("--tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
         "--recompute-num-layers 2"),
        "--no-overlap-grad-reduce --untie-embeddings-and-output-weights --swiglu",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char layout[300];
        struct curve loss[5];
        const int w = strstr(layouts[i], "--tensor") ? 2 : 1;
        const int p = strstr(layouts[i], "--pipeline") ? 2 : 1, d = (int)world.size / w / p;

        if (d < 2)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d --clip-grad 0 %s", d, layouts[i]);
        stage_of(layout, "--zero-stage 0", &loss[0]);
        stage_of(layout, "--use-distributed-optimizer", &loss[1]);
        stage_of(layout, "--zero-stage 2", &loss[2]);
        stage_of(layout, "--zero-stage 3", &loss[3]);
        if (!strstr(layout, "--no-overlap"))
            stage_of(layout, "--zero-stage 2 --overlap-param-gather", &loss[4]);
        else
            loss[4] = loss[2];
        print_message("%s: off by %.1e, %.1e, %.1e\n", layout, curve_apart(&loss[0], &loss[1]),
                      curve_apart(&loss[1], &loss[2]), curve_apart(&loss[1], &loss[3]));
        assert_all(curve_same(&loss[1], &loss[2]));
        assert_all(curve_same(&loss[1], &loss[3]));
        assert_all(curve_same(&loss[1], &loss[4]));
        assert_all(d > 2 || curve_same(&loss[0], &loss[3]));
        assert_all(curve_apart(&loss[0], &loss[3]) <= (strstr(layouts[i], "bf16") ? 1e-3 : 1e-5));
        assert_all(fabs(loss[3].loss[4] - loss[3].loss[0]) > 1e-3);
    }
}

/* Several micro-batches, whose sums are rounded in another order, in every layout.  Stages 2 and 3 do the same
   sums, to the bit. */
static void close_losses(void **state)
{
    static const struct {
        const char *layout;
        double tolerance;
    } cases[] = {
        {"--clip-grad 0.5", 1e-5},
        {"--tensor-model-parallel-size 2 --sequence-parallel --clip-grad 0.5", 1e-5},
        {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", 1e-5},
        {"--pipeline-model-parallel-size 2 --bf16 --recompute-granularity full "
         "--recompute-method block --recompute-num-layers 1",
         1e-3},
        {"--fp16 --initial-loss-scale 1e6 --tensor-model-parallel-size 2", 1e-3},
        {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --clip-grad 0.5", 1e-5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct curve loss[3];
        char layout[300];

        if (strstr(cases[i].layout, "2 --pipeline") && world.size < 8)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * (int)world.size,
                 cases[i].layout);
        stage_of(layout, "", &loss[0]);
        stage_of(layout, "--zero-stage 2", &loss[1]);
        stage_of(layout, "--zero-stage 3", &loss[2]);
        print_message("%s: off by %.1e\n", layout, curve_apart(&loss[0], &loss[1]));
        assert_all(curve_apart(&loss[0], &loss[1]) <= cases[i].tolerance);
        assert_all(curve_same(&loss[1], &loss[2]));
    }
}

/* However many layers are gathered ahead, and with weights that are kept, the sums are the same; and gradients
   that are reduced once a step are summed as those of ZeRO-1. */
static void same_by_any_plan(void **state)
{
    static const char *const layouts[] = {
        "",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        ("--tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
         "--recompute-num-layers 2"),
    };
    static const char *const plans[] = {"--zero-prefetch-depth 0", "--zero-prefetch-depth 1",
                                        "--zero-prefetch-depth 2", "--zero-keep-weights"};

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct curve loss[2];
        char layout[300], how[80];

        if (i > 0 && world.size < 4)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * (int)world.size,
                 layouts[i]);
        stage_of(layout, "--zero-stage 3", &loss[0]);
        for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) {
            snprintf(how, sizeof how, "--zero-stage 3 %s", plans[k]);
            stage_of(layout, how, &loss[1]);
            assert_all(curve_same(&loss[0], &loss[1]));
        }
        stage_of(layout, "--zero-stage 1 --clip-grad 0", &loss[0]);
        stage_of(layout, "--zero-stage 3 --zero-reduce-once --clip-grad 0", &loss[1]);
        assert_all(curve_same(&loss[0], &loss[1]));
    }
}

/* Several copies of what is sharded: the sums inside a group and then between groups, in each stage and layout
   close to those of all-reduce, and the same for all stages where micro-batches are summed in one order. */
static void hybrid(void **state)
{
    static const char *const layouts[] = {
        "--clip-grad 0.5",
        "--tensor-model-parallel-size 2 --sequence-parallel",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        "--fp16 --initial-loss-scale 1e6",
    };
    static const char *const stages[] = {"--zero-stage 1", "--zero-stage 2", "--zero-stage 3",
                                         "--zero-stage 3 --zero-reduce-once"};

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const double tolerance = strstr(layouts[i], "fp16") ? 1e-3 : 1e-5;
        struct curve loss[5];
        char layout[300], how[100];

        if (world.size < (strstr(layouts[i], "parallel") ? 8 : 4))
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * (int)world.size,
                 layouts[i]);
        stage_of(layout, "", &loss[4]);
        for (int k = 0; k < 4; k++) {
            snprintf(how, sizeof how, "%s --zero-shard-size 2", stages[k]);
            stage_of(layout, how, &loss[k]);
            print_message("%s %s: off by %.1e\n", layout, how, curve_apart(&loss[4], &loss[k]));
            assert_all(curve_apart(&loss[4], &loss[k]) <= tolerance);
        }
        assert_all(curve_same(&loss[0], &loss[3]) && curve_same(&loss[1], &loss[2]));
    }
}

/* Weights and gradients of layers that lie with the host, on one replica or several: as those of the device, to the
   bit. */
static void offloaded(void **state)
{
    static const char *const layouts[] = {
        "--clip-grad 0.5",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        ("--fp16 --initial-loss-scale 1e6 --recompute-granularity full --recompute-method uniform "
         "--recompute-num-layers 2"),
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2",
    };
    static const char *const ways[] = {
        "--zero-stage 3 --offload-optimizer cpu",
        "--zero-stage 3 --offload-optimizer cpu --offload-param cpu",
        "--zero-stage 3 --offload-optimizer cpu --offload-param cpu --zero-prefetch-depth 0",
        "--zero-stage 3 --offload-optimizer cpu --offload-param cpu --zero-reduce-once",
    };

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const int w = strstr(layouts[i], "--tensor") ? 2 : 1;
        const int p = strstr(layouts[i], "--pipeline") ? 2 : 1, d = (int)world.size / w / p;
        const bool half = strstr(layouts[i], "bf16") || strstr(layouts[i], "fp16");
        struct curve loss[3];
        char layout[300];

        if (d < 1)
            continue;
        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * d * p, layouts[i]);
        stage_of(layout, "", &loss[0]);
        stage_of(layout, "--zero-stage 3", &loss[1]);
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            stage_of(layout, ways[k], &loss[2]);
            assert_all(curve_apart(&loss[0], &loss[2]) <= (half ? 1e-3 : 1e-5));
            /* Without replicas ZeRO alone shards nothing, and gradients are not written anew. */
            assert_all(d == 1 || strstr(ways[k], "once") || curve_same(&loss[1], &loss[2]));
        }
    }
}

/* Activations that lie with the host between forward and backward: the same bits in every layout and for layers of
   every form; windows and the rest are what the closed form says. */
static void activations(void **state)
{
    static const char *const layouts[] = {
        "--clip-grad 0.5",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16 --zero-stage 3",
        "--model-family llama3 --group-query-attention --num-query-groups 2",
        "--model-family gptj --pipeline-model-parallel-size 2",
        "--model-family opt-350m --word-embed-proj-dim 16",
    };
    static const char *const ways[] = {"--cpu-offloading --cpu-offloading-num-layers 1",
                                       "--cpu-offloading",
                                       ("--cpu-offloading --zero-stage 3 --offload-optimizer cpu "
                                        "--offload-param cpu --zero-reduce-once")};

    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct curve plain, hosted;
        char layout[300];

        snprintf(layout, sizeof layout, "--global-batch-size %d %s", 2 * (int)world.size,
                 layouts[i]);
        stage_of(layout, "", &plain);
        for (int k = 0; k < 2 + (i == 0); k++) {
            stage_of(layout, ways[k], &hosted);
            assert_all(k < 2 ? curve_same(&plain, &hosted) : curve_apart(&plain, &hosted) <= 1e-5);
        }
    }
}

/* Bytes of both places with all layers of a chunk offloaded and with one less, that of a layer being what the host
   has more: the device has three windows, and of each micro-batch the layer that stays and one input. */
static void activations_placed(void **state)
{
    int64_t device[3], host[3];

    (void)state;
    for (int n = 0; n < 3; n++) {
        char options[128] = "--global-batch-size 8";
        struct tr_config c;
        struct tr_run r;

        if (n > 0)
            snprintf(options, sizeof options,
                     "--global-batch-size 8 --cpu-offloading --cpu-offloading-num-layers %d",
                     LAYERS - 2 + n);
        curve_open(&r, &c, ITERATIONS, options);
        device[n] =
            (int64_t)(r.arena.bytes[TR_LABEL_ACTIVATIONS] + r.arena.bytes[TR_LABEL_SCRATCH]);
        host[n] = (int64_t)r.host.bytes[TR_LABEL_ACTIVATIONS];
        tiny_close(&r, &c);
    }
    assert_all(host[0] == 0 && host[1] > 0 && host[1] % (LAYERS - 1) == 0);
    assert_all(host[2] == host[1] / (LAYERS - 1) * LAYERS);
    assert_all(device[1] - device[2] == host[2] - host[1]);
    /* Of one micro-batch at a time three windows come and LAYERS - 1 layers go, but for the input of the first. */
    assert_all(device[0] - device[1] == host[1] - 3 * (host[2] - host[1]) - 16 * HIDDEN * 4);
}

/* Elements of a layer, and of all that is none, each with padding to a multiple of 64 for each replica. */
static int64_t padded(int64_t n)
{
    const int64_t unit = 64 * (int64_t)world.size;

    return (n + unit - 1) / unit * unit;
}

/* With D replicas, fp32: gradients are a D-th of all, two layers, and what is no layer; so are weights, but for
   masters, which are the D-th of them that a rank owns. */
static void memory(void **state)
{
    const int64_t h = HIDDEN, layer = padded(12 * h * h + 13 * h);
    const int64_t rest = padded(2 * h) + padded(POSITIONS * h) + padded(VOCAB * h);
    const int64_t all = LAYERS * layer + rest, owned = all / (int64_t)world.size;

    (void)state;
    for (int stage = 2; stage <= 3; stage++) {
        const int64_t values = stage == 3 ? 2 * layer + rest : all;
        const int64_t states = (stage == 3 ? 3 : 2) * owned;
        struct tr_config c;
        struct tr_run r, dry;

        curve_open(&r, &c, ITERATIONS,
                   stage == 2 ? "--global-batch-size 8 --zero-stage 2"
                              : "--global-batch-size 8 --zero-stage 3 --zero-prefetch-depth 1");
        assert_all(r.model.params.size == all && r.optim.owned == owned);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_GRADIENTS] == 4 * (owned + 2 * layer + rest));
        assert_all((int64_t)r.arena.bytes[TR_LABEL_WEIGHTS] == 4 * values);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] >= 4 * states);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] <= 4 * states + 1024);
        assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
        assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
        tr_run_close(&dry);
        tiny_close(&r, &c);
    }
}

/* With --offload-param, fp32: the device has windows and what is no layer, and the host what a rank owns, four
   times, gradients on their way, and tiles. */
static void places(void **state)
{
    const int64_t h = HIDDEN, layer = padded(12 * h * h + 13 * h);
    const int64_t rest = padded(2 * h) + padded(POSITIONS * h) + padded(VOCAB * h);
    const int64_t all = LAYERS * layer + rest, owned = all / (int64_t)world.size;
    const int64_t ways = padded(VOCAB * h) > layer ? padded(VOCAB * h) : layer;
    struct tr_config c;
    struct tr_run r, dry;

    (void)state;
    curve_open(&r, &c, ITERATIONS,
               "--global-batch-size 8 --zero-stage 3 --offload-optimizer cpu --offload-param cpu "
               "--zero-prefetch-depth 1");
    assert_all((int64_t)r.arena.bytes[TR_LABEL_GRADIENTS] == 4 * (2 * layer + rest));
    assert_all((int64_t)r.arena.bytes[TR_LABEL_WEIGHTS] == 4 * (2 * layer + rest));
    assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] <= 1024);
    assert_all((int64_t)r.host.bytes[TR_LABEL_GRADIENTS] ==
               4 * (owned + 2 * ways / (int64_t)world.size));
    assert_all((int64_t)r.host.bytes[TR_LABEL_OPTIMIZER] == 4 * 3 * owned);
    assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
    assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
    assert_all(memcmp(dry.host.bytes, r.host.bytes, sizeof dry.host.bytes) == 0);
    tr_run_close(&dry);
    tiny_close(&r, &c);
}

/* What the log says of weights and gradients: the norm of the former in another order, zeros to the number. */
static void numbers(void **state)
{
    double norm[4], zeros[4];

    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        struct tr_step_result result;
        char options[128];
        struct tr_config c;
        struct tr_run r;

        snprintf(options, sizeof options,
                 "--global-batch-size %d --tensor-model-parallel-size %d --zero-stage %d",
                 (int)world.size, world.size > 2 ? 2 : 1, stage);
        curve_open(&r, &c, ITERATIONS, options);
        r.count_zeros = true;
        tr_step(&r, &result);
        zeros[stage] = result.zeros;
        tr_dp_arrive(&r.dp);
        norm[stage] = tr_stat_params_norm(&r.optim, tr_dp_owners(&r.dp), &r.queue);
        tiny_close(&r, &c);
        assert_all(zeros[stage] == zeros[0] && zeros[0] > 0.0);
        assert_all(fabs(norm[stage] / norm[0] - 1.0) < 1e-6);
    }
}

/* Saved in one stage in the middle and resumed in the next. */
static void resumes(void **state)
{
    static const char *const how[] = {
        "--zero-stage 3",
        "--zero-stage 0",
        "--zero-stage 2",
        "--zero-stage 1",
        "--zero-stage 3",
        "--zero-stage 3 --offload-optimizer cpu --offload-param cpu",
        "--zero-stage 2 --offload-optimizer cpu",
        "--zero-stage 3 --zero-shard-size 2",
        "--zero-stage 0",
        "--zero-stage 1 --zero-shard-size 2",
        "--zero-stage 2 --zero-shard-size 2",
    };
    const int ways = world.size < 4 ? 7 : (int)(sizeof how / sizeof how[0]);
    struct curve whole, resumed;
    char options[2][128], layout[64];

    (void)state;
    snprintf(layout, sizeof layout, "--bf16 --global-batch-size %d", (int)world.size);
    stage_of(layout, "", &whole);
    for (int i = 0; i + 1 < ways; i++) {
        for (int k = 0; k < 2; k++)
            snprintf(options[k], sizeof options[k], "%s %s", layout, how[i + k]);
        curve_resumed(ITERATIONS, 3, options[0], options[1], &resumed);
        assert_all(curve_apart(&resumed, &whole) <= 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(close_losses),
        cmocka_unit_test(same_by_any_plan),
        cmocka_unit_test(hybrid),
        cmocka_unit_test(offloaded),
        cmocka_unit_test(activations),
        cmocka_unit_test(activations_placed),
        cmocka_unit_test(memory),
        cmocka_unit_test(places),
        cmocka_unit_test(numbers),
        cmocka_unit_test(resumes),
    };
    /* The others need no more ranks than four, and t_lossless has the losses of eight. */
    const struct CMUnitTest of_eight[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(hybrid),
        cmocka_unit_test(resumes),
    };
    const char *ranks = getenv("TR_TEST_RANKS");

    if (ranks && strcmp(ranks, "8") == 0 && !getenv("TR_TEST_ALL"))
        return run_mpi_tap(of_eight);
    return run_mpi_tap(tests);
}
