/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/curve.h"

/*
 * The distributed optimizer (ZeRO-1), with shards that split parameters anywhere, trains as
 * replicas that each hold all optimizer states: the same losses, in every layout and with each way
 * of gathering the weights, also across a checkpoint.  The sums of gradients and of the norm are
 * taken in another order, which is all that may differ.
 */
enum { ITERATIONS = 6 };

#define BATCH "--global-batch-size 8 --clip-grad 0.5 "

/* 1e-5 is what the order of sums may become in these steps, as in t_layouts; with bf16 weights one
   bit of a weight may round otherwise, 2^-9 of it. */
static void same_losses(void **state)
{
    static const struct {
        const char *layout, *how;
        double tolerance;
    } cases[] = {
        {"", "--ddp-bucket-size 3000", 1e-5},
        {"", "--ddp-bucket-size 3000 --overlap-param-gather", 1e-5},
        {"--tensor-model-parallel-size 2 --sequence-parallel", "--no-overlap-grad-reduce", 1e-5},
        {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
         "--ddp-bucket-size 500 --overlap-param-gather", 1e-5},
        {"--pipeline-model-parallel-size 2 --bf16", "--overlap-param-gather", 1e-3},
        {"--fp16 --initial-loss-scale 1e6 --tensor-model-parallel-size 2", "--overlap-param-gather",
         1e-3},
    };
    struct curve whole, shared;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char options[256];

        snprintf(options, sizeof options, BATCH "%s", cases[i].layout);
        curve_of(ITERATIONS, options, &whole);
        snprintf(options, sizeof options, BATCH "%s --use-distributed-optimizer %s",
                 cases[i].layout, cases[i].how);
        curve_of(ITERATIONS, options, &shared);
        print_message("%s: off by %.1e\n", options, curve_apart(&shared, &whole));
        assert_all(curve_apart(&shared, &whole) <= cases[i].tolerance);
        assert_all(whole.loss[ITERATIONS - 1] < 0.99 * whole.loss[0]);
    }
}

/* A replica holds its shard of the state and no more. */
static void shares(void **state)
{
    struct tr_config c;
    struct tr_run r;
    int64_t owned;

    (void)state;
    curve_open(&r, &c, ITERATIONS, BATCH "--use-distributed-optimizer --ddp-bucket-size 3000");
    owned = r.optim.owned;
    assert_all(owned * world.size == r.model.params.size);
    assert_all(tr_tensor_elems(&r.optim.state[TR_STATE_EXP_AVG]) == owned &&
               tr_tensor_elems(&r.optim.state[TR_STATE_EXP_AVG_SQ]) == owned);
    tiny_close(&r, &c);
    curve_open(&r, &c, ITERATIONS, BATCH);
    assert_all(r.optim.owned == r.model.params.size);
    tiny_close(&r, &c);
}

/* Saved one way in the middle and resumed the other way. */
static void resumes(void **state)
{
    static const char *const how[] = {
        BATCH,
        BATCH "--use-distributed-optimizer --ddp-bucket-size 3000 --overlap-param-gather",
    };
    struct curve whole, resumed;

    (void)state;
    curve_of(ITERATIONS, BATCH, &whole);
    for (int i = 0; i < 2; i++) {
        curve_resumed(ITERATIONS, 3, how[i], how[1 - i], &resumed);
        assert_all(curve_apart(&resumed, &whole) <= 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_losses),
        cmocka_unit_test(shares),
        cmocka_unit_test(resumes),
    };
    return run_mpi_tap(tests);
}
