/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/async.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "ckpt/io.h"
#include "ckpt/saving.h"
#include "ckpt/snapshot.h"
#include "util/aside.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/log.h"

/* What the threads do.  The main ones lead all ranks from one stage to the next. */
enum stage {
    COPIES, /* each copies, and that of rank 0 lays the file out */
    WRITES,
    NAMES /* that of rank 0 alone gives it its name */
};

struct tr_ckpt_async {
    struct tr_ckpt_saving v;
    char *config_json, *source; /* owned, what `v` borrows */
    struct sigaction before;    /* of SIGXFSZ */
    struct tr_aside aside;
    struct tr_ckpt_snapshot copy;
    struct tr_writeback to;
    float *room; /* the parts of all pieces, one after the other */
    enum stage stage;
    enum tr_status status;      /* of the ranks, in the stages before */
    char sentence[TR_SENTENCE]; /* of rank 0's thread */
    double waited;
};

int64_t tr_ckpt_async_elems(const struct tr_grid *grid, const struct tr_dims *dims,
                            const struct tr_ckpt_tensors *tensors, bool states)
{
    struct tr_ckpt_tensors here = *tensors;
    struct tr_ckpt_map map;
    int64_t elems = 0, lo, hi;

    here.q = NULL;
    here.access = NULL;
    tr_ckpt_map_build(dims, &here, grid->at.tp, &map);
    map.kinds = states ? TR_CKPT_KINDS : 1;
    for (int k = 0; k < map.kinds; k++) {
        for (int i = 0; i < map.count; i++) {
            tr_ckpt_share(&map, &map.list[i], k, grid->at.dp, grid->d, &lo, &hi);
            elems += hi - lo;
        }
    }
    tr_ckpt_map_release(&map);
    return elems;
}

/* A piece's part of the copy: its checksum, and to the file. */
static int write_part(struct tr_ckpt_async *a, int kind, const struct tr_ckpt_piece *piece,
                      const float *x, int64_t lo, int64_t hi)
{
    const int number = tr_ckpt_number(&a->v.map, kind, piece);

    if (tr_ckpt_write_elems(&a->to, a->v.offsets[number], piece->param, x, lo, hi,
                            &a->v.sums[number]) != 0)
        return errno;
    return 0;
}

/* On the thread. */
static int write_copy(void *ctx)
{
    struct tr_ckpt_async *a = ctx;
    const struct tr_ckpt_map *map = &a->v.map;
    const float *x = a->room;
    int error = 0, last;

    for (int k = 0; k < map->kinds; k++) {
        for (int i = 0; i < map->count && error == 0; i++) {
            int64_t lo, hi;

            tr_ckpt_saving_share(&a->v, k, &map->list[i], &lo, &hi);
            if (hi > lo)
                error = write_part(a, k, &map->list[i], x, lo, hi);
            x += hi - lo;
        }
    }
    last = tr_ckpt_saving_flush(a->to.fd);
    return error != 0 ? error : last;
}

/* A call of rank 0's thread; others' do nothing. */
static int lay_out(struct tr_ckpt_async *a)
{
    enum tr_status s;

    if (a->v.world->rank != 0)
        return TR_OK;
    tr_fail_into(a->sentence);
    s = tr_ckpt_saving_lay_out(&a->v);
    tr_fail_into(NULL);
    return (int)s;
}

/* On the thread.  Copying comes first: training may wait for it. */
static int copy_and_lay_out(void *ctx)
{
    struct tr_ckpt_async *a = ctx;

    tr_ckpt_snapshot_run(&a->copy);
    return lay_out(a);
}

/* On the thread of rank 0.  Older checkpoints go, which may take a while. */
static int give_name(void *ctx)
{
    struct tr_ckpt_async *a = ctx;
    enum tr_status s;

    tr_fail_into(a->sentence);
    s = tr_ckpt_saving_name(&a->v);
    tr_fail_into(NULL);
    return (int)s;
}

/* What rank 0's thread came to, in COPIES and NAMES. */
static enum tr_status came_to(struct tr_ckpt_async *a)
{
    const enum tr_status s = (enum tr_status)tr_aside_wait(&a->aside);

    return s == TR_OK ? s : TR_FAIL(s, "%s", a->sentence);
}

/* All that is to be in it is copied, but for what nothing changed and the thread could not copy.  Sidecar files are
   written by the main thread. */
static enum tr_status open_file(struct tr_ckpt_async *a)
{
    enum tr_status s;

