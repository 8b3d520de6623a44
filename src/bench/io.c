/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "launch/node.h"
#include "util/file.h"

enum { BLOCK = 4 << 20 };
static const double MIB = 1 << 20;

struct work {
    struct tr_bench *b;
    int fd, error; /* errno of the first call that failed */
    int64_t bytes;
    unsigned char *block;
    int64_t compared, wrong;
};

/* The bytes of a block, by the rank that writes it and its place. */
static void pattern(unsigned char *to, int rank, int64_t at, int64_t bytes)
{
    uint64_t x = ((uint64_t)rank << 40) + (uint64_t)at + 1;

    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy(to + i, &x, 8);
    }
}

static void note(struct work *w, int rc)
{
    if (rc != 0 && w->error == 0)
        w->error = errno;
}

static void write_mine(void *ctx)
{
    struct work *w = ctx;
    const int me = w->b->run->world->rank;

    for (int64_t at = 0; at < w->bytes && w->error == 0; at += BLOCK) {
        pattern(w->block, me, at, BLOCK);
        note(w, tr_write_at(w->fd, w->block, BLOCK, me * w->bytes + at));
    }
    note(w, fsync(w->fd));
}

/* What the next rank wrote, so that a node reads what it did not write itself where there are several.  Only
   words are compared, not all bytes: reading is what is measured. */
static void read_next(void *ctx)
{
    struct work *w = ctx;
    const struct tr_comm *world = w->b->run->world;
    const int of = (world->rank + 1) % world->size;
    unsigned char want[8];

    (void)posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED);
    for (int64_t at = 0; at < w->bytes && w->error == 0; at += BLOCK) {
        note(w, tr_read_at(w->fd, w->block, BLOCK, of * w->bytes + at));
        pattern(want, of, at, sizeof want);
        w->compared++;
        w->wrong += memcmp(want, w->block, sizeof want) != 0;
    }
}

static double gbs_of(const struct work *w, struct tr_bench_times t)
{
    return 1e-9 * (double)w->bytes * w->b->run->world->size / t.median;
}

static enum tr_status tell(struct work *w, const char *what, struct tr_bench_times t)
{
    const struct tr_comm *world = w->b->run->world;
    const double all = (double)w->bytes * world->size;
    const int64_t wrong = tr_bench_count(w->b, w->compared, w->wrong);

    w->compared = w->wrong = 0;
    TR_TRY(tr_comm_agree(w->b->run->world,
                         w->error ? TR_FAIL(TR_EIO, "the file of the measurement cannot be %s: %s",
                                            strcmp(what, "write") == 0 ? "written" : "read",
                                            strerror(w->error))
                                  : TR_OK));
    tr_bench_print(w->b, "%9s %6d %12.1f %12.1f %10.1f %10.1f %10.1f %9.3f %6lld\n", what,
                   world->size, (double)w->bytes / MIB, all / MIB, 1e3 * t.median, 1e3 * t.min,
                   1e3 * t.max, gbs_of(w, t), (long long)wrong);
    tr_bench_row(w->b, json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:I}", "bench", "io",
                                 "way", what, "ranks", world->size, "bytes", (json_int_t)all, "ms",
                                 1e3 * t.median, "ms_min", 1e3 * t.min, "ms_max", 1e3 * t.max,
                                 "gbs", gbs_of(w, t), "wrong", (json_int_t)wrong));
    return TR_OK;
}

static enum tr_status has_room(struct tr_run *r, const char *folder, int64_t bytes)
{
    int64_t left, files;
    const double need = (double)bytes * r->world->size;

    tr_node_space(folder, &left, &files);
    if (left >= 0 && (double)left < need)
        return TR_FAIL(
            TR_ERESOURCE,
            "%s has room for %.0f MiB and the measurement writes %.0f: give another --folder, "
            "or less with --file-mib",
            folder, (double)left / MIB, need / MIB);
    return TR_OK;
}

/* Rank 0 makes the file, then the others open it. */
static enum tr_status open_file(struct work *w, const char *path)
{
    struct tr_comm *world = w->b->run->world;
    enum tr_status s = TR_OK;

    for (int turn = 0; turn < 2; turn++) {
        if ((world->rank == 0) == (turn == 0)) {
            w->fd = open(path, O_RDWR | O_CLOEXEC | (turn == 0 ? O_CREAT | O_EXCL : 0), 0600);
            if (w->fd < 0)
                s = TR_FAIL(TR_EIO, "%s cannot be opened: %s", path, strerror(errno));
        }
        TR_TRY(tr_comm_agree(world, s));
    }
    return TR_OK;
}

static enum tr_status both_ways(struct work *w)
{
    struct tr_bench_times t;

    tr_bench_print(w->b,
                   "# io: one file, %d MiB at a time, flushed; median of %d, %d first not counted\n"
                   "#     way  ranks   MiB a rank    MiB total    ms (median, min, max)           "
                   "GB/s #wrong\n",
                   BLOCK >> 20, w->b->repeats, w->b->warm_up + 1);
    t = tr_bench_time(w->b, write_mine, w, NULL);
    TR_TRY(tell(w, "write", t));
    w->b->write_gbs = gbs_of(w, t);
    return tell(w, "read", tr_bench_time(w->b, read_next, w, NULL));
}

enum tr_status tr_bench_io(struct tr_bench *b, const char *folder, int64_t bytes)
{
    struct tr_comm *world = b->run->world;
    struct work w = {.b = b, .fd = -1, .bytes = bytes / BLOCK * BLOCK};
    const int64_t pid = tr_comm_max(world, world->rank == 0 ? getpid() : 0);
    char *path = tr_format("%s/trireme-bench.%s.%lld.tmp", folder, b->host[0], (long long)pid);
    enum tr_status s;

    w.bytes = w.bytes > 0 ? w.bytes : BLOCK;
    w.block = malloc(BLOCK);
    s = w.block ? TR_OK : TR_FAIL(TR_ERESOURCE, "no memory left for a block of %d bytes", BLOCK);
    if (s == TR_OK && world->rank == 0)
        s = has_room(b->run, folder, w.bytes);
    s = tr_comm_agree(world, s);
    if (s == TR_OK) {
        s = open_file(&w, path);
        if (s == TR_OK)
            s = both_ways(&w);
        if (w.fd >= 0 && world->rank == 0)
            (void)unlink(path);
        if (w.fd >= 0)
            close(w.fd);
    }
    free(w.block);
    free(path);
    return s;
}
