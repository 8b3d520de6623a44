/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_ZIP_H
#define TR_UTIL_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * The directory of a zip archive (PKWARE's APPNOTE, with zip64).  Nothing is decompressed here.
 */
struct tr_zip {
    int count;
    struct tr_zip_entry {
        char *name;             /* owned */
        int64_t offset, packed; /* where its bytes are in the file, all of which are there */
        int64_t bytes;          /* what they make; as many where they are stored as they are */
        uint32_t sum;           /* CRC-32 of that, which is not compared */
        bool deflated;
    } * list; /* owned; by name */
};

/* Read that of the file `path`, open as `fd` and `bytes` long.  TR_EIO; TR_EDATA if it is no archive, damaged, or
   has an entry that is encrypted or compressed otherwise than by deflate.  Release also after a failure. */
enum tr_status tr_zip_read(int fd, const char *path, int64_t bytes,
                           struct tr_zip *out) TR_MUST_CHECK;
void tr_zip_release(struct tr_zip *z);

/* The entry of that name, or NULL. */
const struct tr_zip_entry *tr_zip_find(const struct tr_zip *z, const char *name);

#endif
