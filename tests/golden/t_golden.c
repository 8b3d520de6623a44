/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "golden/golden.h"
#include "model/param.h"

/* The parameters of the tiny model. */
static struct tr_params params;

static void list_parameters(void)
{
    const struct tr_dims dims = {
        .family = *tr_family_find("gpt2"),
        .layers = GOLDEN_L,
        .hidden = GOLDEN_H,
        .heads = GOLDEN_A,
        .head_dim = GOLDEN_H / GOLDEN_A,
        .groups = GOLDEN_A,
        .embed = GOLDEN_H,
        .ffn = GOLDEN_F,
        .positions = GOLDEN_S,
        .vocab = GOLDEN_V,
    };

    tr_params_list_whole(&dims, &params);
}

static struct tr_golden *golden;

static int open_golden(void **state)
{
    (void)state;
    list_parameters();
    golden = tr_golden_open("gpt2_tiny");
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    tr_golden_close(golden);
    tr_params_release(&params);
    return 0;
}

/* Vectors of the authors: FNV's for "", "a" and "foobar"; splitmix64's for the states 0 and 1234567
   before the step. */
static void mixers(void **state)
{
    (void)state;
    assert_true(tr_golden_fnv1a("") == 0xcbf29ce484222325u);
    assert_true(tr_golden_fnv1a("a") == 0xaf63dc4c8601ec8cu);
    assert_true(tr_golden_fnv1a("foobar") == 0x85944171f73967e8u);
    assert_true(tr_golden_splitmix64(0) == 0xe220a8397b1dcdafu);
    assert_true(tr_golden_splitmix64(1234567) == 6457827717110365317u);
}

/* First and last elements recorded by PyTorch's side equal the formula to the bit, and every entry
   of the parameter has the shape that the table gives. */
static void check_parameter(const char *name, int64_t elems)
{
    const float *recorded = tr_golden_get_of(golden, "initial", name, 8);

    for (int i = 0; i < 8; i++) {
        float ours = tr_golden_weight(name, i < 4 ? i : elems - 8 + i);

        if (memcmp(&ours, &recorded[i], sizeof ours) != 0)
            fail_msg("%s: element %d of the eight is %a, recorded %a", name, i, (double)ours,
                     (double)recorded[i]);
    }
    tr_golden_get_of(golden, "grad", name, elems);
    tr_golden_get_of(golden, "final", name, elems);
}

static void weights(void **state)
{
    (void)state;
    assert_int_equal(params.count, 4 + 12 * GOLDEN_L);
    for (int i = 0; i < params.count; i++)
        check_parameter(params.list[i].name, params.list[i].elems);
}

static void tokens(void **state)
{
    const float *recorded = tr_golden_get(golden, "tokens", 4 * (GOLDEN_S + 1));

    (void)state;
    for (int s = 0; s < 4; s++)
        for (int t = 0; t <= GOLDEN_S; t++)
            assert_int_equal(tr_golden_token(s, t), (int)recorded[s * (GOLDEN_S + 1) + t]);
}

static void settings(void **state)
{
    static const float ours[] = {
        GOLDEN_V,
        GOLDEN_S,
        GOLDEN_H,
        GOLDEN_A,
        GOLDEN_F,
        GOLDEN_L,
        GOLDEN_B,
        GOLDEN_M,
        GOLDEN_STEPS,
        (float)GOLDEN_LR,
        (float)GOLDEN_BETA1,
        (float)GOLDEN_BETA2,
        (float)GOLDEN_EPS,
        (float)GOLDEN_DECAY,
        (float)GOLDEN_CLIP,
    };

    (void)state;
    assert_memory_equal(ours, tr_golden_get(golden, "setting", 15), sizeof ours);
}

/* The entries agree with one another: the loss is the mean over the micro-batches, the norm is that
   of the gradients. */
static void consistent(void **state)
{
    const float *micro = tr_golden_get(golden, "micro_losses", 2);
    const float *losses = tr_golden_get(golden, "losses", GOLDEN_STEPS);
    const float *norms = tr_golden_get(golden, "norms", GOLDEN_STEPS);
    double squares = 0.0;

    (void)state;
    assert_true(fabs(0.5 * ((double)micro[0] + (double)micro[1]) - (double)losses[0]) < 1e-6);
    for (int i = 0; i < params.count; i++) {
        const struct tr_param *p = &params.list[i];
        const float *grad = tr_golden_get_of(golden, "grad", p->name, p->elems);

        for (int64_t e = 0; e < p->elems; e++)
            squares += (double)grad[e] * (double)grad[e];
    }
    /* Rounding each of 53,000 elements to 24 bits moves the norm by less than 2^-24 of itself, and
       rounding the norm as much again. */
    assert_true(fabs(sqrt(squares) / (double)norms[0] - 1.0) < 0x1p-23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixers),   cmocka_unit_test(weights),    cmocka_unit_test(tokens),
        cmocka_unit_test(settings), cmocka_unit_test(consistent),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
