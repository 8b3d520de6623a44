/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "plan/plan.h"
#include "plan/profiles.h"

/*
 * Published times, each a test: the plan of those options on the profile of that machine says the same to
 * 8.4 %, which is what the closed formula (m + p - 1) (t_f + t_b) / m with measured t_f and t_b
 * comes to on ten of them.  rows.def has the sources, and tells which rows constants were chosen on.
 */
static const double BAR = 0.084;

struct row {
    const char *machine;
    bool fitted;
    const char *name;
    double ms, tflops;
    const char *options;
};

static const struct row rows[] = {
#define TIME(machine, fitted, name, ms, options) {machine, fitted, name, ms, 0.0, options},
#define RATE(machine, fitted, name, tflops, options) {machine, fitted, name, 0.0, tflops, options},
#include "plan/rows.def"
};

enum { ROWS = sizeof rows / sizeof *rows };

static void one(void **state)
{
    const struct row *r = *state;
    struct tr_machine m;
    struct tr_config c;
    struct tr_plan p;
    double off;

    assert_ok(tr_machine_find(r->machine, &m));
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, r->options));
    assert_ok(tr_plan_make(&c, &m, &p));
    off = r->ms > 0.0 ? 1e3 * p.time.total / r->ms - 1.0 : r->tflops / p.time.tflops - 1.0;
    print_message("# %s %s: %.1f ms, %.1f TFLOP/s, %+.1f %%%s\n", r->machine, r->name,
                  1e3 * p.time.total, p.time.tflops, 100.0 * off, r->fitted ? ", fitted" : "");
    assert_true(off < BAR && off > -BAR);
    /* The profile promises no more than it keeps. */
    assert_true(off < p.time.spread && off > -p.time.spread);
    assert_true(p.time.compute > 0.0 && p.time.bubble > -1e-9 * p.time.total);
    tr_plan_release(&p);
    tr_config_release(&c);
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

        assert_ok(tr_machine_find(rows[0].machine, &m));
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
    struct CMUnitTest tests[ROWS + 1];

    profiles();
    for (int i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, one, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(exchanged);
    return run_tap(tests);
}
