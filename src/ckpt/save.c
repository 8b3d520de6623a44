/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt/architecture.h"
#include "ckpt/index.h"
#include "ckpt/io.h"
#include "ckpt/path.h"
#include "ckpt/rows.h"
#include "ckpt/saving.h"
#include "util/file.h"
#include "util/log.h"

/* A save that is waited for. */
struct save {
    struct tr_ckpt_saving *v;
    struct tr_ckpt_rows rows;
};

void tr_ckpt_saving_share(const struct tr_ckpt_saving *v, int kind,
                          const struct tr_ckpt_piece *piece, int64_t *lo, int64_t *hi)
{
    tr_ckpt_share(&v->map, piece, kind, v->grid->at.dp, v->grid->d, lo, hi);
}

static struct tr_ckpt_about about_of(const struct tr_ckpt_state *state,
                                     const struct tr_shape *shape)
{
    struct tr_ckpt_about a = {
        .state = *state, .schedule = shape->lr_schedule, .order = shape->epochs};

    tr_ckpt_model_about(&shape->dims, &a);
#define LAYOUT(attribute, field) a.field = shape->layout.field;
    TR_CKPT_LAYOUT_OF(LAYOUT)
#undef LAYOUT
    return a;
}

/* Bytes that we may still write to the file system of `dir`; -1 where it does not say, as some
   network file systems do with no blocks at all. */
