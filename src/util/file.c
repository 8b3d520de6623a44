/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"

/* Open maps, for the SIGBUS handler: it can read a fixed table, but not take a lock. */
enum { MAX_MAPS = 1024 };
static struct {
    const unsigned char *volatile data;
    volatile size_t bytes;
    const char *volatile path;
} maps[MAX_MAPS];

char *tr_format(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        tr_die(TR_ERESOURCE, "no memory left for a short text");
    return text;
}

/* A pipe that another process made non-blocking is full: wait as a blocking one would. */
static bool waits_for_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return errno == EAGAIN && (poll(&p, 1, -1) > 0 || errno == EINTR);
}

int tr_write_all(int fd, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);

        if (n < 0 && (errno == EINTR || waits_for_room(fd)))
            continue;
        if (n < 0)
            return -1;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int tr_read_at(int fd, void *data, int64_t bytes, int64_t at)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (unsigned char *)data + done, (size_t)(bytes - done), at + done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENODATA;
        if (n <= 0)
            return -1;
        done += n;
    }
    return 0;
}

int tr_write_at(int fd, const void *data, int64_t bytes, int64_t at)
{
    for (int64_t done = 0; done < bytes;) {
        const unsigned char *from = (const unsigned char *)data + done;
        ssize_t n = pwrite(fd, from, (size_t)(bytes - done), at + done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENOSPC;
        if (n <= 0)
            return -1;
        done += n;
    }
    return 0;
}

/* Only async-signal-safe calls here.  The job is lost anyway; what counts is the name of the file. */
static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    static const char head[] = "trireme: error: ", tail[] =
        " was shortened or became unreadable while it was in use, so the run cannot go on; "
        "restore the file and resume from the last checkpoint\n";
    const unsigned char *at = info->si_addr;

    (void)context;
    for (int i = 0; i < MAX_MAPS; i++) {
        const unsigned char *data = maps[i].data;
        const char *path = maps[i].path;

        if (data && path && at >= data && at < data + maps[i].bytes) {
            char line[4096];
            size_t n = 0, length = strlen(path);

            memcpy(line, head, sizeof head - 1);
            n += sizeof head - 1;
            if (length > sizeof line - sizeof head - sizeof tail)
                length = sizeof line - sizeof head - sizeof tail;
            memcpy(line + n, path, length);
            n += length;
            memcpy(line + n, tail, sizeof tail - 1);
            n += sizeof tail - 1;
            (void)!write(STDERR_FILENO, line, n);
            _exit(tr_status_exit_code(TR_EIO));
        }
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_map(const struct tr_map *m)
{
    static bool installed;

    if (!installed) {
        struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, NULL);
        installed = true;
    }
    for (int i = 0; i < MAX_MAPS; i++) {
        if (!maps[i].data) {
            maps[i].path = m->path;
            maps[i].bytes = m->bytes;
            maps[i].data = m->data;
            return;
        }
    }
}

int tr_open_by(const struct tr_opener *by, const char *path)
{
    return by ? by->open(by->ctx, path) : open(path, O_RDONLY | O_CLOEXEC);
}

bool tr_open_is_first(const struct tr_opener *by)
{
    return !by || by->first;
}

enum tr_status tr_map_open(const char *path, struct tr_map *out)
{
    return tr_map_take(tr_open_by(NULL, path), path, out);
}

enum tr_status tr_map_take(int fd, const char *path, struct tr_map *out)
{
    struct stat st;
    void *data = NULL;

    memset(out, 0, sizeof *out);
    if (fd < 0)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return TR_FAIL(TR_EIO, "%s is not a regular file, so it cannot be mapped", path);
    }
    if (st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return TR_FAIL(TR_EIO, "cannot map %s: %s", path, strerror(errno));
    out->data = data;
    out->bytes = (size_t)st.st_size;
    out->path = tr_format("%s", path);
    if (out->data)
        watch_map(out);
    return TR_OK;
}

void tr_map_close(struct tr_map *m)
{
    for (int i = 0; m->data && i < MAX_MAPS; i++)
        if (maps[i].data == m->data)
            maps[i].data = NULL;
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->bytes);
    free(m->path);
    memset(m, 0, sizeof *m);
}

enum tr_status tr_fsync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), failed;

    if (fd < 0)
        return TR_FAIL(TR_EIO, "cannot open %s to flush it: %s", path, strerror(errno));
    failed = fsync(fd) != 0;
    if (failed)
        (void)TR_FAIL(TR_EIO, "cannot flush %s to the disk: %s", path, strerror(errno));
    close(fd);
    return failed ? TR_EIO : TR_OK;
}

static enum tr_status fsync_parent(const char *path)
{
    char *copy = tr_format("%s", path);
    enum tr_status s = tr_fsync_path(dirname(copy));

    free(copy);
    return s;
}

static int write_new(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), error = 0;

    if (fd < 0)
        return errno;
    if (tr_write_all(fd, data, bytes) != 0 || fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

enum tr_status tr_file_replace(const char *path, const void *data, size_t bytes)
{
    char host[256] = "", *temporary;
    int error;

    /* Two machines that share the folder may have a process of the same number. */
    gethostname(host, sizeof host - 1);
    temporary = tr_format("%s.tmp.%s.%ld", path, host, (long)getpid());
    error = write_new(temporary, data, bytes);

    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0) {
        unlink(temporary);
        free(temporary);
        return TR_FAIL(TR_EIO, "cannot write %s: %s; what was there before is untouched", path,
                       strerror(error));
    }
    free(temporary);
    return fsync_parent(path);
}

enum tr_status tr_make_dirs(const char *path)
{
    char *copy = tr_format("%s", path);
    int error = 0;

    for (char *at = copy + 1; error == 0; at++) {
        char was = *at;

        if (was != '/' && was != '\0')
            continue;
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            error = errno;
        *at = was;
        if (was == '\0')
            break;
    }
    free(copy);
    if (error != 0)
        return TR_FAIL(TR_EIO, "cannot make the folder %s: %s", path, strerror(error));
    return TR_OK;
}

enum tr_status tr_file_text(const char *path, size_t limit, char **out)
{
    FILE *f = fopen(path, "re");
    char *text;
    size_t n;
    int failed;

    *out = NULL;
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    text = malloc(limit + 2);
    if (!text)
        tr_die(TR_ERESOURCE, "no memory left to read %s", path);
    n = fread(text, 1, limit + 1, f);
    failed = ferror(f);
    fclose(f);
    if (failed || n > limit) {
        free(text);
        return failed ? TR_FAIL(TR_EIO, "cannot read %s", path)
                      : TR_FAIL(TR_EDATA, "%s is longer than the %zu bytes it may have", path,
                                limit);
    }
    text[n] = '\0';
    *out = text;
    return TR_OK;
}
