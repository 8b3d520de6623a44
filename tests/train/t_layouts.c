/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>

/*
 * The promise that nothing depends on the layout: for every factorisation of the world into W * P * D,
 * and interleaved where it can be, the losses of ten iterations with dropout on are those of the
 * first layout.  Sums are taken in another order in each layout, so they differ by rounding; 1e-5 is
 * what ten steps of that may become, and a single wrong dropout mask or weight shows at 1e-2.
 */
enum { ITERATIONS = 10, LAYERS = 16 };
#define TOLERANCE 1e-5

static enum tr_status hashed_sample(struct tr_run *r, enum tr_split split, int64_t position,
                                    int32_t *text)
{
    struct tr_rng rng = tr_rng_key(7, TR_STREAM_INIT, (int)split, position);

    /* Skewed, so that there is something to learn. */
    for (int64_t t = 0; t <= r->shape.seq; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)((double)r->shape.vocab * u * u);
    }
    return TR_OK;
}

#define MODEL                                                                                \
    "--hidden-size 32 --num-attention-heads 8 --seq-length 16 --max-position-embeddings 20 " \
    "--vocab-size 101 --make-vocab-size-divisible-by 8 --micro-batch-size 1 --lr 0.003 "     \
    "--lr-decay-style cosine --init-method-std 0.1 --attention-dropout 0.1 "                 \
    "--hidden-dropout 0.1 --seed 4321 "

static void losses_of(int w, int p, int k, const char *stages, double loss[ITERATIONS + 1])
{
    char options[2048], chunks[64] = "";
    struct tr_config c;
    struct tr_run r;

    if (k > 1)
        snprintf(chunks, sizeof chunks, "--num-virtual-stages-per-pipeline-rank %d", k);
    snprintf(options, sizeof options,
             MODEL "--num-layers %d --global-batch-size 16 --train-iters %d --lr-warmup-iters 2 "
                   "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s %s",
             LAYERS, ITERATIONS, w, p, chunks, stages);
    tiny_open(&r, &c, options, hashed_sample);
    for (int i = 0; i < ITERATIONS; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss[i] = tiny_loss(result.loss);
    }
    loss[ITERATIONS] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 3, 2));
    tiny_close(&r, &c);
}

static void same_losses(void **state)
{
    double first[ITERATIONS + 1], loss[ITERATIONS + 1];
    int layouts = 0;

    (void)state;
    for (int w = 1; w <= world.size; w++) {
        for (int p = 1; w * p <= world.size; p++) {
            for (int k = 1; k <= (p > 1 ? 2 : 1); k++) {
                double worst = 0.0;

                if (world.size % (w * p) != 0)
                    continue;
                losses_of(w, p, k, "", layouts == 0 ? first : loss);
                if (layouts++ == 0)
                    continue;
                for (int i = 0; i <= ITERATIONS; i++)
                    worst = fmax(worst, fabs(loss[i] / first[i] - 1.0));
                print_message("W=%d P=%d D=%d K=%d: losses %.6f ... %.6f, off by %.1e\n", w, p,
                              world.size / (w * p), k, loss[0], loss[ITERATIONS - 1], worst);
                assert_all(worst <= TOLERANCE);
            }
        }
    }
    /* The test would pass with a model that learns nothing and drops nothing. */
    assert_all(first[ITERATIONS - 1] < 0.98 * first[0]);
    assert_all(layouts == (world.size == 8 ? 16 : layouts));
}

/* Stages that are not equal, and chunks of such stages. */
static void uneven_stages(void **state)
{
    static const struct {
        int w, p, k;
        const char *stages;
    } cases[] = {
        {1, 4, 1, "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 5"},
        {2, 2, 2, "--decoder-last-pipeline-num-layers 2"},
        {1, 2, 3, "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"},
    };
    double first[ITERATIONS + 1], loss[ITERATIONS + 1];

    (void)state;
    losses_of(1, 1, 1, "", first);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double worst = 0.0;

        losses_of(cases[i].w, cases[i].p, cases[i].k, cases[i].stages, loss);
        for (int j = 0; j <= ITERATIONS; j++)
            worst = fmax(worst, fabs(loss[j] / first[j] - 1.0));
        print_message("W=%d P=%d K=%d %s: off by %.1e\n", cases[i].w, cases[i].p, cases[i].k,
                      cases[i].stages, worst);
        assert_all(worst <= TOLERANCE);
    }
}

enum { RAMP = 7 };

/* 8, 8, 8, 16, 24, 24, 24 samples: what the formula gives for two increments in 40. */
static void ramp_losses(const char *layout, double loss[RAMP + 1])
{
    static const int64_t batch[RAMP] = {8, 8, 8, 16, 24, 24, 24};
    char options[2048];
    struct tr_config c;
    struct tr_run r;
    int64_t samples = 0;
    size_t memory;

    snprintf(options, sizeof options,
             MODEL "--num-layers 8 --global-batch-size 24 --rampup-batch-size 8 8 40 "
                   "--train-samples 112 --lr-warmup-samples 20 %s",
             layout);
    tiny_open(&r, &c, options, hashed_sample);
    memory = r.arena.used_bytes;
    assert_all(r.shape.train_iters == RAMP);
    for (int i = 0; i < RAMP; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        samples += batch[i];
        assert_all(r.global_batch == batch[i] && r.micros == batch[i] / r.shape.d);
        assert_all(r.consumed_train == samples && r.lr_samples == samples);
        loss[i] = tiny_loss(result.loss);
    }
    assert_all(r.arena.used_bytes == memory);
    loss[RAMP] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 3, 2));
    tiny_close(&r, &c);
}

/* The batch grows while the run goes on, in all layouts alike. */
static void ramp(void **state)
{
    static const char *const layouts[] = {
        "--pipeline-model-parallel-size 2",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
        "--num-virtual-stages-per-pipeline-rank 2",
        "--pipeline-model-parallel-size 4 --pipeline-schedule gpipe --no-overlap-grad-reduce",
        "--tensor-model-parallel-size 8",
    };
    double first[RAMP + 1], loss[RAMP + 1];

    (void)state;
    ramp_losses("", first);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        double worst = 0.0;

        ramp_losses(layouts[i], loss);
        for (int j = 0; j <= RAMP; j++)
            worst = fmax(worst, fabs(loss[j] / first[j] - 1.0));
        print_message("ramp, %s: losses %.6f ... %.6f, off by %.1e\n", layouts[i], loss[0],
                      loss[RAMP - 1], worst);
        assert_all(worst <= TOLERANCE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_losses),
                                       cmocka_unit_test(uneven_stages), cmocka_unit_test(ramp)};

    return run_mpi_tap(tests);
}
