/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <string.h>

#include "config/config.h"
#include "data/split.h"

/* Bounds of the train, validation and test parts as Megatron of 2021 and its newer versions made
   them; 10000 sequences are openwebtext-10k in a public log of 2021. */
static void known_bounds(void **state)
{
    static const struct {
        const char *split;
        int64_t sequences;
        int rounding;
        int64_t bound[4];
    } cases[] = {
        {"949,50,1", 10000, TR_ROUNDING_2021, {0, 9490, 9990, 10000}},
        {"949,50,1", 10000, TR_ROUNDING_NEWER, {0, 9490, 9990, 10000}},
        {"949,50,1", 50, TR_ROUNDING_2021, {0, 48, 50, 50}},
        {"949,50,1", 50, TR_ROUNDING_NEWER, {0, 47, 50, 50}},
        {"949,50,1", 12345, TR_ROUNDING_2021, {0, 11716, 12333, 12345}},
        {"949,50,1", 12345, TR_ROUNDING_NEWER, {0, 11715, 12333, 12345}},
        {" 969, 30, 1 ", 1000, TR_ROUNDING_2021, {0, 969, 999, 1000}},
        {"0.5/0.25/0.25", 8, TR_ROUNDING_2021, {0, 4, 6, 8}},
        {"1", 7, TR_ROUNDING_2021, {0, 7, 7, 7}},
        {"1,1", 6, TR_ROUNDING_NEWER, {0, 3, 6, 6}},
        {"100,0,0", 0, TR_ROUNDING_2021, {0, 0, 0, 0}},
        /* Half to even: 2.5 is 2 and 7.5 is 8. */
        {"1,3,0", 10, TR_ROUNDING_2021, {0, 2, 10, 10}},
        {"1,3,0", 10, TR_ROUNDING_NEWER, {0, 2, 10, 10}},
        {"3,1,0", 10, TR_ROUNDING_NEWER, {0, 8, 10, 10}},
        /* 1.5 and 1.5 are rounded to 2 and 2, one too many; no bound goes below 0. */
        {"0,1,1", 3, TR_ROUNDING_2021, {0, 0, 1, 3}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bound[4];

        assert_ok(tr_split_bounds(cases[i].split, cases[i].sequences, cases[i].rounding, bound));
        assert_memory_equal(bound, cases[i].bound, sizeof bound);
    }
}

static void refusals(void **state)
{
    static const char *const cases[] = {"",     "x",     "1,2,3,4", "1,,2", "1 2",  "-1,2",
                                        "0, 0", "1,2,x", "nan",     "inf",  "1,2,", "0"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bound[4];

        assert_fails(TR_ECONFIG, "is not a list of up to three numbers",
                     tr_split_bounds(cases[i], 100, TR_ROUNDING_2021, bound));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bounds),
        cmocka_unit_test(refusals),
    };
    return run_tap(tests);
}
