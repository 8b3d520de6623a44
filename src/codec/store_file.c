/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "codec/store_parts.h"
#include "util/file.h"
#include "util/writeback.h"

enum { PAGE = 4096, LAYOUT = 1 };

static const char magic[16] = "trireme memory\n";
static const uint64_t order = 0x0102030405060708u;

struct head {
    char magic[16];
    uint64_t order;
    int64_t version, bytes, count, total; /* of a record; samples; of the file */
    uint64_t word[2];
    char title[TR_STORE_TITLE];
    uint64_t table_sum, sum;
};

struct entry {
    int64_t sample;
    uint64_t sum;
};

static int64_t records_at(int64_t count)
{
    return PAGE + (count * (int64_t)sizeof(struct entry) + PAGE - 1) / PAGE * PAGE;
}

static uint64_t sum_of_head(const struct head *h)
{
    return XXH3_64bits(h, offsetof(struct head, sum));
}

static uint64_t sum_of_table(const struct entry *table, int64_t count)
{
    return XXH3_64bits(table, (size_t)count * sizeof *table);
}

/* ---- save ---- */

static enum tr_status cannot_write(const char *path)
{
    return TR_FAIL(TR_EIO,
                   "cannot save the activation cache to %s: %s; the checkpoint would not be "
                   "whole, so make room there or save elsewhere",
                   path, strerror(errno));
}

static enum tr_status write_records(struct tr_store *s, int fd, const char *path,
                                    struct entry *table)
{
    struct tr_writeback to = {.fd = fd};
    int64_t at = records_at(s->count), n = 0;

    for (int64_t i = 0; i < s->known; i++) {
        void *record;
        int failed;
        if (!s->has[i])
            continue;
        TR_TRY(tr_store_take(s, s->sample[i], false, &record));
        table[n].sample = s->sample[i];
        table[n].sum = XXH3_64bits(record, (size_t)s->how.bytes);
        failed = tr_writeback_put(&to, record, s->stride, at + n * s->stride);
        tr_store_give(s, TR_STORE_SAME);
        if (failed)
            return cannot_write(path);
        n++;
    }
    TR_ASSERT(n == s->count);
    return TR_OK;
}

/* The header last, when all that it describes is on disk. */
static enum tr_status write_all(struct tr_store *s, int fd, const char *path, struct entry *table,
                                struct head *h)
{
    TR_TRY(write_records(s, fd, path, table));
    h->table_sum = sum_of_table(table, s->count);
    if (ftruncate(fd, h->total) != 0 ||
        tr_write_at(fd, table, s->count * (int64_t)sizeof *table, PAGE) != 0 || fsync(fd) != 0)
        return cannot_write(path);
    h->sum = sum_of_head(h);
    if (tr_write_at(fd, h, sizeof *h, 0) != 0 || fsync(fd) != 0)
        return cannot_write(path);
    return TR_OK;
}

static enum tr_status write_new(struct tr_store *s, const char *path, struct head *h)
{
    struct entry *table = calloc((size_t)s->count + 1, sizeof *table);
    int fd = tr_open_regular(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    enum tr_status status;

    if (fd < 0)
        status = cannot_write(path);
    else if (!table)
        status = TR_FAIL(TR_ERESOURCE, "no memory left to list %lld samples", (long long)s->count);
    else
        status = write_all(s, fd, path, table, h);
    if (fd >= 0 && close(fd) != 0 && status == TR_OK)
        status = cannot_write(path);
    free(table);
    return status;
}

static enum tr_status move(const char *from, const char *to)
{
    char *copy = tr_format("%s", to);
    enum tr_status status;

