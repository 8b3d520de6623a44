/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/zip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/text.h"

/* Bytes of the records of APPNOTE 4.3 and 4.5 without their variable parts, and their signatures. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, LOCATOR = 20, END64 = 56, COMMENT_MOST = 65535 };
enum { LOCAL_SIGNATURE = 0x04034b50, CENTRAL_SIGNATURE = 0x02014b50, END_SIGNATURE = 0x06054b50 };
enum { LOCATOR_SIGNATURE = 0x07064b50, END64_SIGNATURE = 0x06064b50 };
enum { ZIP64_EXTRA = 1, ENCRYPTED = 1, DEFLATED = 8 };

/* Bytes of a directory, and of a name in it, at most. */
enum { DIRECTORY_MOST = 64 << 20, NAME_MOST = 512 };

/* One archive that is read. */
struct reader {
    int fd;
    const char *path;
    int64_t bytes;
};

/* Where the directory is. */
struct directory {
    uint64_t at, bytes, count;
};

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;

    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

static enum tr_status get(const struct reader *r, void *to, int64_t bytes, uint64_t at)
{
    if (at > (uint64_t)r->bytes || bytes > r->bytes - (int64_t)at)
        return TR_FAIL(TR_EDATA, "%s is cut short, or no zip archive: copy the file once more",
                       r->path);
    if (tr_read_at(r->fd, to, bytes, (int64_t)at) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", r->path, strerror(errno));
    return TR_OK;
}

/* The end record stands at the end, with a comment behind it. */
static enum tr_status find_end(const struct reader *r, int64_t *at, unsigned char end[END])
{
    const int64_t most = END + COMMENT_MOST, n = r->bytes < most ? r->bytes : most;
    unsigned char *tail = malloc((size_t)n + 1);
    enum tr_status s;

    *at = -1;
    if (!tail)
        tr_die(TR_ERESOURCE, "no memory left for the end of %s", r->path);
    s = get(r, tail, n, (uint64_t)(r->bytes - n));
    for (int64_t i = n - END; i >= 0 && s == TR_OK && *at < 0; i--)
        if (number(tail + i, 4) == END_SIGNATURE &&
            i + END + (int64_t)number(tail + i + 20, 2) == n) {
            *at = r->bytes - n + i;
            memcpy(end, tail + i, END);
        }
    free(tail);
    if (s == TR_OK && *at < 0)
        s = TR_FAIL(TR_EDATA,
                    "%s is cut short, or no zip archive: it has no directory; copy the file once "
                    "more",
                    r->path);
    return s;
}

/* The record of zip64, where the locator before the end says that there is one. */
static enum tr_status find_large(const struct reader *r, int64_t end, struct directory *d)
{
    unsigned char locator[LOCATOR], large[END64];

