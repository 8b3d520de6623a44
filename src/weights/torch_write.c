/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/torch_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

/* Records of a zip archive, and what entries begin at a multiple of, as torch has it. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, LOCATOR = 20, END64 = 56, ALIGNMENT = 64 };
enum { LOCAL_SIGNATURE = 0x04034b50, CENTRAL_SIGNATURE = 0x02014b50, END_SIGNATURE = 0x06054b50 };
enum { LOCATOR_SIGNATURE = 0x07064b50, END64_SIGNATURE = 0x06064b50 };
enum { LARGE_EXTRA = 28, ZIP64_EXTRA = 1, PADDING_EXTRA = 0x4246, VERSION64 = 45 };
enum { SUM_AT = 14, DEEPEST = 8 };

static const char ROOT[] = "archive";

/* ---- checksums ---- */

enum { LANES = 8 };
static uint32_t table[LANES][256];

static void make_table(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;

        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (0xedb88320 & (0 - (c & 1)));
        table[0][n] = c;
    }
    for (int lane = 1; lane < LANES; lane++)
        for (uint32_t n = 0; n < 256; n++)
            table[lane][n] = table[lane - 1][n] >> 8 ^ table[0][table[lane - 1][n] & 0xff];
}

/* Eight bytes at a time (Kounavis and Berry, "Novel table lookup-based algorithms for high-performance CRC
   generation", 2008). */
static uint32_t sum_bytes(uint32_t c, const unsigned char *p, size_t bytes)
{
    for (; bytes >= LANES; p += LANES, bytes -= LANES) {
        uint64_t x;

        memcpy(&x, p, sizeof x);
        x ^= c;
        c = 0;
        for (int lane = 0; lane < LANES; lane++)
            c ^= table[LANES - 1 - lane][x >> (8 * lane) & 0xff];
    }
    for (; bytes > 0; p++, bytes--)
        c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
    return c;
}

uint32_t tr_crc32(uint32_t sum, const void *data, size_t bytes)
{
    static const unsigned char zeros[4096];
    uint32_t c = ~sum;

    if (table[0][1] == 0)
        make_table();
    if (data)
        return ~sum_bytes(c, data, bytes);
    for (size_t n; bytes > 0; bytes -= n) {
        n = bytes < sizeof zeros ? bytes : sizeof zeros;
        c = sum_bytes(c, zeros, n);
    }
    return ~c;
}

/* ---- pickles ---- */

void tr_pickle_ops(struct tr_pickler *p, const char *ops, size_t length)
{
    if (p->bytes + length > p->room) {
        p->room = 2 * (p->bytes + length) + 1024;
        p->data = realloc(p->data, p->room);
        if (!p->data)
            tr_die(TR_ERESOURCE, "no memory left for a pickle");
    }
    memcpy(p->data + p->bytes, ops, length);
    p->bytes += length;
}

static void put_number(struct tr_pickler *p, uint64_t x, int bytes)
{
    char raw[8];

    for (int i = 0; i < bytes; i++)
        raw[i] = (char)(unsigned char)(x >> (8 * i));
    tr_pickle_ops(p, raw, (size_t)bytes);
}

void tr_pickle_text(struct tr_pickler *p, const char *text, size_t length)
{
    tr_pickle_ops(p, "X", 1);
    put_number(p, length, 4);
    tr_pickle_ops(p, text, length);
}

void tr_pickle_whole(struct tr_pickler *p, int64_t x)
{
    if (x == (int32_t)x) {
        tr_pickle_ops(p, "J", 1);
        put_number(p, (uint64_t)x, 4);
        return;
    }
    tr_pickle_ops(p, "\x8a\x08", 2);
    put_number(p, (uint64_t)x, 8);
}

void tr_pickle_real(struct tr_pickler *p, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    tr_pickle_ops(p, "G", 1);
    put_number(p, __builtin_bswap64(bits), 8);
}

static void put_words(struct tr_pickler *p, const char *words)
{
    tr_pickle_ops(p, words, strlen(words));
}

/* torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()). */
static void put_tensor(struct tr_pickler *p, const struct tr_weights_tensor *x, int key)
{
    static const char *const storage[] = {[TR_WEIGHTS_F32] = "ctorch\nFloatStorage\n",
                                          [TR_WEIGHTS_F16] = "ctorch\nHalfStorage\n",
                                          [TR_WEIGHTS_BF16] = "ctorch\nBFloat16Storage\n"};
    int64_t stride = x->elems;
    char text[16];

    put_words(p, "ctorch._utils\n_rebuild_tensor_v2\n((");
    tr_pickle_text(p, "storage", strlen("storage"));
    put_words(p, storage[x->type]);
    snprintf(text, sizeof text, "%d", key);
    tr_pickle_text(p, text, strlen(text));
    tr_pickle_text(p, "cpu", strlen("cpu"));
    tr_pickle_whole(p, x->elems);
    put_words(p, "tQ");
    tr_pickle_whole(p, 0);
    put_words(p, "(");
    for (int i = 0; i < x->ndim; i++)
        tr_pickle_whole(p, x->dim[i]);
    put_words(p, "t(");
    for (int i = 0; i < x->ndim; i++) {
        stride /= x->dim[i];
        tr_pickle_whole(p, stride);
    }
    put_words(p, "t\x89"
                 "ccollections\nOrderedDict\n)RtR");
}

