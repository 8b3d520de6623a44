/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "util/meter.h"

static void human(void **state)
{
    static const struct {
        double x;
        const char *count, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {7, "7", "7 B"},
        {999, "999", "999 B"},
        {1000, "1.00k", "1.00 kB"},
        {1234, "1.23k", "1.23 kB"},
        {9994, "9.99k", "9.99 kB"},
        {9996, "10.0k", "10.0 kB"},
        {45600, "45.6k", "45.6 kB"},
        {99960, "100k", "100 kB"},
        {999499, "999k", "999 kB"},
        {999500, "1.00M", "1.00 MB"},
        {2.5e9, "2.50G", "2.50 GB"},
        {1e15, "1.00P", "1.00 PB"},
        {1e21, "1000E", "1000 EB"},
    };
    char buf[TR_HUMAN];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(tr_human(cases[i].x, buf), cases[i].count);
        assert_string_equal(tr_human_bytes(cases[i].x, buf), cases[i].bytes);
    }
}

/* All that arrives until nothing has for 300 ms: a terminal hands over what was written to it when the
   kernel finds the time, in as many pieces as it likes. */
static void read_out(int from, char *out, size_t size)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    size_t used = 0;

    while (used < size - 1 && poll(&ready, 1, 300) == 1) {
        ssize_t n = read(from, out + used, size - 1 - used);

        if (n <= 0)
            break;
        used += (size_t)n;
    }
    out[used] = '\0';
}

/* A clock that stands until the test moves it. */
static double now;

static double at_now(void)
{
    return now;
}

/* Seconds after the start at which a meter is shown, with stderr on a descriptor. */
struct moments {
    double at[8];
    int count;
};

/* A job that is as far as `done` whenever it shows so; what is printed goes to out. */
static void show_at(int fd, int from, struct tr_meter *p, const struct moments *m,
                    struct tr_done done, char *out, size_t size)
{
    now = 100;
    tr_meter_set_clock(p, at_now);
    for (int i = 0; i < m->count; i++) {
        int stderr_was = dup(STDERR_FILENO);

        now = 100 + m->at[i];
        assert_true(dup2(fd, STDERR_FILENO) >= 0);
        tr_meter_show(p, &done);
        assert_true(dup2(stderr_was, STDERR_FILENO) >= 0);
        close(stderr_was);
    }
    read_out(from, out, size);
}

static void start_on(int fd, struct tr_meter *p, const char *unit, int64_t total, double interval)
{
    int stderr_was = dup(STDERR_FILENO);

    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    tr_meter_start(p, "read", total, interval);
    p->unit = unit;
    assert_true(dup2(stderr_was, STDERR_FILENO) >= 0);
    close(stderr_was);
}

static void end_on(int fd, struct tr_meter *p, double seconds)
{
    int stderr_was = dup(STDERR_FILENO);

    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    assert_float_equal(tr_meter_end(p), seconds, 1e-9);
    assert_true(dup2(stderr_was, STDERR_FILENO) >= 0);
    close(stderr_was);
}

/* Ten hours after the start, and again before the next line is due. */
static void show_on(int fd, int from, double interval, struct tr_done done, int64_t total,
                    char *out, size_t size)
{
    const struct moments m = {{36000, 36000.05}, 2};
    struct tr_meter p;

    start_on(fd, &p, NULL, total, interval);
    show_at(fd, from, &p, &m, done, out, size);
    end_on(fd, &p, 36000.05);
    read_out(from, out + strlen(out), size - strlen(out));
}

static void in_a_log(void **state)
{
    const struct tr_done most = {INT64_C(9000000000000), 54000000, INT64_C(2250000000000)};
    const struct tr_done no_more = {INT64_C(9000000000000), -1, -1};
    char out[1000];
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    show_on(ends[1], ends[0], 1500, most, INT64_C(10000000000000), out, sizeof out);
    assert_string_equal(out, "trireme: read 90%, 1:06:40 left, 9.00 TB of 10.0 TB, 250 MB/s, "
                             "62.5M tokens/s, 1.50k docs/s\n");
    show_on(ends[1], ends[0], 1500, most, INT64_C(9100000000000), out, sizeof out);
    assert_string_equal(out, "trireme: read 99%, 6:40 left, 9.00 TB of 9.10 TB, 250 MB/s, "
                             "62.5M tokens/s, 1.50k docs/s\n");
    show_on(ends[1], ends[0], 1500, no_more, -1, out, sizeof out);
    assert_string_equal(out, "trireme: read 9.00 TB, 250 MB/s\n");
    close(ends[0]);
    close(ends[1]);
}

