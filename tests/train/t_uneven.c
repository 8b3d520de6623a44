/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>

/*
 * What is not the same everywhere: stages of different sizes, and batches that grow.  Losses are those
 * of the same run in another layout; t_layouts says why 1e-5.
 */
enum { ITERATIONS = 7 };
#define TOLERANCE 1e-5
#define MODEL                                                                         \
    "--num-layers 8 --hidden-size 16 --num-attention-heads 4 --seq-length 16 "        \
    "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 " \
    "--micro-batch-size 1 --lr 0.003 --lr-decay-style cosine --init-method-std 0.1 "  \
    "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 "

static void assert_same(const double loss[ITERATIONS + 1], const double first[ITERATIONS + 1],
                        const char *what)
{
    double worst = 0.0;

    for (int i = 0; i <= ITERATIONS; i++)
        worst = fmax(worst, fabs(loss[i] / first[i] - 1.0));
    print_message("%s: losses %.6f ... %.6f, off by %.1e\n", what, loss[0], loss[ITERATIONS - 1],
                  worst);
    assert_all(worst <= TOLERANCE);
}

static void losses_of(const char *stages, double loss[ITERATIONS + 1])
{
    char options[2048];
    struct tr_config c;
    struct tr_run r;

    snprintf(options, sizeof options, MODEL "--global-batch-size 16 --train-iters %d %s",
             ITERATIONS, stages);
    tiny_open(&r, &c, options, tiny_sample);
    for (int i = 0; i < ITERATIONS; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss[i] = tiny_loss(result.loss);
    }
    loss[ITERATIONS] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 3, 2));
    tiny_close(&r, &c);
}

/* Stages that are not equal, and chunks of such stages. */
static void uneven_stages(void **state)
{
    static const char *const stages[] = {
        "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
        "--decoder-last-pipeline-num-layers 3",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
        "--decoder-last-pipeline-num-layers 2 --num-virtual-stages-per-pipeline-rank 2",
        "--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
        "--account-for-loss-in-pipeline-split --num-layers 6",
    };
    double first[ITERATIONS + 1], loss[ITERATIONS + 1];

    (void)state;
    losses_of("", first);
    for (int i = 0; i < 2; i++) {
        losses_of(stages[i], loss);
        assert_same(loss, first, stages[i]);
    }
    losses_of("--num-layers 6", first);
    losses_of(stages[2], loss);
    assert_same(loss, first, stages[2]);
}

/* The embedding and the head by themselves, as BLOOM's 70 layers on 72 stages would have it. */
static void no_layers(void **state)
{
    static const char *const stages[] = {
        "--pipeline-model-parallel-size 4",
        "--pipeline-model-parallel-size 4 --pipeline-schedule gpipe --checkpoint-activations",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
        ("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
         "--num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication"),
    };
    double first[ITERATIONS + 1], loss[ITERATIONS + 1];

    (void)state;
    losses_of("--num-layers 2", first);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        char options[512];

        snprintf(options, sizeof options,
                 "--num-layers 2 --account-for-embedding-in-pipeline-split "
                 "--account-for-loss-in-pipeline-split %s",
                 stages[i]);
        losses_of(options, loss);
        assert_same(loss, first, stages[i]);
    }
}

/* 8, 8, 8, 16, 24, 24, 24 samples: what the formula gives for two increments in 40. */
static void ramp_losses(const char *layout, double loss[ITERATIONS + 1])
{
    static const int64_t batch[ITERATIONS] = {8, 8, 8, 16, 24, 24, 24};
    char options[2048];
    struct tr_config c;
    struct tr_run r;
    int64_t samples = 0;
    size_t memory;

    snprintf(options, sizeof options,
             MODEL "--global-batch-size 24 --rampup-batch-size 8 8 40 --train-samples 112 "
                   "--lr-warmup-samples 20 %s",
             layout);
    tiny_open(&r, &c, options, tiny_sample);
    memory = r.arena.used_bytes;
    assert_all(r.shape.amounts.train_iters == ITERATIONS);
    for (int i = 0; i < ITERATIONS; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        samples += batch[i];
        assert_all(r.global_batch == batch[i] && r.micros == batch[i] / r.shape.layout.d);
        assert_all(r.consumed_train == samples && r.lr_samples == samples);
        loss[i] = tiny_loss(result.loss);
    }
    assert_all(r.arena.used_bytes == memory);
    loss[ITERATIONS] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 3, 2));
    tiny_close(&r, &c);
}

/* The batch grows while the run goes on, in all layouts alike. */
static void ramp(void **state)
{
    static const char *const layouts[] = {
        "--pipeline-model-parallel-size 2",
        ("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
         "--num-virtual-stages-per-pipeline-rank 2"),
        "--pipeline-model-parallel-size 4 --pipeline-schedule gpipe --no-overlap-grad-reduce",
    };
    double first[ITERATIONS + 1], loss[ITERATIONS + 1];

    (void)state;
    ramp_losses("", first);
    for (int i = 0; i < 3; i++) {
        ramp_losses(layouts[i], loss);
        assert_same(loss, first, layouts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(uneven_stages), cmocka_unit_test(no_layers),
                                       cmocka_unit_test(ramp)};

    return run_mpi_tap(tests);
}
