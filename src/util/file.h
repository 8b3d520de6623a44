/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_FILE_H
#define TR_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/status.h"
#include "util/write.h"

/* A file mapped for reading.  `data` is NULL when the file is empty. */
struct tr_map {
    const unsigned char *data;
    size_t bytes;
    char *path; /* owned; for messages, also those of the SIGBUS handler */
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
 * Open a regular file, as open(2) with these flags (and O_CLOEXEC; what is created gets mode 0666), but
 * never wait for a FIFO, and take no FIFO, device, socket or folder for a file.  With O_NOFOLLOW a
 * symbolic link is refused as well.  A descriptor, owned by the caller, or -1 with errno;
 * tr_open_why(errno) says in words why the file could not be opened.
 */
int tr_open_regular(const char *path, int flags);
const char *tr_open_why(int error);

/* The same with a sentence: "cannot open PATH: WHY".  *fd is -1 after a failure. */
enum tr_status tr_open_file(const char *path, int flags, int *fd) TR_MUST_CHECK;

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

/*
 * Remove what killed processes left of tr_file_replace() in `folder`, for files whose names match the
 * pattern `names` (fnmatch): regular files with exactly the name that it gives, of a process that is
 * no longer there; one of another host, which cannot be asked, when it has not changed for an hour.
 */
void tr_file_tidy(const char *folder, const char *names);

/* True if both paths lead to the same folder or file, or would if it were made. */
bool tr_same_place(const char *a, const char *b);

/* Make `path` and its missing parents, like mkdir -p. */
enum tr_status tr_make_dirs(const char *path) TR_MUST_CHECK;

/* Flush a file or folder by name to the disk. */
enum tr_status tr_fsync_path(const char *path) TR_MUST_CHECK;

/* A file for output, cut to nothing first, or stdout where there is no path; and its end: whether
   all that was printed is written.  TR_EIO with a sentence. */
enum tr_status tr_output_open(const char *path, FILE **f) TR_MUST_CHECK;
enum tr_status tr_output_close(const char *path, FILE *f) TR_MUST_CHECK;

/* All of a small file (at most `limit` bytes) as a string, owned by the caller.  TR_EIO if it cannot
   be read, TR_EDATA if it is longer.  A user's file may be a pipe, as a shell's <(...) is; a file that
   the program keeps by itself must be a regular one, and nothing is waited for. */
enum tr_status tr_file_text(const char *path, size_t limit, char **out) TR_MUST_CHECK;
enum tr_status tr_regular_text(const char *path, size_t limit, char **out) TR_MUST_CHECK;

/* As tr_file_text(), and how many bytes there are: those of text may be zero. */
enum tr_status tr_file_bytes(const char *path, size_t limit, char **out,
                             size_t *bytes) TR_MUST_CHECK;

/* `bytes` at `at` of a file, going on after short reads and writes and EINTR; a read beyond its end gives
   ENODATA.  0, or -1 with errno. */
int tr_read_at(int fd, void *data, int64_t bytes, int64_t at);
int tr_write_at(int fd, const void *data, int64_t bytes, int64_t at);

/* printf into fresh memory, owned by the caller; never NULL (the job ends when memory does). */
char *tr_format(const char *fmt, ...) TR_PRINTF(1, 2);

#endif