    tr_ckpt_snapshot_all(&a->copy);
    s = tr_ckpt_saving_open(&a->v, came_to(a), &a->to.fd);
    if (s == TR_OK)
        s = tr_ckpt_saving_sidecars(&a->v);
    if (s == TR_OK)
        tr_aside_begin(&a->aside, write_copy, a);
    else if (a->to.fd >= 0)
        (void)tr_ckpt_saving_flush(a->to.fd);
    return s;
}

/* All ranks have written, or failed to. */
static enum tr_status add_up(struct tr_ckpt_async *a)
{
    struct tr_ckpt_saving *v = &a->v;

    TR_TRY(tr_ckpt_saving_agree(v, tr_ckpt_saving_wrote(v, tr_aside_wait(&a->aside))));
    tr_ckpt_add(v->world, v->sums, v->tensors);
    if (v->world->rank == 0)
        tr_aside_begin(&a->aside, give_name, a);
    return TR_OK;
}

/* From one stage to the next; waits for the threads. */
static void go_on(struct tr_ckpt_async *a)
{
    const double began = tr_now();

    a->status = a->stage == COPIES ? open_file(a) : add_up(a);
    a->stage++;
    a->waited += tr_now() - began;
}

static bool goes_on(const struct tr_ckpt_async *a)
{
    return a->status == TR_OK && a->stage != NAMES;
}

/* What is not asked for before it changes is copied at once, as is what never is in memory of the host; and where the
   main thread writes files, nothing else would be won. */
static bool copies_later(const struct tr_ckpt_async *a, const struct tr_ckpt_tensors *tensors)
{
    const bool comes = tr_ckpt_at_hand(&a->v.map) || tensors->tile_end;

    return tensors->claimed && comes && !a->v.sidecars;
}

/* Whether what was begun is done, on this rank. */
static bool is_done(struct tr_ckpt_async *a)
{
    return tr_aside_done(&a->aside) && (a->stage != COPIES || tr_ckpt_snapshot_done(&a->copy));
}

enum tr_status tr_ckpt_async_begin(struct tr_grid *grid, const char *dir,
                                   const struct tr_ckpt_state *state,
                                   const struct tr_ckpt_tensors *tensors,
                                   const struct tr_shape *shape, const char *config_json,
                                   const char *source, int keep_last,
                                   const struct tr_ckpt_sidecar *sidecars, float *room,
                                   int64_t elems, struct tr_ckpt_async **out)
{
    /* A limit on the size of files is an error like others, not the end of the process. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct tr_ckpt_async *a = calloc(1, sizeof *a);

    *out = NULL;
    if (!a)
        tr_die(TR_ERESOURCE, "no memory left for a checkpoint");
    a->room = room;
    a->config_json = tr_format("%s", config_json);
    a->source = source ? tr_format("%s", source) : NULL;
    sigaction(SIGXFSZ, &ignore, &a->before);
    tr_ckpt_saving_begin(&a->v, grid, dir, state, tensors, shape, a->config_json, a->source,
                         keep_last, sidecars);
    tr_ckpt_snapshot_open(&a->copy, &a->v, room, elems);
    if (!copies_later(a, tensors))
        tr_ckpt_snapshot_all(&a->copy);
    tr_aside_open(&a->aside);
    tr_aside_begin(&a->aside, copy_and_lay_out, a);
    if (sidecars) {
        go_on(a);
        a->v.sidecars = NULL;
        if (a->status != TR_OK)
            return tr_ckpt_async_end(a);
    }
    a->waited = 0.0;
    *out = a;
    return TR_OK;
}

void tr_ckpt_async_claim(void *async, int64_t at, int64_t count)
{
    struct tr_ckpt_async *a = async;
    const double began = tr_now();

    if (tr_ckpt_snapshot_claim(&a->copy, at, count))
        a->waited += tr_now() - began;
}

double tr_ckpt_async_waited(const struct tr_ckpt_async *a)
{
    return a->waited;
}

bool tr_ckpt_async_over(struct tr_ckpt_async *a)
{
    if (tr_comm_max(a->v.world, !is_done(a)) != 0)
        return false;
    if (a->stage == NAMES)
        return true;
    go_on(a);
    return a->status != TR_OK;
}

enum tr_status tr_ckpt_async_end(struct tr_ckpt_async *a)
{
    enum tr_status s;

    while (goes_on(a))
        go_on(a);
    s = a->status;
    if (s == TR_OK)
        s = tr_ckpt_saving_agree(&a->v, a->v.world->rank == 0 ? came_to(a) : TR_OK);
    (void)tr_aside_close(&a->aside);
    sigaction(SIGXFSZ, &a->before, NULL);
    tr_ckpt_snapshot_close(&a->copy);
    tr_ckpt_saving_end(&a->v, s);
    free(a->config_json);
    free(a->source);
    free(a);
    return s;
}
