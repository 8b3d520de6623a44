/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "telemetry/timer.h"

enum { RANKS = 3 };

static char buf[TR_TIMERS_BYTES(RANKS)];
static double all[RANKS * TR_TIMERS];

static void set(int rank, enum tr_timer t, double seconds)
{
    all[rank * TR_TIMERS + (int)t] = seconds;
}

static int table(enum tr_timer_view view, int level, int iterations)
{
    enum tr_timer timers[TR_TIMERS];
    int count = tr_timers_of_level(timers, level);

    return tr_timers_table_of(buf, sizeof buf, view, all, RANKS, timers, count, iterations);
}

/* The three forms; rank 1 has no forward-recv, and what no rank has is not there. */
static void tables(void **state)
{
    int n;

    (void)state;
    memset(all, 0, sizeof all);
    for (int rank = 0; rank < RANKS; rank++) {
        set(rank, TR_TIMER_FORWARD_COMPUTE, 0.7794 + 0.1 * rank);
        set(rank, TR_TIMER_OPTIMIZER, 1.5);
    }
    set(0, TR_TIMER_FORWARD_RECV, 0.02);
    set(2, TR_TIMER_FORWARD_RECV, 0.01);
    n = table(TR_TIMER_MINMAX, 2, 10);
    assert_int_equal(n, (int)strlen(buf));
    assert_string_equal(buf,
                        "(min, max) time across ranks (ms):\n"
                        "    forward-compute ................................: (77.94, 97.94)\n"
                        "    forward-recv ...................................: (1.00, 2.00)\n"
                        "    optimizer ......................................: (150.00, 150.00)");
    table(TR_TIMER_MAX, 2, 1);
    assert_string_equal(buf, "max time across ranks (ms):\n"
                             "    forward-compute ................................: 979.40\n"
                             "    forward-recv ...................................: 20.00\n"
                             "    optimizer ......................................: 1500.00");
    table(TR_TIMER_ALL, 2, 1);
    assert_string_equal(buf, "times across ranks (ms):\n"
                             "  forward-compute:\n"
                             "     rank  0: 779.40\n     rank  1: 879.40\n     rank  2: 979.40\n"
                             "  forward-recv:\n     rank  0: 20.00\n     rank  2: 10.00\n"
                             "  optimizer:\n"
                             "     rank  0: 1500.00\n     rank  1: 1500.00\n     rank  2: 1500.00");
}

/* Level 1 has the large parts; nothing to show is no text. */
/* No place is taken twice: every timer but those of set-up is there, once. */
static void all_but_setup(const enum tr_timer *timers, int count, bool split)
{
    for (int t = 0; t < TR_TIMERS; t++) {
        enum tr_timer_kind kind = tr_timer_kind((enum tr_timer)t);
        int found = 0;

        for (int i = 0; i < count; i++)
            found += timers[i] == (enum tr_timer)t;
        assert_int_equal(found, kind != TR_TIMER_SETUP && kind != TR_TIMER_OWN &&
                                    (kind == TR_TIMER_SPLIT) == split);
    }
}

static void levels(void **state)
{
    enum tr_timer timers[TR_TIMERS];
    int some, many;

    (void)state;
    memset(all, 0, sizeof all);
    set(0, TR_TIMER_FORWARD_COMPUTE, 1.0);
    assert_int_equal(table(TR_TIMER_MINMAX, 1, 1), 0);
    set(1, TR_TIMER_PARAMS_ALL_REDUCE, 1.0);
    set(1, TR_TIMER_EMBEDDING_ALL_REDUCE, 2.0);
    table(TR_TIMER_MAX, 1, 1);
    assert_string_equal(buf, "max time across ranks (ms):\n"
                             "    embedding-grads-all-reduce .....................: 2000.00\n"
                             "    all-grads-sync .................................: 1000.00");
    assert_int_equal(tr_timers_of_level(timers, 0), 0);
    some = tr_timers_of_level(timers, 1);
    many = tr_timers_of_level(timers, 2);
    assert_true(some > 0 && many > some);
    all_but_setup(timers, many, false);
    some = tr_timers_of_split(timers, 1);
    many = tr_timers_of_split(timers, 2);
    assert_true(some > 0 && many > some);
    all_but_setup(timers, many, true);
}

/* Named timers, in the order given: the longest dots that there are, and the shortest. */
static void named(void **state)
{
    const enum tr_timer timers[] = {TR_TIMER_DATA_SETUP, TR_TIMER_ALL_FOUR};

    (void)state;
    memset(all, 0, sizeof all);
    set(0, TR_TIMER_DATA_SETUP, 3.0);
    set(0, TR_TIMER_ALL_FOUR, 4.0);
    tr_timers_table_of(buf, sizeof buf, TR_TIMER_MINMAX, all, RANKS, timers, 2, 1);
    assert_string_equal(buf,
                        "(min, max) time across ranks (ms):\n"
                        "    train/valid/test-data-iterators-setup ..........: (3000.00, 3000.00)\n"
                        "    forward-backward-send-forward-backward-recv ....: (4000.00, 4000.00)");
}

