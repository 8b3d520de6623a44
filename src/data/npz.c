/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/npz.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "util/file.h"
#include "util/text.h"
#include "util/zip.h"

enum { ROOM = 1 << 16, MAGIC = 8, HEADER_MOST = 4096 };

/* Numbers of a row at most: what --seq-length can be, and far from where products overflow. */
#define COLUMNS_MOST (INT64_C(1) << 31)

struct tr_npz {
    int fd;
    char *path; /* owned */
    struct tr_zip zip;
    const struct tr_zip_entry *entry; /* that is read; NULL at first */
    struct tr_npz_array array;
    int64_t row;          /* the next one */
    int64_t taken, given; /* bytes of the entry, as they lie in the file and as they are */
    uint32_t sum;         /* CRC-32 of those given */
    z_stream inflate;
    bool inflating;
    unsigned char packed[ROOM], room[ROOM];
};

bool tr_npz_named(const char *path)
{
    const size_t length = strlen(path);

    return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

static void end_entry(struct tr_npz *z)
{
    if (z->inflating)
        inflateEnd(&z->inflate);
    z->inflating = false;
    z->entry = NULL;
}

void tr_npz_close(struct tr_npz *z)
{
    if (!z)
        return;
    end_entry(z);
    tr_zip_release(&z->zip);
    if (z->fd >= 0)
        close(z->fd);
    free(z->path);
    free(z);
}

enum tr_status tr_npz_open(const char *path, struct tr_npz **out)
{
    struct tr_npz *z = calloc(1, sizeof *z);
    enum tr_status s;
    struct stat st;

    *out = NULL;
    if (!z)
        tr_die(TR_ERESOURCE, "no memory left to read %s", path);
    z->path = tr_format("%s", path);
    s = tr_open_file(path, O_RDONLY, &z->fd);
    if (s == TR_OK && fstat(z->fd, &st) != 0)
        s = TR_FAIL(TR_EIO, "cannot read %s: %s", path, strerror(errno));
    if (s == TR_OK)
        s = tr_zip_read(z->fd, path, st.st_size, &z->zip);
    if (s == TR_OK)
        *out = z;
    else
        tr_npz_close(z);
    return s;
}

/* ---- the bytes of an entry ---- */

static enum tr_status damaged(const struct tr_npz *z, const char *why)
{
    return TR_FAIL(TR_EDATA, "%s: %s is damaged: %s; copy the file once more", z->path,
                   z->entry->name, why);
}

static enum tr_status take_packed(struct tr_npz *z, unsigned char *to, int64_t bytes)
{
    if (tr_read_at(z->fd, to, bytes, z->entry->offset + z->taken) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", z->path, strerror(errno));
    z->taken += bytes;
    return TR_OK;
}

/* `bytes` more of what was deflated; an entry may hold no more than the directory says. */
static enum tr_status take_inflated(struct tr_npz *z, unsigned char *to, int64_t bytes)
{
    z->inflate.next_out = to;
    z->inflate.avail_out = (uInt)bytes;
    while (z->inflate.avail_out > 0) {
        const int64_t left = z->entry->packed - z->taken, n = left < ROOM ? left : ROOM;
        int error;

        if (z->inflate.avail_in == 0 && n > 0) {
            TR_TRY(take_packed(z, z->packed, n));
            z->inflate.next_in = z->packed;
            z->inflate.avail_in = (uInt)n;
        }
        error = inflate(&z->inflate, Z_NO_FLUSH);
        if (error != Z_OK && !(error == Z_STREAM_END && z->inflate.avail_out == 0))
            return damaged(z, z->inflate.msg ? z->inflate.msg : "it ends too early");
    }
    return TR_OK;
}

/* The next `bytes`, at most ROOM, of an entry that has as many. */
static enum tr_status take(struct tr_npz *z, unsigned char *to, int64_t bytes)
{
    TR_TRY(z->entry->deflated ? take_inflated(z, to, bytes) : take_packed(z, to, bytes));
    z->sum = (uint32_t)crc32(z->sum, to, (uInt)bytes);
    z->given += bytes;
    return TR_OK;
}

static enum tr_status take_more(struct tr_npz *z, unsigned char *to, int64_t bytes)
{
    if (bytes > z->entry->bytes - z->given)
        return damaged(z, "its header is not whole");
    return take(z, to, bytes);
}

/* ---- the header of an array: a dictionary of Python, as text ---- */

struct header {
    const char *at;
    char type[4]; /* "<u2" */
    bool fortran, has_type, has_order, has_shape;
    int64_t shape[2];
    int dimensions;
};

static bool sees(struct header *h, char c)
{
    while (*h->at == ' ' || *h->at == '\n')
        h->at++;
    if (*h->at != c)
        return false;
    h->at++;
    return true;
}

/* 'text' of fewer than `most` characters, none of them escaped. */
static bool take_string(struct header *h, char *out, size_t most)
{
    const char quote = sees(h, '\'') ? '\'' : '"';
    size_t n;

    if (quote == '"' && !sees(h, '"'))
        return false;
    n = strcspn(h->at, "'\"\\");
    if (h->at[n] != quote || n >= most)
        return false;
    memcpy(out, h->at, n);
    out[n] = '\0';
    h->at += n + 1;
    return true;
}

static bool take_number(struct header *h, int64_t *out)
{
    *out = 0;
    if (!isdigit((unsigned char)*h->at))
        return false;
    for (; isdigit((unsigned char)*h->at); h->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *h->at - '0', out))
            return false;
    return true;
}

/* (3, 4), or (3,), or more numbers, of which the first two are kept. */
static bool take_shape(struct header *h)
{
    int64_t number;

    if (!sees(h, '('))
        return false;
    while (!sees(h, ')')) {
        if (!take_number(h, &number))
            return false;
        if (h->dimensions < 2)
            h->shape[h->dimensions] = number;
        h->dimensions++;
        if (!sees(h, ',') && *h->at != ')')
            return false;
    }
    h->has_shape = true;
    return true;
}

static bool take_word(struct header *h, const char *word)
{
    const size_t n = strlen(word);

    while (*h->at == ' ')
        h->at++;
    if (strncmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

static bool take_value(struct header *h, const char *key)
{
    if (strcmp(key, "descr") == 0)
        return h->has_type = take_string(h, h->type, sizeof h->type);
    if (strcmp(key, "fortran_order") == 0) {
        h->fortran = take_word(h, "True");
        return h->has_order = h->fortran || take_word(h, "False");
    }
    return strcmp(key, "shape") == 0 && take_shape(h);
}

static bool take_header(struct header *h)
{
    char key[16];

    if (!sees(h, '{'))
        return false;
    while (!sees(h, '}')) {
        if (!take_string(h, key, sizeof key) || !sees(h, ':') || !take_value(h, key))
            return false;
        if (!sees(h, ',') && *h->at != '}' && *h->at != ' ')
            return false;
    }
    return h->has_type && h->has_order && h->has_shape;
}

static bool is_integer(const char *type)
{
    return (type[0] == '<' || (type[0] == '|' && type[2] == '1')) &&
           (type[1] == 'u' || type[1] == 'i') && strchr("1248", type[2]) && type[2] != '\0';
}

/* Magic, version, the length of the rest as 16 bits or, from version 2.0 on, 32. */
static enum tr_status read_header(struct tr_npz *z, char text[HEADER_MOST + 1])
{
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    unsigned char head[MAGIC], size[4] = {0};
    int64_t length;

    TR_TRY(take_more(z, head, MAGIC));
    if (memcmp(head, magic, sizeof magic) != 0 || head[6] < 1 || head[6] > 3 || head[7] != 0)
        return TR_FAIL(TR_EDATA, "%s: %s is no array of numpy of version 1.0 to 3.0", z->path,
                       z->entry->name);
    TR_TRY(take_more(z, size, head[6] == 1 ? 2 : 4));
    length = size[0] | size[1] << 8 | size[2] << 16 | (int64_t)size[3] << 24;
    if (length > HEADER_MOST)
        return TR_FAIL(TR_EDATA, "%s: %s has a header of %" PRId64 " bytes, and %d are the most",
                       z->path, z->entry->name, length, HEADER_MOST);
    TR_TRY(take_more(z, (unsigned char *)text, length));
    text[length] = '\0';
    return TR_OK;
}

static enum tr_status refuse_header(const struct tr_npz *z, const char *text)
{
    char *shown = tr_printable(tr_format("%.*s", (int)strcspn(text, "\n"), text));
    enum tr_status s =
        TR_FAIL(TR_EDATA,
                "%s: %s has the header %.200s; what is read are integers of 8 to 64 bits, little "
                "endian, in C order, in one or two dimensions",
                z->path, z->entry->name, shown);

    free(shown);
    return s;
}

static enum tr_status set_array(struct tr_npz *z, const struct header *h, const char *text)
{
    struct tr_npz_array *a = &z->array;
    int64_t bytes = 0;

    if (!is_integer(h->type) || h->fortran || h->dimensions < 1 || h->dimensions > 2)
        return refuse_header(z, text);
    *a = (struct tr_npz_array){.rows = h->dimensions == 2 ? h->shape[0] : 1,
                               .columns = h->shape[h->dimensions - 1],
                               .bytes = h->type[2] - '0',
                               .kind = h->type[1]};
    if (a->columns < 1 || a->columns > COLUMNS_MOST ||
        __builtin_mul_overflow(a->rows, a->columns, &bytes) ||
        __builtin_mul_overflow(bytes, a->bytes, &bytes) || bytes != z->entry->bytes - z->given)
        return TR_FAIL(TR_EDATA,
                       "%s: %s promises %" PRId64 " rows of %" PRId64 " numbers, and its %" PRId64
                       " bytes do not hold them",
                       z->path, z->entry->name, a->rows, a->columns, z->entry->bytes);
    return TR_OK;
}

/* The names of the arrays, for a sentence; owned by the caller. */
static char *list_names(const struct tr_npz *z)
{
    char *list = tr_format("%s", z->zip.count ? "" : "nothing"), *longer;

    for (int i = 0; i < z->zip.count && i < 10; i++) {
        longer = tr_format("%s%s%s", list, i ? ", " : "", z->zip.list[i].name);
        free(list);
        list = longer;
    }
    return list;
}

static enum tr_status find_entry(struct tr_npz *z, const char *name)
{
    char *file = tr_format("%s.npy", name), *list;

    z->entry = tr_zip_find(&z->zip, file);
    free(file);
    if (z->entry)
        return TR_OK;
    list = list_names(z);
    (void)TR_FAIL(TR_EDATA, "%s has no array \"%s\", only %s", z->path, name, list);
    free(list);
    return TR_EDATA;
}

static enum tr_status begin(struct tr_npz *z, const char *name)
{
    char text[HEADER_MOST + 1];
    struct header h = {.at = text};

    end_entry(z);
    z->row = z->taken = z->given = 0;
    z->sum = 0;
    TR_TRY(find_entry(z, name));
    if (z->entry->deflated) {
        z->inflate = (z_stream){0};
        if (inflateInit2(&z->inflate, -MAX_WBITS) != Z_OK)
            tr_die(TR_ERESOURCE, "no memory left to inflate %s", z->path);
        z->inflating = true;
    }
    TR_TRY(read_header(z, text));
    if (!take_header(&h))
        return refuse_header(z, text);
    return set_array(z, &h, text);
}

enum tr_status tr_npz_begin(struct tr_npz *z, const char *name, struct tr_npz_array *out)
{
    enum tr_status s = begin(z, name);

    *out = s == TR_OK ? z->array : (struct tr_npz_array){0};
    if (s != TR_OK)
        end_entry(z);
    return s;
}

/* One number of the array; false if it is no token. */
static bool number(const struct tr_npz_array *a, const unsigned char *p, int32_t *out)
{
    const unsigned sign = a->kind == 'i' ? p[a->bytes - 1] >> 7 : 0;
    uint64_t n = 0;

    for (int i = a->bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    *out = (int32_t)(n & INT32_MAX);
    return !sign && n <= INT32_MAX;
}

enum tr_status tr_npz_row(struct tr_npz *z, int32_t *out)
{
    const struct tr_npz_array *a = &z->array;
    const int64_t most = ROOM / a->bytes;

    TR_ASSERT(z->entry && z->row < a->rows);
    for (int64_t first = 0; first < a->columns; first += most) {
        const int64_t n = a->columns - first < most ? a->columns - first : most;

        TR_TRY(take(z, z->room, n * a->bytes));
        for (int64_t i = 0; i < n; i++)
            if (!number(a, z->room + i * a->bytes, &out[first + i]))
                return TR_FAIL(TR_EDATA,
                               "%s: %s: the number at row %" PRId64 ", column %" PRId64
                               " is negative or above %d, so it is no token",
                               z->path, z->entry->name, z->row, first + i, INT32_MAX);
    }
    z->row++;
    if (z->row == a->rows && z->sum != z->entry->sum)
        return damaged(z, "its sum (CRC-32) is not that of the directory");
    return TR_OK;
}
