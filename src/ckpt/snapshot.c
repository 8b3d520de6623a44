/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/snapshot.h"

#include <stdlib.h>
#include <string.h>

/* Elements in the region that begins with element number `first`, of `count` from there on. */
static int64_t region_of(const struct tr_ckpt_map *m, int64_t first, int64_t count)
{
    const int64_t most = count < TR_CKPT_REGION ? count : TR_CKPT_REGION;
    const int64_t tile = m->tile_end ? m->tile_end(m->ctx, first) - first : most;

    return tile < most ? tile : most;
}

/* The regions of elements lo .. hi - 1 of a piece, or how many there are. */
static int cut(struct tr_ckpt_region *out, const struct tr_ckpt_map *m, int kind,
               const struct tr_ckpt_piece *piece, int64_t lo, int64_t hi, float *to)
{
    int n = 0;

    for (int64_t at = lo, count; at < hi; at += count, n++) {
        const int64_t first = piece->at + at - piece->lo;

        count = region_of(m, first, hi - at);
        if (out)
            out[n] = (struct tr_ckpt_region){
                .first = first,
                .count = count,
                .piece = piece,
                .kind = kind,
                .lo = at,
                .to = to + at - lo,
            };
    }
    return n;
}

/* List the regions of all pieces, unless `list` is NULL, and count them. */
static int list_regions(struct tr_ckpt_region *list, const struct tr_ckpt_saving *v, float *room,
                        int64_t elems)
{
    int n = 0;
    int64_t held = 0, lo, hi;

    for (int k = 0; k < v->map.kinds; k++) {
        for (int i = 0; i < v->map.count; i++, held += hi - lo) {
            const struct tr_ckpt_piece *piece = &v->map.list[i];

            tr_ckpt_saving_share(v, k, piece, &lo, &hi);
            n += cut(list ? list + n : NULL, &v->map, k, piece, lo, hi, room + held);
        }
    }
    TR_ASSERT(held <= elems);
    return n;
}

static int by_number(const void *a, const void *b)
{
    const struct tr_ckpt_region *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->kind - y->kind;
}

void tr_ckpt_snapshot_open(struct tr_ckpt_snapshot *s, const struct tr_ckpt_saving *v, float *room,
                           int64_t elems)
{
    s->map = &v->map;
    s->count = s->left = list_regions(NULL, v, room, elems);
    s->region = calloc((size_t)s->count + 1, sizeof *s->region);
    if (!s->region)
        tr_die(TR_ERESOURCE, "no memory left for the list of what a checkpoint copies");
    list_regions(s->region, v, room, elems);
    qsort(s->region, (size_t)s->count, sizeof *s->region, by_number);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->copied, NULL);
}

void tr_ckpt_snapshot_close(struct tr_ckpt_snapshot *s)
{
    pthread_cond_destroy(&s->copied);
    pthread_mutex_destroy(&s->lock);
    free(s->region);
}

/* The first region that may have element `at`. */
static int from(const struct tr_ckpt_snapshot *s, int64_t at)
{
    int low = 0, high = s->count;

    while (low < high) {
        const int middle = low + (high - low) / 2;

        if (s->region[middle].first + TR_CKPT_REGION > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool meets(const struct tr_ckpt_region *r, int64_t at, int64_t end)
{
    return r->first < end && r->first + r->count > at;
}

/* The next region from number *i on that has some of elements at .. end - 1 and that nobody has taken: now it is the
   caller's.  NULL: none. */
static struct tr_ckpt_region *take(struct tr_ckpt_snapshot *s, int *i, int64_t at, int64_t end)
{
    struct tr_ckpt_region *out = NULL;

    pthread_mutex_lock(&s->lock);
    for (; !out && *i < s->count && s->region[*i].first < end; ++*i)
        if (s->region[*i].state == TR_REGION_WAITS && meets(&s->region[*i], at, end))
            out = &s->region[*i];
    if (out)
        out->state = TR_REGION_TAKEN;
    pthread_mutex_unlock(&s->lock);
    return out;
}

static void copied(struct tr_ckpt_snapshot *s, struct tr_ckpt_region *r)
{
    pthread_mutex_lock(&s->lock);
    r->state = TR_REGION_COPIED;
    s->left--;
    pthread_cond_broadcast(&s->copied);
    pthread_mutex_unlock(&s->lock);
}

/* For what others have taken of elements at .. end - 1. */
static void wait_for(struct tr_ckpt_snapshot *s, int i, int64_t at, int64_t end)
{
    pthread_mutex_lock(&s->lock);
    for (; i < s->count && s->region[i].first < end; i++)
        while (meets(&s->region[i], at, end) && s->region[i].state != TR_REGION_COPIED)
            pthread_cond_wait(&s->copied, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void tr_ckpt_snapshot_run(struct tr_ckpt_snapshot *s)
{
    struct tr_ckpt_region *r;

    if (!tr_ckpt_at_hand(s->map))
        return;
    for (int i = 0; (r = take(s, &i, 0, INT64_MAX)) != NULL; copied(s, r))
        tr_ckpt_peek(s->map, r->kind, r->piece, r->lo, r->lo + r->count, r->to);
}

bool tr_ckpt_snapshot_done(struct tr_ckpt_snapshot *s)
{
    bool done;

    pthread_mutex_lock(&s->lock);
    done = s->left == 0;
    pthread_mutex_unlock(&s->lock);
    return done;
}

bool tr_ckpt_snapshot_claim(struct tr_ckpt_snapshot *s, int64_t at, int64_t count)
{
    const int first = from(s, at);
    struct tr_ckpt_region *r;

    if (tr_ckpt_snapshot_done(s))
        return false;
    for (int i = first; (r = take(s, &i, at, at + count)) != NULL; copied(s, r))
        tr_ckpt_copy(s->map, r->kind, r->piece, r->lo, r->lo + r->count, r->to);
    wait_for(s, first, at, at + count);
    return true;
}

void tr_ckpt_snapshot_all(struct tr_ckpt_snapshot *s)
{
    (void)tr_ckpt_snapshot_claim(s, 0, INT64_MAX);
}
