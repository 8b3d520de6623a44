/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/schema.h"
#include "ckpt/sum.h"
#include "util/file.h"

/* Of the index, read at a time. */
enum { PIECE = 1 << 20 };

struct seal {
    int major, minor;
    long long bytes;
    unsigned long long sum;
};

static void print_seal(const struct seal *s, char page[TR_CKPT_SEAL_BYTES])
{
    memset(page, 0, TR_CKPT_SEAL_BYTES);
    snprintf(page, TR_CKPT_SEAL_BYTES, TR_CKPT_SEAL, s->major, s->minor, s->bytes, s->sum);
}

/* Whatever is not exactly what would be printed is damage. */
static bool parse_seal(const char page[TR_CKPT_SEAL_BYTES], struct seal *s)
{
    char text[TR_CKPT_SEAL_BYTES + 1] = "", again[TR_CKPT_SEAL_BYTES];

    memcpy(text, page, TR_CKPT_SEAL_BYTES);
    if (sscanf(text, TR_CKPT_SEAL, &s->major, &s->minor, &s->bytes, &s->sum) != 4)
        return false;
    print_seal(s, again);
    return memcmp(page, again, sizeof again) == 0;
}

/* Of bytes at `at` of the file, which are whole words but for the end of the index: there zeros make up
   the last one.  Places count from the start of the file. */
static uint64_t sum_of(const unsigned char *data, int64_t bytes, int64_t at)
{
    const int64_t words = bytes / 4;
    float last = 0;

    memcpy(&last, data + words * 4, (size_t)(bytes % 4));
    return tr_ckpt_sum((const void *)data, words, at / 4) +
           tr_ckpt_sum(&last, bytes % 4 != 0, at / 4 + words);
}

void tr_ckpt_seal(unsigned char *image, int64_t bytes)
{
    const unsigned char *index = image + TR_CKPT_SEAL_BYTES;
    struct seal s = {TR_CKPT_MAJOR, TR_CKPT_MINOR, bytes,
                     sum_of(index, bytes - TR_CKPT_SEAL_BYTES, TR_CKPT_SEAL_BYTES)};
    char page[TR_CKPT_SEAL_BYTES];

    print_seal(&s, page);
    memcpy(image, page, sizeof page);
}

/* Sum up the index piece by piece, and put it into *out unless that is NULL. */
static enum tr_status read_pieces(int fd, const struct seal *s, unsigned char *piece,
                                  struct tr_ckpt_sparse *out)
{
    uint64_t sum = 0;

    for (int64_t at = TR_CKPT_SEAL_BYTES, n; at < s->bytes; at += n) {
        n = s->bytes - at < PIECE ? s->bytes - at : PIECE;
        if (tr_read_at(fd, piece, n, at) != 0)
            return TR_FAIL(TR_EIO, "its index cannot be read: %s", strerror(errno));
        sum += sum_of(piece, n, at);
        if (out)
            tr_ckpt_sparse_put(out, piece, n, at);
    }
    if (sum != s->sum)
        return TR_FAIL(TR_EDATA, "its index does not have its checksum");
    return TR_OK;
}

/* The checksum first, and then once more of what is kept: a length that is wrong takes no memory. */
static enum tr_status read_index(int fd, const struct seal *s, const char *page,
                                 struct tr_ckpt_sparse *out)
{
    unsigned char *piece = malloc(PIECE);
    enum tr_status status;

    if (!piece)
        return TR_FAIL(TR_ERESOURCE, "there is no memory left to read its index");
    status = read_pieces(fd, s, piece, NULL);
    if (status == TR_OK) {
        tr_ckpt_sparse_put(out, page, TR_CKPT_SEAL_BYTES, 0);
        status = read_pieces(fd, s, piece, out);
    }
    if (status != TR_OK)
        tr_ckpt_sparse_release(out);
    free(piece);
    return status;
}

/* What the seal says, in a file of `size` bytes. */
static enum tr_status check_seal(const struct seal *s, int64_t size)
{
    if (s->major != TR_CKPT_MAJOR)
        return TR_FAIL(TR_EDATA, "it has version %d.%d of the format, and this program reads %d",
                       s->major, s->minor, TR_CKPT_MAJOR);
    if (s->bytes < TR_CKPT_SEAL_BYTES)
        return TR_FAIL(TR_EDATA, "its seal says index_bytes %lld, and the seal alone takes %d",
                       s->bytes, TR_CKPT_SEAL_BYTES);
    if (s->bytes > size)
        return TR_FAIL(TR_EDATA, "its seal says index_bytes %lld, and it has %lld bytes", s->bytes,
                       (long long)size);
    if (s->bytes > TR_CKPT_INDEX_MOST)
        return TR_FAIL(
            TR_EDATA,
            "its seal says index_bytes %lld, and an index has %lld at most; the elements "
            "of tensors do not belong to it",
            s->bytes, (long long)TR_CKPT_INDEX_MOST);
    return TR_OK;
}

enum tr_status tr_ckpt_unseal(int fd, struct tr_ckpt_sparse *out, int *minor)
{
    char page[TR_CKPT_SEAL_BYTES];
    struct stat st;
    struct seal s;

    memset(out, 0, sizeof *out);
    if (fstat(fd, &st) != 0)
        return TR_FAIL(TR_EIO, "it cannot be looked at: %s", strerror(errno));
    if (st.st_size < TR_CKPT_SEAL_BYTES)
        return TR_FAIL(TR_EDATA, "it is too short");
    if (tr_read_at(fd, page, sizeof page, 0) != 0)
        return TR_FAIL(TR_EIO, "it cannot be read: %s", strerror(errno));
    if (!parse_seal(page, &s))
        return TR_FAIL(TR_EDATA, "it does not begin as one does");
    TR_TRY(check_seal(&s, st.st_size));
    *minor = s.minor;
    TR_TRY(read_index(fd, &s, page, out));
    out->bytes = st.st_size;
    return TR_OK;
}