    if (rename(from, to) != 0)
        status = cannot_write(to);
    else
        status = tr_fsync_path(dirname(copy));
    free(copy);
    return status;
}

enum tr_status tr_store_save(struct tr_store *s, const char *path, const char *title,
                             const uint64_t word[2])
{
    struct head h;
    char *part = tr_format("%s.part", path);
    enum tr_status status;

    memset(&h, 0, sizeof h);
    memcpy(h.magic, magic, sizeof magic);
    h.order = order;
    h.version = LAYOUT;
    h.bytes = s->how.bytes;
    h.count = s->count;
    h.total = records_at(s->count) + s->count * s->stride;
    memcpy(h.word, word, sizeof h.word);
    TR_ASSERT(strlen(title) < TR_STORE_TITLE);
    memcpy(h.title, title, strlen(title));
    status = write_new(s, part, &h);
    if (status == TR_OK)
        status = move(part, path);
    if (status != TR_OK)
        unlink(part);
    free(part);
    return status;
}

/* ---- load ---- */

static enum tr_status not_whole(const char *path, const char *why)
{
    return TR_FAIL(TR_EDATA,
                   "%s, which should hold an activation cache, %s; resume from another "
                   "checkpoint, or without this file: then every sample is sent uncompressed "
                   "once more",
                   path, why);
}

/* Whether a file of `size` bytes holds what the head says and no more.  Numbers may be anything: each is
   bounded before it is used in a product.  A record has less than 2^40 bytes. */
static bool fills_file(const struct head *h, int64_t size)
{
    int64_t rest, stride;

    if (h->count < 0 || h->count > TR_STORE_SAMPLES || h->bytes < 1 || h->bytes >> 40 != 0)
        return false;
    stride = tr_store_stride(h->bytes);
    rest = size - records_at(h->count);
    return size == h->total && rest >= 0 && rest % stride == 0 && rest / stride == h->count;
}

/* A whole file of this program, of whichever run. */
static enum tr_status check_head(const char *path, const struct head *h, int64_t size)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return not_whole(path, "was not finished or is something else");
    if (h->order != order)
        return not_whole(path, "was written by a machine of another byte order");
    if (h->version != LAYOUT)
        return not_whole(path, "is of another version of this program");
    if (h->sum != sum_of_head(h) || h->title[TR_STORE_TITLE - 1] != '\0')
        return not_whole(path, "has a damaged head");
    if (!fills_file(h, size))
        return not_whole(path, "is truncated");
    return TR_OK;
}

static enum tr_status check_owner(const struct tr_store *s, const char *path, const struct head *h,
                                  const char *title)
{
    if (strcmp(h->title, title) != 0)
        return TR_FAIL(TR_EDATA,
                       "%s holds the activation cache of \"%s\", but this is \"%s\"; resume that "
                       "run with its own options and data, or without this file",
                       path, h->title, title);
    if (h->bytes != s->how.bytes)
        return TR_FAIL(TR_EDATA,
                       "%s holds %lld bytes of each sample, but this run caches %lld; resume "
                       "with the options of that run, or without this file",
                       path, (long long)h->bytes, (long long)s->how.bytes);
    if (h->count > s->how.capacity)
        return TR_FAIL(TR_ECONFIG,
                       "%s holds %lld samples and there is room for %lld; give "
                       "--max-activation-cache-size at least the first",
                       path, (long long)h->count, (long long)s->how.capacity);
    return TR_OK;
}

static enum tr_status cannot_read(const char *path)
{
    if (errno == ENODATA)
        return not_whole(path, "is truncated");
    return TR_FAIL(TR_EIO,
                   "cannot read the activation cache from %s: %s; without it a resumed run is "
                   "not the one that was saved",
                   path, tr_open_why(errno));
}

/* Record i into record[stride]. */
static enum tr_status read_record(int fd, const char *path, const struct head *h,
                                  const struct entry *table, int64_t i, void *record)
{
    const int64_t stride = tr_store_stride(h->bytes);

    if (tr_read_at(fd, record, stride, records_at(h->count) + i * stride) != 0)
        return cannot_read(path);
    return XXH3_64bits(record, (size_t)h->bytes) == table[i].sum
               ? TR_OK
               : not_whole(path, "has a damaged record");
}

static enum tr_status keep_record(struct tr_store *s, int fd, const char *path,
                                  const struct head *h, const struct entry *table, int64_t i)
{
    enum tr_status status;
    void *record;

    if (table[i].sample < 0 || tr_store_has(s, table[i].sample))
        return not_whole(path, "has a damaged table");
    TR_TRY(tr_store_take(s, table[i].sample, true, &record));
    status = read_record(fd, path, h, table, i, record);
    tr_store_give(s, status == TR_OK ? TR_STORE_NEW : TR_STORE_GONE);
    return status;
}

static enum tr_status keep_records(struct tr_store *s, int fd, const char *path,
                                   const struct head *h, const struct entry *table)
{
    for (int64_t i = 0; i < h->count; i++)
        TR_TRY(keep_record(s, fd, path, h, table, i));
    return TR_OK;
}

static enum tr_status read_head(int fd, const char *path, struct head *h)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || tr_read_at(fd, h, sizeof *h, 0) != 0)
        return cannot_read(path);
    return check_head(path, h, st.st_size);
}

/* *table is owned by the caller, also after a failure. */
static enum tr_status read_table(int fd, const char *path, const struct head *h,
                                 struct entry **table)
{
    *table = calloc((size_t)h->count + 1, sizeof **table);
    if (!*table)
        return TR_FAIL(TR_ERESOURCE, "no memory left to list %lld samples", (long long)h->count);
    if (tr_read_at(fd, *table, h->count * (int64_t)sizeof **table, PAGE) != 0)
        return cannot_read(path);
    if (sum_of_table(*table, h->count) != h->table_sum)
        return not_whole(path, "has a damaged table");
    return TR_OK;
}

