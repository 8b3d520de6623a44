/* SPDX-License-Identifier: BSD-3-Clause */
/* The rule by which a rank is slow, on numbers alone: given ones, and runs with log-normal jitter. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "telemetry/slow_ranks.h"
#include "util/rng.h"

enum { RANKS = 16, STAGES = 2, MOST_INTERVALS = 60 };

/* The second stage has three times the work. */
static const int group[RANKS] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
static const double work[STAGES] = {1.0, 3.0};

static struct tr_slow_ranks ranks;

static void begin(double percent, int intervals, int n, const int *of)
{
    tr_slow_ranks_close(&ranks);
    assert_ok(tr_slow_ranks_open(
        &ranks, (struct tr_slow_rule){.percent = percent, .intervals = intervals, .shortest = 0.1},
        n, of));
}

/* What tr_slow_ranks_add() says of rank 0. */
static enum tr_slow_change add(const double *seconds)
{
    tr_slow_ranks_add(&ranks, seconds);
    return ranks.rank[0].change;
}

/* Three in a row, the excess over all of them, once; and as many to be well again. */
static void three_in_a_row(void **state)
{
    const int of[4] = {5, 5, 5, 5};
    const double good[4] = {1.0, 1.0, 1.1, 0.9}, late[4] = {1.2, 1.0, 1.1, 0.9},
                 later[4] = {1.5, 1.0, 1.1, 0.9}, at_limit[4] = {1.1, 1.0, 1.1, 0.9};

    (void)state;
    begin(10.0, 3, 4, of);
    assert_int_equal(add(late), TR_SLOW_SAME);
    assert_int_equal(add(late), TR_SLOW_SAME);
    assert_int_equal(add(at_limit), TR_SLOW_SAME);
    assert_int_equal(add(late), TR_SLOW_SAME);
    assert_int_equal(add(late), TR_SLOW_SAME);
    assert_int_equal(add(later), TR_SLOW_BEGINS);
    assert_int_equal(ranks.rank[0].peers, 3);
    /* (1.2 + 1.2 + 1.5) / (3 * 1.0) - 1, but for rounding. */
    assert_true(fabs(tr_slow_rank_excess(&ranks.rank[0]) - 30.0) < 1e-10);
    assert_int_equal(add(later), TR_SLOW_SAME);
    assert_int_equal(add(good), TR_SLOW_SAME);
    assert_int_equal(add(good), TR_SLOW_SAME);
    assert_int_equal(add(late), TR_SLOW_SAME);
    assert_true(ranks.rank[0].slow);
    assert_int_equal(add(good), TR_SLOW_SAME);
    assert_int_equal(add(good), TR_SLOW_SAME);
    assert_int_equal(add(good), TR_SLOW_ENDS);
    assert_int_equal(add(good), TR_SLOW_SAME);
    for (int r = 1; r < 4; r++)
        assert_false(ranks.rank[r].slow);
}

/* A rank is no peer of its own: of two ranks, the median of both would be 1.1 and 1.2 within 10 % of it.
   A group of one has no peers, whatever the others take. */
static void few_peers(void **state)
{
    const int of[3] = {0, 0, 1};
    const double seconds[3] = {1.2, 1.0, 50.0};

    (void)state;
    begin(10.0, 1, 3, of);
    assert_int_equal(add(seconds), TR_SLOW_BEGINS);
    assert_false(ranks.rank[1].slow || ranks.rank[2].slow);
}

/* Moments are put together: 0.04 s each make an interval of three. */
static void too_short(void **state)
{
    const int of[2] = {0, 0};
    const double seconds[2] = {0.05, 0.04};

    (void)state;
    begin(10.0, 2, 2, of);
    for (int i = 1; i < 6; i++)
        assert_int_equal(add(seconds), TR_SLOW_SAME);
    assert_int_equal(add(seconds), TR_SLOW_BEGINS);
    assert_true(fabs(tr_slow_rank_excess(&ranks.rank[0]) - 25.0) < 1e-10);
}

/* Seconds of an interval of `iterations`: each is exp(sigma z) of the work, z standard normal. */
static void draw(int run, int interval, int iterations, double sigma, double *seconds)
{
    for (int r = 0; r < RANKS; r++) {
        float z[16];

        tr_rng_normal(tr_rng_key(1, TR_STREAM_SIM_PASS, r, run), (uint64_t)(interval * iterations),
                      iterations, z);
        seconds[r] = 0.0;
        for (int i = 0; i < iterations; i++)
            seconds[r] += work[group[r]] * exp(sigma * (double)z[i]);
    }
}

