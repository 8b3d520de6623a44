/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SPARSE_FILE_H
#define TR_CKPT_SPARSE_FILE_H

#include <hdf5.h>
#include <stdint.h>

/*
 * A file that HDF5 writes or reads and that is memory, of which only the pages exist that were
 * written.  So HDF5 lays out a checkpoint of any size, with holes for the tensors, before the disk
 * is touched, and sees none but an index that is whole (ckpt/index.h says why).
 */
enum { TR_CKPT_PAGE = 4096 };

struct tr_ckpt_sparse {
    int64_t bytes; /* length of the file */
    int count, room;
    struct tr_ckpt_page {
        int64_t number; /* it begins at number * TR_CKPT_PAGE */
        unsigned char *data;
    } * page; /* owned, by number */
};

/* Bytes of a file at `at`, before HDF5 opens it.  Whoever puts them sets the length. */
void tr_ckpt_sparse_put(struct tr_ckpt_sparse *file, const void *data, int64_t bytes, int64_t at);

/* Settings for H5Fcreate() (the file is empty) and H5Fopen(); the name given there means nothing.
   Negative when HDF5 fails.  `file` stays the caller's; its length is set when HDF5 closes it. */
hid_t tr_ckpt_sparse_open(struct tr_ckpt_sparse *file);

/* Close the settings.  Negative when HDF5 fails. */
herr_t tr_ckpt_sparse_close(hid_t access);
void tr_ckpt_sparse_release(struct tr_ckpt_sparse *file);

#endif
