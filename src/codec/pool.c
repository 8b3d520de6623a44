/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/file.h"
#include "util/thread.h"

enum state { FREE, READING, CLEAN, HELD, DIRTY, WRITING };

struct buffer {
    enum state state;
    bool was_dirty; /* HELD: it differs from the file */
    bool ahead;     /* wanted, and not taken since */
    int64_t record;
    uint64_t time; /* DIRTY: when it was given; CLEAN: when it was last of use */
};

enum trouble { NONE, CANNOT_READ, CANNOT_WRITE, OTHER_BYTES };

struct tr_pool {
    int fd;
    char *folder;
    int64_t stride, buffers, capacity;
    unsigned char *memory;
    struct buffer *buffer;
    int32_t *where;  /* the buffer of a record, or -1 */
    uint64_t *sum;   /* fingerprint of a record as it was written */
    int64_t *wanted; /* records, or -1 */
    int64_t wants, wants_done;
    uint64_t clock;
    struct tr_store_reads reads;
    enum trouble trouble; /* nothing goes on after it */
    int error;
    bool stop;
    bool runs;
    pthread_t thread;
    pthread_mutex_t lock; /* of all above but memory: that is whose its buffer is */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* by the thread */
};

static unsigned char *memory_of(const struct tr_pool *p, int64_t i)
{
    return p->memory + i * p->stride;
}

/* The first failure is the one to report. */
static void note(struct tr_pool *p, enum trouble trouble, int error)
{
    if (p->trouble == NONE) {
        p->trouble = trouble;
        p->error = error;
    }
    pthread_cond_broadcast(&p->done);
}

static enum tr_status tell(const struct tr_pool *p)
{
    switch (p->trouble) {
    case NONE:
        return TR_OK;
    case CANNOT_WRITE:
        return TR_FAIL(TR_EIO,
                       "cannot write the activation cache to a file in %s: %s; make room there, "
                       "or name another folder with --activation-cache-dir",
                       p->folder, strerror(p->error));
    case CANNOT_READ:
        return TR_FAIL(TR_EIO,
                       "cannot read the activation cache from its file in %s: %s; name another "
                       "folder with --activation-cache-dir",
                       p->folder, strerror(p->error));
    case OTHER_BYTES:
        break;
    }
    return TR_FAIL(TR_EDATA,
                   "the file of the activation cache in %s has other bytes than were written to "
                   "it, so its disk is not to be trusted; name another folder with "
                   "--activation-cache-dir",
                   p->folder);
}

/* Both with the lock, which they give away while they read or write buffer i. */
static void read_in(struct tr_pool *p, int64_t i)
{
    struct buffer *b = &p->buffer[i];
    int64_t record = b->record;
    uint64_t sum = p->sum[record];
    enum trouble trouble = NONE;
    int error = 0;

    b->state = READING;
    pthread_mutex_unlock(&p->lock);
    if (tr_read_at(p->fd, memory_of(p, i), p->stride, record * p->stride) != 0) {
        trouble = CANNOT_READ;
        error = errno;
    } else if (XXH3_64bits(memory_of(p, i), (size_t)p->stride) != sum) {
        trouble = OTHER_BYTES;
    }
    pthread_mutex_lock(&p->lock);
    b->state = CLEAN;
    b->time = ++p->clock;
    if (trouble != NONE)
        note(p, trouble, error);
    pthread_cond_broadcast(&p->done);
}

static void write_out(struct tr_pool *p, int64_t i)
{
    struct buffer *b = &p->buffer[i];
    int64_t record = b->record;
    uint64_t sum;
    int error = 0;

    b->state = WRITING;
    pthread_mutex_unlock(&p->lock);
    sum = XXH3_64bits(memory_of(p, i), (size_t)p->stride);
    if (tr_write_at(p->fd, memory_of(p, i), p->stride, record * p->stride) != 0)
        error = errno;
    pthread_mutex_lock(&p->lock);
    p->sum[record] = sum;
    b->state = CLEAN;
    b->time = ++p->clock;
    if (error != 0)
        note(p, CANNOT_WRITE, error);
    pthread_cond_broadcast(&p->done);
}

/* ---- buffers ---- */

/* One that may be chosen for another record: the one that has been of no use for longest, of those
   wanted ahead only if nothing else is left and `any` is true.  -1: none. */
