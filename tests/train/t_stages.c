/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <string.h>

/*
 * Stages as the options spell them, and ranks in either order.  Losses are those of one stage, of the
 * same batch, to 1e-6: sums are taken in another order, and a layer that is missing, twice there or in another
 * place shows at 1e-2.  In the other order of ranks each sum has the same terms in the same order,
 * so no bit differs, as long as no sum is taken node by node.
 */
enum { ITERATIONS = 3, LOSSES = ITERATIONS + 1 };
#define TOLERANCE 1e-6
#define MODEL                                                                          \
    "--hidden-size 16 --num-attention-heads 4 --seq-length 16 "                        \
    "--max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 8 "   \
    "--micro-batch-size 1 --lr 0.001 --lr-decay-style constant --init-method-std 0.1 " \
    "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 "

static void losses_of(const char *options, double loss[LOSSES], char list[TR_LAYOUT_TEXT])
{
    char *all = tr_format(MODEL "--train-iters %d %s", ITERATIONS, options);
    struct tr_config c;
    struct tr_run r;

    tiny_open(&r, &c, all, tiny_sample);
    tr_layout_list(&r.shape.layout, list);
    for (int i = 0; i < ITERATIONS; i++) {
        struct tr_step_result result;

        tr_step(&r, &result);
        loss[i] = tiny_loss(result.loss);
    }
    loss[ITERATIONS] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 3, 2));
    tiny_close(&r, &c);
    free(all);
}

static void assert_close(const double loss[LOSSES], const double one[LOSSES], const char *what)
{
    double worst = 0.0;

    for (int i = 0; i < LOSSES; i++)
        worst = fmax(worst, fabs(loss[i] / one[i] - 1.0));
    print_message("%s: losses %.6f ... %.6f, off by %.1e\n", what, loss[0], loss[ITERATIONS],
                  worst);
    assert_all(worst <= TOLERANCE && one[ITERATIONS - 1] < one[0]);
}

/* The layouts of AC-SGD and of the 76B model, and strings of Megatron-Core with several chunks. */
static void layouts(void **state)
{
    static const struct {
        int ranks;
        const char *model, *stages, *list;
    } cases[] = {
        {8, "--num-layers 48",
         "--pipeline-model-parallel-size 8 --pipeline-model-parallel-layout 6,6,6,6,7,7,7,3",
         "6*4,7*3,3"},
        {8, "--num-layers 13", "--pipeline-model-parallel-size 8", "1*2,2*5,1"},
        {8, "--num-layers 9",
         "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
         "--sequence-parallel --checkpoint-activations",
         "2*2,3,2"},
        {8, "--num-layers 8",
         "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout E|tt|tt|(t|)*4L",
         "0,2*2,1*4,0"},
        {8, "--num-layers 10",
         "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|(ttt|)*2t*3L "
         "--tensor-model-parallel-size 2 --use-distributed-optimizer --use-tp-pp-dp-mapping",
         "1,3*3"},
        {32, "--num-layers 60", "--pipeline-model-parallel-size 32", "1*3,2*28,1"},
    };
    const char *model = "";
    double one[LOSSES], loss[LOSSES];
    char list[TR_LAYOUT_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *options = tr_format("--global-batch-size %d %s %s", cases[i].ranks, cases[i].model,
                                  cases[i].stages);

        if (cases[i].ranks == world.size) {
            char *alone = tr_format("--global-batch-size %d %s", cases[i].ranks, cases[i].model);

            if (strcmp(model, cases[i].model) != 0)
                losses_of(alone, one, list);
            model = cases[i].model;
            losses_of(options, loss, list);
            assert_all(strcmp(list, cases[i].list) == 0);
            assert_close(loss, one, cases[i].stages);
            free(alone);
        }
        free(options);
    }
}

static void orders(void **state)
{
    static const char *const ways[] = {
        "--num-layers 4 --pipeline-model-parallel-size 4",
        "--num-layers 4 --pipeline-model-parallel-size 2 --use-distributed-optimizer "
        "--overlap-param-gather",
        "--num-layers 4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
        "--tensor-model-parallel-size 2 --sequence-parallel --bf16",
        "--num-layers 5 --pipeline-model-parallel-size 4 --fp16 --loss-scale 128 "
        "--forward-compress-method fixpoint --forward-bits 6",
    };
    double loss[2][LOSSES];
    char list[TR_LAYOUT_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && world.size == 8; i++) {
        char *plain = tr_format("--global-batch-size 16 %s", ways[i]);
        char *inside = tr_format("%s --use-tp-pp-dp-mapping", plain);

        losses_of(plain, loss[0], list);
        losses_of(inside, loss[1], list);
        print_message("%s: losses %.9f ... %.9f\n", inside, loss[1][0], loss[1][ITERATIONS]);
        assert_all(memcmp(loss[0], loss[1], sizeof loss[0]) == 0);
        free(inside);
        free(plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts), cmocka_unit_test(orders)};

    return run_mpi_tap(tests);
}
