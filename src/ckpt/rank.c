/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/rank.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/ckpt.h"
#include "ckpt/sparse_file.h"
#include "util/file.h"
#include "util/writeback.h"

/* Bytes on their way between a device and the file. */
enum { BOUNCE = 4 << 20 };

static const char magic[16] = "trireme rank 1\n";

/* The first page of the file, padded with zeros. */
struct page {
    char magic[16], kind[16], about[TR_CKPT_ABOUT_BYTES];
    int64_t rank, iteration, number[TR_CKPT_NUMBERS], parts;
    struct {
        char name[16];
        int64_t at, bytes;
        uint64_t sum;
    } part[TR_CKPT_PARTS];
    uint64_t sum; /* of all that stands before it */
};
_Static_assert(sizeof(struct page) <= TR_CKPT_PAGE, "it is one page");

/* One file under way. */
struct work {
    const struct tr_ckpt_rank *r;
    char *path;
    int fd;
    unsigned char *bounce;
};

static char *path_of(const char *folder, int rank, const char *kind)
{
    return tr_format("%s/" TR_CKPT_SIDECAR "%05d.%s", folder, rank, kind);
}

static int64_t next_page(int64_t at)
{
    return (at + TR_CKPT_PAGE - 1) / TR_CKPT_PAGE * TR_CKPT_PAGE;
}

static void copy_text(char *to, size_t room, const char *from)
{
    TR_ASSERT(strlen(from) < room);
    memcpy(to, from, strlen(from) + 1);
}

static uint64_t seal_of(const struct page *p)
{
    return XXH3_64bits(p, offsetof(struct page, sum));
}

static void fill_page(const struct tr_ckpt_rank *r, struct page *p)
{
    int64_t at = TR_CKPT_PAGE;

    memset(p, 0, sizeof *p);
    memcpy(p->magic, magic, sizeof magic);
    copy_text(p->kind, sizeof p->kind, r->kind);
    copy_text(p->about, sizeof p->about, r->about);
    p->rank = r->rank;
    p->iteration = r->iteration;
    memcpy(p->number, r->number, sizeof p->number);
    p->parts = r->parts;
    for (int i = 0; i < r->parts; i++) {
        copy_text(p->part[i].name, sizeof p->part[i].name, r->part[i].name);
        p->part[i].at = at;
        p->part[i].bytes = tr_tensor_bytes(&r->part[i].at);
        at = next_page(at + p->part[i].bytes);
    }
}

static struct tr_tensor bytes_of(const struct tr_tensor *t, int64_t first, int64_t count)
{
    return tr_tensor_1((unsigned char *)t->data + first, TR_U8, count);
}

/* Move part i piece by piece, and sum it up.  0, or -1 with errno. */
static int move_part(const struct work *w, int i, int64_t at, bool writes, uint64_t *sum)
{
    const struct tr_tensor *t = &w->r->part[i].at;
    struct tr_queue *q = w->r->q;
    struct tr_writeback to = {.fd = w->fd};
    int64_t bytes = tr_tensor_bytes(t);
    XXH3_state_t *state = XXH3_createState();

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR)
        tr_die(TR_ERESOURCE, "no memory left for a checksum");
    for (int64_t done = 0, n; done < bytes; done += n) {
        struct tr_tensor piece;

        n = bytes - done < BOUNCE ? bytes - done : BOUNCE;
        piece = bytes_of(t, done, n);
        if (writes)
            q->on->download(q, w->bounce, &piece);
        if ((writes ? tr_writeback_put(&to, w->bounce, n, at + done)
                    : tr_read_at(w->fd, w->bounce, n, at + done)) != 0) {
            XXH3_freeState(state);
            return -1;
        }
        TR_ASSERT(XXH3_64bits_update(state, w->bounce, (size_t)n) == XXH_OK);
        if (!writes)
            q->on->upload(q, &piece, w->bounce);
    }
    *sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return 0;
}

static void begin(struct work *w, const struct tr_ckpt_rank *r, const char *folder)
{
    TR_ASSERT(r->parts <= TR_CKPT_PARTS);
    w->r = r;
    w->path = path_of(folder, r->rank, r->kind);
    w->bounce = malloc(BOUNCE);
    if (!w->bounce)
        tr_die(TR_ERESOURCE, "no memory left for the sidecar file of a rank");
}

static void end(struct work *w)
{
    free(w->path);
    free(w->bounce);
}

