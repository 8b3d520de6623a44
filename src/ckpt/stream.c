/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt/architecture.h"
#include "ckpt/index.h"
#include "ckpt/io.h"
#include "ckpt/path.h"
#include "util/aside.h"
#include "util/file.h"
#include "util/writeback.h"

struct tr_ckpt_stream {
    struct tr_comm *world;
    struct tr_params whole;
    struct tr_ckpt_about about;
    char *dir, *folder, *file, *config, *source;
    int64_t tag;         /* of rank 0 */
    bool made;           /* rank 0 made `dir` */
    bool tracked, named; /* of rank 0: `dir` had a tracker; the folder is to have its name */
    uint64_t *sums;
    int64_t *offsets;
    struct tr_writeback to; /* fd -1: not open */
    bool threaded;          /* `aside` is open */
    struct tr_aside aside;
    struct piece {
        int tensor;
        int64_t first, n;
        const float *x;
    } piece; /* that it writes */
};

/* What no run has done yet is unset. */
static struct tr_ckpt_about about_of(const struct tr_dims *dims)
{
    struct tr_ckpt_about a = {.files = 0};

#define REAL(field) a.schedule.field = TR_UNSET_REAL;
#define CHOICE(field) a.schedule.field = -1;
#define NUMBER(type, field, attribute, options) type(field)
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
#define LAYOUT(attribute, field) a.field = 1;
    TR_CKPT_LAYOUT_OF(LAYOUT)
#undef LAYOUT
    tr_ckpt_model_about(dims, &a);
    return a;
}

static bool has_tracker(const char *dir)
{
    char *path = tr_format("%s/" TR_CKPT_TRACKER, dir);
    const bool there = access(path, F_OK) == 0;

    free(path);
    return there;
}

static enum tr_status look_ahead(struct tr_ckpt_stream *w)
{
    const int64_t bytes = tr_ckpt_index_bytes(&w->whole, 1, w->config);
    struct statvfs fs;
    int64_t there;

    if (tr_ckpt_older(w->dir, INT64_MAX) >= 0)
        return TR_FAIL(TR_ECONFIG,
                       "%s has checkpoints, and imported weights begin a run: give a folder "
                       "without, or remove them",
                       w->dir);
    w->made = access(w->dir, F_OK) != 0;
    w->tracked = has_tracker(w->dir);
    TR_TRY(tr_make_dirs(w->dir));
    if (statvfs(w->dir, &fs) != 0 || fs.f_blocks == 0)
        return TR_OK;
    there = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (there < bytes)
        return TR_FAIL(TR_EIO, "the checkpoint needs %.1f MiB in %s, where %.1f MiB are free",
                       (double)bytes / 1048576.0, w->dir, (double)there / 1048576.0);
    return TR_OK;
}

/* On rank 0. */
static enum tr_status begin(struct tr_ckpt_stream *w)
{
    TR_TRY(look_ahead(w));
    /* A process of this number may have been killed here before. */
    tr_ckpt_remove(w->folder);
    tr_ckpt_tell_leftovers(w->dir);
    if (mkdir(w->folder, 0777) != 0)
        return TR_FAIL(TR_EIO, "cannot make the folder %s: %s", w->folder, strerror(errno));
    return tr_ckpt_index_write(w->file, &w->whole, 1, &w->about, w->config, w->sums, w->offsets);
}

static enum tr_status open_file(struct tr_ckpt_stream *w)
{
    w->to.fd = open(w->file, O_WRONLY | O_CLOEXEC);
    if (w->to.fd < 0)
        return TR_FAIL(TR_EIO,
                       "cannot open %s: %s; every rank writes to it, so it must lie on a file "
                       "system that all nodes share",
                       w->file, strerror(errno));
    return TR_OK;
}

static void release(struct tr_ckpt_stream *w)
{
    free(w->dir);
    free(w->folder);
    free(w->file);
    free(w->config);
    free(w->source);
    free(w->sums);
    free(w->offsets);
    tr_params_release(&w->whole);
    free(w);
}

/* Write it; an errno, or 0. */
static int write_piece(struct tr_ckpt_stream *w, const struct piece *p)
{
    const int rc =
        tr_ckpt_write_run(&w->to, w->offsets[p->tensor], p->x, p->first, p->n, &w->sums[p->tensor]);

    return rc != 0 ? errno : 0;
}

static enum tr_status written(const struct tr_ckpt_stream *w, int error)
{
    if (error == 0)
        return TR_OK;
    return TR_FAIL(TR_EIO, "cannot write %s: %s", w->file, strerror(error));
}

/* No thread writes any more. */
static enum tr_status end_aside(struct tr_ckpt_stream *w)
{
    const bool threaded = w->threaded;

    w->threaded = false;
    return threaded ? written(w, tr_aside_close(&w->aside)) : TR_OK;
}

