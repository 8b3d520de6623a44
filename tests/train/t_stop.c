/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "train/report.h"
#include "train/stop.h"

static struct tr_stop rule(int64_t interval, int64_t duration)
{
    struct tr_config c;
    struct tr_shape shape = {.train_iters = 100};
    struct tr_stop s;

    tr_config_init(&c);
    if (interval)
        c.exit_interval = interval;
    if (duration)
        c.exit_duration_in_mins = duration;
    tr_stop_init(&s, &c, &shape, 1000.0);
    tr_config_release(&c);
    return s;
}

static void iterations(void **state)
{
    struct tr_stop never = rule(0, 0), often = rule(25, 0);

    (void)state;
    for (int64_t i = 1; i < 100; i++) {
        assert_all(tr_stop_after(&never, &world, i, 1e9) == TR_STOP_NOT);
        assert_all(tr_stop_after(&often, &world, i, 1e9) ==
                   (i % 25 == 0 ? TR_STOP_INTERVAL : TR_STOP_NOT));
    }
    /* The end of training is not an exit, and it stays the end. */
    assert_all(tr_stop_after(&never, &world, 100, 1e9) == TR_STOP_DONE);
    assert_all(tr_stop_after(&often, &world, 100, 1e9) == TR_STOP_DONE);
    assert_all(tr_stop_after(&often, &world, 101, 1e9) == TR_STOP_DONE);
}

/* Each rank alone reaches the minute before the others do; all of them hear it. */
static void duration(void **state)
{
    struct tr_stop s = rule(7, 2);

    (void)state;
    assert_all(tr_stop_after(&s, &world, 1, 1000.0 + 120.0) == TR_STOP_NOT);
    for (int early = 0; early < world.size; early++) {
        double now = 1000.0 + (world.rank == early ? 120.001 : 119.0);

        assert_all(tr_stop_after(&s, &world, 1, now) == TR_STOP_DURATION);
        assert_all(tr_stop_after(&s, &world, 7, now) == TR_STOP_DURATION);
        assert_all(tr_stop_after(&s, &world, 100, now) == TR_STOP_DONE);
    }
    assert_all(tr_stop_after(&s, &world, 7, 1000.0) == TR_STOP_INTERVAL);
}

/* Without a duration nobody asks the others. */
static void silence(void **state)
{
    struct tr_stop s = rule(7, 0);
    uint64_t before = world.seq;

    (void)state;
    tr_stop_after(&s, &world, 1, 0.0);
    assert_all(world.seq == before);
}

static void lines(void **state)
{
    struct tr_stop s = rule(25, 600);
    char buf[TR_REPORT_BYTES];
    struct tr_moment now = {1621758065, -1};

    (void)state;
    tr_stop_line(buf, sizeof buf, &s, TR_STOP_INTERVAL, 75, 0.0, now);
    assert_all(strcmp(buf, "[exiting program at iteration 75] datetime: 2021-05-23 08:21:05 ") ==
               0);
    tr_stop_line(buf, sizeof buf, &s, TR_STOP_DURATION, 75, 1000.0 + 600.25 * 60.0, now);
    assert_all(strcmp(buf, "[exiting program after 600.25 minutes] datetime: "
                           "2021-05-23 08:21:05 ") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations),
        cmocka_unit_test(duration),
        cmocka_unit_test(silence),
        cmocka_unit_test(lines),
    };

    setenv("TZ", "UTC0", 1);
    tzset();
    return run_mpi_tap(tests);
}