/* The page comes last, so that a file without it is no file. */
static int write_all(const struct work *w)
{
    struct page p;

    fill_page(w->r, &p);
    for (int i = 0; i < w->r->parts; i++)
        if (move_part(w, i, p.part[i].at, true, &p.part[i].sum) != 0)
            return -1;
    p.sum = seal_of(&p);
    return tr_write_at(w->fd, &p, sizeof p, 0) != 0 || fsync(w->fd) != 0 ? -1 : 0;
}

enum tr_status tr_ckpt_rank_write(const struct tr_ckpt_rank *r, const char *folder)
{
    enum tr_status s = TR_OK;
    struct work w;
    int error = 0;

    begin(&w, r, folder);
    w.fd = tr_open_regular(w.path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    if (w.fd < 0 || write_all(&w) != 0)
        error = errno;
    if (w.fd >= 0 && close(w.fd) != 0 && error == 0)
        error = errno;
    if (error != 0)
        s = TR_FAIL(TR_EIO, "cannot write %s: %s", w.path, tr_open_why(error));
    end(&w);
    return s;
}

static enum tr_status cut_off(const char *path)
{
    return TR_FAIL(TR_EDATA,
                   "%s is truncated: restore it, or load an older checkpoint with --ckpt-step",
                   path);
}

static enum tr_status cannot_read(const char *path)
{
    if (errno == ENODATA)
        return cut_off(path);
    return TR_FAIL(TR_EIO, "cannot read %s: %s", path, strerror(errno));
}

static enum tr_status wrong_sum(const char *path, const char *part)
{
    return TR_FAIL(TR_EDATA,
                   "%s is damaged: %s does not have its checksum; restore it, or load an older "
                   "checkpoint with --ckpt-step",
                   path, part);
}

/* Texts end, and no sum of a place and a length overflows. */
static bool is_sound(const struct page *p)
{
    bool sound = p->about[sizeof p->about - 1] == '\0' && p->kind[sizeof p->kind - 1] == '\0' &&
                 p->parts >= 0 && p->parts <= TR_CKPT_PARTS;

    for (int i = 0; sound && i < p->parts; i++)
        sound = p->part[i].name[sizeof p->part[i].name - 1] == '\0' &&
                p->part[i].at >= TR_CKPT_PAGE && p->part[i].at >> 60 == 0 &&
                p->part[i].bytes >= 0 && p->part[i].bytes >> 60 == 0;
    return sound;
}

static enum tr_status read_page(const char *path, int fd, struct page *p)
{
    if (tr_read_at(fd, p, sizeof *p, 0) != 0)
        return cannot_read(path);
    if (memcmp(p->magic, magic, sizeof magic) != 0 || p->sum != seal_of(p) || !is_sound(p))
        return TR_FAIL(
            TR_EDATA,
            "%s is damaged: its first page does not have its checksum; restore it, or load "
            "an older checkpoint with --ckpt-step",
            path);
    return TR_OK;
}

/* True if any rank has such a file. */
static bool has_others(const char *folder, const char *kind)
{
    char *names = tr_format(TR_CKPT_SIDECAR "[0-9]*.%s", kind);
    DIR *d = opendir(folder);
    bool has = false;

    for (struct dirent *e; d && !has && (e = readdir(d)) != NULL;)
        has = fnmatch(names, e->d_name, 0) == 0;
    if (d)
        closedir(d);
    free(names);
    return has;
}

enum tr_status tr_ckpt_rank_look(const char *folder, int rank, const char *kind, char *about)
{
    char *path = path_of(folder, rank, kind);
    int fd = tr_open_regular(path, O_RDONLY);
    enum tr_status s = TR_OK;
    struct page p;

    about[0] = '\0';
    if (fd < 0 && errno != ENOENT)
        s = TR_FAIL(TR_EIO, "cannot open %s: %s", path, tr_open_why(errno));
    else if (fd < 0 && has_others(folder, kind))
        s = TR_FAIL(
            TR_EDATA,
            "%s is missing, and other ranks have theirs: restore it, load an older checkpoint "
            "with --ckpt-step, or remove all such files to let every replica begin with the "
            "checkpoint's weights",
            path);
    if (fd >= 0) {
        s = read_page(path, fd, &p);
        if (s == TR_OK)
            copy_text(about, TR_CKPT_ABOUT_BYTES, p.about);
        close(fd);
    }
    free(path);
    return s;
}

static enum tr_status check_page(const struct work *w, const struct page *p)
{
    const struct tr_ckpt_rank *r = w->r;
    bool same = p->parts == r->parts;

