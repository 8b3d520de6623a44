/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <signal.h>

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

/* One rank hears it, all of them stop; it goes before a duration that is over. */
static void signals(void **state)
{
    struct tr_config c;
    struct tr_shape shape = {.train_iters = 100};
    struct tr_stop s;

    (void)state;
    tr_config_init(&c);
    c.exit_signal_handler = true;
    c.exit_signal = TR_EXIT_SIGUSR1;
    c.exit_duration_in_mins = 2;
    tr_stop_init(&s, &c, &shape, 1000.0);
    for (int one = 0; one < world.size; one++) {
        struct sigaction now;
        uint64_t before;

        tr_stop_listen(&c);
        assert_all(tr_stop_after(&s, &world, 1, 1000.0) == TR_STOP_NOT);
        if (world.rank == one)
            raise(SIGUSR1);
        /* The next one would do what it does to any program. */
        sigaction(SIGUSR1, NULL, &now);
        assert_all((now.sa_handler == SIG_DFL) == (world.rank == one));
        before = world.seq;
        assert_all(tr_stop_after(&s, &world, 1, 1000.0) == TR_STOP_SIGNAL);
        assert_all(tr_stop_after(&s, &world, 1, 1000.0 + 121.0) == TR_STOP_SIGNAL);
        assert_all(world.seq == before + 2);
        assert_all(tr_stop_after(&s, &world, 100, 1000.0) == TR_STOP_DONE);
    }
    tr_config_release(&c);
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
    s.signal = TR_EXIT_SIGTERM;
    tr_stop_line(buf, sizeof buf, &s, TR_STOP_SIGNAL, 75, 0.0, now);
    assert_all(strcmp(buf, "[exiting program after receiving SIGTERM.] datetime: "
                           "2021-05-23 08:21:05 ") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations), cmocka_unit_test(duration), cmocka_unit_test(silence),
        cmocka_unit_test(signals),    cmocka_unit_test(lines),
    };

    setenv("TZ", "UTC0", 1);
    tzset();
    return run_mpi_tap(tests);
}
