/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "launch/clocks.h"
#include "telemetry/timer.h"

/*
 * The clocks of several hosts on one: every rank counts as a host, and its clock is off and runs at
 * a pace of its own.  That of rank 0 is right, so what a time is on the common clock can be read.
 * How good the comparison is depends on the load, but it says so itself, and that must hold under
 * any.
 */
static double skewed(void)
{
    return tr_now() * (1.0 + 1e-4 * world.rank) + 1.5 * world.rank;
}

/* Rounding of times of some days. */
static const double MARGIN = 1e-6;

static bool lies_between(const struct tr_clocks *c, const double before[], const double at[],
                         const double after[], int n)
{
    bool all = true;

    for (int i = 0; i < n; i++) {
        double common = tr_clocks_common(c, at[i]), slack = tr_clocks_error(c) + MARGIN;

        all = all && common >= before[i] - slack && common <= after[i] + slack;
    }
    return all;
}

/* Times between two comparisons, at both ends and on the way. */
static void common_clock(void **state)
{
    enum { N = 50 };
    double before[N], at[N], after[N];
    struct tr_clocks c;

    (void)state;
    tr_clocks_open(&c, &world, skewed, true);
    assert_all(c.hosts == world.size && c.host == world.rank);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            before[i] = tr_now();
            at[i] = skewed();
            after[i] = tr_now();
            usleep(1000);
        }
        tr_clocks_align(&c);
        assert_all(lies_between(&c, before, at, after, N));
        assert_all(world.rank == 0 ? tr_clocks_error(&c) <= 0.0
                                   : tr_clocks_error(&c) > 0.0 && tr_clocks_error(&c) < 0.5);
    }
    tr_clocks_close(&c);
}

/* Under one kernel there is one clock, and nothing to be wrong about. */
static void one_host(void **state)
{
    struct tr_clocks c;

    (void)state;
    tr_clocks_open(&c, &world, tr_now, false);
    assert_all(c.hosts == 1 && c.host == 0 && c.leader[0] == 0);
    tr_clocks_align(&c);
    assert_all(tr_clocks_common(&c, 12345.5) == 12345.5);
    assert_all(tr_clocks_error(&c) <= 0.0);
    tr_clocks_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_clock),
        cmocka_unit_test(one_host),
    };
    return run_mpi_tap(tests);
}
