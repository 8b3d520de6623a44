/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_NPZ_H
#define TR_DATA_NPZ_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * Arrays of tokens in a .npz file of numpy, read in order, in constant memory: a zip archive whose entry NAME.npy
 * is the array NAME (data/npy.h), stored (numpy.savez) or deflated (numpy.savez_compressed).  An array has one or
 * two dimensions, in C order, of integers of 8 to 64 bits, little endian.
 */
struct tr_npz;

/* TR_EIO if it cannot be opened or read, TR_EDATA if it is no such archive. */
enum tr_status tr_npz_open(const char *path, struct tr_npz **out) TR_MUST_CHECK;
void tr_npz_close(struct tr_npz *z);

/* What an array holds.  A vector has one row. */
struct tr_npz_array {
    int64_t rows, columns;
    int bytes; /* of a number */
    char kind; /* 'u' or 'i', as numpy spells it */
};

/* Begin to read the array `name`, in place of one that was begun before.  TR_EDATA, in a sentence that names file
   and array, if there is none (with the names that there are), if it is something else than above, or if
   the entry is not as long as its header promises. */
enum tr_status tr_npz_begin(struct tr_npz *z, const char *name,
                            struct tr_npz_array *out) TR_MUST_CHECK;

/* Its next row into out[columns].  TR_EDATA, with row and column, for a number that is negative or above 2^31 - 1, for
   data that do not inflate, and after the last row for a sum (CRC-32) that differs; asserts that there is a row. */
enum tr_status tr_npz_row(struct tr_npz *z, int32_t *out) TR_MUST_CHECK;

/* Whether this is the name of such a file. */
bool tr_npz_named(const char *path);

#endif
