/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <string.h>

#include "comm/grid.h"

/* Every coordinate in its range, every rank once, tensor parallelism fastest; pipeline slowest, or data. */
static void check_layout(int w, int p, int d)
{
    const struct tr_layout plain = {.w = w, .p = p, .d = d},
                           inside = {.w = w, .p = p, .d = d, .tp_pp_dp = true};
    int rank = 0, other = 0;

    for (int pp = 0; pp < p; pp++)
        for (int dp = 0; dp < d; dp++)
            for (int tp = 0; tp < w; tp++, rank++) {
                struct tr_place at = tr_grid_place(&plain, rank);

                assert_int_equal(at.tp, tp);
                assert_int_equal(at.dp, dp);
                assert_int_equal(at.pp, pp);
                assert_int_equal(tr_grid_rank(&plain, at), rank);
                assert_int_equal(tr_grid_number(&inside, at), rank);
            }
    for (int dp = 0; dp < d; dp++)
        for (int pp = 0; pp < p; pp++)
            for (int tp = 0; tp < w; tp++, other++) {
                struct tr_place at = tr_grid_place(&inside, other);

                assert_int_equal(at.tp, tp);
                assert_int_equal(at.dp, dp);
                assert_int_equal(at.pp, pp);
                assert_int_equal(tr_grid_rank(&inside, at), other);
            }
}

static void every_layout(void **state)
{
    (void)state;
    for (int w = 1; w <= 64; w++)
        for (int p = 1; p <= 64 / w; p++)
            for (int d = 1; d <= 64 / (w * p); d++)
                check_layout(w, p, d);
}

/* The ranks of a group follow from its first when one coordinate runs. */
static void assert_group(const struct tr_layout *l, const int *ranks, int n, char axis)
{
    for (int i = 0; i < n; i++) {
        struct tr_place at = tr_grid_place(l, ranks[0]);

        *(axis == 't' ? &at.tp : axis == 'd' ? &at.dp : &at.pp) = i;
        assert_int_equal(tr_grid_rank(l, at), ranks[i]);
    }
}

/* The groups that Megatron-LM documents for 16 ranks, W = 2, P = 4 (so D = 2). */
static void documented(void **state)
{
    static const struct tr_layout l = {.w = 2, .p = 4, .d = 2};
    static const int tp[8][2] = {{0, 1}, {2, 3},   {4, 5},   {6, 7},
                                 {8, 9}, {10, 11}, {12, 13}, {14, 15}};
    static const int dp[8][2] = {{0, 2},  {1, 3},  {4, 6},   {5, 7},
                                 {8, 10}, {9, 11}, {12, 14}, {13, 15}};
    static const int pp[4][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};

    (void)state;
    for (int g = 0; g < 8; g++) {
        assert_group(&l, tp[g], 2, 't');
        assert_group(&l, dp[g], 2, 'd');
    }
    for (int g = 0; g < 4; g++)
        assert_group(&l, pp[g], 4, 'p');
}

/* CocktailSGD's order, with its own formula: stage = rank mod P, replica = rank div P. */
static void pipeline_inside(void **state)
{
    static const struct tr_layout l = {.w = 1, .p = 4, .d = 6, .tp_pp_dp = true};

    (void)state;
    for (int rank = 0; rank < 24; rank++) {
        assert_int_equal(tr_grid_place(&l, rank).pp, rank % 4);
        assert_int_equal(tr_grid_place(&l, rank).dp, rank / 4);
    }
}

/* One rank needs no MPI. */
static void alone(void **state)
{
    struct tr_layout l = tr_layout_single(1);
    struct tr_comm self;
    struct tr_grid g;

    (void)state;
    tr_comm_self(&self);
    assert_ok(tr_grid_open(&self, &l, &g));
    assert_true(g.has_embedding && g.has_head);
    assert_int_equal(g.tp.size, 1);
    assert_int_equal(g.dp.size, 1);
    assert_int_equal(g.pp.size, 1);
    assert_int_equal(g.mp.size, 1);
    assert_int_equal(g.embed.size, 1);
    tr_grid_close(&g);
    l.w = 2;
    assert_fails(TR_ECONFIG, "are not the 1 ranks", tr_grid_open(&self, &l, &g));
    l.w = 0;
    assert_fails(TR_ECONFIG, "are not the 1 ranks", tr_grid_open(&self, &l, &g));
    tr_grid_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(documented),
        cmocka_unit_test(pipeline_inside),
        cmocka_unit_test(alone),
    };
    return run_tap(tests);
}
