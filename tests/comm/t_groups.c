/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "comm/grid.h"

/* The world ranks of a group, in the group's order, are those of a list.  The size comes first: a
   group that is too large would wait for ranks that do not know that they belong to it. */
static void assert_holds(struct tr_comm *c, const int *want, int n)
{
    int all[64];
    bool right = true;

    assert_all(c->size == n);
    if (n > 0)
        c->via->gather_all(c, &world.rank, sizeof world.rank, all);
    for (int i = 0; i < n; i++)
        right = right && all[i] == want[i];
    assert_all(right && (n == 0 || all[c->rank] == world.rank));
}

static void assert_ends(const struct tr_layout *l, struct tr_grid *g)
{
    struct tr_place a = g->at, z = g->at;
    int want[2];

    a.pp = 0;
    z.pp = l->vee ? 0 : g->p - 1;
    want[0] = tr_grid_rank(l, a);
    want[1] = tr_grid_rank(l, z);
    assert_holds(&g->embed, want, !g->has_embedding && !g->has_head ? 0 : a.pp == z.pp ? 1 : 2);
}

/* Each group of each rank holds the ranks that share the other coordinates, in order. */
static void check_grid(const struct tr_layout *l)
{
    const int w = l->w, p = l->p, d = l->d;
    int want[64], n;
    struct tr_grid g;
    struct tr_place at;

    assert_all_ok(tr_grid_open(&world, l, &g));
    assert_all(g.tp.rank == g.at.tp && g.dp.rank == g.at.dp && g.pp.rank == g.at.pp);
    assert_all(g.has_embedding == (g.at.pp == 0) &&
               g.has_head == (g.at.pp == (l->vee ? 0 : p - 1)));
    for (n = 0, at = g.at, at.tp = 0; at.tp < w; at.tp++)
        want[n++] = tr_grid_rank(l, at);
    assert_holds(&g.tp, want, n);
    for (n = 0, at = g.at, at.dp = 0; at.dp < d; at.dp++)
        want[n++] = tr_grid_rank(l, at);
    assert_holds(&g.dp, want, n);
    for (n = 0, at = g.at, at.pp = 0; at.pp < p; at.pp++)
        want[n++] = tr_grid_rank(l, at);
    assert_holds(&g.pp, want, n);
    for (n = 0, at = g.at, at.pp = 0; at.pp < p; at.pp++)
        for (at.tp = 0; at.tp < w; at.tp++)
            want[n++] = tr_grid_rank(l, at);
    assert_holds(&g.mp, want, n);
    assert_ends(l, &g);
    tr_grid_close(&g);
}

static void every_layout(void **state)
{
    (void)state;
    for (int w = 1; w <= world.size; w++)
        for (int p = 1; w * p <= world.size; p++)
            for (int order = 0; order < 4 && world.size % (w * p) == 0; order++)
                check_grid(&(struct tr_layout){.w = w,
                                               .p = p,
                                               .d = world.size / (w * p),
                                               .k = p > 1 ? 1 + order / 2 : 1,
                                               .vee = p > 1 && order >= 2,
                                               .tp_pp_dp = order % 2});
}

static void wrong_numbers(void **state)
{
    const struct tr_layout l = {.w = 2, .p = world.size, .d = 1};
    struct tr_grid g;
    enum tr_status s = tr_grid_open(&world, &l, &g);

    (void)state;
    assert_all(s == TR_ECONFIG && strstr(tr_last_error(), "start it with W * P * D ranks"));
    tr_grid_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(wrong_numbers),
    };
    return run_mpi_tap(tests);
}
