/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CKPT_FAULT_H
#define TR_TESTS_CKPT_FAULT_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The calls by which a save changes the disk, and a load reads it, counted and made to fail.  A
 * program that includes this has its own pwrite() and the like, which the code under test then calls;
 * calls that do not concern `fault.dir` pass as they are.
 */
static struct {
    const char *dir; /* NULL: nothing is counted */
    enum fault_kind {
        FAULT_NONE,
        FAULT_KILL,  /* SIGKILL before call `at`; a write is half done by then */
        FAULT_ERROR, /* call `at` fails with `error` */
        FAULT_EARLY, /* sync_file_range() number `at` fails with `error` */
        FAULT_SHORT, /* writes and reads are short, and every other one is interrupted */
        FAULT_FLIP   /* read `at` gives a wrong bit */
    } kind;
    int error;
    int64_t at, calls, reads, syncs;
    bool no_exchange; /* a file system that cannot exchange two names */
    bool much_room;   /* statvfs() says that there is room */
} fault;

static bool concerns_path(const char *path)
{
    return fault.dir && strncmp(path, fault.dir, strlen(fault.dir)) == 0;
}

static bool concerns(int fd)
{
    char link[64], path[1024];
    ssize_t n;

    if (!fault.dir)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return concerns_path(path);
}

/* The same for a name in an open folder. */
static bool concerns_name(int folder, const char *name)
{
    return folder == AT_FDCWD ? concerns_path(name) : concerns(folder);
}

/* One more call that changes the disk: does it fail? */
static bool strikes(void)
{
    if (fault.calls++ != fault.at)
        return false;
    if (fault.kind == FAULT_KILL)
        raise(SIGKILL);
    errno = fault.error;
    return fault.kind == FAULT_ERROR;
}

/* How many bytes of a write or read to do now; 0 for an interruption. */
static size_t shortened(size_t bytes)
{
    static int turn;

    if (fault.kind != FAULT_SHORT)
        return bytes;
    if (++turn % 2 == 0) {
        errno = EINTR;
        return 0;
    }
    return bytes > 100 ? 100 : bytes;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    if (concerns(fd)) {
        if (fault.kind == FAULT_KILL && fault.calls == fault.at)
            (void)!syscall(SYS_pwrite64, fd, data, bytes / 2, at);
        if (strikes() || !(bytes = shortened(bytes)))
            return -1;
    }
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (concerns(fd) && strikes())
        return -1;
    return syscall(SYS_write, fd, data, bytes);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    ssize_t n;

    if (!concerns(fd))
        return syscall(SYS_pread64, fd, data, bytes, at);
    if (!(bytes = shortened(bytes)))
        return -1;
    n = syscall(SYS_pread64, fd, data, bytes, at);
    if (fault.kind == FAULT_FLIP && fault.reads++ == fault.at && n > 0)
        ((unsigned char *)data)[n / 2] ^= 0x10;
    return n;
}

int ftruncate(int fd, off_t length)
{
    return concerns(fd) && strikes() ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int fsync(int fd)
{
    return concerns(fd) && strikes() ? -1 : (int)syscall(SYS_fsync, fd);
}

int sync_file_range(int fd, off_t at, off_t bytes, unsigned flags)
{
    if (concerns(fd) && fault.syncs++ == fault.at && fault.kind == FAULT_EARLY) {
        errno = fault.error;
        return -1;
    }
    return (int)syscall(SYS_sync_file_range, fd, at, bytes, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return concerns_path(path) && strikes() ? -1 : mkdirat(AT_FDCWD, path, mode);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return concerns_name(to_dir, to) && strikes()
               ? -1
               : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (concerns_path(to) && fault.no_exchange) {
        errno = EINVAL;
        return -1;
    }
    if (concerns_path(to) && strikes())
        return -1;
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int unlinkat(int folder, const char *name, int flags)
{
    return concerns_name(folder, name) && strikes()
               ? -1
               : (int)syscall(SYS_unlinkat, folder, name, flags);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int statvfs(const char *path, struct statvfs *fs)
{
    int (*next)(const char *, struct statvfs *);
    void *found = dlsym(RTLD_NEXT, "statvfs");
    int rc;

    memcpy(&next, &found, sizeof next);
    rc = next(path, fs);
    if (fault.much_room)
        fs->f_bavail = 1 << 30;
    return rc;
}

#endif
