/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "data/folder.h"
#include "util/file.h"
#include "util/stripe.h"

/* Two blocks and a part of one, so that threads share a record. */
enum { BYTES = (2 << 20) + 3 * TR_STRIPE_ALIGN, RECORDS = 7, BUFFERS = 3 };

static uint64_t *buffer[BUFFERS];

static uint64_t word_of(int64_t record, size_t i, int round)
{
    return ((uint64_t)record << 40) + i * 2654435761U + (uint64_t)round;
}

static void make_record(uint64_t *x, int64_t record, int round)
{
    for (size_t i = 0; i < BYTES / sizeof *x; i++)
        x[i] = word_of(record, i, round);
}

static bool is_record(const uint64_t *x, int64_t record, int round)
{
    for (size_t i = 0; i < BYTES / sizeof *x; i++)
        if (x[i] != word_of(record, i, round))
            return false;
    return true;
}

static bool is_zero(const uint64_t *x)
{
    for (size_t i = 0; i < BYTES / sizeof *x; i++)
        if (x[i] != 0)
            return false;
    return true;
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int make_buffers(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < BUFFERS; i++)
        buffer[i] = aligned_alloc(TR_STRIPE_ALIGN, BYTES);
    return buffer[0] && buffer[1] && buffer[2] ? 0 : -1;
}

static int free_buffers(void **state)
{
    (void)state;
    for (int i = 0; i < BUFFERS; i++)
        free(buffer[i]);
    return 0;
}

/* All of `rounds` rounds: written with several under way, and read so. */
static void turn(struct tr_stripe *s, int rounds)
{
    struct tr_stripe_io io[BUFFERS] = {{0}};

    for (int round = 0; round < rounds; round++) {
        for (int r = 0; r < RECORDS; r++) {
            assert_ok(tr_stripe_wait(s, &io[r % BUFFERS]));
            make_record(buffer[r % BUFFERS], r, round);
            tr_stripe_write(s, &io[r % BUFFERS], r, buffer[r % BUFFERS]);
        }
        for (int i = 0; i < BUFFERS; i++)
            assert_ok(tr_stripe_wait(s, &io[i]));
        for (int r = RECORDS - 1; r >= -BUFFERS; r--) {
            const int before = r + BUFFERS;

            if (before < RECORDS) {
                assert_ok(tr_stripe_wait(s, &io[before % BUFFERS]));
                assert_true(is_record(buffer[before % BUFFERS], before, round));
            }
            if (r >= 0)
                tr_stripe_read(s, &io[r % BUFFERS], r, buffer[r % BUFFERS]);
        }
    }
}

static void records(void **state)
{
    char *a = folder_make(), *b = folder_make();
    char *both = tr_format("%s,%s", a, b);
    struct tr_stripe *s;

    (void)state;
    for (int folders = 1; folders <= 2; folders++) {
        struct tr_stripe_io io = {0};

        assert_ok(tr_stripe_open(folders == 1 ? a : both, "mine", RECORDS, BYTES, &s));
        assert_int_equal(files_in(a) + files_in(b), 0);
        memset(buffer[0], 1, BYTES);
        tr_stripe_read(s, &io, RECORDS - 1, buffer[0]);
        assert_ok(tr_stripe_wait(s, &io));
        assert_true(is_zero(buffer[0]));
        turn(s, 2);
        tr_stripe_close(s);
    }
    tr_stripe_close(NULL);
    free(both);
    folder_remove(a);
    folder_remove(b);
}

static void refused(void **state)
{
    char *folder = folder_make();
    char *missing = tr_format("%s,%s/none", folder, folder), *empty = tr_format("%s,", folder);
    struct rlimit all, few;
    struct tr_stripe *s;

    (void)state;
    assert_fails(TR_EIO, "/none", tr_stripe_open(missing, "mine", RECORDS, BYTES, &s));
    assert_null(s);
    assert_fails(TR_ECONFIG, "with commas between",
                 tr_stripe_open(empty, "mine", RECORDS, BYTES, &s));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = all;
    few.rlim_cur = BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    assert_fails(TR_EIO, "File too large; name a folder of this node with more room",
                 tr_stripe_open(folder, "mine", RECORDS, BYTES, &s));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(files_in(folder), 0);
    free(empty);
    free(missing);
    folder_remove(folder);
}

/* The one descriptor of this process that leads into `folder`. */
static int descriptor_in(const char *folder)
{
    for (int fd = 3; fd < 1024; fd++) {
        char *link = tr_format("/proc/self/fd/%d", fd);
        char to[4096] = "";
        const ssize_t n = readlink(link, to, sizeof to - 1);

        free(link);
        if (n > 0 && strncmp(to, folder, strlen(folder)) == 0)
            return fd;
    }
    return -1;
}

static void broken(void **state)
{
    char *folder = folder_make();
    struct tr_stripe_io io = {0};
    struct rlimit all, few;
    struct tr_stripe *s;

    (void)state;
    assert_ok(tr_stripe_open(folder, "mine", RECORDS, BYTES, &s));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = all;
    few.rlim_cur = BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    tr_stripe_write(s, &io, 1, buffer[0]);
    assert_fails(TR_EIO, "record 1 of the files in", tr_stripe_wait(s, &io));
    assert_fails(TR_EIO, "cannot be written: File too large",
                 (tr_stripe_write(s, &io, 1, buffer[0]), tr_stripe_wait(s, &io)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(ftruncate(descriptor_in(folder), BYTES + TR_STRIPE_ALIGN), 0);
    tr_stripe_read(s, &io, 1, buffer[0]);
    assert_fails(TR_EIO, "cannot be read: the file ends before it", tr_stripe_wait(s, &io));
    tr_stripe_close(s);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records, make_buffers, free_buffers),
        cmocka_unit_test_setup_teardown(refused, make_buffers, free_buffers),
        cmocka_unit_test_setup_teardown(broken, make_buffers, free_buffers),
    };

    return run_tap(tests);
}
