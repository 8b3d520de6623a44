/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/indexed.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little endian");

enum { HEADER_BYTES = 34, SIZE_BYTES = 4, POINTER_BYTES = 8, START_BYTES = 8 };

static int64_t i64_at(const unsigned char *array, int64_t i)
{
    int64_t v;

    memcpy(&v, array + i * 8, sizeof v);
    return v;
}

static uint64_t u64_at(const unsigned char *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

int tr_index_type_bytes(int type)
{
    switch (type) {
    case TR_INDEX_U8:
    case TR_INDEX_I8:
        return 1;
    case TR_INDEX_I16:
    case TR_INDEX_U16:
        return 2;
    case TR_INDEX_I32:
        return 4;
    case TR_INDEX_I64:
        return 8;
    default:
        return 0;
    }
}

int32_t tr_index_length(const struct tr_index *x, int64_t sequence)
{
    int32_t v;

    memcpy(&v, x->sizes + sequence * SIZE_BYTES, sizeof v);
    return v;
}

int64_t tr_index_before(const struct tr_index *x, int64_t sequence)
{
    const int64_t byte =
        sequence < x->sequences ? i64_at(x->pointers, sequence) : (int64_t)x->bin.bytes;

    return byte / x->type_bytes;
}

/* The last of `count` that begins at or before `at`; empty ones before it begin there too. */
static int64_t last_before(const struct tr_index *x,
                           int64_t (*begin)(const struct tr_index *x, int64_t i), int64_t count,
                           int64_t at)
{
    int64_t low = 0, high = count;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (begin(x, middle) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t tr_index_sequence_of(const struct tr_index *x, int64_t token)
{
    return last_before(x, tr_index_before, x->sequences, token);
}

int64_t tr_index_document(const struct tr_index *x, int64_t document)
{
    return i64_at(x->starts, document);
}

int64_t tr_index_document_of(const struct tr_index *x, int64_t sequence)
{
    return last_before(x, tr_index_document, x->documents, sequence);
}

/* Token i of an array of the given type; one that is not in 32 bits of int64_t stays so. */
static int64_t token_at(const unsigned char *array, int type, int64_t i)
{
    union {
        int16_t i16;
        uint16_t u16;
        int32_t i32;
    } v;

    switch (type) {
    case TR_INDEX_U8:
        return array[i];
    case TR_INDEX_I8:
        return (int8_t)array[i];
    case TR_INDEX_I16:
        memcpy(&v.i16, array + 2 * i, 2);
        return v.i16;
    case TR_INDEX_U16:
        memcpy(&v.u16, array + 2 * i, 2);
        return v.u16;
    case TR_INDEX_I32:
        memcpy(&v.i32, array + 4 * i, 4);
        return v.i32;
    default:
        return i64_at(array, i);
    }
}

enum tr_status tr_index_read(const struct tr_index *x, int64_t sequence, int64_t first,
                             int64_t count, int64_t limit, int32_t *out)
{
    const unsigned char *at;

    TR_ASSERT(sequence >= 0 && sequence < x->sequences && first >= 0 && count >= 0);
    TR_ASSERT(count <= tr_index_length(x, sequence) - first);
    if (count == 0)
        return TR_OK;
    at = x->bin.data + i64_at(x->pointers, sequence) + first * x->type_bytes;
    for (int64_t i = 0; i < count; i++) {
        int64_t token = token_at(at, x->type, i);

        if (token < 0 || token >= limit)
            return TR_FAIL(TR_EDATA,
                           "token %lld of document %lld (sequence %lld) in %s is %lld, but tokens "
                           "here must be in 0 .. %lld; the data was made with another vocabulary",
                           (long long)(first + i), (long long)tr_index_document_of(x, sequence),
                           (long long)sequence, x->bin.path, (long long)token,
                           (long long)(limit - 1));
        out[i] = (int32_t)token;
    }
    return TR_OK;
}

static bool ends_in(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);

    return n > m && strcmp(text + n - m, tail) == 0;
}

/* A sentence for a prefix without .idx: people give the name of a file, or forget that the tool
   appends the key of the text to the name they chose. */
static enum tr_status not_found(const char *prefix)
{
    char *pattern = tr_format("%s*.idx", prefix);
    glob_t found;
    int got;

    if (ends_in(prefix, ".bin") || ends_in(prefix, ".idx")) {
        free(pattern);
        return TR_FAIL(TR_EIO,
                       "there is no %s.idx; a dataset is named by what its two files have in "
                       "common, so give %.*s without %s",
                       prefix, (int)(strlen(prefix) - 4), prefix, prefix + strlen(prefix) - 4);
    }
    got = glob(pattern, 0, NULL, &found);
    free(pattern);
    if (got == 0) {
        const char *near = found.gl_pathv[0];

        (void)TR_FAIL(TR_EIO, "there is no %s.idx; did you mean %.*s?", prefix,
                      (int)(strlen(near) - 4), near);
        globfree(&found);
        return TR_EIO;
    }
    return TR_FAIL(TR_EIO,
                   "there is no %s.idx; a dataset is two files, PREFIX.bin and PREFIX.idx, and "
                   "is named by PREFIX (relative names start from the folder of the job)",
                   prefix);
}

static enum tr_status check_magic(const struct tr_index *x)
{
    static const char magic[9] = "MMIDIDX\0", older[8] = "TNTIDX\0";
    const unsigned char *p = x->idx.data;

    if (x->idx.bytes >= sizeof older && memcmp(p, older, sizeof older) == 0)
        return TR_FAIL(TR_EDATA,
                       "%s is in the older TNTIDX format (Megatron's \"lazy\" and \"cached\"), "
                       "which trireme does not read; build the dataset again from its text with "
                       "`trireme data build`",
                       x->idx.path);
    if (x->idx.bytes < HEADER_BYTES)
        return TR_FAIL(TR_EDATA, "%s has %zu bytes, but its header alone takes %d; it is truncated",
                       x->idx.path, x->idx.bytes, HEADER_BYTES);
    if (memcmp(p, magic, sizeof magic) != 0)
        return TR_FAIL(TR_EDATA,
                       "%s is not the index of a dataset: it begins with the bytes %02x %02x "
                       "%02x %02x, not with \"MMIDIDX\"",
                       x->idx.path, p[0], p[1], p[2], p[3]);
    if (u64_at(p + 9) != 1)
        return TR_FAIL(TR_EDATA, "%s is of version %llu of the format; only version 1 is known",
                       x->idx.path, (unsigned long long)u64_at(p + 9));
    return TR_OK;
}

static enum tr_status check_type(struct tr_index *x)
{
    x->type = x->idx.data[17];
    x->type_bytes = tr_index_type_bytes(x->type);
    if (x->type == TR_INDEX_F64 || x->type == TR_INDEX_FLOAT)
        return TR_FAIL(TR_EDATA,
                       "%s holds %s (type code %d), and tokens are whole numbers; it was not made "
                       "by a tokeniser",
                       x->idx.path,
                       x->type == TR_INDEX_F64 ? "64-bit floats"
                                               : "floats, 64-bit before October 2023, 32-bit since",
                       x->type);
    if (x->type_bytes == 0)
        return TR_FAIL(TR_EDATA,
                       "%s has the type code %d; the known codes of tokens are 1 to 5 "
                       "and 8",
                       x->idx.path, x->type);
    return TR_OK;
}

/* Sets the arrays, once the counts are known to fit into the file. */
static enum tr_status check_counts(struct tr_index *x)
{
    uint64_t bytes = x->idx.bytes - HEADER_BYTES, s = u64_at(x->idx.data + 18);
    uint64_t d = u64_at(x->idx.data + 26), most = bytes / (SIZE_BYTES + POINTER_BYTES), need;

    if (d == 0)
        return TR_FAIL(TR_EDATA,
                       "%s says that its list of documents has no entry; it has at least the 0 "
                       "that begins it",
                       x->idx.path);
    if (s > most || d > (bytes - s * (SIZE_BYTES + POINTER_BYTES)) / START_BYTES)
        return TR_FAIL(TR_EDATA,
                       "%s has %zu bytes, too few for the %llu sequences and %llu document entries "
                       "that its header promises; it is truncated, copy or build it again",
                       x->idx.path, x->idx.bytes, (unsigned long long)s, (unsigned long long)d);
    need = HEADER_BYTES + s * (SIZE_BYTES + POINTER_BYTES) + d * START_BYTES;
    if (s > 0 && x->idx.bytes == need + s)
        return TR_FAIL(TR_EDATA,
                       "%s holds the modes of a dataset of text and images, which trireme does "
                       "not read",
                       x->idx.path);
    if (x->idx.bytes != need)
        return TR_FAIL(TR_EDATA,
                       "%s has %zu bytes, but %llu sequences and %llu document entries take %llu; "
                       "it is damaged, copy or build it again",
                       x->idx.path, x->idx.bytes, (unsigned long long)s, (unsigned long long)d,
                       (unsigned long long)need);
    x->sequences = (int64_t)s;
    x->documents = (int64_t)d - 1;
    x->sizes = x->idx.data + HEADER_BYTES;
    x->pointers = x->sizes + s * SIZE_BYTES;
    x->starts = x->pointers + s * POINTER_BYTES;
    return TR_OK;
}

static enum tr_status check_sequences(struct tr_index *x)
{
    int64_t next = 0, room = (int64_t)x->bin.bytes;

    for (int64_t i = 0; i < x->sequences; i++) {
        int64_t size = tr_index_length(x, i), pointer = i64_at(x->pointers, i);

        if (size < 0)
            return TR_FAIL(TR_EDATA, "%s says that sequence %lld has %lld tokens; it is damaged",
                           x->idx.path, (long long)i, (long long)size);
        if (pointer != next)
            return TR_FAIL(TR_EDATA,
                           "%s says that sequence %lld begins at byte %lld of the .bin, but the "
                           "sizes of those before it come to %lld; it is damaged, or a tool that "
                           "merged it went wrong",
                           x->idx.path, (long long)i, (long long)pointer, (long long)next);
        next += size * x->type_bytes;
        if (next > room)
            break;
        x->tokens += size;
    }
    if (next > room)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld bytes, but its .idx places tokens up to byte %lld and beyond; "
                       "it is truncated, copy or build it again",
                       x->bin.path, (long long)room, (long long)next);
    if (next != room)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld bytes, but its .idx says %lld; the two files are not of "
                       "the same dataset",
                       x->bin.path, (long long)room, (long long)next);
    return TR_OK;
}