/* The line of 2021: in its order, without what lies around others, and nothing that never ran. */
static void line(void **state)
{
    double seconds[TR_TIMERS];

    (void)state;
    tr_timer_start(TR_TIMER_FORWARD_BACKWARD);
    tr_timer_start(TR_TIMER_BATCH_GENERATOR);
    tr_timer_stop(TR_TIMER_BATCH_GENERATOR);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    tr_timer_stop(TR_TIMER_FORWARD_BACKWARD);
    tr_timer_start(TR_TIMER_SAVE_CHECKPOINT);
    tr_timer_stop(TR_TIMER_SAVE_CHECKPOINT);
    tr_timers_read(seconds);
    assert_true(seconds[TR_TIMER_FORWARD_BACKWARD] > 0.0 && seconds[TR_TIMER_OPTIMIZER] > 0.0);
    tr_timers_line(buf, sizeof buf, 1);
    assert_memory_equal(buf, "time (ms) | optimizer: 0.", 25);
    assert_non_null(strstr(buf, " | batch-generator: 0."));
    assert_null(strstr(buf, "forward-backward"));
    tr_timers_reset();
    tr_timers_line(buf, sizeof buf, 1);
    assert_string_equal(buf, "time (ms) | optimizer: 0.00 | batch-generator: 0.00");
    tr_timers_read(seconds);
    assert_true(seconds[TR_TIMER_SAVE_CHECKPOINT] > 0.0 && seconds[TR_TIMER_OPTIMIZER] == 0.0);
}

/* A device that works behind the host: time passes on it between calls of its own, and a mark counts
   once it has settled.  Seconds are powers of two, so sums are exact. */
enum { MARKS = 6 };

static struct {
    double now, mark[MARKS];
    bool passed[MARKS];
    int settled, marked, depth;
    const char *range;
} fake;

static void fake_settle(void *ctx)
{
    assert_ptr_equal(ctx, &fake);
    fake.settled++;
    for (int i = 0; i < MARKS; i++)
        fake.passed[i] = true;
}

static void fake_mark(void *ctx, int i)
{
    assert_ptr_equal(ctx, &fake);
    assert_in_range(i, 0, MARKS - 1);
    fake.mark[i] = fake.now;
    fake.passed[i] = false;
    fake.marked++;
}

static double fake_between(void *ctx, int from, int to)
{
    assert_ptr_equal(ctx, &fake);
    assert_true(fake.passed[from] && fake.passed[to]);
    return fake.mark[to] - fake.mark[from];
}

static void fake_range(void *ctx, const char *name)
{
    assert_ptr_equal(ctx, &fake);
    fake.depth += name ? 1 : -1;
    fake.range = name;
}

static void clock_of(int marks)
{
    const struct tr_clock c = {.ctx = &fake,
                               .settle = fake_settle,
                               .marks = marks,
                               .mark = fake_mark,
                               .between = fake_between,
                               .range = fake_range};

    memset(&fake, 0, sizeof fake);
    tr_timers_clock(&c);
    tr_timers_reset();
}

/* Timed by the host, which waits; profilers hear of it. */
static void host_waits(void **state)
{
    (void)state;
    clock_of(0);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    assert_int_equal(fake.settled, 1);
    assert_string_equal(fake.range, "optimizer");
    tr_timer_start(TR_TIMER_CLIP);
    assert_string_equal(fake.range, "optimizer-clip-main-grad");
    assert_int_equal(fake.depth, 2);
    tr_timer_stop(TR_TIMER_CLIP);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    assert_int_equal(fake.settled, 4);
    assert_int_equal(fake.depth, 0);
    assert_int_equal(fake.marked, 0);
    assert_true(tr_timer_seconds(TR_TIMER_OPTIMIZER) > tr_timer_seconds(TR_TIMER_CLIP));
    tr_timers_pause(true);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    tr_timers_pause(false);
    assert_int_equal(fake.settled, 4);
    tr_timers_clock(NULL);
    assert_null(fake.range);
}

/* Timed by the device: no wait before the timers are read. */
static void marks(void **state)
{
    (void)state;
    clock_of(MARKS);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    fake.now += 0.5;
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    fake.now += 8.0;
    tr_timer_start(TR_TIMER_OPTIMIZER);
    fake.now += 0.25;
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    assert_int_equal(fake.settled, 0);
    assert_int_equal(fake.depth, 0);
    assert_true(tr_timer_take(TR_TIMER_OPTIMIZER) == 0.75);
    assert_int_equal(fake.settled, 1);
    assert_true(tr_timer_take(TR_TIMER_OPTIMIZER) == 0.0);
    tr_timers_settle();
    assert_int_equal(fake.settled, 1);
    tr_timers_clock(NULL);
}

