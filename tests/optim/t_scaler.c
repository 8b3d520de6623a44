/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "optim/scaler.h"

static void clean_steps(struct tr_scaler *s, int n)
{
    for (int i = 0; i < n; i++)
        tr_scaler_update(s, false);
}

/* Two public runs of Megatron-LM of May 2021 (18B on 16 and 30B on 32 V100, defaults for the scale)
   logged, for each ten iterations, how many were skipped and the loss scale at their end.  They
   agree, and after iteration 30 neither skipped any. */
static void public_logs(void **state)
{
    static const struct {
        int skipped;
        double scale;
    } ten[] = {{10, 8388608.0}, {8, 32768.0}, {1, 16384.0}, {0, 16384.0}};
    struct tr_scaler s;

    (void)state;
    tr_scaler_init_dynamic(&s, 4294967296.0, 1.0, 1000, 2);
    for (size_t i = 0; i < sizeof ten / sizeof ten[0]; i++) {
        clean_steps(&s, 10 - ten[i].skipped);
        for (int k = 0; k < ten[i].skipped; k++)
            tr_scaler_update(&s, true);
        assert_true(s.scale == ten[i].scale);
    }
    clean_steps(&s, 160);
    assert_true(s.scale == 16384.0);
}

/* The first overflow is free, the second halves; only a doubling resets the hysteresis. */
static void hysteresis(void **state)
{
    struct tr_scaler s;

    (void)state;
    tr_scaler_init_dynamic(&s, 1024.0, 1.0, 1000, 2);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 1024.0);
    clean_steps(&s, 999);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 512.0);
    clean_steps(&s, 999);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 256.0);
    clean_steps(&s, 999);
    assert_true(s.scale == 256.0);
    clean_steps(&s, 1);
    assert_true(s.scale == 512.0);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 512.0);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 256.0);
}

/* Every window of clean steps doubles; the count starts again after each. */
static void growth(void **state)
{
    struct tr_scaler s;

    (void)state;
    tr_scaler_init_dynamic(&s, 1.0, 1.0, 5, 2);
    for (int n = 1; n <= 50; n++) {
        clean_steps(&s, 1);
        assert_true(s.scale == (double)(1 << n / 5));
        assert_int_equal(s.growth_tracker, n % 5);
    }
}

static void floor_of_the_scale(void **state)
{
    struct tr_scaler s;

    (void)state;
    tr_scaler_init_dynamic(&s, 8.0, 3.0, 1000, 1);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 4.0);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 3.0);
    tr_scaler_update(&s, true);
    assert_true(s.scale == 3.0);
}

static void static_scale(void **state)
{
    struct tr_scaler s;

    (void)state;
    tr_scaler_init_static(&s, 8192.0);
    clean_steps(&s, 3000);
    for (int i = 0; i < 5; i++)
        tr_scaler_update(&s, true);
    assert_false(s.dynamic);
    assert_true(s.scale == 8192.0);
}

/* Scale and the two counters are all that a checkpoint needs. */
static void resume(void **state)
{
    struct tr_scaler whole, second;

    (void)state;
    tr_scaler_init_dynamic(&whole, 65536.0, 1.0, 7, 2);
    for (int i = 0; i < 100; i++) {
        tr_scaler_init_dynamic(&second, 65536.0, 1.0, 7, 2);
        second.scale = whole.scale;
        second.growth_tracker = whole.growth_tracker;
        second.hysteresis_tracker = whole.hysteresis_tracker;
        tr_scaler_update(&whole, i % 9 == 4);
        tr_scaler_update(&second, i % 9 == 4);
        assert_true(whole.scale == second.scale);
        assert_int_equal(whole.growth_tracker, second.growth_tracker);
        assert_int_equal(whole.hysteresis_tracker, second.hysteresis_tracker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_logs),  cmocka_unit_test(hysteresis),
        cmocka_unit_test(growth),       cmocka_unit_test(floor_of_the_scale),
        cmocka_unit_test(static_scale), cmocka_unit_test(resume),
    };

    return run_tap(tests);
}
