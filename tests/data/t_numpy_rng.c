/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "data/numpy_rng.h"

/* Numbers that name no other source were printed by numpy 1.24. */

static void first_outputs(void **state)
{
    static const uint32_t known[] = {822569775, 2137449171, 2671936806, 3512589365, 1880026316};
    struct tr_numpy_rng r;

    (void)state;
    tr_numpy_seed(&r, 1234);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tr_numpy_u32(&r), known[i]);
}

/* The number that defines std::mt19937 in the C++ standard: output 10000 of seed 5489. */
static void after_many(void **state)
{
    struct tr_numpy_rng r;

    (void)state;
    tr_numpy_seed(&r, 5489);
    for (int i = 1; i < 10000; i++)
        (void)tr_numpy_u32(&r);
    assert_int_equal(tr_numpy_u32(&r), 4123659995);
}

/* What numpy makes of 0 .. 19 with seed 1234. */
static const uint32_t twenty[] = {3,  13, 2,  16, 14, 5, 4,  0,  8, 18,
                                  17, 11, 10, 9,  7,  1, 19, 12, 6, 15};

static void shuffles(void **state)
{
    static const uint32_t ten[] = {7, 2, 9, 1, 0, 8, 4, 5, 6, 3};
    static const uint32_t then[] = {8, 1, 7, 6, 9, 5, 4, 3, 0, 2};
    struct tr_numpy_rng r;
    uint32_t a[20];
    int64_t wide[20];

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        a[i] = i;
    tr_numpy_seed(&r, 1234);
    tr_numpy_shuffle_u32(&r, a, 10);
    assert_memory_equal(a, ten, sizeof ten);

    for (uint32_t i = 0; i < 20; i++)
        wide[i] = a[i] = i;
    tr_numpy_seed(&r, 1234);
    tr_numpy_shuffle_u32(&r, a, 20);
    assert_memory_equal(a, twenty, sizeof twenty);
    for (uint32_t i = 0; i < 10; i++)
        a[i] = i;
    tr_numpy_shuffle_u32(&r, a, 10);
    assert_memory_equal(a, then, sizeof then);

    tr_numpy_seed(&r, 1234);
    tr_numpy_shuffle_i64(&r, wide, 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(wide[i], twenty[i]);
}

/* Begun and then finished, it is the same. */
static void in_parts(void **state)
{
    struct tr_numpy_rng r;
    uint32_t a[20];
    int64_t wide[20];

    (void)state;
    for (int left = 1; left <= 20; left++) {
        for (uint32_t i = 0; i < 20; i++)
            wide[i] = a[i] = i;
        tr_numpy_seed(&r, 1234);
        tr_numpy_shuffle_u32_to(&r, a, 20, left);
        tr_numpy_shuffle_u32(&r, a, left);
        assert_memory_equal(a, twenty, sizeof twenty);
        tr_numpy_seed(&r, 1234);
        tr_numpy_shuffle_i64_to(&r, wide, 20, left);
        tr_numpy_shuffle_i64(&r, wide, left);
        for (int i = 0; i < 20; i++)
            assert_int_equal(wide[i], twenty[i]);
    }
}

/* Nothing to swap draws nothing. */
static void short_arrays(void **state)
{
    struct tr_numpy_rng r;
    uint32_t one = 5;

    (void)state;
    tr_numpy_seed(&r, 1234);
    tr_numpy_shuffle_u32(&r, &one, 1);
    tr_numpy_shuffle_u32(&r, &one, 0);
    assert_int_equal(one, 5);
    assert_int_equal(tr_numpy_u32(&r), 822569775);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_outputs), cmocka_unit_test(after_many),   cmocka_unit_test(shuffles),
        cmocka_unit_test(in_parts),      cmocka_unit_test(short_arrays),
    };
    return run_tap(tests);
}
