/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/*
 * The job is lost anyway; what counts is the name of the file.  That is written first, by calls that a
 * handler may make.  The last words after it may not be called from any handler, but this one comes from
 * reading a map, which happens in no allocator and under no lock; if they hang all the same, the alarm ends
 * them.
 */
TR_NORETURN static void lost_file(const char *path)
{
    enum { PATIENCE = 10 }; /* seconds */
    static const char head[] = "trireme: error: ";
    static const char tail[] =
        " was shortened or became unreadable while it was in use, so the run cannot go on; "
        "restore the file and resume from the last checkpoint\n";
    char line[4096];
    size_t n = sizeof head - 1, length = strlen(path);

    if (length > sizeof line - sizeof head - sizeof tail)
        length = sizeof line - sizeof head - sizeof tail;
    memcpy(line, head, n);
    memcpy(line + n, path, length);
    memcpy(line + n + length, tail, sizeof tail);
    n += length + sizeof tail - 1;
    (void)!write(STDERR_FILENO, line, n);
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE);
    line[n - 1] = '\0';
    tr_last_words(tr_status_exit_code(TR_EIO), line + sizeof head - 1);
    _exit(tr_status_exit_code(TR_EIO));
}

/* What another handler does about it. */
static struct sigaction sigbus_before;

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    const unsigned char *at = info->si_addr;

    (void)context;
    for (int i = 0; i < MAX_MAPS; i++) {
        const unsigned char *data = maps[i].data;
        const char *path = maps[i].path;

        if (data && path && at >= data && at < data + maps[i].bytes)
            lost_file(path);
    }
    sigaction(signal_number, &sigbus_before, NULL);
    raise(signal_number);
}

static void watch_map(const struct tr_map *m)
{
    static bool installed;

    if (!installed) {
        struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &sigbus_before);
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

int tr_open_regular(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666), error = ENXIO;
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0)
        error = errno;
    else if (S_ISREG(st.st_mode))
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* ENXIO also stands for a socket, and for a FIFO that would be waited for. */
const char *tr_open_why(int error)
{
    if (error == ENXIO || error == EISDIR || error == ENODEV)
        return "it is not a regular file";
    if (error == ELOOP)
        return "it is a symbolic link that is not followed";
    return strerror(error);
}

enum tr_status tr_open_file(const char *path, int flags, int *fd)
{
    *fd = tr_open_regular(path, flags);
    if (*fd < 0)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, tr_open_why(errno));
    return TR_OK;
}

int tr_open_by(const struct tr_opener *by, const char *path)
{
    return by ? by->open(by->ctx, path) : tr_open_regular(path, O_RDONLY);
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
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, tr_open_why(errno));
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

/* Anew, so that nothing is written through a link of that name. */
static int write_new(const char *path, const void *data, size_t bytes)
{
    int fd, error = 0;

    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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

/* Of "state.tmp.node7.123": where ".tmp." begins, "node7" and 123.  False if it is no such name. */
static bool parse_temporary(const char *name, size_t *base, char host[256], long *pid)
{
    const char *at = NULL, *dot = strrchr(name, '.');
    char again[32];

    for (const char *next = name; (next = strstr(next, ".tmp.")) != NULL; next++)
        at = next;
    if (!at || dot <= at + 5 || dot - at - 5 > 255)
        return false;
    *base = (size_t)(at - name);
    snprintf(host, 256, "%.*s", (int)(dot - at - 5), at + 5);
    *pid = strtol(dot + 1, NULL, 10);
    snprintf(again, sizeof again, "%ld", *pid);
    return *pid > 0 && strcmp(again, dot + 1) == 0;
}

static bool is_left(int folder, const char *name, const char *names)
{
    char base[NAME_MAX + 1], mine[256] = "", host[256];
    struct stat st;
    size_t length;
    long pid;

    if (!parse_temporary(name, &length, host, &pid) || length > NAME_MAX)
        return false;
    memcpy(base, name, length);
    base[length] = '\0';
    if (fnmatch(names, base, 0) != 0 || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return false;
    gethostname(mine, sizeof mine - 1);
    if (strcmp(host, mine) == 0)
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
    return difftime(time(NULL), st.st_mtime) > 3600.0;
}

void tr_file_tidy(const char *folder, const char *names)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (is_left(dirfd(d), e->d_name, names))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

/* Where `path` would be if it were made. */
static char *would_be(const char *path)
{
    char *copy = tr_format("%s", path), *again = tr_format("%s", path);
    const char *folder = dirname(copy);
    char *parent = realpath(folder, NULL);
    char *out = tr_format("%s/%s", parent ? parent : folder, basename(again));

    free(parent);
    free(again);
    free(copy);
    return out;
}

bool tr_same_place(const char *a, const char *b)
{
    struct stat x, y;
    char *one, *other;
    bool same;

    if (stat(a, &x) == 0 || stat(b, &y) == 0)
        return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    one = would_be(a);
    other = would_be(b);
    same = strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
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

/* What comes, up to `limit` bytes, and room for one more, in memory that grows with it; -1 with errno. */
static ssize_t read_most(int fd, const char *path, size_t limit, char **text)
{
    size_t done = 0, room = 0;

    for (;;) {
        ssize_t n;

        if (done == limit)
            return (ssize_t)done;
        if (done == room) {
            room = room > 0 ? 2 * room : 1 << 16;
            room = room < limit ? room : limit;
            *text = realloc(*text, room + 1);
            if (!*text)
                tr_die(TR_ERESOURCE, "no memory left to read %s", path);
        }
        n = read(fd, *text + done, room - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -1 : (ssize_t)done;
        done += (size_t)n;
    }
}

static enum tr_status text_of(int fd, const char *path, size_t limit, char **out, size_t *bytes)
{
    char *text = NULL;
    const ssize_t n = read_most(fd, path, limit + 1, &text);

    if (n < 0 || (size_t)n > limit) {
        free(text);
        return n < 0
                   ? TR_FAIL(TR_EIO, "cannot read %s: %s", path, strerror(errno))
                   : TR_FAIL(TR_EDATA, "%s is longer than the %zu bytes it may have", path, limit);
    }
    text[n] = '\0';
    *out = text;
    *bytes = (size_t)n;
    return TR_OK;
}

enum tr_status tr_file_bytes(const char *path, size_t limit, char **out, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum tr_status s;

    *out = NULL;
    *bytes = 0;
    if (fd < 0)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", path, strerror(errno));
    s = text_of(fd, path, limit, out, bytes);
    close(fd);
    return s;
}

enum tr_status tr_output_open(const char *path, FILE **f)
{
    *f = path ? fopen(path, "we") : stdout;
    return *f ? TR_OK : TR_FAIL(TR_EIO, "cannot write %s: %s", path, strerror(errno));
}

enum tr_status tr_output_close(const char *path, FILE *f)
{
    const bool bad = ferror(f) != 0;

    if (path && (fclose(f) != 0 || bad))
        return TR_FAIL(TR_EIO, "cannot write all of %s; is its disk full?", path);
    return TR_OK;
}

enum tr_status tr_file_text(const char *path, size_t limit, char **out)
{
    size_t bytes;

    return tr_file_bytes(path, limit, out, &bytes);
}

enum tr_status tr_regular_text(const char *path, size_t limit, char **out)
{
    enum tr_status s;
    size_t bytes;
    int fd;

    *out = NULL;
    TR_TRY(tr_open_file(path, O_RDONLY, &fd));
    s = text_of(fd, path, limit, out, &bytes);
    close(fd);
    return s;
}