static int64_t spare(const struct tr_pool *p, bool any)
{
    int64_t best = -1;

    for (int64_t i = 0; i < p->buffers; i++) {
        const struct buffer *b = &p->buffer[i], *old = best < 0 ? NULL : &p->buffer[best];
        if (b->state == FREE)
            return i;
        if (b->state != CLEAN || (b->ahead && !any))
            continue;
        if (!old || (old->ahead && !b->ahead) || (old->ahead == b->ahead && b->time < old->time))
            best = i;
    }
    return best;
}

static void choose(struct tr_pool *p, int64_t i, int64_t record)
{
    if (p->buffer[i].state != FREE)
        p->where[p->buffer[i].record] = -1;
    p->buffer[i].record = record;
    p->buffer[i].ahead = false;
    p->where[record] = (int32_t)i;
}

static int64_t oldest_dirty(const struct tr_pool *p)
{
    int64_t best = -1;

    for (int64_t i = 0; i < p->buffers; i++)
        if (p->buffer[i].state == DIRTY && (best < 0 || p->buffer[i].time < p->buffer[best].time))
            best = i;
    return best;
}

/* ---- the thread ---- */

/* Read one record ahead, if one is wanted and there is a buffer for it. */
static bool read_ahead(struct tr_pool *p)
{
    int64_t i;

    while (p->wants_done < p->wants &&
           (p->wanted[p->wants_done] < 0 || p->where[p->wanted[p->wants_done]] >= 0))
        p->wants_done++;
    if (p->wants_done == p->wants || (i = spare(p, false)) < 0)
        return false;
    choose(p, i, p->wanted[p->wants_done++]);
    p->buffer[i].ahead = true;
    read_in(p, i);
    p->reads.ahead++;
    return true;
}

static void *run(void *arg)
{
    struct tr_pool *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        int64_t i;
        if (p->trouble == NONE && read_ahead(p))
            continue;
        i = oldest_dirty(p);
        if (p->trouble == NONE && i >= 0)
            write_out(p, i);
        else
            pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- open and close ---- */

static enum tr_status open_file(struct tr_pool *p)
{
    char *path = tr_format("%s/trireme-memory-XXXXXX", p->folder);
    enum tr_status s = TR_OK;

    p->fd = mkostemp(path, O_CLOEXEC);
    if (p->fd < 0)
        s = TR_FAIL(TR_EIO,
                    "cannot make a file in %s for the activation cache: %s; name a folder where "
                    "you may write with --activation-cache-dir",
                    p->folder, strerror(errno));
    else
        unlink(path);
    free(path);
    return s;
}

int64_t tr_pool_bytes(int64_t capacity, int64_t stride, int64_t buffers)
{
    const struct tr_pool *p = NULL;
    const size_t each = sizeof *p->where + sizeof *p->sum;

    return buffers * (stride + (int64_t)(sizeof *p->buffer + sizeof *p->wanted)) +
           capacity * (int64_t)each;
}

static enum tr_status take_memory(struct tr_pool *p)
{
    size_t capacity = (size_t)p->capacity, buffers = (size_t)p->buffers;

    p->memory = aligned_alloc(64, buffers * (size_t)p->stride);
    p->buffer = calloc(buffers, sizeof *p->buffer);
    p->where = malloc(capacity * sizeof *p->where);
    p->sum = calloc(capacity, sizeof *p->sum);
    p->wanted = calloc(buffers, sizeof *p->wanted);
    if (!p->memory || !p->buffer || !p->where || !p->sum || !p->wanted)
        return TR_FAIL(TR_ERESOURCE,
                       "no memory left for %lld buffers of %lld bytes in front of the file of "
                       "the activation cache",
                       (long long)p->buffers, (long long)p->stride);
    memset(p->memory, 0, buffers * (size_t)p->stride);
    memset(p->where, -1, capacity * sizeof *p->where);
    return TR_OK;
}

enum tr_status tr_pool_open(const char *folder, int64_t capacity, int64_t stride, int64_t buffers,
                            struct tr_pool **out)
{
    struct tr_pool *p = calloc(1, sizeof *p);
    enum tr_status s;

    *out = NULL;
    TR_ASSERT(buffers >= 2 && buffers <= INT32_MAX && stride % 64 == 0);
    if (!p)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the activation cache");
    p->folder = tr_format("%s", folder);
    p->capacity = capacity;
    p->stride = stride;
    p->buffers = buffers;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    s = open_file(p);
    if (s == TR_OK)
        s = take_memory(p);
    if (s == TR_OK && tr_thread_start(&p->thread, run, p) != 0)
        s = TR_FAIL(TR_ERESOURCE, "there is no room for the thread of the activation cache; look "
                                  "for a limit on processes (ulimit -u)");
    p->runs = s == TR_OK;
    if (s != TR_OK) {
        tr_pool_close(p);
        return s;
    }
    *out = p;
    return TR_OK;
}

void tr_pool_close(struct tr_pool *p)
{
    if (!p)
        return;
    if (p->runs) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_signal(&p->work);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    if (p->fd >= 0)
        close(p->fd);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->wanted);
    free(p->sum);
    free(p->where);
    free(p->buffer);
    free(p->memory);
    free(p->folder);
    free(p);
}