/* How many dictionaries the names have in common, and bytes of these. */
static int common(const char *a, const char *b, size_t *bytes)
{
    int n = 0;

    *bytes = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/') {
            n++;
            *bytes = i + 1;
        }
    return n;
}

/* Names are sorted, so those of one dictionary follow one another. */
static void put_dicts(struct tr_pickler *p, const struct tr_weights_table *t, int file, size_t skip)
{
    const char *before = "";
    int depth = 0, key = 0;

    for (int i = 0; i < t->count; i++) {
        const char *name = t->list[i].name + skip, *at, *slash;
        size_t bytes;
        int same;

        if (t->list[i].file != file)
            continue;
        same = common(before, name, &bytes);
        for (; depth > same; depth--)
            put_words(p, "u");
        for (at = name + bytes; (slash = strchr(at, '/')); at = slash + 1, depth++) {
            TR_ASSERT(depth < DEEPEST);
            tr_pickle_text(p, at, (size_t)(slash - at));
            put_words(p, "}(");
        }
        tr_pickle_text(p, at, strlen(at));
        put_tensor(p, &t->list[i], key++);
        before = name;
    }
    for (; depth > 0; depth--)
        put_words(p, "u");
}

/* ---- archives ---- */

static void put_to(unsigned char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(x >> (8 * i));
}

