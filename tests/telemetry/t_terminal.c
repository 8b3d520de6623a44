/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "telemetry/terminal.h"

static char buf[TR_REPORT_BYTES];

/* 40 iterations of 8 samples of 32 tokens in 10 s: 1024 tokens/s, 250 ms. */
static struct tr_terminal_line example(void)
{
    return (struct tr_terminal_line){
        .iteration = 120,
        .train_iters = 1000,
        .samples = 320,
        .seq = 32,
        .seconds = 10.0,
        .left = 11520.0,
        .lr = 1e-3,
        .interval = {.loss_sum = 160.0, .advanced = 40, .has_norm = true, .norm = 2.5},
    };
}

static void lines(void **state)
{
    struct tr_terminal_line l = example();
    int n = tr_terminal_iteration(buf, sizeof buf, &l);

    (void)state;
    assert_string_equal(buf, " 120/1000  loss 4.0000  1024 tokens/s  250.0 ms  3 h 12 min left  "
                             "lr 1.000e-03  grad norm 2.5000");
    assert_int_equal(n, strlen(buf));
    l.iteration = l.train_iters;
    l.seconds = 100.0;
    l.loss_scale = 65536.0;
    l.interval = (struct tr_interval){.skipped = 40, .nan = 40};
    tr_terminal_iteration(buf, sizeof buf, &l);
    assert_string_equal(buf, "1000/1000  loss -  102 tokens/s  2.50 s  loss scale 65536  40 skipped"
                             "  40 nan  lr 1.000e-03");
    l.interval = (struct tr_interval){.loss_sum = -NAN, .advanced = 1, .nan = 1};
    tr_terminal_iteration(buf, sizeof buf, &l);
    assert_non_null(strstr(buf, "  loss nan  "));
}

static void others(void **state)
{
    (void)state;
    tr_terminal_validation(buf, sizeof buf, "iteration 20", 2.0);
    assert_string_equal(buf, "validation loss at iteration 20: 2.0000, perplexity 7.3891");
    tr_terminal_validation(buf, sizeof buf, "iteration 20", 1000.0);
    assert_string_equal(buf, "validation loss at iteration 20: 1000.00, perplexity 4.852e+08");
    tr_terminal_saved(buf, sizeof buf, 20, "there", 0.456);
    assert_string_equal(buf, "checkpoint saved at iteration 20 in there, 0.46 s");
    tr_terminal_done(buf, sizeof buf, 1, 61.0);
    assert_string_equal(buf, "training is done: 1 iteration in 1 min 1 s");
}

/* Whole fields, as many as there is room for. */
static void width(void **state)
{
    static const char all[] = " 120/1000  loss 4.0000  1024 tokens/s  250.0 ms";

    (void)state;
    for (int columns = 0; columns < 60; columns++) {
        snprintf(buf, sizeof buf, "%s", all);
        tr_terminal_fit(buf, columns);
        assert_memory_equal(buf, all, strlen(buf));
        assert_true(strlen(buf) <= (size_t)columns || strlen(buf) == 22);
        assert_int_equal(strlen(buf), columns < 37 ? 22 : columns < 47 ? 37 : 47);
    }
    snprintf(buf, sizeof buf, "no  such  line");
    tr_terminal_fit(buf, 3);
    assert_string_equal(buf, "no  such  line");
}

/* The mean of the last ten intervals by iterations, so that a slow start is forgotten. */
static void pace(void **state)
{
    struct tr_pace p = {0};

    (void)state;
    assert_true(tr_pace_left(&p, 100) == 0.0);
    tr_pace_add(&p, 100.0, 1);
    assert_true(tr_pace_left(&p, 3) == 300.0);
    tr_pace_add(&p, 20.0, 2);
    assert_true(fabs(tr_pace_left(&p, 3) - 120.0) < 1e-9);
    for (int i = 0; i < TR_PACE_INTERVALS; i++)
        tr_pace_add(&p, 2.0, 4);
    assert_true(fabs(tr_pace_left(&p, 3) - 1.5) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(others),
        cmocka_unit_test(width),
        cmocka_unit_test(pace),
    };

    return run_tap(tests);
}