static void on_a_terminal(void **state)
{
    const struct tr_done most = {INT64_C(9000000000000), -1, -1};
    struct winsize size = {24, 30, 0, 0};
    char out[1000];
    int ours, theirs;

    (void)state;
    /* A container need not have terminals. */
    if (openpty(&ours, &theirs, NULL, NULL, NULL) != 0)
        skip();
    assert_int_equal(fcntl(ours, F_SETFL, O_NONBLOCK), 0);
    show_on(theirs, ours, 1e9, most, INT64_C(10000000000000), out, sizeof out);
    assert_string_equal(out, "\rtrireme: read 90%, 1:06:40 left, 9.00 TB of 10.0 TB, 250 MB/s\033[K"
                             "\r\033[K");
    assert_int_equal(ioctl(theirs, TIOCSWINSZ, &size), 0);
    show_on(theirs, ours, 1e9, most, INT64_C(10000000000000), out, sizeof out);
    assert_string_equal(out, "\rtrireme: read 90%, 1:06:40 le\033[K\r\033[K");
    close(ours);
    close(theirs);
}

/* Nothing in the first five seconds, then at once, and then after each interval. */
static void silent_start(void **state)
{
    static const struct {
        double interval;
        struct moments m;
        int lines;
    } cases[] = {
        {10, {{0, 1, 4.999}, 3}, 0},
        {10, {{4.999, 5, 14.999}, 3}, 1},
        {10, {{5, 14.999, 15, 24, 25}, 5}, 3},
        {10, {{8}, 1}, 1},
        /* Who asks for lines more often has them. */
        {2, {{1.999, 2, 3.999, 4}, 4}, 2},
    };
    const struct tr_done half = {50, -1, -1};
    char out[1000];
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_meter p;
        int lines = 0;

        start_on(ends[1], &p, NULL, 100, cases[i].interval);
        show_at(ends[1], ends[0], &p, &cases[i].m, half, out, sizeof out);
        for (const char *s = out; (s = strchr(s, '\n')); s++)
            lines++;
        assert_int_equal(lines, cases[i].lines);
    }
    close(ends[0]);
    close(ends[1]);
}

/* On a terminal too, although it is written ten times a second later on. */
static void silent_terminal(void **state)
{
    const struct moments early = {{0.2, 1, 4.9}, 3}, later = {{0.2, 5, 5.05, 5.2}, 4};
    const struct tr_done half = {50, -1, -1};
    struct tr_meter p;
    char out[1000];
    int ours, theirs;

    (void)state;
    if (openpty(&ours, &theirs, NULL, NULL, NULL) != 0)
        skip();
    assert_int_equal(fcntl(ours, F_SETFL, O_NONBLOCK), 0);
    start_on(theirs, &p, NULL, 100, 10);
    show_at(theirs, ours, &p, &early, half, out, sizeof out);
    assert_string_equal(out, "");
    end_on(theirs, &p, 4.9);
    read_out(ours, out, sizeof out);
    assert_string_equal(out, "");
    start_on(theirs, &p, NULL, 100, 10);
    show_at(theirs, ours, &p, &later, half, out, sizeof out);
    assert_string_equal(out, "\rtrireme: read 50%, 0:05 left, 50 B of 100 B, 10 B/s\033[K"
                             "\rtrireme: read 50%, 0:05 left, 50 B of 100 B, 10 B/s\033[K");
    close(ours);
    close(theirs);
}

/* What is counted, in the words of the caller; and one who shows nothing. */
static void units(void **state)
{
    static const struct {
        int64_t done, total;
        const char *line;
    } cases[] = {
        {10, 40, "trireme: read 25%, 0:30 left, 10 of 40 rounds, 1 rounds/s\n"},
        {4, 40, "trireme: read 10%, 1:30 left, 4 of 40 rounds, 0.4 rounds/s\n"},
        {12000000, 48000000,
         "trireme: read 25%, 0:30 left, 12.0M of 48.0M rounds, 1.20M rounds/s\n"},
        {25, -1, "trireme: read 25 rounds, 2.5 rounds/s\n"},
    };
    const struct moments m = {{10}, 1};
    char out[1000];
    int ends[2];

    (void)state;
    tr_meter_add(NULL, 1);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_meter p;

        start_on(ends[1], &p, "rounds", cases[i].total, 10);
        p.done = cases[i].done;
        show_at(ends[1], ends[0], &p, &m, (struct tr_done){p.done, -1, -1}, out, sizeof out);
        assert_string_equal(out, cases[i].line);
    }
    close(ends[0]);
    close(ends[1]);
}

/* Counts add up. */
static void adding(void **state)
{
    int ends[2], stderr_was = dup(STDERR_FILENO);
    struct tr_meter p;
    char out[1000];

    (void)state;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    tr_meter_start_count(&p, "counted", "entries", 100);
    now = 0;
    tr_meter_set_clock(&p, at_now);
    tr_meter_add(&p, 30);
    now = 5;
    tr_meter_add(&p, 20);
    now = 6;
    tr_meter_add(&p, 20);
    assert_true(dup2(stderr_was, STDERR_FILENO) >= 0);
    close(stderr_was);
    read_out(ends[0], out, sizeof out);
    assert_string_equal(out, "trireme: counted 50%, 0:05 left, 50 of 100 entries, 10 entries/s\n");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(human),           cmocka_unit_test(in_a_log),
        cmocka_unit_test(on_a_terminal),   cmocka_unit_test(silent_start),
        cmocka_unit_test(silent_terminal), cmocka_unit_test(units),
        cmocka_unit_test(adding),
    };

    return run_tap(tests);
}