/* ---- for the caller ---- */

/* Make the buffer of `record` the caller's: -1 if that has to wait.  With the lock. */
static int64_t hold(struct tr_pool *p, int64_t record, bool anew)
{
    int64_t i = p->where[record];

    if (i < 0) {
        i = spare(p, true);
        if (i < 0)
            return -1;
        choose(p, i, record);
        p->reads.late += !anew;
        if (anew)
            p->buffer[i].state = CLEAN;
        else
            read_in(p, i);
    }
    if (p->buffer[i].state == READING || p->buffer[i].state == WRITING)
        return -1;
    TR_ASSERT(p->buffer[i].state != HELD);
    p->buffer[i].was_dirty = p->buffer[i].state == DIRTY;
    p->buffer[i].state = HELD;
    p->buffer[i].ahead = false;
    return i;
}

enum tr_status tr_pool_take(struct tr_pool *p, int64_t record, bool anew, void **out)
{
    enum tr_status s;
    int64_t i = -1;

    TR_ASSERT(record >= 0 && record < p->capacity);
    pthread_mutex_lock(&p->lock);
    while (p->trouble == NONE && (i = hold(p, record, anew)) < 0)
        pthread_cond_wait(&p->done, &p->lock);
    s = tell(p);
    pthread_mutex_unlock(&p->lock);
    *out = s == TR_OK ? memory_of(p, i) : NULL;
    return s;
}

/* A record that is not to be read any more, and may never have been written. */
static void unwant(struct tr_pool *p, int64_t record)
{
    for (int64_t i = p->wants_done; i < p->wants; i++)
        if (p->wanted[i] == record)
            p->wanted[i] = -1;
}

void tr_pool_give(struct tr_pool *p, int64_t record, enum tr_store_fate fate)
{
    struct buffer *b;

    pthread_mutex_lock(&p->lock);
    TR_ASSERT(p->where[record] >= 0);
    b = &p->buffer[p->where[record]];
    TR_ASSERT(b->state == HELD);
    b->time = ++p->clock;
    b->state = fate == TR_STORE_NEW || b->was_dirty ? DIRTY : CLEAN;
    if (fate == TR_STORE_GONE) {
        p->where[record] = -1;
        b->state = FREE;
        unwant(p, record);
    }
    /* The thread may also have waited for a buffer that can be chosen. */
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

enum tr_status tr_pool_want(struct tr_pool *p, const int64_t *record, int64_t count)
{
    enum tr_status s;

    pthread_mutex_lock(&p->lock);
    for (int64_t i = 0; i < p->buffers; i++)
        p->buffer[i].ahead = false;
    p->wants = p->wants_done = 0;
    /* One buffer is left to whoever takes a record meanwhile. */
    for (int64_t i = 0; i < count && p->wants < p->buffers - 1; i++) {
        p->wanted[p->wants++] = record[i];
        if (p->where[record[i]] >= 0)
            p->buffer[p->where[record[i]]].ahead = true;
    }
    pthread_cond_signal(&p->work);
    s = tell(p);
    pthread_mutex_unlock(&p->lock);
    return s;
}

struct tr_store_reads tr_pool_reads(struct tr_pool *p)
{
    struct tr_store_reads reads;

    pthread_mutex_lock(&p->lock);
    reads = p->reads;
    pthread_mutex_unlock(&p->lock);
    return reads;
}

enum tr_status tr_pool_flush(struct tr_pool *p)
{
    enum tr_status s;
    bool busy = true;

    pthread_mutex_lock(&p->lock);
    while (p->trouble == NONE && busy) {
        busy = false;
        for (int64_t i = 0; i < p->buffers; i++)
            busy = busy || p->buffer[i].state == DIRTY || p->buffer[i].state == WRITING;
        if (busy)
            pthread_cond_wait(&p->done, &p->lock);
    }
    s = tell(p);
    pthread_mutex_unlock(&p->lock);
    return s;
}
