/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_TORCH_WRITE_H
#define TR_WEIGHTS_TORCH_WRITE_H

#include <stddef.h>

#include "weights/tensors.h"

/*
 * Files that torch.load() reads, with weights_only as well: the archive of weights/torch.h, laid out before a number is
 * known; checksums (CRC-32 of each entry) are put in at the end.
 */

/* Text of a pickle that grows.  Zero to begin with; `data` is owned. */
struct tr_pickler {
    unsigned char *data;
    size_t bytes, room;
};
void tr_pickle_text(struct tr_pickler *p, const char *text, size_t length);
void tr_pickle_whole(struct tr_pickler *p, int64_t x);
void tr_pickle_real(struct tr_pickler *p, double x);
/* Operations as bytes: "(" a mark, "u" pairs into a dictionary, and so on. */
void tr_pickle_ops(struct tr_pickler *p, const char *ops, size_t length);

/* A file of the table, to be written. */
struct tr_torch_out {
    unsigned char *head; /* owned; all up to the first tensor */
    size_t head_bytes;
    int entries;
    struct tr_torch_entry {
        char name[48];
        int64_t at, bytes; /* of its header; of its content */
        int tensor;        /* of the table; -1: its content is in `head` or known */
        uint32_t sum;
    } * entry; /* owned */
};

/*
 * Lay out file number `file` of the table: the tensors in it, in the order of the list, get their offsets, and the file its
 * length without the directory.  A tensor's name in the dictionaries is what stands behind the first `skip` bytes of
 * its own, where '/' goes into another dictionary.  `more` (may be empty) is pickled pairs of the outermost one.
 */
void tr_torch_layout(struct tr_weights_table *t, int file, size_t skip,
                     const struct tr_pickler *more, struct tr_torch_out *out);

/* Write what stands before tensors, and after they are there the directory; sums[i] is the CRC-32 of tensor i of the
   table.  TR_EIO. */
enum tr_status tr_torch_begin(const struct tr_torch_out *o, int fd, const char *path) TR_MUST_CHECK;
enum tr_status tr_torch_end(struct tr_torch_out *o, const struct tr_weights_table *t, int file,
                            const uint32_t *sums) TR_MUST_CHECK;
void tr_torch_out_release(struct tr_torch_out *o);

/* The CRC-32 of zip (IEEE 802.3) of what has the sum `sum` and of `bytes` more; of zeros, where data is NULL. */
uint32_t tr_crc32(uint32_t sum, const void *data, size_t bytes);

#endif
