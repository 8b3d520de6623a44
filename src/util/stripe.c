/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/stripe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/file.h"
#include "util/thread.h"

/* What a disk is asked at a time, and how many of it for each folder: enough for one NVMe device to be busy. */
enum { BLOCK = 1 << 20, THREADS = 4, FOLDERS = 16 };

struct tr_stripe {
    int folders;
    char *folder[FOLDERS]; /* owned */
    int fd[FOLDERS];
    bool cached[FOLDERS]; /* through the page cache */
    size_t bytes;         /* of a record */
    int threads;
    pthread_t thread[THREADS * FOLDERS];
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    struct tr_stripe_io *first, *last; /* of which something has not been begun */
    bool stop;
};

/* ---- files ---- */

static enum tr_status split(struct tr_stripe *s, const char *folders)
{
    for (const char *at = folders;; at++) {
        const size_t n = strcspn(at, ",");

        if (n == 0 || s->folders == FOLDERS)
            return TR_FAIL(TR_ECONFIG,
                           "%s is no list of folders: give 1 to %d names with commas between",
                           folders, FOLDERS);
        s->folder[s->folders] = tr_format("%.*s", (int)n, at);
        s->fd[s->folders++] = -1;
        at += n;
        if (!*at)
            return TR_OK;
    }
}

static enum tr_status no_room(const struct tr_stripe *s, int i, int64_t bytes, int error)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    struct statvfs v = {0};

    (void)statvfs(s->folder[i], &v);
    return TR_FAIL(TR_EIO,
                   "no file of %.2f GiB can be made in %s, which has %.2f GiB free: %s; name a "
                   "folder of this node with more room, or several with commas between",
                   (double)bytes / gib, s->folder[i], (double)v.f_bavail * (double)v.f_frsize / gib,
                   strerror(error));
}

/* The name is gone at once, and the file with the last descriptor.  Some file systems make it before they refuse. */
static int make_by(const char *path, int flags)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);

    if (fd >= 0 || errno == EINVAL) {
        const int error = errno;

        (void)unlink(path);
        errno = error;
    }
    return fd;
}

static int make(const char *path, bool *cached)
{
    const int fd = make_by(path, O_DIRECT);

    *cached = fd < 0 && errno == EINVAL;
    return *cached ? make_by(path, 0) : fd;
}

/* Where room cannot be taken in advance, the file is as long all the same. */
static int lengthen(int fd, int64_t bytes)
{
    if (fallocate(fd, 0, 0, bytes) == 0)
        return 0;
    return errno == EOPNOTSUPP || errno == ENOSYS ? ftruncate(fd, bytes) : -1;
}

static enum tr_status make_files(struct tr_stripe *s, const char *name, int64_t records)
{
    for (int i = 0; i < s->folders; i++) {
        const int64_t bytes = (records - i + s->folders - 1) / s->folders * (int64_t)s->bytes;
        char *path = tr_format("%s/%s-%ld-%d", s->folder[i], name, (long)getpid(), i);

        s->fd[i] = make(path, &s->cached[i]);
        free(path);
        if (s->fd[i] < 0)
            return TR_FAIL(TR_EIO,
                           "no file can be made in %s: %s; name a folder of this node that this "
                           "user may write to, or several with commas between",
                           s->folder[i], strerror(errno));
        if (bytes > 0 && lengthen(s->fd[i], bytes) != 0)
            return no_room(s, i, bytes, errno);
    }
    return TR_OK;
}

/* ---- threads ---- */

/* The next block of what was asked for, with the lock; 0 bytes where there is none. */
static size_t take(struct tr_stripe *s, struct tr_stripe_io **io, size_t *at)
{
    size_t n;

    *io = s->first;
    if (!*io)
        return 0;
    *at = (*io)->begun;
    n = s->bytes - *at < BLOCK ? s->bytes - *at : BLOCK;
    (*io)->begun += n;
    if ((*io)->begun == s->bytes)
        s->first = (*io)->next;
    return n;
}

