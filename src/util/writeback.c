/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/writeback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "util/file.h"

/* What lies further behind than GAP begins another window.  Fewer bytes than SMALL by themselves are
   left to fsync(): their neighbours may be of another process, which has yet to write them. */
enum { GAP = 64 << 10, SMALL = 64 << 10 };

/* An error of the disk is reported once, so it must be taken from here.  1 where the file system cannot
   do this by parts: it does it at fsync(). */
static int flush(int fd, const struct tr_writeback_window *w, unsigned flags)
{
    if (w->to == w->from || sync_file_range(fd, w->from, w->to - w->from, flags) == 0)
        return 0;
    return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 1;
}

static int finish_oldest(struct tr_writeback *w)
{
    const struct tr_writeback_window *old = &w->sent[w->turn];
    int rc =
        flush(w->fd, old,
              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);

    if (rc == 0 && old->to > old->from)
        posix_fadvise(w->fd, old->from, old->to - old->from, POSIX_FADV_DONTNEED);
    return rc < 0 ? -1 : 0;
}

static int send(struct tr_writeback *w)
{
    if (flush(w->fd, &w->now, SYNC_FILE_RANGE_WRITE) < 0 || finish_oldest(w) != 0)
        return -1;
    w->sent[w->turn] = w->now;
    w->turn = (w->turn + 1) % TR_WRITEBACK_WINDOWS;
    w->now.from = w->now.to;
    return 0;
}

/* Windows end at multiples of their size. */
static int note(struct tr_writeback *w, int64_t at, int64_t bytes)
{
    if (at < w->now.to || at - w->now.to > GAP) {
        if (send(w) != 0)
            return -1;
        w->now.from = at;
    }
    w->now.to = at + bytes;
    return w->now.to % TR_WRITEBACK_WINDOW == 0 ? send(w) : 0;
}

int64_t tr_writeback_room(int64_t at)
{
    return TR_WRITEBACK_WINDOW - at % TR_WRITEBACK_WINDOW;
}

int tr_writeback_put(struct tr_writeback *w, const void *data, int64_t bytes, int64_t at)
{
    const bool small = bytes < SMALL && at != w->now.to;

    for (int64_t done = 0, n; done < bytes; done += n) {
        n = tr_writeback_room(at + done);
        n = n < bytes - done ? n : bytes - done;
        if (tr_write_at(w->fd, (const unsigned char *)data + done, n, at + done) != 0 ||
            (!small && note(w, at + done, n) != 0))
            return -1;
    }
    return 0;
}