static enum tr_status check_documents(const struct tr_index *x)
{
    int64_t before = 0, last = tr_index_document(x, x->documents);

    if (tr_index_document(x, 0) != 0)
        return TR_FAIL(TR_EDATA,
                       "%s says that its first document begins at sequence %lld, not 0; "
                       "it is damaged",
                       x->idx.path, (long long)tr_index_document(x, 0));
    if (last != x->sequences)
        return TR_FAIL(TR_EDATA,
                       "the documents of %s end at sequence %lld, but it has %lld sequences; tools "
                       "that merge datasets have made such files, build it again from its text",
                       x->idx.path, (long long)last, (long long)x->sequences);
    for (int64_t d = 1; d <= x->documents; d++) {
        int64_t start = tr_index_document(x, d);

        if (start < before)
            return TR_FAIL(TR_EDATA,
                           "%s says that document %lld begins at sequence %lld and the one before "
                           "it at %lld; it is damaged",
                           x->idx.path, (long long)d, (long long)start, (long long)before);
        before = start;
    }
    return TR_OK;
}

/* What one rank alone found must not keep it from opening a file with the others: both are open before
   anything is looked at. */
struct opened {
    int fd, error;
};

static struct opened open_one(const struct tr_opener *by, const char *path)
{
    int fd = tr_open_by(by, path);

