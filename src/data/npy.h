/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_NPY_H
#define TR_DATA_NPY_H

#include <stdint.h>

#include "util/file.h"
#include "util/status.h"

/*
 * The .npy files of numpy, version 1.0, as far as index maps need them: one array of little-endian
 * integers in C order.  A file is 6 bytes "\x93NUMPY", the version, a u16 with the length of the
 * header, the header (a Python dictionary as text, padded with blanks, ended by a newline), the
 * data.
 */
enum { TR_NPY_HEADER_BYTES = 128 };

/* What an array holds: `type` as numpy spells it ("<i4", "<u4", "<i8"); `columns` is 0 for a
   vector. */
struct tr_npy {
    const char *type;
    int64_t rows, columns;
};

/* Bytes of a file made here: the header and the data. */
int64_t tr_npy_bytes(const struct tr_npy *a);

/* The first TR_NPY_HEADER_BYTES bytes of the file. */
void tr_npy_header(const struct tr_npy *a, unsigned char *out);

/*
 * Map a file that must hold such an array; *data points into the map, aligned for its type.  `fd` is as
 * for tr_map_take().  TR_EIO if it cannot be opened, TR_EDATA, with what was expected and what was found, if it is
 * anything else.
 */
enum tr_status tr_npy_open(int fd, const char *path, const struct tr_npy *a, struct tr_map *map,
                           const void **data) TR_MUST_CHECK;

#endif