/* A failure leaves nothing behind, once no rank writes any more. */
static void give_up(struct tr_ckpt_stream *w)
{
    if (w->to.fd >= 0)
        close(w->to.fd);
    w->to.fd = -1;
    if (w->world->rank == 0) {
        tr_ckpt_remove(w->folder);
        if (w->named)
            tr_ckpt_withdraw(w->dir, 0, !w->tracked);
        if (w->made)
            (void)rmdir(w->dir);
    }
    release(w);
}

static struct tr_ckpt_stream *make(struct tr_comm *world, const char *dir,
                                   const struct tr_dims *dims, const char *config,
                                   const char *source)
{
    struct tr_ckpt_stream *w = calloc(1, sizeof *w);

    if (!w)
        tr_die(TR_ERESOURCE, "no memory left for a checkpoint");
    tr_ckpt_list_whole(dims, &w->whole);
    w->sums = calloc((size_t)w->whole.count, sizeof *w->sums);
    w->offsets = calloc((size_t)w->whole.count, sizeof *w->offsets);
    if (!w->sums || !w->offsets)
        tr_die(TR_ERESOURCE, "no memory left for the index of a checkpoint");
    w->world = world;
    w->about = about_of(dims);
    w->dir = tr_format("%s", dir);
    w->tag = (int64_t)getpid();
    tr_ckpt_tell(world, &w->tag, sizeof w->tag);
    w->folder = tr_ckpt_temporary(dir, 0, (long)w->tag);
    w->file = tr_ckpt_file_in(w->folder);
    w->config = tr_format("%s", config);
    w->source = tr_format("%s", source);
    w->about.source = w->source;
    w->to.fd = -1;
    return w;
}

enum tr_status tr_ckpt_stream_open(struct tr_comm *world, const char *dir,
                                   const struct tr_dims *dims, const char *config,
                                   const char *source, struct tr_ckpt_stream **out)
{
    struct tr_ckpt_stream *w = make(world, dir, dims, config, source);
    enum tr_status s = tr_comm_agree(world, world->rank == 0 ? begin(w) : TR_OK);

    *out = NULL;
    if (s == TR_OK) {
        tr_ckpt_tell(world, w->offsets, (size_t)w->whole.count * sizeof *w->offsets);
        s = tr_comm_agree(world, open_file(w));
    }
    if (s != TR_OK) {
        give_up(w);
        return s;
    }
    *out = w;
    return TR_OK;
}

const struct tr_params *tr_ckpt_stream_params(const struct tr_ckpt_stream *w)
{
    return &w->whole;
}

enum tr_status tr_ckpt_stream_put(struct tr_ckpt_stream *w, int tensor, int64_t first,
                                  const float *x, int64_t n)
{
    const struct piece p = {tensor, first, n, x};

    return written(w, write_piece(w, &p));
}

static int write_aside(void *ctx)
{
    struct tr_ckpt_stream *w = ctx;

    return write_piece(w, &w->piece);
}

enum tr_status tr_ckpt_stream_put_aside(struct tr_ckpt_stream *w, int tensor, int64_t first,
                                        const float *x, int64_t n)
{
    if (!w->threaded)
        tr_aside_open(&w->aside);
    w->threaded = true;
    TR_TRY(written(w, tr_aside_wait(&w->aside)));
    w->piece = (struct piece){tensor, first, n, x};
    tr_aside_begin(&w->aside, write_aside, w);
    return TR_OK;
}

static enum tr_status flush(struct tr_ckpt_stream *w)
{
    const int fd = w->to.fd;
    int error = fsync(fd) != 0 ? errno : 0;

    w->to.fd = -1;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", w->file, strerror(error));
    return TR_OK;
}

/* On rank 0.  The index once more, with the sums: it takes the same place, whatever they are. */
static enum tr_status finish(struct tr_ckpt_stream *w)
{
    TR_TRY(tr_ckpt_index_again(w->file, &w->whole, 1, &w->about, w->config, w->sums, w->offsets));
    w->named = true;
    return tr_ckpt_commit(w->dir, 0, (long)w->tag);
}

enum tr_status tr_ckpt_stream_close(struct tr_ckpt_stream *w, enum tr_status so_far)
{
    const enum tr_status last = end_aside(w);
    enum tr_status s = tr_comm_agree(w->world, so_far != TR_OK ? so_far : last);

    if (s == TR_OK)
        s = tr_comm_agree(w->world, flush(w));
    if (s == TR_OK) {
        tr_ckpt_add(w->world, w->sums, w->whole.count);
        s = tr_comm_agree(w->world, w->world->rank == 0 ? finish(w) : TR_OK);
    }
    if (s != TR_OK)
        give_up(w);
    else
        release(w);
    return s;
}
