/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_IO_H
#define TR_CKPT_IO_H

#include <stdint.h>

#include "ckpt/map.h"
#include "util/writeback.h"

/*
 * Write elements first .. first + n - 1 of the tensor that begins `offset` bytes into the file, and
 * add their checksum to *sum.  Memory is read once for both, while the disk is busy with the
 * elements before.  0, or -1 with errno.
 */
int tr_ckpt_write_run(struct tr_writeback *to, int64_t offset, const float *x, int64_t first,
                      int64_t n, uint64_t *sum);

/*
 * Move elements lo .. hi - 1 of the local part of `p`, the first of which is at `x`, to or from the
 * tensor that begins `offset` bytes into the file.  0, or -1 with errno; a file that ends too soon
 * gives ENODATA.  The checksum of what is written is added to *sum.
 */
int tr_ckpt_write_elems(struct tr_writeback *to, int64_t offset, const struct tr_param *p,
                        const float *x, int64_t lo, int64_t hi, uint64_t *sum);
int tr_ckpt_read_elems(int fd, int64_t offset, const struct tr_param *p, float *x, int64_t lo,
                       int64_t hi);

#endif
