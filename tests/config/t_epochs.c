/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <string.h>

#include "config/shape.h"

/* 1003 samples of training and 101 of validation on 4 replicas, 3 * 8 of each in an iteration: 251
   and 250 for each replica, so 10 iterations in an epoch. */
static const char options[] =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 100 --tokenizer-type NullTokenizer --lr 0.1 "
    "--micro-batch-size 3 --global-batch-size 96 --n-epochs 7";
enum { WORLD = 4, TRAIN = 1003, VALID = 101 };

static enum tr_status shape_of(const char *more, bool counted, struct tr_shape *s)
{
    struct tr_config c;
    enum tr_status status;

    tr_config_init(&c);
    status = tr_config_parse_text(&c, options);
    if (status == TR_OK)
        status = tr_config_parse_text(&c, more);
    if (counted)
        c.blocks_known = (struct tr_blocks_known){true, {TRAIN, VALID, 0}};
    if (status == TR_OK)
        status = tr_shape_of(&c, WORLD, s);
    tr_config_release(&c);
    return status;
}

static void derived(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape_of("", true, &s));
    assert_int_equal(s.epochs.count, 7);
    assert_int_equal(s.epochs.blocks, TRAIN);
    assert_int_equal(s.epochs.samples, 10 * 96);
    assert_int_equal(s.amounts.train_iters, 70);
    assert_int_equal(s.amounts.train_samples, 70 * 96);
    /* A quarter of an epoch, and less than a twentieth of the run. */
    assert_int_equal(s.amounts.log_interval, 2);
    assert_int_equal(s.epochs.replicas, WORLD);
    assert_int_equal(s.epochs.seed, 1234);
    /* The decay is over the whole run, unless it is given in iterations. */
    assert_true(s.lr_schedule.decay_samples >= 6720.0 && s.lr_schedule.decay_samples <= 6720.0);
    assert_ok(shape_of("--lr-decay-iters 20 --lr-warmup-iters 5", true, &s));
    assert_true(s.lr_schedule.decay_samples >= 1920.0 && s.lr_schedule.decay_samples <= 1920.0);
    assert_true(s.lr_schedule.warmup_samples >= 480.0 && s.lr_schedule.warmup_samples <= 480.0);
    assert_ok(shape_of("--lr-warmup-fraction 0.1", true, &s));
    assert_true(s.lr_schedule.warmup_samples > 671.9 && s.lr_schedule.warmup_samples < 672.1);
}

/* Of a batch that is decreased, an iteration takes what remains. */
static void smaller_batch(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape_of("--global-batch-size 100 --decrease-batch-size-if-needed", true, &s));
    assert_int_equal(s.batches.global_batch, 96);
    assert_int_equal(s.amounts.train_iters, 70);
    assert_ok(shape_of("--tensor-model-parallel-size 4", true, &s));
    assert_int_equal(s.amounts.train_iters, 7 * (TRAIN / 96));
    assert_int_equal(s.epochs.replicas, 1);
}

static void told(void **state)
{
    struct tr_shape s;

    (void)state;
    assert_ok(shape_of("--data-blocks 200", false, &s));
    assert_int_equal(s.amounts.train_iters, 7 * 2);
    assert_ok(shape_of("--data-blocks 200 --mock-data", false, &s));
    assert_int_equal(s.epochs.samples, 192);
    assert_fails(TR_ECONFIG,
                 "and they cannot be read here: give a --data-path that can, or give "
                 "--data-blocks N",
                 shape_of("", false, &s));
    assert_fails(TR_ECONFIG, "and they are made, not read: give --data-blocks N",
                 shape_of("--mock-data", false, &s));
}

static void bad(void **state)
{
    static const struct {
        const char *more, *sentence;
    } cases[] = {
        {"--train-iters 10", "--n-epochs and --train-iters both give"},
        {"--train-samples 1000", "--n-epochs and --train-samples both give"},
        {"--rampup-batch-size 12 12 1000", "--n-epochs makes each epoch of equal ones"},
        {"--dataloader-type cyclic", "another order of the samples than that of --n-epochs"},
        {"--eval-iters 10", "each takes every sample once: remove it, or give 0"},
        {"--eod-mask-loss --vocab-size 101", "give --micro-batch-size 1, or --eval-iters 0"},
        {"--lr-decay-samples 500",
         "but the length of the run is given in iterations by --n-epochs: give "
         "--lr-decay-iters instead"},
        {"--global-batch-size 1200",
         "have 1003 samples of --seq-length 32 tokens, and one iteration "
         "takes 300 from each of 4 replicas"},
        {"--lr-decay-iters 5 --lr-warmup-iters 5", "(--lr-decay-iters, or --n-epochs)"},
    };
    struct tr_shape s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(TR_ECONFIG, cases[i].sentence, shape_of(cases[i].more, true, &s));
    assert_ok(shape_of("--eval-iters 0", true, &s));
    assert_ok(shape_of("--eod-mask-loss --micro-batch-size 1", true, &s));
    assert_ok(shape_of("--eod-mask-loss --eval-iters 0", true, &s));
}

/* Of a run by iterations. */
static void without(void **state)
{
    struct tr_config c;
    struct tr_shape s;
    int64_t first, count;

    (void)state;
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    c.n_epochs = TR_UNSET_INT;
    assert_fails(TR_ECONFIG, "give --train-iters, --train-samples or --n-epochs",
                 tr_shape_of(&c, WORLD, &s));
    c.train_iters = 10;
    assert_ok(tr_shape_of(&c, WORLD, &s));
    assert_int_equal(s.epochs.count, 0);
    assert_int_equal(s.epochs.samples, 0);
    tr_epoch_share(&s.epochs, 1, &first, &count);
    assert_int_equal(first, 0);
    assert_int_equal(count, 0);
    c.data_blocks = 100;
    assert_fails(TR_ECONFIG, "--data-blocks counts the samples of --n-epochs",
                 tr_shape_of(&c, WORLD, &s));
    tr_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derived), cmocka_unit_test(smaller_batch), cmocka_unit_test(told),
        cmocka_unit_test(bad),     cmocka_unit_test(without),
    };
    return run_tap(tests);
}
