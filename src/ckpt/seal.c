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

/* Of everything behind the seal; places count from the start of the file. */
static uint64_t sum_of(const unsigned char *image, int64_t bytes)
{
    const int64_t words = TR_CKPT_SEAL_BYTES / 4;

    return tr_ckpt_sum((const void *)(image + TR_CKPT_SEAL_BYTES), bytes / 4 - words, words);
}

void tr_ckpt_seal(unsigned char *image, int64_t bytes)
{
    struct seal s = {TR_CKPT_MAJOR, TR_CKPT_MINOR, bytes, sum_of(image, bytes)};
    char page[TR_CKPT_SEAL_BYTES];

    print_seal(&s, page);
    memcpy(image, page, sizeof page);
}

static enum tr_status read_image(int fd, const struct seal *s, struct tr_ckpt_sparse *out)
{
    unsigned char *image = malloc((size_t)s->bytes);
    enum tr_status status = TR_OK;

    if (!image)
        return TR_FAIL(TR_ERESOURCE, "there is no memory left for its index of %lld bytes",
                       s->bytes);
    if (tr_read_at(fd, image, s->bytes, 0) != 0)
        status = TR_FAIL(TR_EIO, "its index cannot be read: %s", strerror(errno));
    else if (sum_of(image, s->bytes) != s->sum)
        status = TR_FAIL(TR_EDATA, "its index does not have its checksum");
    else
        tr_ckpt_sparse_put(out, image, s->bytes);
    free(image);
    return status;
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
    if (s.major != TR_CKPT_MAJOR)
        return TR_FAIL(TR_EDATA, "it has version %d.%d of the format, and this program reads %d",
                       s.major, s.minor, TR_CKPT_MAJOR);
    if (s.bytes < TR_CKPT_SEAL_BYTES || s.bytes > st.st_size || s.bytes % TR_CKPT_PAGE != 0)
        return TR_FAIL(TR_EDATA, "it is shorter than its index");
    *minor = s.minor;
    TR_TRY(read_image(fd, &s, out));
    out->bytes = st.st_size;
    return TR_OK;
}
