/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_WRITEBACK_H
#define TR_UTIL_WRITEBACK_H

#include <stdint.h>

/*
 * Large files, written through a small part of the page cache.
 *
 * Left to itself the kernel keeps a copy of the whole file in memory until fsync().  Every page of it
 * must first be found, and the disk stands idle while it is filled.  On a virtual machine, whose host
 * has to supply the pages, a checkpoint was written at a quarter of the disk's speed.  Here the disk
 * begins with a window of the file as soon as it is written, and when TR_WRITEBACK_WINDOWS of them are
 * under way, the oldest is waited for and its pages are given back.
 *
 * This is about speed alone: what is written is on the disk after the caller's fsync().  Several
 * processes may write to parts of one file.
 */
enum { TR_WRITEBACK_WINDOW = 4 << 20, TR_WRITEBACK_WINDOWS = 4 };

/* Zero, but for the descriptor. */
struct tr_writeback {
    int fd;
    struct tr_writeback_window {
        int64_t from, to; /* bytes of the file */
    } now, sent[TR_WRITEBACK_WINDOWS];
    int turn; /* the oldest of `sent` */
};

/* Bytes from `at` to the end of its window: what one call writes of a file at once. */
int64_t tr_writeback_room(int64_t at);

/* Write `bytes` at `at`, as tr_write_at().  0, or -1 with errno; the error may be one that the disk had
   with earlier bytes. */
int tr_writeback_put(struct tr_writeback *w, const void *data, int64_t bytes, int64_t at);

#endif