/* Bytes from the header to the content, a multiple of the alignment: the name and padding in between. */
static int64_t header_bytes(const struct tr_torch_entry *e)
{
    const int64_t least = e->at + LOCAL + (int64_t)strlen(e->name) + 20 + 4;

    return (least + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - e->at;
}

/* Sizes stand in the extra field of zip64, whatever they are; padding in one of torch. */
static void make_header(const struct tr_torch_entry *e, unsigned char *p)
{
    const size_t name = strlen(e->name);
    const int64_t all = header_bytes(e), extra = all - LOCAL - (int64_t)name;
    unsigned char *x = p + LOCAL + name;

    memset(p, 0, (size_t)all);
    put_to(p, LOCAL_SIGNATURE, 4);
    put_to(p + 4, VERSION64, 2);
    put_to(p + SUM_AT, e->sum, 4);
    put_to(p + 18, UINT32_MAX, 4);
    put_to(p + 22, UINT32_MAX, 4);
    put_to(p + 26, name, 2);
    put_to(p + 28, (uint64_t)extra, 2);
    memcpy(p + LOCAL, e->name, name);
    put_to(x, ZIP64_EXTRA, 2);
    put_to(x + 2, 16, 2);
    put_to(x + 4, (uint64_t)e->bytes, 8);
    put_to(x + 12, (uint64_t)e->bytes, 8);
    put_to(x + 20, PADDING_EXTRA, 2);
    put_to(x + 22, (uint64_t)extra - 24, 2);
}

static struct tr_torch_entry *add_entry(struct tr_torch_out *o, const char *name, int64_t at,
                                        int64_t bytes)
{
    struct tr_torch_entry *e;

    o->entry = realloc(o->entry, ((size_t)o->entries + 1) * sizeof *o->entry);
    if (!o->entry)
        tr_die(TR_ERESOURCE, "no memory left for a list of tensors");
    e = &o->entry[o->entries++];
    *e = (struct tr_torch_entry){.at = at, .bytes = bytes, .tensor = -1};
    snprintf(e->name, sizeof e->name, "%s/%s", ROOT, name);
    return e;
}

/* A small entry, in the head of the file.  Returns where it ends. */
static int64_t add_small(struct tr_torch_out *o, const char *name, const void *data, size_t bytes)
{
    struct tr_torch_entry *e = add_entry(o, name, (int64_t)o->head_bytes, (int64_t)bytes);
    const size_t header = (size_t)header_bytes(e);

    e->sum = tr_crc32(0, data, bytes);
    o->head = realloc(o->head, o->head_bytes + header + bytes);
    if (!o->head)
        tr_die(TR_ERESOURCE, "no memory left for a pickle");
    make_header(e, o->head + o->head_bytes);
    memcpy(o->head + o->head_bytes + header, data, bytes);
    o->head_bytes += header + bytes;
    return (int64_t)o->head_bytes;
}

void tr_torch_layout(struct tr_weights_table *t, int file, size_t skip,
                     const struct tr_pickler *more, struct tr_torch_out *out)
{
    struct tr_pickler p = {.data = NULL};
    int64_t at;
    int key = 0;

    *out = (struct tr_torch_out){.head = NULL};
    tr_pickle_ops(&p, "\x80\x02}(", 4);
    if (more->bytes > 0)
        tr_pickle_ops(&p, (const char *)more->data, more->bytes);
    put_dicts(&p, t, file, skip);
    tr_pickle_ops(&p, "u.", 2);
    (void)add_small(out, "data.pkl", p.data, p.bytes);
    (void)add_small(out, "byteorder", "little", strlen("little"));
    at = add_small(out, "version", "3\n", strlen("3\n"));
    free(p.data);
    for (int i = 0; i < t->count; i++) {
        struct tr_weights_tensor *x = &t->list[i];
        struct tr_torch_entry *e;
        char name[24];

        if (x->file != file)
            continue;
        snprintf(name, sizeof name, "data/%d", key++);
        e = add_entry(out, name, at, x->elems * tr_weights_type_bytes(x->type));
        e->tensor = i;
        x->offset = at + header_bytes(e);
        at = x->offset + e->bytes;
    }
    t->file[file].bytes = at;
}

enum tr_status tr_torch_begin(const struct tr_torch_out *o, int fd, const char *path)
{
    if (tr_write_at(fd, o->head, (int64_t)o->head_bytes, 0) != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", path, strerror(errno));
    return TR_OK;
}

static unsigned char *put_central(const struct tr_torch_entry *e, unsigned char *p)
{
    const size_t name = strlen(e->name);
    unsigned char *x = p + CENTRAL + name;

    put_to(p, CENTRAL_SIGNATURE, 4);
    put_to(p + 4, VERSION64, 2);
    put_to(p + 6, VERSION64, 2);
    put_to(p + 16, e->sum, 4);
    put_to(p + 20, UINT32_MAX, 4);
    put_to(p + 24, UINT32_MAX, 4);
    put_to(p + 28, name, 2);
    put_to(p + 30, LARGE_EXTRA, 2);
    put_to(p + 42, UINT32_MAX, 4);
    memcpy(p + CENTRAL, e->name, name);
    put_to(x, ZIP64_EXTRA, 2);
    put_to(x + 2, LARGE_EXTRA - 4, 2);
    put_to(x + 4, (uint64_t)e->bytes, 8);
    put_to(x + 12, (uint64_t)e->bytes, 8);
    put_to(x + 20, (uint64_t)e->at, 8);
    return x + LARGE_EXTRA;
}

/* The directory, its record of zip64, the locator of that, and the end. */
static unsigned char *make_directory(const struct tr_torch_out *o, int64_t at, int64_t *bytes)
{
    unsigned char *all =
        calloc((size_t)o->entries + 1, CENTRAL + sizeof o->entry->name + LARGE_EXTRA);
    unsigned char *tail = calloc(1, END64 + LOCATOR + END), *p = all;
    int64_t length;

    if (!all || !tail)
        tr_die(TR_ERESOURCE, "no memory left for the directory of a file");
    for (int i = 0; i < o->entries; i++)
        p = put_central(&o->entry[i], p);
    length = p - all;
    put_to(tail, END64_SIGNATURE, 4);
    put_to(tail + 4, END64 - 12, 8);
    put_to(tail + 12, VERSION64, 2);
    put_to(tail + 14, VERSION64, 2);
    put_to(tail + 24, (uint64_t)o->entries, 8);
    put_to(tail + 32, (uint64_t)o->entries, 8);
    put_to(tail + 40, (uint64_t)length, 8);
    put_to(tail + 48, (uint64_t)at, 8);
    put_to(tail + END64, LOCATOR_SIGNATURE, 4);
    put_to(tail + END64 + 8, (uint64_t)(at + length), 8);
    put_to(tail + END64 + 16, 1, 4);
    put_to(tail + END64 + LOCATOR, END_SIGNATURE, 4);
    put_to(tail + END64 + LOCATOR + 8, UINT16_MAX, 2);
    put_to(tail + END64 + LOCATOR + 10, UINT16_MAX, 2);
    put_to(tail + END64 + LOCATOR + 12, UINT32_MAX, 4);
    put_to(tail + END64 + LOCATOR + 16, UINT32_MAX, 4);
    *bytes = length + END64 + LOCATOR + END;
    all = realloc(all, (size_t)*bytes);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the directory of a file");
    memcpy(all + length, tail, END64 + LOCATOR + END);
    free(tail);
    return all;
}

enum tr_status tr_torch_end(struct tr_torch_out *o, const struct tr_weights_table *t, int file,
                            const uint32_t *sums)
{
    const struct tr_weights_file *f = &t->file[file];
    unsigned char *directory, header[1024];
    int64_t bytes;
    int rc = 0;

    for (int i = 0; i < o->entries && rc == 0; i++) {
        struct tr_torch_entry *e = &o->entry[i];

        if (e->tensor < 0)
            continue;
        e->sum = sums[e->tensor];
        make_header(e, header);
        rc = tr_write_at(f->fd, header, header_bytes(e), e->at);
    }
    directory = make_directory(o, f->bytes, &bytes);
    if (rc == 0)
        rc = tr_write_at(f->fd, directory, bytes, f->bytes);
    free(directory);
    if (rc != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", f->path, strerror(errno));
    return TR_OK;
}

void tr_torch_out_release(struct tr_torch_out *o)
{
    free(o->head);
    free(o->entry);
    *o = (struct tr_torch_out){.head = NULL};
}
