/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_FILE_H
#define TR_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/* A file mapped for reading.  `data` is NULL when the file is empty. */
struct tr_map {
    const unsigned char *data;
    size_t bytes;
    char *path;                 /* owned; for messages, also those of the SIGBUS handler */
};

/*
 * How a file is opened for reading: open() gives a descriptor, owned by the caller, or -1 with errno.
 * Processes may do it together (comm/share.h); then all open the same files in the same order, and one
 * of them, the first, checks what is in them for all.  NULL stands for open(2) and for being first.
 */
struct tr_opener {
    int (*open)(void *ctx, const char *path);
    void *ctx;
    bool first;
};
int tr_open_by(const struct tr_opener *by, const char *path);
bool tr_open_is_first(const struct tr_opener *by);

/*
 * Map `path`.  TR_EIO with a sentence if it cannot be opened or mapped.  From the first call on, a
 * SIGBUS inside any open map (the file was shortened under us, or its disk failed) ends the job with
 * a sentence that names the file and exit code 74, instead of a bare signal.
 */
enum tr_status tr_map_open(const char *path, struct tr_map *out) TR_MUST_CHECK;

/* The same with a descriptor, which is closed in any case; with -1 errno says why `path` could not be
   opened. */
enum tr_status tr_map_take(int fd, const char *path, struct tr_map *out) TR_MUST_CHECK;
void tr_map_close(struct tr_map *m);

/*
 * Replace `path` by `bytes` of `data` such that a reader, or a machine that loses power, sees the old
 * content or the new one and nothing else: temporary name in the same folder, fsync, rename, fsync
 * of the folder.  TR_EIO names the path and the reason; the old content then stands.
 */
enum tr_status tr_file_replace(const char *path, const void *data, size_t bytes) TR_MUST_CHECK;

/* Make `path` and its missing parents, like mkdir -p. */
enum tr_status tr_make_dirs(const char *path) TR_MUST_CHECK;

/* Flush a file or folder by name to the disk. */
enum tr_status tr_fsync_path(const char *path) TR_MUST_CHECK;

/* All of a small file (at most `limit` bytes) as a string, owned by the caller.  TR_EIO if it cannot
   be read, TR_EDATA if it is longer. */
enum tr_status tr_file_text(const char *path, size_t limit, char **out) TR_MUST_CHECK;

/* Write all `bytes` to a descriptor, going on after short writes and EINTR, and waiting where a
   pipe has no room.  0, or -1 with errno. */
int tr_write_all(int fd, const void *data, size_t bytes);

/* `bytes` at `at` of a file, going on after short reads and writes and EINTR; a read beyond its end gives
   ENODATA.  0, or -1 with errno. */
int tr_read_at(int fd, void *data, int64_t bytes, int64_t at);
int tr_write_at(int fd, const void *data, int64_t bytes, int64_t at);

/* printf into fresh memory, owned by the caller; never NULL (the job ends when memory does). */
char *tr_format(const char *fmt, ...) TR_PRINTF(1, 2);

#endif
