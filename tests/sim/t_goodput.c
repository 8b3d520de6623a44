/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "check.h"
#include "sim/goodput.h"
#include "sim/quantile.h"

/* Months event by event against the formula.  A month has hundreds of failures; that of 200 of them leaves less than
   half a percent, and what the last save of a month cuts off is an interval of 30 days. */
static void months(void **state)
{
    static const struct {
        struct tr_failures f;
        double interval;
    } cases[] = {
        {{3600.0, 30.0, 60.0, 0.0, 0.0}, 460.0},
        {{3600.0, 30.0, 600.0, 0.0, 0.0}, 1800.0},
        {{7200.0, 60.0, 300.0, 1800.0, 0.0}, 900.0},
        {{7200.0, 60.0, 300.0, 1800.0, 600.0}, 900.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double expected = tr_goodput_expected(&cases[i].f, cases[i].interval);
        double mean = 0.0;

        for (int month = 0; month < 200; month++)
            mean += tr_goodput_month(&cases[i].f, cases[i].interval, 1, month) / 200.0;
        print_message("# expected %.5f, months %.5f\n", expected, mean);
        assert_true(fabs(mean / expected - 1.0) < 0.005);
    }
}

/* Without failures only saves are lost. */
static void no_failures(void **state)
{
    const struct tr_failures f = {1e15, 10.0, 300.0, 60.0, 0.0};

    (void)state;
    assert_true(fabs(tr_goodput_expected(&f, 90.0) - 0.9) < 1e-9);
    assert_true(fabs(tr_goodput_month(&f, 90.0, 1, 0) - 0.9) < 1e-4);
}

/* The best interval is where goodput is greatest, whatever restarts take; Young's and Daly's are near it where saves are
   short: a hundredth and a thousandth of the time between failures. */
static void best(void **state)
{
    static const double part[] = {1e-2, 1e-3, 1e-5};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct tr_failures f = {1e5, 1e5 * part[i], 1e3, 1e4, 0.0};
        const struct tr_goodput g = tr_goodput_of(&f, 0.0, 1);

        print_message("# best %.6g young %.6g daly %.6g\n", g.best, g.young, g.daly);
        for (double x = 0.5; x < 2.0; x += 0.01)
            assert_true(tr_goodput_expected(&f, x * g.best) <=
                        tr_goodput_expected(&f, g.best) * (1.0 + 1e-12));
        assert_true(fabs(g.daly / g.best - 1.0) < 0.002);
        assert_true(i == 0 || fabs(g.young / g.best - 1.0) < 0.05);
        assert_true(g.interval >= g.best && g.interval <= g.best);
        assert_true(g.p10 <= g.p50 && g.p50 <= g.p90);
    }
}

/*
 * Lognormal waits of mean 1800 and median 600: s^2 = 2 ln 3.  The logarithm of n waits has the mean ln 600 and the
 * deviation s, each to within five standard errors, s / sqrt(n) and s / sqrt(2 n); so has their mean, whose standard
 * error is the mean times sqrt((exp(s^2) - 1) / n), and exp(s^2) is 9.  The share below P90 is 0.9 to 5 * 0.3 / sqrt(n).
 */
static void waits(void **state)
{
    enum { MONTHS = 200, EACH = 200 };
    const struct tr_failures f = {1e5, 1e2, 1e2, 1800.0, 600.0},
                             same = {1e5, 1e2, 1e2, 1800.0, 0.0};
    const double n = MONTHS * EACH, s = sqrt(2.0 * log(3.0)), p90 = 600.0 * exp(1.2815515655 * s);
    double sum = 0.0, logs = 0.0, squares = 0.0, below = 0.0;

    (void)state;
    for (int i = 0; i < MONTHS * EACH; i++) {
        const double x = tr_goodput_wait(&f, 3, i / EACH, (uint64_t)(i % EACH)), z = log(x / 600.0);

        sum += x / n;
        logs += z / n;
        squares += z * z / n;
        below += (x < p90) / n;
    }
    print_message("# mean %.1f, median %.1f, deviation %.4f, below P90 %.4f\n", sum,
                  600.0 * exp(logs), sqrt(squares), below);
    assert_true(fabs(logs) < 5.0 * s / sqrt(n));
    assert_true(fabs(sqrt(squares) / s - 1.0) < 5.0 / sqrt(2.0 * n));
    assert_true(fabs(sum / 1800.0 - 1.0) < 5.0 * sqrt(8.0 / n));
    assert_true(fabs(below - 0.9) < 5.0 * 0.3 / sqrt(n));
    assert_true(fabs(tr_goodput_wait(&same, 3, 0, 0) - 1800.0) < 1e-9);
    assert_true(fabs(tr_goodput_wait_at(&f, 0.0) - 600.0) < 1e-9);
}

static void quantiles(void **state)
{
    double x[] = {4.0, 1.0, 3.0, 2.0};

    (void)state;
    assert_true(fabs(tr_quantile(x, 4, 0.5) - 2.5) < 1e-12); /* as R and numpy have them */
    assert_true(fabs(tr_quantile(x, 4, 0.1) - 1.3) < 1e-12);
    assert_true(fabs(tr_quantile(x, 4, 0.9) - 3.7) < 1e-12);
    assert_true(fabs(tr_quantile(x, 1, 0.9) - 1.0) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(months), cmocka_unit_test(no_failures), cmocka_unit_test(best),
        cmocka_unit_test(waits),  cmocka_unit_test(quantiles),
    };

    return run_tap(tests);
}
