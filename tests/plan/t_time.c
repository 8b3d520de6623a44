/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "plan/plan.h"
#include "plan/profiles.h"
#include "plan/published.h"

/* The rule by which rows are fitted on or not, and that all of them can be planned. */
static void split(void **state)
{
    int fitted = 0;

    (void)state;
    assert_int_equal(published_crc("123456789"), 0xcbf43926u);
    for (int first = 0, end; first < PUBLISHED; first = end) {
        int in = 0;

        end = published_end(first);
        for (int i = first; i < end; i++) {
            in += published[i].fitted;
            assert_true(i == first || published[i].crc > published[i - 1].crc);
            assert_true(i == first || !published[i].fitted || published[i - 1].fitted);
        }
        assert_true(in >= 3 && 4 * in >= end - first && (in == 3 || 4 * (in - 1) < end - first));
        fitted += in;
    }
    assert_true(fitted < PUBLISHED / 2);
}

/* Every published run has a time. */
static void rows(void **state)
{
    struct tr_machine m;

    (void)state;
    for (int i = 0; i < PUBLISHED; i++) {
        struct published_run run;

        assert_ok(tr_machine_find(published[i].machine, &m));
        published_open(&published[i], &run);
        published[i].error = published_error(&published[i], &run, &m);
        print_message("# %s %s: %+.1f %%%s\n", published[i].machine, published[i].name,
                      100.0 * published[i].error, published[i].fitted ? ", fitted" : "");
        assert_true(published[i].error > -1.0 && published[i].error < 10.0);
        published_close(&run);
    }
}

/* What replicas exchange in an iteration: gradients, a few bits for each parameter, or nothing. */
static void exchanged(void **state)
{
    static const char *const modes[] = {
        "", "--dp-mode cocktail_sgd --quant-bits 4 --topk-ratio .2 --randomp-ratio .1",
        "--dp-mode local"};
    double seconds[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tr_machine m;
        struct tr_config c;
        struct tr_plan p;

        assert_ok(tr_machine_find("jean-zay-v100-16g", &m));
        tr_config_init(&c);
        assert_ok(tr_config_parse_text(
            &c, "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
                "--max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 1 "
                "--global-batch-size 64 --lr 1e-4 --train-iters 10 --fp16 --world-size 64 "
                "--no-overlap-grad-reduce"));
        assert_ok(tr_config_parse_text(&c, modes[i]));
        assert_ok(tr_plan_make(&c, &m, &p));
        seconds[i] = p.time.reduce;
        tr_plan_release(&p);
        tr_config_release(&c);
    }
    /* 0.1825 bits in place of 16, and the same two waits. */
    assert_true(seconds[1] > seconds[0] * 0.1825 / 16.0 && seconds[1] < seconds[0] * 0.02 + 1e-3);
    assert_true(seconds[2] <= 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split),
        cmocka_unit_test(rows),
        cmocka_unit_test(exchanged),
    };

    profiles();
    published_split();
    return run_tap(tests);
}
