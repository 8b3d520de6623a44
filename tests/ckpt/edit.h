/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CKPT_EDIT_H
#define TR_TESTS_CKPT_EDIT_H

#include "check.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/seal.h"

/* Files that are changed after they were saved: bits on the disk, or by HDF5 as another program
   would, and then sealed again. */
static inline void edit_flip(const char *file, int64_t at, unsigned char mask)
{
    int fd = open(file, O_RDWR | O_CLOEXEC);
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= mask;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static inline int64_t edit_index_bytes(const char *file)
{
    FILE *f = fopen(file, "re");
    long long bytes = -1;

    assert_int_equal(fscanf(f, "trireme checkpoint 1.5\nindex_bytes %lld\n", &bytes), 1);
    fclose(f);
    return bytes;
}

/* Give a file a seal that is right, for an index of `bytes`. */
static inline void edit_seal_as(const char *file, int64_t bytes)
{
    unsigned char *image = malloc((size_t)bytes);
    int fd = open(file, O_RDWR | O_CLOEXEC);

    assert_int_equal(pread(fd, image, (size_t)bytes, 0), bytes);
    tr_ckpt_seal(image, bytes);
    assert_int_equal(pwrite(fd, image, TR_CKPT_SEAL_BYTES, 0), TR_CKPT_SEAL_BYTES);
    close(fd);
    free(image);
}

/* The same of one that HDF5 has changed. */
static inline void edit_seal(const char *file)
{
    edit_seal_as(file, edit_index_bytes(file));
}

static inline hid_t edit_open(const char *file)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), f;

    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    f = H5Fopen(file, H5F_ACC_RDWR, access);
    H5Pclose(access);
    assert_true(f >= 0);
    return f;
}

/* Delete a dataset, or an attribute of one, as a program with HDF5 would. */
static inline void edit_cut(const char *file, const char *set, const char *attribute)
{
    hid_t f = edit_open(file);

    if (attribute)
        assert_true(H5Adelete_by_name(f, set, attribute, H5P_DEFAULT) >= 0);
    else
        assert_true(H5Ldelete(f, set, H5P_DEFAULT) >= 0);
    assert_true(H5Fclose(f) >= 0);
    edit_seal(file);
}

static inline void edit_put(const char *file, const char *name, int64_t value)
{
    hid_t f = edit_open(file), a = H5Aopen(f, name, H5P_DEFAULT);

    assert_true(H5Awrite(a, H5T_NATIVE_INT64, &value) >= 0);
    assert_true(H5Aclose(a) >= 0 && H5Fclose(f) >= 0);
    edit_seal(file);
}

#endif