    if (end < LOCATOR)
        return TR_OK;
    TR_TRY(get(r, locator, LOCATOR, (uint64_t)(end - LOCATOR)));
    if (number(locator, 4) != LOCATOR_SIGNATURE)
        return TR_OK;
    TR_TRY(get(r, large, END64, number(locator + 8, 8)));
    if (number(large, 4) != END64_SIGNATURE)
        return TR_FAIL(TR_EDATA, "%s is damaged: its directory is not where it should be", r->path);
    d->count = number(large + 32, 8);
    d->bytes = number(large + 40, 8);
    d->at = number(large + 48, 8);
    return TR_OK;
}

/* Numbers that do not fit into 32 bits stand in an extra field, in this order. */
static bool take_extra(const unsigned char *extra, int length, uint64_t size[2], uint64_t *at)
{
    while (length >= 4) {
        const int bytes = (int)number(extra + 2, 2);
        int used = 0;

        if (bytes > length - 4)
            return false;
        if (number(extra, 2) == ZIP64_EXTRA) {
            uint64_t *const field[] = {&size[0], &size[1], at};

            for (int i = 0; i < 3; i++)
                if (*field[i] == UINT32_MAX) {
                    if (used + 8 > bytes)
                        return false;
                    *field[i] = number(extra + 4 + used, 8);
                    used += 8;
                }
            return true;
        }
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
    return true;
}

/* One entry of the directory, and in front of its content a header of its own. */
static enum tr_status take_entry(const struct reader *r, const unsigned char *p, int64_t room,
                                 struct tr_zip_entry *e, int64_t *length)
{
    const int name = (int)number(p + 28, 2), extra = (int)number(p + 30, 2);
    uint64_t size[2] = {number(p + 24, 4), number(p + 20, 4)}, at = number(p + 42, 4);
    unsigned char local[LOCAL];

    *length = CENTRAL + name + extra + (int64_t)number(p + 32, 2);
    if (number(p, 4) != CENTRAL_SIGNATURE || *length > room || name > NAME_MOST ||
        !take_extra(p + CENTRAL + name, extra, size, &at))
        return TR_FAIL(TR_EDATA, "%s is damaged: its directory cannot be read", r->path);
    e->name = tr_printable(tr_format("%.*s", name, (const char *)p + CENTRAL));
    e->deflated = number(p + 10, 2) == DEFLATED;
    if ((number(p + 10, 2) != 0 && !e->deflated) || (number(p + 8, 2) & ENCRYPTED) ||
        (!e->deflated && size[0] != size[1]))
        return TR_FAIL(
            TR_EDATA,
            "%s: %s is encrypted or compressed in a way that is not read: only entries that "
            "are stored as they are or deflated are",
            r->path, e->name);
    TR_TRY(get(r, local, LOCAL, at));
    if (number(local, 4) != LOCAL_SIGNATURE)
        return TR_FAIL(TR_EDATA, "%s is damaged: %s is not where it should be", r->path, e->name);
    at += LOCAL + number(local + 26, 2) + number(local + 28, 2);
    if (at > (uint64_t)r->bytes || size[1] > (uint64_t)r->bytes - at || size[0] > INT64_MAX)
        return TR_FAIL(TR_EDATA, "%s is cut short: %s ends behind it; copy the file once more",
                       r->path, e->name);
    e->offset = (int64_t)at;
    e->packed = (int64_t)size[1];
    e->bytes = (int64_t)size[0];
    e->sum = (uint32_t)number(p + 16, 4);
    return TR_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct tr_zip_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static enum tr_status take_all(const struct reader *r, const unsigned char *p, int64_t bytes,
                               uint64_t count, struct tr_zip *out)
{
    if (count > (uint64_t)bytes / CENTRAL)
        return TR_FAIL(TR_EDATA, "%s is damaged: its directory has not %" PRIu64 " entries",
                       r->path, count);
    out->list = calloc((size_t)count + 1, sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the directory of %s", r->path);
    for (int64_t at = 0, length; (uint64_t)out->count < count; at += length) {
        if (bytes - at < CENTRAL)
            return TR_FAIL(TR_EDATA, "%s is damaged: its directory is too short", r->path);
        TR_TRY(take_entry(r, p + at, bytes - at, &out->list[out->count++], &length));
    }
    qsort(out->list, (size_t)out->count, sizeof *out->list, by_name);
    return TR_OK;
}

enum tr_status tr_zip_read(int fd, const char *path, int64_t bytes, struct tr_zip *out)
{
    const struct reader r = {fd, path, bytes};
    unsigned char end[END], *p;
    struct directory d;
    enum tr_status s;
    int64_t at;

    *out = (struct tr_zip){0, NULL};
    TR_TRY(find_end(&r, &at, end));
    d = (struct directory){number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
    TR_TRY(find_large(&r, at, &d));
    if (d.bytes > DIRECTORY_MOST)
        return TR_FAIL(TR_EDATA, "%s is damaged: its directory would have %" PRIu64 " bytes", path,
                       d.bytes);
    p = malloc((size_t)d.bytes + 1);
    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the directory of %s", path);
    s = get(&r, p, (int64_t)d.bytes, d.at);
    if (s == TR_OK)
        s = take_all(&r, p, (int64_t)d.bytes, d.count, out);
    free(p);
    return s;
}

void tr_zip_release(struct tr_zip *z)
{
    for (int i = 0; i < z->count; i++)
        free(z->list[i].name);
    free(z->list);
    *z = (struct tr_zip){0, NULL};
}

const struct tr_zip_entry *tr_zip_find(const struct tr_zip *z, const char *name)
{
    const struct tr_zip_entry key = {(char *)(uintptr_t)name, 0, 0, 0, 0, false};

    return z->count ? bsearch(&key, z->list, (size_t)z->count, sizeof *z->list, by_name) : NULL;
}