static enum tr_status open_file(const char *path, int *fd, struct head *h)
{
    enum tr_status status;

    *fd = tr_open_regular(path, O_RDONLY);
    if (*fd < 0)
        return cannot_read(path);
    status = read_head(*fd, path, h);
    if (status != TR_OK)
        close(*fd);
    return status;
}

static enum tr_status keep_all(struct tr_store *s, int fd, const char *path, const char *title,
                               const struct head *h)
{
    struct entry *table;
    enum tr_status status;

    TR_TRY(check_owner(s, path, h, title));
    status = read_table(fd, path, h, &table);
    if (status == TR_OK)
        status = keep_records(s, fd, path, h, table);
    free(table);
    return status;
}

enum tr_status tr_store_load(struct tr_store *s, const char *path, const char *title,
                             uint64_t word[2])
{
    enum tr_status status;
    struct head h;
    int fd;

    TR_ASSERT(s->known == 0);
    TR_TRY(open_file(path, &fd, &h));
    status = keep_all(s, fd, path, title, &h);
    close(fd);
    if (status == TR_OK)
        memcpy(word, h.word, sizeof h.word);
    else
        tr_store_clear(s);
    return status;
}

/* ---- without a store ---- */

enum tr_status tr_store_look(const char *path, struct tr_store_file *out)
{
    struct head h;
    int fd;

    TR_TRY(open_file(path, &fd, &h));
    close(fd);
    *out = (struct tr_store_file){.samples = h.count, .record_bytes = h.bytes};
    memcpy(out->title, h.title, sizeof out->title);
    return TR_OK;
}

/* Of the file: it is read piece by piece, whatever its header says. */
enum { PIECE = 1 << 20, ENTRIES = 4096 };

struct verify {
    int fd;
    const char *path;
    const struct head *h;
    struct entry table[ENTRIES];
    unsigned char piece[PIECE];
    XXH3_state_t *sum, *table_sum;
    void (*more)(void *arg, int64_t bytes);
    void *arg;
};

static enum tr_status look_at_record(struct verify *v, int64_t record, uint64_t want)
{
    const int64_t stride = tr_store_stride(v->h->bytes);
    const int64_t at = records_at(v->h->count) + record * stride;

    TR_ASSERT(XXH3_64bits_reset(v->sum) == XXH_OK);
    for (int64_t done = 0, n; done < v->h->bytes; done += n) {
        n = v->h->bytes - done < PIECE ? v->h->bytes - done : PIECE;
        if (tr_read_at(v->fd, v->piece, n, at + done) != 0)
            return cannot_read(v->path);
        TR_ASSERT(XXH3_64bits_update(v->sum, v->piece, (size_t)n) == XXH_OK);
    }
    if (XXH3_64bits_digest(v->sum) != want)
        return not_whole(v->path, "has a damaged record");
    if (v->more)
        v->more(v->arg, stride);
    return TR_OK;
}

static enum tr_status look_at_all(struct verify *v)
{
    const int64_t size = (int64_t)sizeof *v->table, count = v->h->count;

    TR_ASSERT(XXH3_64bits_reset(v->table_sum) == XXH_OK);
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < ENTRIES ? count - done : ENTRIES;
        if (tr_read_at(v->fd, v->table, n * size, PAGE + done * size) != 0)
            return cannot_read(v->path);
        TR_ASSERT(XXH3_64bits_update(v->table_sum, v->table, (size_t)(n * size)) == XXH_OK);
        for (int64_t i = 0; i < n; i++)
            TR_TRY(look_at_record(v, done + i, v->table[i].sum));
    }
    return XXH3_64bits_digest(v->table_sum) == v->h->table_sum
               ? TR_OK
               : not_whole(v->path, "has a damaged table");
}

enum tr_status tr_store_verify(const char *path, void (*more)(void *arg, int64_t bytes), void *arg)
{
    struct verify *v = calloc(1, sizeof *v);
    enum tr_status status;
    struct head h;

    if (!v)
        return TR_FAIL(TR_ERESOURCE, "no memory left to look at %s", path);
    v->path = path;
    v->h = &h;
    v->more = more;
    v->arg = arg;
    v->sum = XXH3_createState();
    v->table_sum = XXH3_createState();
    status = v->sum && v->table_sum ? open_file(path, &v->fd, &h)
                                    : TR_FAIL(TR_ERESOURCE, "no memory left for a checksum");
    if (status == TR_OK) {
        status = look_at_all(v);
        close(v->fd);
    }
    XXH3_freeState(v->sum);
    XXH3_freeState(v->table_sum);
    free(v);
    return status;
}
