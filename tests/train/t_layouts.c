/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The promise that nothing depends on the layout: for every factorisation of the world into W * P *
 * D, and interleaved where it can be, the losses of five iterations with dropout on are those of
 * the first layout.  Sums are taken in another order in each layout, so they differ by rounding;
 * 1e-5 is what ten steps of that may become, of which it sees five, and a single wrong dropout mask
 * or weight shows at 1e-2. A batch of 8 is as many micro-batches as eight stages with two chunks
 * each need; TR_TEST_ALL asks for twice as many.
 */
enum { ITERATIONS = 5, LAYERS = 16 };
#define TOLERANCE 1e-5

#define MODEL                                                                                \
    "--hidden-size 32 --num-attention-heads 8 --seq-length 16 --max-position-embeddings 20 " \
    "--vocab-size 101 --make-vocab-size-divisible-by 8 --micro-batch-size 1 --lr 0.003 "     \
    "--lr-decay-style cosine --init-method-std 0.1 --attention-dropout 0.1 "                 \
    "--hidden-dropout 0.1 --seed 4321 "

static void losses_of(int w, int p, int k, const char *more, double loss[ITERATIONS + 1])
{
    char options[2048], chunks[64] = "";
    struct tr_config c;
    struct tr_run r;

    if (k > 1)
        snprintf(chunks, sizeof chunks, "--num-virtual-stages-per-pipeline-rank %d", k);
    snprintf(options, sizeof options,
             MODEL "--num-layers %d --global-batch-size %d --train-iters %d --lr-warmup-iters 2 "
                   "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s %s",
             LAYERS, getenv("TR_TEST_ALL") ? 16 : 8, ITERATIONS, w, p, chunks, more);
    tiny_open(&r, &c, options, tiny_sample);
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

/* Tensor-parallel sums of the backward pass go on while gradients of weights are computed, or do
   not: no bit differs. */
static void overlap_is_exact(void **state)
{
    static const char *const ways[] = {"", "--bf16 --fp32-residual-connection --sequence-parallel"};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        double loss[2][ITERATIONS + 1];
        char more[128];

        snprintf(more, sizeof more, "%s --no-async-tensor-model-parallel-allreduce", ways[i]);
        losses_of(world.size / 2, 2, 1, ways[i], loss[0]);
        losses_of(world.size / 2, 2, 1, more, loss[1]);
        assert_all(memcmp(loss[0], loss[1], sizeof loss[0]) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_losses),
        cmocka_unit_test(overlap_is_exact),
    };

    return run_mpi_tap(tests);
}