static int64_t free_bytes(const char *dir)
{
    struct statvfs fs;

    if (statvfs(dir, &fs) != 0 || fs.f_blocks == 0)
        return -1;
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

/* Rank 0: everything that can be known to be wrong before a byte is written. */
static enum tr_status look_ahead(const struct tr_ckpt_saving *v)
{
    int64_t there;

    TR_TRY(tr_make_dirs(v->dir));
    there = free_bytes(v->dir);
    if (there >= 0 && there < v->bytes)
        return TR_FAIL(TR_EIO, "%s has no room for it", v->dir);
    return TR_OK;
}

static void name_files(struct tr_ckpt_saving *v)
{
    v->folder = tr_ckpt_temporary(v->dir, v->iteration, v->tag);
    v->file = tr_ckpt_file_in(v->folder);
}

enum tr_status tr_ckpt_saving_lay_out(struct tr_ckpt_saving *v)
{
    TR_TRY(look_ahead(v));
    v->tag = (long)getpid();
    name_files(v);
    /* A process of this number may have been killed here before. */
    tr_ckpt_remove(v->folder);
    if (mkdir(v->folder, 0777) != 0)
        return TR_FAIL(TR_EIO, "cannot make the folder %s: %s", v->folder, strerror(errno));
    return tr_ckpt_index_write(v->file, &v->map.whole, v->map.kinds, &v->about, v->config_json,
                               v->sums, v->offsets);
}

/* Where rank 0 put what. */
static void tell_offsets(struct tr_ckpt_saving *v)
{
    v->offsets[v->tensors] = v->tag;
    tr_ckpt_tell(v->world, v->offsets, ((size_t)v->tensors + 1) * sizeof *v->offsets);
    v->tag = (long)v->offsets[v->tensors];
    if (!v->folder)
        name_files(v);
}

/* The file of one rank, and the first error that it had. */
struct out {
    struct tr_writeback to;
    int error;
};

static void write_run(struct tr_ckpt_saving *v, struct out *o, int kind,
                      const struct tr_ckpt_piece *piece, int64_t lo, int64_t hi)
{
    const int number = tr_ckpt_number(&v->map, kind, piece);

    for (int64_t at = lo, end; at < hi && o->error == 0; at = end) {
        end = tr_ckpt_upto(&v->map, at, hi);
        if (tr_ckpt_write_elems(&o->to, v->offsets[number], piece->param,
                                tr_ckpt_get(&v->map, kind, piece, at, end), at, end,
                                &v->sums[number]) != 0)
            o->error = errno;
    }
}

/* Rows that begin or end within lo .. hi - 1 are left to each tensor rank. */
static void write_piece(struct save *w, struct out *o, int kind, const struct tr_ckpt_piece *piece,
                        int64_t lo, int64_t hi)
{
    struct tr_ckpt_saving *v = w->v;
    const int number = tr_ckpt_number(&v->map, kind, piece);
    const int64_t cols = piece->param->local[1], first = (lo + cols - 1) / cols, end = hi / cols;

    if (!tr_ckpt_alternates(piece->param) || first >= end) {
        write_run(v, o, kind, piece, lo, hi);
        return;
    }
    write_run(v, o, kind, piece, lo, first * cols);
    tr_ckpt_rows_write(&w->rows, &v->map, kind, piece, first, end, &o->to, v->offsets[number],
                       &v->sums[number], &o->error);
    write_run(v, o, kind, piece, end * cols, hi);
}

/* An errno, or 0.  Collective, so a rank that cannot write goes on. */
static int write_share(struct save *w, int fd)
{
    const struct tr_ckpt_saving *v = w->v;
    struct out o = {.to = {.fd = fd}};

    for (int k = 0; k < v->map.kinds; k++) {
        for (int i = 0; i < v->map.count; i++) {
            const struct tr_ckpt_piece *piece = &v->map.list[i];
            int64_t lo, hi;

            tr_ckpt_saving_share(v, k, piece, &lo, &hi);
            write_piece(w, &o, k, piece, lo, hi);
        }
    }
    return o.error;
}

/* Write-only: a network file system then tracks bytes and not pages, and ranks may write to the
   same page. */
static enum tr_status open_file(const struct tr_ckpt_saving *v, int *fd)
{
    *fd = open(v->file, O_WRONLY | O_CLOEXEC);
    if (*fd < 0)
        return TR_FAIL(TR_EIO,
                       "cannot open %s: %s; every rank writes to it, so it must lie on a file "
                       "system that all nodes share",
                       v->file, strerror(errno));
    return TR_OK;
}

int tr_ckpt_saving_flush(int fd)
{
    int error = fsync(fd) != 0 ? errno : 0;

    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

enum tr_status tr_ckpt_saving_wrote(const struct tr_ckpt_saving *v, int error)
{
    if (error == 0)
        return TR_OK;
    return TR_FAIL(TR_EIO, "cannot write %s: %s", v->file, strerror(error));
}

static enum tr_status write_elements(struct save *w, int fd)
{
    const int error = write_share(w, fd), last = tr_ckpt_saving_flush(fd);

    return tr_ckpt_saving_wrote(w->v, error != 0 ? error : last);
}

static enum tr_status write_sidecars(const struct tr_ckpt_saving *v)
{
    for (const struct tr_ckpt_sidecar *b = v->sidecars; b; b = b->next)
        TR_TRY(b->write(b->ctx, v->folder));
    return TR_OK;
}

enum tr_status tr_ckpt_saving_sidecars(const struct tr_ckpt_saving *v)
{
    return v->sidecars ? tr_ckpt_saving_agree(v, write_sidecars(v)) : TR_OK;
}

enum tr_status tr_ckpt_saving_agree(const struct tr_ckpt_saving *v, enum tr_status mine)
{
    const double mib = 1048576.0;
    char room[64] = "an unknown number";
    int64_t there;

    if (mine != TR_OK) {
        there = free_bytes(v->dir);
        if (there >= 0)
            snprintf(room, sizeof room, "%.1f MiB", (double)there / mib);
        mine =
            TR_FAIL(mine,
                    "the checkpoint of iteration %lld is not saved and the one before stays "
                    "the latest: %s; it needs %.1f MiB in %s, where %s are free",
                    (long long)v->iteration, tr_last_error(), (double)v->bytes / mib, v->dir, room);
    }
    return tr_comm_agree(v->world, mine);
}

enum tr_status tr_ckpt_saving_open(struct tr_ckpt_saving *v, enum tr_status laid_out, int *fd)
{
    enum tr_status s;

    *fd = -1;
    TR_TRY(tr_ckpt_saving_agree(v, laid_out));
    tell_offsets(v);
    s = tr_ckpt_saving_agree(v, open_file(v, fd));
    if (s != TR_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return s;
}

enum tr_status tr_ckpt_saving_name(const struct tr_ckpt_saving *v)
{
    TR_TRY(tr_ckpt_index_again(v->file, &v->map.whole, v->map.kinds, &v->about, v->config_json,
                               v->sums, v->offsets));
    TR_TRY(tr_ckpt_commit(v->dir, v->iteration, v->tag));
    tr_ckpt_tidy(v->dir, v->iteration, v->keep_last, v->tag);
    return TR_OK;
}

static void build(struct tr_ckpt_saving *v, const struct tr_ckpt_tensors *tensors,
                  const struct tr_shape *shape)
{
    tr_ckpt_map_build(&shape->dims, tensors, v->grid->at.tp, &v->map);
    v->tensors = v->map.kinds * v->map.whole.count;
    v->bytes = tr_ckpt_index_bytes(&v->map.whole, v->map.kinds, v->config_json);
    v->sums = calloc((size_t)v->tensors, sizeof *v->sums);
    v->offsets = calloc((size_t)v->tensors + 1, sizeof *v->offsets);
    if (!v->sums || !v->offsets)
        tr_die(TR_ERESOURCE, "no memory left for the index of a checkpoint");
}

void tr_ckpt_saving_begin(struct tr_ckpt_saving *v, struct tr_grid *grid, const char *dir,
                          const struct tr_ckpt_state *state, const struct tr_ckpt_tensors *tensors,
                          const struct tr_shape *shape, const char *config_json, const char *source,
                          int keep_last, const struct tr_ckpt_sidecar *sidecars)
{
    TR_ASSERT((tensors->value.data || tensors->access));
    *v = (struct tr_ckpt_saving){.grid = grid,
                                 .world = grid->world,
                                 .dir = dir,
                                 .iteration = state->iteration,
                                 .about = about_of(state, shape),
                                 .config_json = config_json,
                                 .keep_last = keep_last,
                                 .sidecars = sidecars};
    v->about.source = source;
    tr_print_rank0("saving checkpoint at iteration %7lld to %s\n", (long long)v->iteration, dir);
    build(v, tensors, shape);
    for (const struct tr_ckpt_sidecar *b = sidecars; b; b = b->next) {
        v->bytes += b->bytes;
        v->about.files += b->files;
    }
}

void tr_ckpt_saving_end(struct tr_ckpt_saving *v, enum tr_status s)
{
    if (s != TR_OK && v->world->rank == 0 && v->folder)
        tr_ckpt_remove(v->folder);
    if (s == TR_OK)
        tr_print_rank0("  successfully saved checkpoint at iteration %7lld to %s\n",
                       (long long)v->iteration, v->dir);
    free(v->folder);
    free(v->file);
    free(v->sums);
    free(v->offsets);
    tr_ckpt_map_release(&v->map);
}

static enum tr_status save_all(struct save *w)
{
    struct tr_ckpt_saving *v = w->v;
    int fd;

    TR_TRY(tr_ckpt_saving_open(v, v->world->rank == 0 ? tr_ckpt_saving_lay_out(v) : TR_OK, &fd));
    TR_TRY(tr_ckpt_saving_agree(v, write_elements(w, fd)));
    tr_ckpt_add(v->world, v->sums, v->tensors);
    TR_TRY(tr_ckpt_saving_sidecars(v));
    return tr_ckpt_saving_agree(v, v->world->rank == 0 ? tr_ckpt_saving_name(v) : TR_OK);
}

enum tr_status tr_ckpt_save(struct tr_grid *grid, const char *dir,
                            const struct tr_ckpt_state *state,
                            const struct tr_ckpt_tensors *tensors, const struct tr_shape *shape,
                            const char *config_json, const char *source, int keep_last,
                            const struct tr_ckpt_sidecar *sidecars)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct tr_ckpt_saving v;
    struct save w = {.v = &v};
    enum tr_status s;

    tr_ckpt_saving_begin(&v, grid, dir, state, tensors, shape, config_json, source, keep_last,
                         sidecars);
    tr_ckpt_rows_open(grid, &v.map, &w.rows);
    /* A limit on the size of files is an error like others, not the end of the process. */
    sigaction(SIGXFSZ, &ignore, &before);
    s = save_all(&w);
    sigaction(SIGXFSZ, &before, NULL);
    tr_ckpt_rows_close(&w.rows);
    tr_ckpt_saving_end(&v, s);
    return s;
}