/* More starts and stops than marks, inside a timer that runs all the time. */
static void few_marks(void **state)
{
    (void)state;
    clock_of(MARKS);
    tr_timer_start(TR_TIMER_FORWARD_BACKWARD);
    for (int i = 0; i < 50; i++) {
        fake.now += 1.0;
        tr_timer_start(TR_TIMER_FORWARD_COMPUTE);
        fake.now += 0.5;
        tr_timer_start(TR_TIMER_BATCH_GENERATOR);
        fake.now += 0.125;
        tr_timer_stop(TR_TIMER_BATCH_GENERATOR);
        fake.now += 0.25;
        tr_timer_stop(TR_TIMER_FORWARD_COMPUTE);
    }
    fake.now += 1.0;
    tr_timer_stop(TR_TIMER_FORWARD_BACKWARD);
    assert_true(tr_timer_seconds(TR_TIMER_FORWARD_BACKWARD) == 50 * 1.875 + 1.0);
    assert_true(tr_timer_seconds(TR_TIMER_FORWARD_COMPUTE) == 50 * 0.875);
    assert_true(tr_timer_seconds(TR_TIMER_BATCH_GENERATOR) == 50 * 0.125);
    assert_in_range(fake.settled, 202 / MARKS, 202 / (MARKS - 2) + 1);
    tr_timers_clock(NULL);
}

/* A forward pass that computes for 1.5 s and communicates for 8 and 16, one of these in a call within another. */
static void pass_with_messages(void)
{
    tr_timer_start(TR_TIMER_FORWARD_COMPUTE);
    fake.now += 1.0;
    tr_timers_own_pause();
    fake.now += 8.0;
    tr_timers_own_resume();
    fake.now += 0.25;
    tr_timers_own_pause();
    tr_timers_own_pause();
    fake.now += 16.0;
    tr_timers_own_resume();
    tr_timers_own_resume();
    fake.now += 0.25;
    tr_timer_stop(TR_TIMER_FORWARD_COMPUTE);
}

/* Own compute time leaves communication out, on marks of a device whether or not the other timers wait for it, and
   also where there are fewer marks than it takes. */
static void own(void **state)
{
    struct tr_clock c = {.ctx = &fake,
                         .apart = true,
                         .settle = fake_settle,
                         .marks = MARKS,
                         .mark = fake_mark,
                         .between = fake_between};

    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        memset(&fake, 0, sizeof fake);
        c.waits = waits;
        tr_timers_clock(&c);
        tr_timers_own(true);
        tr_timers_own_pause();
        tr_timers_own_resume();
        pass_with_messages();
        tr_timer_start(TR_TIMER_OPTIMIZER);
        fake.now += 32.0;
        tr_timer_stop(TR_TIMER_OPTIMIZER);
        tr_timers_pause(true);
        pass_with_messages();
        tr_timers_pause(false);
        assert_true(tr_timer_seconds(TR_TIMER_OWN_COMPUTE) == 1.5);
        tr_timers_own(false);
        tr_timers_reset();
        pass_with_messages();
        assert_true(tr_timer_seconds(TR_TIMER_OWN_COMPUTE) == 0.0);
        assert_true(waits || tr_timer_seconds(TR_TIMER_FORWARD_COMPUTE) == 25.5);
        tr_timers_reset();
    }
    tr_timers_clock(NULL);
}

