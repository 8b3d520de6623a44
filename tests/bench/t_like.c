/* SPDX-License-Identifier: BSD-3-Clause */
#include "../benchmarks/bench_like.h"

#include <string.h>

#include "check.h"

/* What benchmarks put into one ratio: sides that ran with the same, and no others. */
static const struct bench_side ours = {"the step", 2, 1, "fp32"};

static void refused(struct bench_side theirs, const char *says)
{
    char why[512] = "";

    assert_false(bench_alike(&ours, &theirs, why, sizeof why));
    if (!strstr(why, says))
        fail_msg("\"%s\" is not in the sentence: %s", says, why);
}

static void alike(void **state)
{
    const struct bench_side same = {"a BLAS", 2, 1, "fp32"};
    char why[512];

    (void)state;
    assert_true(bench_alike(&ours, &same, why, sizeof why));
}

static void threads(void **state)
{
    (void)state;
    refused((struct bench_side){"a BLAS", 1, 1, "fp32"},
            "no ratio to a BLAS: it takes 1 thread and the step 2; give both as many");
    refused((struct bench_side){"a BLAS", 0, 1, "fp32"}, "it does not say how many threads");
}

static void types(void **state)
{
    (void)state;
    refused((struct bench_side){"a BLAS", 2, 1, "bf16"},
            "it multiplies in bf16 and the step in fp32");
}

static void ranks(void **state)
{
    (void)state;
    refused((struct bench_side){"a BLAS", 2, 4, "fp32"}, "it ran on 4 ranks and the step on 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alike), cmocka_unit_test(threads),
                                       cmocka_unit_test(types), cmocka_unit_test(ranks)};

    return run_tap(tests);
}