    return (struct opened){fd, errno};
}

static enum tr_status map_one(const struct opened *o, const char *path, struct tr_map *out)
{
    errno = o->error;
    return tr_map_take(o->fd, path, out);
}

static enum tr_status check_numbers(struct tr_index *x)
{
    TR_TRY(check_sequences(x));
    return check_documents(x);
}

static enum tr_status open_and_check(const char *prefix, const struct tr_opener *by,
                                     struct tr_index *x)
{
    char *idx = tr_format("%s.idx", prefix), *bin = tr_format("%s.bin", prefix);
    struct opened first = open_one(by, idx), second = {-1, 0};
    enum tr_status s;

    if (first.fd >= 0)
        second = open_one(by, bin);
    s = first.fd < 0 && first.error == ENOENT ? not_found(prefix) : map_one(&first, idx, &x->idx);
    if (s == TR_OK)
        s = check_magic(x);
    if (s == TR_OK)
        s = check_type(x);
    if (s == TR_OK)
        s = check_counts(x);
    if (s == TR_OK)
        s = map_one(&second, bin, &x->bin);
    else if (second.fd >= 0)
        close(second.fd);
    if (s == TR_OK && tr_open_is_first(by))
        s = check_numbers(x);
    else if (s == TR_OK)
        x->tokens = (int64_t)x->bin.bytes / x->type_bytes;
    free(idx);
    free(bin);
    return s;
}

enum tr_status tr_index_open(const char *prefix, struct tr_index *out)
{
    return tr_index_open_by(prefix, NULL, out);
}

enum tr_status tr_index_open_by(const char *prefix, const struct tr_opener *by,
                                struct tr_index *out)
{
    enum tr_status s;

    memset(out, 0, sizeof *out);
    out->prefix = tr_format("%s", prefix);
    s = open_and_check(prefix, by, out);
    if (s != TR_OK)
        tr_index_close(out);
    return s;
}

void tr_index_close(struct tr_index *x)
{
    tr_map_close(&x->idx);
    tr_map_close(&x->bin);
    free(x->prefix);
    memset(x, 0, sizeof *x);
}
