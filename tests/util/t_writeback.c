/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/rng.h"
#include "util/writeback.h"

/* The calls that a file is written with, counted; and a disk that fails at one of them. */
static struct {
    int64_t writes, starts, waits;
    int64_t kept, most; /* bytes in the page cache, now and at most */
    int64_t fails_at;   /* which sync_file_range() fails; -1: none */
    int error;
} disk;

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    disk.writes++;
    disk.kept += (int64_t)bytes;
    disk.most = disk.kept > disk.most ? disk.kept : disk.most;
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

int sync_file_range(int fd, off_t at, off_t bytes, unsigned flags)
{
    if (disk.starts + disk.waits == disk.fails_at) {
        errno = disk.error;
        return -1;
    }
    if (flags & SYNC_FILE_RANGE_WAIT_AFTER)
        disk.waits++;
    else
        disk.starts++;
    return (int)syscall(SYS_sync_file_range, fd, at, bytes, flags);
}

/* Only what was waited for can be given back. */
int posix_fadvise(int fd, off_t at, off_t bytes, int advice)
{
    (void)fd;
    (void)at;
    assert_int_equal(advice, POSIX_FADV_DONTNEED);
    assert_true(disk.waits > 0);
    disk.kept -= bytes;
    return 0;
}

enum { BYTES = 48 << 20 };

static unsigned char *image;

static int open_file(void)
{
    char path[] = "/tmp/trireme-writeback-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    memset(&disk, 0, sizeof disk);
    disk.fails_at = -1;
    return fd;
}

static void assert_holds(int fd, const unsigned char *want)
{
    unsigned char *got = malloc(BYTES);

    assert_int_equal(fsync(fd), 0);
    assert_int_equal(pread(fd, got, BYTES, 0), BYTES);
    assert_memory_equal(got, want, BYTES);
    free(got);
    close(fd);
}

static int setup(void **state)
{
    struct tr_rng rng = tr_rng_key(3, TR_STREAM_INIT, 0, 0);

    (void)state;
    image = malloc(BYTES);
    if (!image)
        return -1;
    for (int i = 0; i < BYTES; i++)
        image[i] = (unsigned char)(tr_rng_u32(rng, (uint64_t)i / 64) >> i % 24);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(image);
    return 0;
}

/* However much is written in one call, a few windows of it are kept. */
static void bounded(void **state)
{
    struct tr_writeback w = {.fd = open_file()};

    (void)state;
    assert_int_equal(tr_writeback_put(&w, image, BYTES, 0), 0);
    assert_int_equal(disk.starts, BYTES / TR_WRITEBACK_WINDOW);
    assert_int_equal(disk.waits, BYTES / TR_WRITEBACK_WINDOW - TR_WRITEBACK_WINDOWS);
    assert_int_equal(disk.most, (TR_WRITEBACK_WINDOWS + 1) * TR_WRITEBACK_WINDOW);
    assert_holds(w.fd, image);
}

/* Tensors of odd lengths with small gaps, as in a checkpoint: large writes to the disk still. */
static void in_pieces(void **state)
{
    struct tr_writeback w = {.fd = open_file()};
    unsigned char *want = calloc(1, BYTES);
    struct tr_rng rng = tr_rng_key(4, TR_STREAM_INIT, 0, 0);
    int64_t at = 4096, bytes;

    (void)state;
    for (uint64_t i = 0; at < BYTES; i++, at += bytes + 4096) {
        bytes = 1 + (i % 2 ? 3072 : tr_rng_u32(rng, i) % (5 << 20));
        bytes = bytes < BYTES - at ? bytes : BYTES - at;
        memcpy(want + at, image + at, (size_t)bytes);
        assert_int_equal(tr_writeback_put(&w, image + at, bytes, at), 0);
    }
    assert_in_range(disk.starts, BYTES / TR_WRITEBACK_WINDOW, BYTES / TR_WRITEBACK_WINDOW + 1);
    assert_true(disk.most <= (TR_WRITEBACK_WINDOWS + 1) * TR_WRITEBACK_WINDOW);
    assert_holds(w.fd, want);
    free(want);
}

/* Rows that are sharded over ranks by columns: pages are left to the last rank. */
static void interleaved(void **state)
{
    struct tr_writeback w[2] = {{.fd = open_file()}};

    (void)state;
    w[1].fd = w[0].fd;
    for (int64_t at = 0, rank = 0; at < BYTES; at += 3072, rank = !rank)
        assert_int_equal(
            tr_writeback_put(&w[rank], image + at, at + 3072 < BYTES ? 3072 : BYTES - at, at), 0);
    assert_int_equal(disk.starts + disk.waits, 0);
    assert_holds(w[0].fd, image);
}

/* The disk reports an error once; the caller that gets it must report it. */
static void failing(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    int64_t calls = 0;

    (void)state;
    for (int64_t at = 0; at <= calls; at++) {
        struct tr_writeback w = {.fd = open_file()};

        disk.fails_at = at;
        disk.error = errors[at % 3];
        errno = 0;
        if (tr_writeback_put(&w, image, BYTES, 0) != 0)
            assert_int_equal(errno, disk.error);
        else
            assert_int_equal(at, disk.starts + disk.waits);
        calls = BYTES / TR_WRITEBACK_WINDOW * 2 - TR_WRITEBACK_WINDOWS;
        close(w.fd);
    }
}

/* Some file systems do not have the call. */
static void lacking(void **state)
{
    static const int errors[] = {ENOSYS, EINVAL, ESPIPE};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tr_writeback w = {.fd = open_file()};

        disk.fails_at = 0;
        disk.error = errors[i];
        assert_int_equal(tr_writeback_put(&w, image, BYTES, 0), 0);
        assert_holds(w.fd, image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded), cmocka_unit_test(in_pieces), cmocka_unit_test(interleaved),
        cmocka_unit_test(failing), cmocka_unit_test(lacking),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
