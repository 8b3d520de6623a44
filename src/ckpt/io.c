/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/io.h"

#include <errno.h>
#include <unistd.h>

int tr_ckpt_write_at(int fd, const void *data, int64_t bytes, int64_t at)
{
    const unsigned char *from = data;

    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, (size_t)bytes, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        from += n;
        at += n;
        bytes -= n;
    }
    return 0;
}

int tr_ckpt_read_at(int fd, void *data, int64_t bytes, int64_t at)
{
    unsigned char *to = data;

    while (bytes > 0) {
        ssize_t n = pread(fd, to, (size_t)bytes, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENODATA;
        if (n <= 0)
            return -1;
        to += n;
        at += n;
        bytes -= n;
    }
    return 0;
}

int tr_ckpt_write_elems(int fd, int64_t offset, const struct tr_param *p, const float *x,
                        int64_t lo, int64_t hi)
{
    const int64_t size = (int64_t)sizeof *x;
    struct tr_ckpt_run r;

    for (int64_t at = lo; at < hi; at += r.elems) {
        r = tr_ckpt_run_at(p, at, hi);
        if (tr_ckpt_write_at(fd, x + at - lo, r.elems * size, offset + r.whole * size) != 0)
            return -1;
    }
    return 0;
}

int tr_ckpt_read_elems(int fd, int64_t offset, const struct tr_param *p, float *x, int64_t lo,
                       int64_t hi)
{
    const int64_t size = (int64_t)sizeof *x;
    struct tr_ckpt_run r;

    for (int64_t at = lo; at < hi; at += r.elems) {
        r = tr_ckpt_run_at(p, at, hi);
        if (tr_ckpt_read_at(fd, x + at - lo, r.elems * size, offset + r.whole * size) != 0)
            return -1;
    }
    return 0;
}