    if (p->rank != r->rank || p->iteration != r->iteration || strcmp(p->about, r->about) != 0)
        return TR_FAIL(
            TR_EDATA,
            "%s is of rank %lld at iteration %lld (%s), and this is rank %d at iteration "
            "%lld (%s): it was copied from elsewhere; restore the right one",
            w->path, (long long)p->rank, (long long)p->iteration, p->about, r->rank,
            (long long)r->iteration, r->about);
    for (int i = 0; same && i < r->parts; i++)
        same = strncmp(p->part[i].name, r->part[i].name, sizeof p->part[i].name) == 0 &&
               p->part[i].bytes == tr_tensor_bytes(&r->part[i].at);
    if (!same)
        return TR_FAIL(TR_EDATA,
                       "%s holds other tensors than this rank: it was written by another "
                       "version of this program, or for another model",
                       w->path);
    return TR_OK;
}

static enum tr_status read_all(struct work *w, struct page *p)
{
    uint64_t sum;

    TR_TRY(read_page(w->path, w->fd, p));
    TR_TRY(check_page(w, p));
    for (int i = 0; i < w->r->parts; i++) {
        if (move_part(w, i, p->part[i].at, false, &sum) != 0)
            return cannot_read(w->path);
        if (sum != p->part[i].sum)
            return wrong_sum(w->path, w->r->part[i].name);
    }
    return TR_OK;
}

enum tr_status tr_ckpt_rank_read(struct tr_ckpt_rank *r, const char *folder)
{
    enum tr_status s;
    struct page p;
    struct work w;

    begin(&w, r, folder);
    w.fd = tr_open_regular(w.path, O_RDONLY);
    if (w.fd < 0) {
        s = TR_FAIL(
            TR_EIO,
            "cannot open %s: %s; without it this rank does not know where it stood: restore it, "
            "or remove all such files to let every replica begin with the checkpoint's weights",
            w.path, tr_open_why(errno));
    } else {
        s = read_all(&w, &p);
        close(w.fd);
    }
    if (s == TR_OK)
        memcpy(r->number, p.number, sizeof p.number);
    end(&w);
    return s;
}

/* ---- whosever it is ---- */

static enum tr_status open_page(const char *path, int *fd, struct page *p)
{
    enum tr_status s;

    TR_TRY(tr_open_file(path, O_RDONLY, fd));
    s = read_page(path, *fd, p);
    if (s != TR_OK) {
        close(*fd);
        *fd = -1;
    }
    return s;
}

enum tr_status tr_ckpt_rank_see(const char *path, struct tr_ckpt_rank_file *out)
{
    struct page p;
    int fd;

    TR_TRY(open_page(path, &fd, &p));
    close(fd);
    *out = (struct tr_ckpt_rank_file){.rank = p.rank, .iteration = p.iteration};
    copy_text(out->kind, sizeof out->kind, p.kind);
    copy_text(out->about, sizeof out->about, p.about);
    return TR_OK;
}

/* Where a sealed page says so: nothing else is known of the file. */
static enum tr_status sum_part(const char *path, int fd, const struct page *p, int i,
                               unsigned char *piece, void (*more)(void *, int64_t), void *arg)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t sum;

    if (!state || XXH3_64bits_reset(state) == XXH_ERROR)
        tr_die(TR_ERESOURCE, "no memory left for a checksum");
    for (int64_t done = 0, n; done < p->part[i].bytes; done += n) {
        n = p->part[i].bytes - done < BOUNCE ? p->part[i].bytes - done : BOUNCE;
        if (tr_read_at(fd, piece, n, p->part[i].at + done) != 0) {
            XXH3_freeState(state);
            return cannot_read(path);
        }
        TR_ASSERT(XXH3_64bits_update(state, piece, (size_t)n) == XXH_OK);
        if (more)
            more(arg, n);
    }
    sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum == p->part[i].sum ? TR_OK : wrong_sum(path, p->part[i].name);
}

enum tr_status tr_ckpt_rank_verify(const char *path, void (*more)(void *arg, int64_t bytes),
                                   void *arg)
{
    unsigned char *piece = malloc(BOUNCE);
    enum tr_status s;
    struct page p;
    int fd;

    if (!piece)
        tr_die(TR_ERESOURCE, "no memory left to read the sidecar file of a rank");
    s = open_page(path, &fd, &p);
    for (int i = 0; s == TR_OK && i < p.parts; i++)
        s = sum_part(path, fd, &p, i, piece, more, arg);
    if (fd >= 0)
        close(fd);
    free(piece);
    return s;
}