static double processor(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Where the processor computes it is this thread's time, in which sleeping does not count: no more than the thread
   had in all. */
static void own_of_thread(void **state)
{
    const double before = processor();
    double seconds;

    (void)state;
    tr_timers_reset();
    tr_timers_own(true);
    tr_timer_start(TR_TIMER_BACKWARD_COMPUTE);
    while (processor() < before + 0.01)
        ;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    tr_timer_stop(TR_TIMER_BACKWARD_COMPUTE);
    seconds = tr_timer_take(TR_TIMER_OWN_COMPUTE);
    assert_true(seconds > 0.0 && seconds <= processor() - before);
    assert_true(tr_timer_take(TR_TIMER_BACKWARD_COMPUTE) >= 0.05);
    tr_timers_own(false);
}

/* Set-up begins before there is a device and ends when there is none any more. */
static void around(void **state)
{
    (void)state;
    tr_timer_take(TR_TIMER_MODEL_SETUP);
    tr_timer_start(TR_TIMER_MODEL_SETUP);
    clock_of(MARKS);
    tr_timer_start(TR_TIMER_LOAD_CHECKPOINT);
    assert_int_equal(fake.depth, 1);
    tr_timer_stop(TR_TIMER_LOAD_CHECKPOINT);
    assert_int_equal(fake.marked, 0);
    assert_int_equal(fake.settled, 2);
    tr_timer_start(TR_TIMER_DATA_SETUP);
    tr_timer_stop(TR_TIMER_MODEL_SETUP);
    assert_int_equal(fake.depth, 1);
    tr_timers_clock(NULL);
    tr_timer_stop(TR_TIMER_DATA_SETUP);
    assert_true(tr_timer_take(TR_TIMER_MODEL_SETUP) > 0.0);
    assert_true(tr_timer_take(TR_TIMER_LOAD_CHECKPOINT) > 0.0);
    assert_true(tr_timer_take(TR_TIMER_DATA_SETUP) > 0.0);
}

/* The table of waits: the median between the others, the host of the largest, zeros that count,
   ranks that do not have the timer, names of any length. */
static void split(void **state)
{
    static const char host[RANKS][64] = {"r1i0n0", "r1i0n1", "r7i4n2"};
    const enum tr_timer timers[] = {TR_TIMER_FILL_WAIT, TR_TIMER_ALL_FOUR_TRANSFER,
                                    TR_TIMER_STEADY_WAIT, TR_TIMER_DRAIN_WAIT};
    double scratch[RANKS], mine[TR_TIMERS];
    const struct tr_split_times times = {RANKS, all, host, scratch};
    int n;

    (void)state;
    for (int i = 0; i < RANKS * TR_TIMERS; i++)
        all[i] = -1.0;
    set(0, TR_TIMER_FILL_WAIT, 0.0);
    set(1, TR_TIMER_FILL_WAIT, 0.5);
    set(2, TR_TIMER_FILL_WAIT, 0.2);
    set(1, TR_TIMER_ALL_FOUR_TRANSFER, 0.1);
    set(2, TR_TIMER_ALL_FOUR_TRANSFER, 0.3);
    set(0, TR_TIMER_STEADY_WAIT, 0.0);
    n = tr_timers_split_table(buf, sizeof buf, TR_TIMER_MINMAX, &times, timers, 4, 10);
    assert_int_equal(n, (int)strlen(buf));
    assert_string_equal(
        buf, "(min, median, max) wait and transfer across ranks (ms):\n"
             "    pipeline-fill-wait .............................: (0.00, 20.00, 50.00) "
             "rank 1 on r1i0n1\n"
             "    forward-backward-send-forward-backward-recv-transfer : (10.00, 20.00, 30.00) "
             "rank 2 on r7i4n2");
    tr_timers_split_table(buf, sizeof buf, TR_TIMER_MAX, &times, timers, 1, 10);
    assert_string_equal(buf, "max wait and transfer across ranks (ms):\n"
                             "    pipeline-fill-wait .............................: 50.00 "
                             "rank 1 on r1i0n1");
    tr_timers_split_table(buf, sizeof buf, TR_TIMER_ALL, &times, timers + 1, 1, 1);
    assert_string_equal(buf, "wait and transfer across ranks (ms):\n"
                             "  forward-backward-send-forward-backward-recv-transfer:\n"
                             "     rank  1: 100.00\n     rank  2: 300.00");
    assert_int_equal(tr_timers_split_table(buf, sizeof buf, TR_TIMER_MAX, &times, timers + 2, 2, 1),
                     0);

    assert_int_equal(tr_timers_split_line(buf, sizeof buf, 1), 0);
    assert_false(tr_timer_has_parts(TR_TIMER_OPTIMIZER));
    assert_true(tr_timer_has_parts(TR_TIMER_FORWARD_RECV));
    tr_timer_add_parts(TR_TIMER_FORWARD_RECV, 0.25, 0.5);
    tr_timer_add(TR_TIMER_FILL_WAIT, 0.0);
    n = tr_timers_split_line(buf, sizeof buf, 10);
    assert_int_equal(n, (int)strlen(buf));
    assert_string_equal(buf, "wait and transfer (ms) | pipeline-fill-wait: 0.00 | "
                             "forward-recv-wait: 25.00 | forward-recv-transfer: 50.00");
    tr_timers_read_split(mine);
    assert_true(mine[TR_TIMER_FILL_WAIT] >= 0.0 && mine[TR_TIMER_DRAIN_WAIT] < 0.0);
    assert_true(mine[TR_TIMER_FORWARD_RECV] < 0.0);
    tr_timers_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),    cmocka_unit_test(levels),        cmocka_unit_test(named),
        cmocka_unit_test(line),      cmocka_unit_test(host_waits),    cmocka_unit_test(marks),
        cmocka_unit_test(few_marks), cmocka_unit_test(around),        cmocka_unit_test(split),
        cmocka_unit_test(own),       cmocka_unit_test(own_of_thread),
    };

    return run_tap(tests);
}