/* Ranks named in so many runs, one of which is `slowed` by 20 %, or none where it is negative; *first is the latest
   interval in which that one was named. */
static int name_in_runs(int runs, int iterations, double sigma, int slowed, int *first)
{
    int named = 0;

    *first = 0;
    for (int run = 0; run < runs; run++) {
        double seconds[RANKS];
        int at = 0;

        begin(10.0, 3, RANKS, group);
        for (int i = 0; i < MOST_INTERVALS && (slowed < 0 || i < 5); i++) {
            draw(run, i, iterations, sigma, seconds);
            if (slowed >= 0)
                seconds[slowed] *= 1.2;
            named += tr_slow_ranks_add(&ranks, seconds);
            if (slowed >= 0 && ranks.rank[slowed].change == TR_SLOW_BEGINS)
                at = i + 1;
        }
        assert_true(slowed < 0 || at > 0);
        *first = at > *first ? at : *first;
    }
    return named;
}

/*
 * With jitter of 3 % a rank is late in an interval of one iteration with probability P(z > log(1.1) / 0.033) = 0.002,
 * since the median of seven peers adds a fifth of a rank's variance: three in a row come to 1e-8, and
 * 100 runs have 96,000.  With 5 % in each of four iterations it is P(z > log(1.1) / 0.028) = 3e-4.
 */
static void healthy(void **state)
{
    int first;

    (void)state;
    assert_int_equal(name_in_runs(100, 1, 0.03, -1, &first), 0);
    assert_int_equal(name_in_runs(100, 4, 0.05, -1, &first), 0);
}

static const double recorded[][4] = {
#define ROW(a, b, c, d) {1e-6 * a, 1e-6 * b, 1e-6 * c, 1e-6 * d},
#include "telemetry/jitter.def"
#undef ROW
};
enum { RECORDED = sizeof recorded / sizeof recorded[0] };

/* Sixteen ranks, each with the jitter of a recorded rank against the mean of the four, from some iteration of the
   recording on, so that what lasts for several iterations does so here. */
static double replay(int run, int rank, int iteration)
{
    const struct tr_rng rng = tr_rng_key(2, TR_STREAM_SIM_PASS, rank, run);
    const uint32_t of = tr_rng_u32(rng, 0) % 4, from = tr_rng_u32(rng, 1) % RECORDED;
    const double *four = recorded[(from + (uint32_t)iteration) % RECORDED];

    return four[of] / (four[0] + four[1] + four[2] + four[3]) * 0.4 * work[group[rank]];
}

/* 100 runs of 300 iterations of 0.1 s of computing, in intervals of two seconds, as `trireme train` has them. */
static void as_recorded(void **state)
{
    const struct tr_slow_rule rule = {.percent = 10.0, .intervals = 3, .shortest = 2.0};
    int named = 0;

    (void)state;
    for (int run = 0; run < 100; run++) {
        tr_slow_ranks_close(&ranks);
        assert_ok(tr_slow_ranks_open(&ranks, rule, RANKS, group));
        for (int i = 0; i < 300; i++) {
            double seconds[RANKS];

            for (int r = 0; r < RANKS; r++)
                seconds[r] = replay(run, r, i);
            named += tr_slow_ranks_add(&ranks, seconds);
        }
    }
    assert_int_equal(named, 0);
}

/* The slowed rank alone, and within five intervals, in each stage. */
static void slowed(void **state)
{
    int first;

    (void)state;
    assert_int_equal(name_in_runs(100, 1, 0.02, 3, &first), 100);
    assert_in_range(first, 3, 5);
    assert_int_equal(name_in_runs(100, 4, 0.05, 11, &first), 100);
    assert_in_range(first, 3, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_in_a_row), cmocka_unit_test(few_peers), cmocka_unit_test(too_short),
        cmocka_unit_test(as_recorded),    cmocka_unit_test(healthy),   cmocka_unit_test(slowed),
    };

    int bad = run_tap(tests);

    tr_slow_ranks_close(&ranks);
    return bad;
}
