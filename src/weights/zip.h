/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_ZIP_H
#define TR_WEIGHTS_ZIP_H

#include <stdint.h>

#include "util/status.h"

/*
 * The directory of a zip archive (PKWARE's APPNOTE, with zip64), of which entries are stored as they are: what
 * torch.save() writes.  Nothing is decompressed.
 */
struct tr_zip {
    int count;
    struct tr_zip_entry {
        char *name;            /* owned */
        int64_t offset, bytes; /* of its content in the file, all of which is there */
        uint32_t sum;          /* CRC-32 of that, which is not compared */
    } * list;                  /* owned; by name */
};

/* Read that of the file `path`, open as `fd` and `bytes` long.  TR_EIO; TR_EDATA if it is no archive, damaged, or
   has an entry that is compressed or encrypted.  Release also after a failure. */
enum tr_status tr_zip_read(int fd, const char *path, int64_t bytes,
                           struct tr_zip *out) TR_MUST_CHECK;
void tr_zip_release(struct tr_zip *z);

/* The entry of that name, or NULL. */
const struct tr_zip_entry *tr_zip_find(const struct tr_zip *z, const char *name);

#endif
