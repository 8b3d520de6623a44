/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>

#include "data/blend.h"

/* The first twenty choices that Megatron's helper makes. */
static void known_choices(void **state)
{
    static const struct {
        int parts;
        double weight[3];
        int choice[20];
    } cases[] = {
        {2, {.3, .7}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1}},
        {3, {.5, .3, .2}, {0, 1, 2, 0, 1, 0, 2, 0, 1, 0, 0, 1, 2, 0, 1, 0, 2, 0, 1, 0}},
    };
    static const int64_t size[] = {100, 100, 100};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t taken[3] = {0, 0, 0}, position;
        struct tr_blend b;

        tr_blend_build(&b, cases[i].weight, size, cases[i].parts, 20, NULL);
        assert_int_equal(b.count, 20);
        for (int k = 0; k < 20; k++) {
            int part = tr_blend_get(&b, k, &position);

            assert_int_equal(part, cases[i].choice[k]);
            assert_int_equal(position, taken[part]++);
        }
        for (int p = 0; p < cases[i].parts; p++)
            assert_int_equal(b.taken[p], taken[p]);
        tr_blend_release(&b);
    }
}

/* No part is ever a whole sample ahead of its weight, so what tr_blend_part_samples() asks of each
   always suffices; and positions count up over the edges of blocks. */
static void shares(void **state)
{
    static const double weight[] = {0.001, 0.25, 0.4, 0.349};
    enum { PARTS = 4, N = 5000 };
    int64_t size[PARTS], taken[PARTS] = {0, 0, 0, 0}, position;
    struct tr_blend b;

    (void)state;
    for (int i = 0; i < PARTS; i++)
        size[i] = tr_blend_part_samples(N, weight[i]);
    assert_int_equal(size[0], 6);
    assert_int_equal(size[1], 1257);
    tr_blend_build(&b, weight, size, PARTS, N, NULL);
    assert_int_equal(b.count, N);
    for (int k = 0; k < N; k++) {
        int i = tr_blend_get(&b, k, &position);

        assert_int_equal(position, taken[i]++);
        for (int j = 0; j < PARTS; j++)
            assert_true((double)taken[j] < weight[j] * k + 1.0 + 1e-9);
    }
    tr_blend_release(&b);
}

static void runs_out(void **state)
{
    static const double weight[] = {.3, .7};
    static const int64_t size[] = {2, 100};
    struct tr_blend b;

    (void)state;
    tr_blend_build(&b, weight, size, 2, 20, NULL);
    assert_int_equal(b.count, 7);
    assert_int_equal(b.taken[0], 2);
    tr_blend_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_choices),
        cmocka_unit_test(shares),
        cmocka_unit_test(runs_out),
    };
    return run_tap(tests);
}