static int transfer(const struct tr_stripe *s, const struct tr_stripe_io *io, size_t at, size_t n)
{
    const int fd = s->fd[io->record % s->folders];
    const int64_t place = io->record / s->folders * (int64_t)s->bytes + (int64_t)at;
    const int rc = io->writes ? tr_write_at(fd, io->buffer + at, (int64_t)n, place)
                              : tr_read_at(fd, io->buffer + at, (int64_t)n, place);

    return rc == 0 ? 0 : errno;
}

static void *work(void *arg)
{
    struct tr_stripe *s = arg;
    struct tr_stripe_io *io;
    size_t at = 0, n;
    int error;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        n = take(s, &io, &at);
        if (n == 0) {
            pthread_cond_wait(&s->begin, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        error = transfer(s, io, at, n);
        pthread_mutex_lock(&s->lock);
        if (!io->error)
            io->error = error;
        io->ended += n;
        if (io->ended == s->bytes)
            pthread_cond_signal(&s->end);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static enum tr_status start_threads(struct tr_stripe *s)
{
    while (s->threads < THREADS * s->folders) {
        const int error = tr_thread_start(&s->thread[s->threads], work, s);

        if (error)
            return TR_FAIL(TR_ERESOURCE, "no thread can be started to read and write files: %s",
                           strerror(error));
        s->threads++;
    }
    return TR_OK;
}

/* ---- */

enum tr_status tr_stripe_open(const char *folders, const char *name, int64_t records, size_t bytes,
                              struct tr_stripe **out)
{
    struct tr_stripe *s = calloc(1, sizeof *s);
    enum tr_status status;

    *out = NULL;
    TR_ASSERT(bytes > 0 && bytes % TR_STRIPE_ALIGN == 0);
    if (!s)
        return TR_FAIL(TR_ERESOURCE, "no memory left for a list of files");
    s->bytes = bytes;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->begin, NULL);
    pthread_cond_init(&s->end, NULL);
    status = split(s, folders);
    if (status == TR_OK)
        status = make_files(s, name, records);
    if (status == TR_OK)
        status = start_threads(s);
    if (status != TR_OK)
        tr_stripe_close(s);
    else
        *out = s;
    return status;
}

void tr_stripe_close(struct tr_stripe *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->begin);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->threads; i++)
        pthread_join(s->thread[i], NULL);
    for (int i = 0; i < s->folders; i++) {
        if (s->fd[i] >= 0)
            close(s->fd[i]);
        free(s->folder[i]);
    }
    pthread_cond_destroy(&s->end);
    pthread_cond_destroy(&s->begin);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void begin(struct tr_stripe *s, struct tr_stripe_io *io)
{
    TR_ASSERT((uintptr_t)io->buffer % TR_STRIPE_ALIGN == 0);
    pthread_mutex_lock(&s->lock);
    if (s->first)
        s->last->next = io;
    else
        s->first = io;
    s->last = io;
    pthread_cond_broadcast(&s->begin);
    pthread_mutex_unlock(&s->lock);
}

void tr_stripe_read(struct tr_stripe *s, struct tr_stripe_io *io, int64_t record, void *buffer)
{
    *io = (struct tr_stripe_io){.record = record, .buffer = buffer};
    begin(s, io);
}

void tr_stripe_write(struct tr_stripe *s, struct tr_stripe_io *io, int64_t record,
                     const void *buffer)
{
    *io =
        (struct tr_stripe_io){.record = record, .buffer = (unsigned char *)buffer, .writes = true};
    begin(s, io);
}

enum tr_status tr_stripe_wait(struct tr_stripe *s, struct tr_stripe_io *io)
{
    if (!io->buffer)
        return TR_OK;
    pthread_mutex_lock(&s->lock);
    while (io->ended < s->bytes)
        pthread_cond_wait(&s->end, &s->lock);
    pthread_mutex_unlock(&s->lock);
    io->buffer = NULL;
    if (!io->error)
        return TR_OK;
    return TR_FAIL(TR_EIO, "record %lld of the files in %s cannot be %s: %s", (long long)io->record,
                   s->folder[io->record % s->folders], io->writes ? "written" : "read",
                   io->error == ENODATA ? "the file ends before it" : strerror(io->error));
}

bool tr_stripe_direct(const struct tr_stripe *s)
{
    for (int i = 0; i < s->folders; i++)
        if (s->cached[i])
            return false;
    return true;
}
