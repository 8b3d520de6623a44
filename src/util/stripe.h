/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_STRIPE_H
#define TR_UTIL_STRIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/*
 * Records in files that a process has for itself while it runs: record i lies in folder i % folders.  Threads read
 * and write them with O_DIRECT, or through the page cache where a file system does not take that, while the caller
 * does something else.  The files have no names from the start on, so nothing is left of them however the process
 * ends.  One thread of a process calls all this.
 */
struct tr_stripe;

enum { TR_STRIPE_ALIGN = 4096 }; /* of buffers and of the bytes of a record */

/* A read or a write, memory of the caller: all zero before the first, and until wait() said how it went nothing of it
   may be touched, nor of the buffer. */
struct tr_stripe_io {
    struct tr_stripe_io *next;
    int64_t record;
    unsigned char *buffer;
    bool writes;
    size_t begun, ended; /* bytes of it, begun by a thread, and done */
    int error;           /* the first errno, or 0 */
};

/*
 * Files for `records` of `bytes` each, all zero, in `folders`, which have commas between; `name` tells whose they are
 * until their names are gone.  Room for all is taken at once where the file system can do that.  TR_EIO, with the
 * folder, the bytes and those free: no such folder, no permission, no room.  TR_ERESOURCE: no memory or threads.
 */
enum tr_status tr_stripe_open(const char *folders, const char *name, int64_t records, size_t bytes,
                              struct tr_stripe **out) TR_MUST_CHECK;
void tr_stripe_close(struct tr_stripe *s); /* nothing under way; NULL is none */

/* Begin.  Of one record one at a time. */
void tr_stripe_read(struct tr_stripe *s, struct tr_stripe_io *io, int64_t record, void *buffer);
void tr_stripe_write(struct tr_stripe *s, struct tr_stripe_io *io, int64_t record,
                     const void *buffer);

/* When it is done, or was never begun: TR_EIO with the folder and the reason. */
enum tr_status tr_stripe_wait(struct tr_stripe *s, struct tr_stripe_io *io) TR_MUST_CHECK;

/* Whether all files are read and written without the page cache. */
bool tr_stripe_direct(const struct tr_stripe *s);

#endif
