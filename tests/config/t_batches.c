/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "config/batches.h"
#include "util/file.h"

static enum tr_status batches(const char *options, int replicas, struct tr_batches *b)
{
    struct tr_config c;
    enum tr_status status;

    tr_config_init(&c);
    status = tr_config_parse_text(&c, options);
    if (status == TR_OK)
        status = tr_batches_of(&c, replicas, b);
    tr_config_release(&c);
    return status;
}

/* The cases of Megatron's test_num_microbatches_calculator.py without a ramp. */
static void constant(void **state)
{
    struct tr_batches b;

    (void)state;
    assert_ok(batches("--global-batch-size 32 --micro-batch-size 8", 2, &b));
    for (int64_t consumed = 0; consumed < 1000; consumed += 32)
        assert_int_equal(tr_batches_at(&b, consumed), 32);
    assert_int_equal(b.global_batch / b.unit, 2);
    assert_int_equal(tr_batches_iterations(&b, 320), 10);
    assert_int_equal(tr_batches_iterations(&b, 319), 9);
    assert_int_equal(tr_batches_increments(&b), 0);
    assert_int_equal(tr_batches_step(&b, 0), 32);

    assert_fails(TR_ECONFIG, "is: 32 or 48",
                 batches("--global-batch-size 33 --micro-batch-size 8", 2, &b));
    assert_ok(batches("--global-batch-size 33 --micro-batch-size 8 "
                      "--decrease-batch-size-if-needed",
                      2, &b));
    assert_int_equal(tr_batches_at(&b, 0), 32);
    assert_int_equal(b.global_batch / b.unit, 2);
    assert_fails(TR_ECONFIG, "is: 16",
                 batches("--global-batch-size 15 --micro-batch-size 8 "
                         "--decrease-batch-size-if-needed",
                         2, &b));
}

/* Worked out with the formula in Python: 3 increments in 100 samples. */
static void ramp(void **state)
{
    static const struct {
        int64_t consumed, batch;
    } at[] = {{0, 8},   {33, 8},   {34, 16},  {66, 16},   {67, 24},
              {99, 24}, {100, 32}, {101, 32}, {1000, 32}, {1000000, 32}};
    struct tr_batches b;
    int64_t consumed = 0, iterations = 0;

    (void)state;
    assert_ok(batches("--global-batch-size 32 --micro-batch-size 2 --rampup-batch-size 8 8 100 "
                      "--train-samples 1000",
                      2, &b));
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        assert_int_equal(tr_batches_at(&b, at[i].consumed), at[i].batch);
    /* 8 five times, 16 twice, 24 twice: 120 samples; then 27 iterations of 32. */
    while (consumed + tr_batches_at(&b, consumed) <= 1000) {
        consumed += tr_batches_at(&b, consumed);
        iterations++;
        assert_int_equal(tr_batches_iterations(&b, consumed), iterations);
        assert_int_equal(tr_batches_iterations(&b, consumed + 7), iterations);
    }
    assert_int_equal(iterations, 36);
    assert_int_equal(tr_batches_iterations(&b, 7), 0);
}

/* What GPT-3 did, as Megatron's README shows it: 16 to 1536 in 5859375 samples. */
static void gpt3(void **state)
{
    struct tr_batches b;

    (void)state;
    assert_ok(batches("--global-batch-size 1536 --micro-batch-size 1 "
                      "--rampup-batch-size 16 16 5859375 --train-samples 146484375",
                      16, &b));
    assert_int_equal(tr_batches_at(&b, 0), 16);
    /* 95 increments, each after 61677.6 samples. */
    assert_int_equal(tr_batches_at(&b, 61677), 16);
    assert_int_equal(tr_batches_at(&b, 61678), 32);
    assert_int_equal(tr_batches_at(&b, 5859374), 1520);
    assert_int_equal(tr_batches_at(&b, 5859376), 1536);
}

static void rounded_ramp(void **state)
{
    struct tr_batches b;

    (void)state;
    assert_ok(batches("--global-batch-size 30 --micro-batch-size 4 --rampup-batch-size 10 10 100 "
                      "--decrease-batch-size-if-needed --train-samples 1000",
                      2, &b));
    assert_int_equal(tr_batches_at(&b, 0), 8);
    assert_int_equal(tr_batches_at(&b, 50), 16);
    assert_int_equal(tr_batches_at(&b, 101), 24);
    assert_int_equal(tr_batches_increments(&b), 2);
    assert_int_equal(tr_batches_step(&b, 0), 8);
    assert_int_equal(tr_batches_step(&b, 1), 16);
    assert_int_equal(tr_batches_step(&b, 2), 24);
}

static void bad_ramps(void **state)
{
    static const struct {
        const char *ramp, *sentence;
    } cases[] = {
        {"8 8", "has 2 values"},
        {"8 8 0", "'0' will not do as the number of samples"},
        {"x 8 10", "'x' will not do as the batch size at the start"},
        {"8 9 100", "choose increments that divide the difference"},
        {"40 8 100", "cannot come from 40 to --global-batch-size 32"},
        {"4 14 100", "passes through a batch of 18, which is not a multiple of"},
        {"8 4 100", NULL},
        {"32 4 100", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_batches b;
        char *text = tr_format("--global-batch-size 32 --micro-batch-size 2 --train-samples 1000 "
                               "--rampup-batch-size %s",
                               cases[i].ramp);

        if (cases[i].sentence)
            assert_fails(TR_ECONFIG, cases[i].sentence, batches(text, 2, &b));
        else
            assert_ok(batches(text, 2, &b));
        free(text);
    }
    struct tr_batches b;
    assert_fails(TR_ECONFIG, "give --train-samples",
                 batches("--global-batch-size 32 --micro-batch-size 2 --rampup-batch-size 8 8 100 "
                         "--train-iters 5",
                         2, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant),     cmocka_unit_test(ramp),      cmocka_unit_test(gpt3),
        cmocka_unit_test(rounded_ramp), cmocka_unit_test(bad_ramps),
    };

    return run_tap(tests);
}
