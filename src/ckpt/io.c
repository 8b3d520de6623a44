/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/io.h"

#include "util/file.h"

int tr_ckpt_write_elems(struct tr_writeback *to, int64_t offset, const struct tr_param *p,
                        const float *x, int64_t lo, int64_t hi)
{
    const int64_t size = (int64_t)sizeof *x;
    struct tr_ckpt_run r;

    for (int64_t at = lo; at < hi; at += r.elems) {
        r = tr_ckpt_run_at(p, at, hi);
        if (tr_writeback_put(to, x + at - lo, r.elems * size, offset + r.whole * size) != 0)
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
        if (tr_read_at(fd, x + at - lo, r.elems * size, offset + r.whole * size) != 0)
            return -1;
    }
    return 0;
}
