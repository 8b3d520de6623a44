/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/home.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t tr_home_tiles(const struct tr_home *h)
{
    return (h->count + h->tile - 1) / h->tile;
}

/* ---- memory ---- */

static size_t record_bytes(const struct tr_home *h)
{
    const size_t bytes = (size_t)h->tile * TR_ROWS * sizeof(float);

    return (bytes + TR_STRIPE_ALIGN - 1) / TR_STRIPE_ALIGN * TR_STRIPE_ALIGN;
}

static void plan_slots(struct tr_home *h, struct tr_arena *a)
{
    for (int i = 0; i < h->slots; i++) {
        unsigned char *p = tr_arena_take(a, TR_LABEL_OPTIMIZER, record_bytes(h) + TR_STRIPE_ALIGN);

        if (p)
            p += (TR_STRIPE_ALIGN - (uintptr_t)p % TR_STRIPE_ALIGN) % TR_STRIPE_ALIGN;
        h->slot[i] = (struct tr_home_slot){.tile = -1, .data = (float *)(void *)p};
    }
}

void tr_home_plan(struct tr_home *h, struct tr_arena *a, bool masters, bool states)
{
    if (h->folders) {
        plan_slots(h, a);
        return;
    }
    for (int row = 0; row < TR_ROWS; row++) {
        TR_ASSERT(row == TR_ROW_MASTER || tr_optim_state_type(row - TR_ROW_STATE) == TR_F32);
        if (row == TR_ROW_MASTER ? masters : states)
            h->row[row] = tr_f32_1(tr_arena_floats(a, TR_LABEL_OPTIMIZER, h->count), h->count);
    }
}

int64_t tr_home_file_bytes(const struct tr_home *h)
{
    return h->folders ? tr_home_tiles(h) * (int64_t)record_bytes(h) : 0;
}

enum tr_status tr_home_start(struct tr_home *h, const char *name)
{
    if (!h->folders)
        return TR_OK;
    return tr_stripe_open(h->folders, name, tr_home_tiles(h), record_bytes(h), &h->files);
}

/* ---- tiles of files ---- */

static void must(enum tr_status s)
{
    if (s != TR_OK)
        tr_die(s, "%s", tr_last_error());
}

static struct tr_home_slot *slot_of(struct tr_home *h, int64_t t)
{
    return &h->slot[t % h->slots];
}

static void finish(struct tr_home *h, struct tr_home_slot *s)
{
    must(tr_stripe_wait(h->files, &s->io));
    s->reading = false;
}

static void write_back(struct tr_home *h, struct tr_home_slot *s)
{
    if (!s->dirty)
        return;
    s->dirty = false;
    tr_stripe_write(h->files, &s->io, s->tile, s->data);
}

/* Begin to read tile `t` into its place, unless it is there. */
static void fetch(struct tr_home *h, int64_t t)
{
    struct tr_home_slot *s = slot_of(h, t);

    if (s->tile == t)
        return;
    finish(h, s);
    write_back(h, s);
    finish(h, s);
    s->tile = t;
    s->reading = true;
    tr_stripe_read(h->files, &s->io, t, s->data);
}

void tr_home_hold(struct tr_home *h, int64_t t, bool change)
{
    struct tr_home_slot *s;

    if (!h->folders)
        return;
    fetch(h, t);
    s = slot_of(h, t);
    if (s->reading || change) /* nor is a write of what will change under way */
        finish(h, s);
    s->dirty = s->dirty || change;
}

void tr_home_ahead(struct tr_home *h, int64_t t)
{
    const int64_t end = h->folders ? smaller(t + h->slots - 2, tr_home_tiles(h)) : t;

    for (; t < end; t++)
        fetch(h, t);
}

void tr_home_behind(struct tr_home *h, int64_t t)
{
    if (h->folders)
        write_back(h, slot_of(h, t));
}

struct tr_tensor tr_home_row(const struct tr_home *h, int row, int64_t t, int64_t at, int64_t count)
{
    TR_ASSERT(at >= t * h->tile && at + count <= (t + 1) * h->tile);
    if (!h->folders)
        return tr_tensor_span(&h->row[row], at, count);
    return tr_f32_1(h->slot[t % h->slots].data + row * h->tile + at - t * h->tile, count);
}

void tr_home_close(struct tr_home *h)
{
    for (int i = 0; h->files && i < h->slots; i++)
        (void)!tr_stripe_wait(h->files, &h->slot[i].io);
    tr_stripe_close(h->files);
    h->files = NULL;
}

/* ---- elements ---- */

void tr_home_get(struct tr_home *h, int row, int64_t at, int64_t count, float *to)
{
    for (int64_t t = at / h->tile, n; count > 0; t++, at += n, to += n, count -= n) {
        struct tr_tensor part;

        n = smaller(count, (t + 1) * h->tile - at);
        tr_home_hold(h, t, false);
        part = tr_home_row(h, row, t, at, n);
        h->q->on->download(h->q, to, &part);
    }
}

void tr_home_put(struct tr_home *h, int row, int64_t at, int64_t count, const float *from)
{
    for (int64_t t = at / h->tile, n; count > 0; t++, at += n, from += n, count -= n) {
        struct tr_tensor part;

        n = smaller(count, (t + 1) * h->tile - at);
        tr_home_hold(h, t, true);
        part = tr_home_row(h, row, t, at, n);
        h->q->on->upload(h->q, &part, from);
    }
}
