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

/*
 * Show a job that has run for ten hours, with stderr on `fd`: its clock is set back, and the numbers are
 * such that a test that takes some seconds more prints the same.  What was printed goes to out.
 */
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

static void show_on(int fd, int from, double interval, struct tr_done done, int64_t total,
                    char *out, size_t size)
{
    struct tr_meter p;
    int stderr_was = dup(STDERR_FILENO);

    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    tr_meter_start(&p, "read", total, interval);
    p.started -= 36000;
    p.shown -= 2000;
    tr_meter_show(&p, &done);
    /* Too early for another one. */
    p.shown += 1000;
    tr_meter_show(&p, &done);
    assert_true(tr_meter_end(&p) >= 36000);
    assert_true(dup2(stderr_was, STDERR_FILENO) >= 0);
    close(stderr_was);
    read_out(from, out, size);
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
    show_on(ends[1], ends[0], 3000, most, -1, out, sizeof out);
    assert_string_equal(out, "");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(human),
        cmocka_unit_test(in_a_log),
        cmocka_unit_test(on_a_terminal),
    };

    return run_tap(tests);
}
