/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <string.h>

#include "comm/grid.h"

/* Every coordinate in its range, every rank once, tensor parallelism fastest, pipeline slowest. */
static void check_layout(int w, int p, int d)
{
    int rank = 0;

    for (int pp = 0; pp < p; pp++)
        for (int dp = 0; dp < d; dp++)
            for (int tp = 0; tp < w; tp++, rank++) {
                struct tr_place at = tr_grid_place(rank, w, d);

                assert_int_equal(at.tp, tp);
                assert_int_equal(at.dp, dp);
                assert_int_equal(at.pp, pp);
                assert_int_equal(tr_grid_rank(at, w, d), rank);
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

/* The groups that Megatron-LM documents for 16 ranks, W = 2, P = 4 (so D = 2). */
static void documented(void **state)
{
    static const int tp[8][2] = {{0, 1}, {2, 3},   {4, 5},   {6, 7},
                                 {8, 9}, {10, 11}, {12, 13}, {14, 15}};
    static const int dp[8][2] = {{0, 2},  {1, 3},  {4, 6},   {5, 7},
                                 {8, 10}, {9, 11}, {12, 14}, {13, 15}};
    static const int pp[4][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};

    (void)state;
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 2; i++) {
            struct tr_place t = tr_grid_place(tp[g][0], 2, 2), r = tr_grid_place(dp[g][0], 2, 2);

            t.tp = i;
            assert_int_equal(tr_grid_rank(t, 2, 2), tp[g][i]);
            r.dp = i;
            assert_int_equal(tr_grid_rank(r, 2, 2), dp[g][i]);
        }
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 4; i++) {
            struct tr_place at = tr_grid_place(pp[g][0], 2, 2);

            at.pp = i;
            assert_int_equal(tr_grid_rank(at, 2, 2), pp[g][i]);
        }
}

/* One rank needs no MPI. */
static void alone(void **state)
{
    struct tr_comm self;
    struct tr_grid g;

    (void)state;
    tr_comm_self(&self);
    assert_ok(tr_grid_open(&self, 1, 1, 1, &g));
    assert_true(g.first_stage && g.last_stage);
    assert_int_equal(g.tp.size, 1);
    assert_int_equal(g.dp.size, 1);
    assert_int_equal(g.pp.size, 1);
    assert_int_equal(g.mp.size, 1);
    assert_int_equal(g.embed.size, 1);
    tr_grid_close(&g);
    assert_fails(TR_ECONFIG, "are not the 1 ranks", tr_grid_open(&self, 2, 1, 1, &g));
    assert_fails(TR_ECONFIG, "are not the 1 ranks", tr_grid_open(&self, 0, 1, 1, &g));
    tr_grid_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(documented),
        cmocka_unit_test(alone),
    };
    return run_tap(tests);
}
