/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/home.h"

#include <stdlib.h>
#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t tr_home_tiles(const struct tr_home *h)
{
    return (h->count + h->tile - 1) / h->tile;
}

int64_t tr_home_cut(const struct tr_home *h, int64_t t)
{
    if (t * h->tile >= h->count)
        return h->count;
    return tr_states_border(h->states, h->first + t * h->tile) - h->first;
}

int64_t tr_home_most(const struct tr_home *h)
{
    const int64_t tiles = tr_home_tiles(h);
    int64_t most = 0;

    for (int64_t t = 0; t < tiles; t++) {
        const int64_t count = tr_home_cut(h, t + 1) - tr_home_cut(h, t);

        most = count > most ? count : most;
    }
    return most;
}

/* The tile that has element `at`. */
static int64_t tile_of(const struct tr_home *h, int64_t at)
{
    const int64_t t = at / h->tile;

    return at < tr_home_cut(h, t + 1) ? t : t + 1;
}

/* Where a state of element `at` lies, if the first one of tile `t` lies at 0; at a border. */
static int64_t byte_of(const struct tr_home *h, int64_t t, int64_t at)
{
    const struct tr_states *s = h->states;

    return tr_states_byte(s, h->first + at) - tr_states_byte(s, h->first + tr_home_cut(h, t));
}

/* ---- memory ---- */

/* Of a row in a record. */
static int64_t row_bytes(const struct tr_home *h, int row)
{
    const int64_t tiles = tr_home_tiles(h);
    int64_t most = 0;

    if (tr_states_plain(h->states))
        return h->tile * (int64_t)sizeof(float);
    if (row == TR_ROW_MASTER)
        return tr_home_most(h) * (int64_t)sizeof(float);
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t bytes = byte_of(h, t, tr_home_cut(h, t + 1));

        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t record_bytes(const struct tr_home *h)
{
    size_t bytes = 0;

    for (int row = 0; row < TR_ROWS; row++)
        bytes += (size_t)h->row_bytes[row];
    return (bytes + TR_STRIPE_ALIGN - 1) / TR_STRIPE_ALIGN * TR_STRIPE_ALIGN;
}

static void plan_slots(struct tr_home *h, struct tr_arena *a)
{
    for (int i = 0; i < h->slots; i++) {
        unsigned char *p = tr_arena_take(a, TR_LABEL_OPTIMIZER, record_bytes(h) + TR_STRIPE_ALIGN);

        if (p)
            p += (TR_STRIPE_ALIGN - (uintptr_t)p % TR_STRIPE_ALIGN) % TR_STRIPE_ALIGN;
        h->slot[i] = (struct tr_home_slot){.tile = -1, .data = p};
    }
}

static struct tr_tensor states_row(const struct tr_home *h, struct tr_arena *a)
{
    const int64_t bytes =
        tr_states_byte(h->states, h->first + h->count) - tr_states_byte(h->states, h->first);

    if (tr_states_plain(h->states))
        return tr_f32_1(tr_arena_floats(a, TR_LABEL_OPTIMIZER, h->count), h->count);
    return tr_u8_1(tr_arena_take(a, TR_LABEL_OPTIMIZER, (size_t)bytes), bytes);
}

void tr_home_plan(struct tr_home *h, struct tr_arena *a, bool masters, bool states)
{
    for (int row = 0; row < TR_ROWS && h->folders; row++)
        h->row_bytes[row] = row_bytes(h, row);
    if (h->folders) {
        plan_slots(h, a);
        return;
    }
    if (masters)
        h->row[TR_ROW_MASTER] =
            tr_f32_1(tr_arena_floats(a, TR_LABEL_OPTIMIZER, h->count), h->count);
    for (int i = 0; i < TR_STATES && states; i++)
        h->row[TR_ROW_STATE + i] = states_row(h, a);
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

/* Where the elements of tile `t` begin in a row. */
static unsigned char *base_of(const struct tr_home *h, int row, int64_t t)
{
    unsigned char *p = h->slot[t % h->slots].data;

    for (int i = 0; i < row; i++)
        p += h->row_bytes[i];
    return p;
}

static struct tr_tensor master_row(const struct tr_home *h, int64_t t, int64_t at, int64_t count)
{
    if (!h->folders)
        return tr_tensor_span(&h->row[TR_ROW_MASTER], at, count);
    return tr_f32_1((float *)(void *)base_of(h, TR_ROW_MASTER, t) + at - tr_home_cut(h, t), count);
}

struct tr_tensor tr_home_row(const struct tr_home *h, int row, int64_t t, int64_t at, int64_t count)
{
    const int64_t from = h->folders ? t : 0;
    const bool blocks = tr_states_blocks(h->states, h->first + at).size > 0;
    unsigned char *p;

    TR_ASSERT(at >= tr_home_cut(h, t) && at + count <= tr_home_cut(h, t + 1));
    if (row == TR_ROW_MASTER)
        return master_row(h, t, at, count);
    p = h->folders ? base_of(h, row, t) : h->row[row].data;
    p = p ? p + byte_of(h, from, at) : NULL;
    return blocks ? tr_u8_1(p, byte_of(h, from, at + count) - byte_of(h, from, at))
                  : tr_f32_1((float *)(void *)p, count);
}

void tr_home_close(struct tr_home *h)
{
    for (int i = 0; h->files && i < h->slots; i++)
        (void)!tr_stripe_wait(h->files, &h->slot[i].io);
    tr_stripe_close(h->files);
    h->files = NULL;
}

/* ---- elements ---- */

bool tr_home_at_hand(const struct tr_home *h)
{
    return !h->folders && h->q->on && !h->q->on->apart;
}

int64_t tr_home_tile_end(const struct tr_home *h, int64_t at)
{
    return tr_home_cut(h, tile_of(h, at) + 1);
}

/* Who brings elements to memory of the host: the queue, or the calling thread alone. */
enum by { BY_QUEUE, BY_CALLER };

static void bring(const struct tr_home *h, enum by by, void *to, const struct tr_tensor *from)
{
    if (by == BY_CALLER)
        memcpy(to, from->data, (size_t)tr_tensor_bytes(from));
    else
        h->q->on->download(h->q, to, from);
}

/* Elements of this home, of `count` from `at` on, that lie in one tile and of which a row is one kind of numbers, up to
   the end of a block. */
static int64_t alike(const struct tr_home *h, int row, int64_t at, int64_t count)
{
    const int64_t tile = tr_home_tile_end(h, at) - at;
    const struct tr_states_piece *p = tr_states_piece_at(h->states, h->first + at);
    const int64_t begin = tr_states_border(h->states, h->first + at) - h->first;
    const struct tr_code_blocks blocks = tr_states_blocks(h->states, h->first + begin);
    int64_t n = smaller(count, tile);

    if (row != TR_ROW_MASTER)
        n = smaller(n, p[1].at - h->first - at);
    if (row != TR_ROW_MASTER && blocks.size > 0)
        n = smaller(n, begin + blocks.lead - at);
    return n;
}

/* The block of element `at`: where it begins in this home, how many elements it has, and where they lie. */
static struct tr_tensor block_of(const struct tr_home *h, int row, int64_t at, int64_t *begin,
                                 int64_t *count)
{
    const int64_t t = tile_of(h, at);
    const struct tr_states_piece *p = tr_states_piece_at(h->states, h->first + at);

    *begin = tr_states_border(h->states, h->first + at) - h->first;
    *count =
        smaller(tr_states_blocks(h->states, h->first + *begin).lead, p[1].at - h->first - *begin);
    return tr_home_row(h, row, t, *begin, *count);
}

static void get_block(const struct tr_home *h, enum by by, int row, int64_t at, int64_t n,
                      float *to)
{
    uint8_t bytes[TR_BLOCK_MOST + TR_BOOK_SCALE_BYTES];
    float x[TR_BLOCK_MOST];
    int64_t begin, count;
    const struct tr_tensor block = block_of(h, row, at, &begin, &count);

    bring(h, by, bytes, &block);
    tr_code_decode(tr_optim_state_book(row - TR_ROW_STATE), (struct tr_code_blocks){count, count},
                   bytes, count, x);
    memcpy(to, x + at - begin, (size_t)n * sizeof *to);
}

/* Elements that are decoded at a time. */
enum { RUN = 1 << 20 };

/* Of `count` elements from `at` on, those in whole blocks of one tile and of one row of them, RUN at most. */
static int64_t in_whole_blocks(const struct tr_home *h, int64_t at, int64_t count)
{
    const int64_t piece = tr_states_piece_at(h->states, h->first + at)[1].at - h->first;
    const int64_t tile = tr_home_tile_end(h, at);
    const int64_t all = smaller(piece, tile), end = smaller(all, at + smaller(count, RUN));

    if (tr_states_border(h->states, h->first + at) != h->first + at)
        return 0;
    return (end == all ? end : tr_states_border(h->states, h->first + end) - h->first) - at;
}

/* n elements from border `at` on, so many blocks at a time for each thread. */
static void get_whole_blocks(const struct tr_home *h, enum by by, int row, int64_t at, int64_t n,
                             float *to)
{
    enum { TOGETHER = 16 };
    const struct tr_code_blocks b = tr_states_blocks(h->states, h->first + at);
    const struct tr_tensor blocks = tr_home_row(h, row, tile_of(h, at), at, n);
    const bool apart = h->q->on->apart;
    const int threads = apart || by == BY_CALLER ? 1 : h->q->on->threads(h->q->device);
    const enum tr_book book = tr_optim_state_book(row - TR_ROW_STATE);
    const int64_t step = TOGETHER * b.size;
    uint8_t *brought = apart ? malloc((size_t)tr_tensor_bytes(&blocks)) : NULL;
    const uint8_t *bytes = apart ? brought : blocks.data;

    if (!bytes)
        tr_die(TR_ERESOURCE, "no memory left to decode states of the optimizer");
    if (brought)
        h->q->on->download(h->q, brought, &blocks);
#pragma omp parallel for num_threads(threads) if (threads > 1 && n > step)
    for (int64_t end = b.lead; end < n + step; end += step) {
        const int64_t lo = end == b.lead ? 0 : end - step, hi = smaller(end, n);

        if (hi > lo)
            tr_code_decode(book, (struct tr_code_blocks){lo == 0 ? b.lead : b.size, b.size},
                           bytes + tr_code_bytes(b, lo), hi - lo, to + lo);
    }
    free(brought);
}

/* A block is there when the last of its elements has come. */
static void put_block(struct tr_home *h, int row, int64_t at, int64_t n, const float *from)
{
    struct tr_home_part *part = &h->part[row - TR_ROW_STATE];
    uint8_t bytes[TR_BLOCK_MOST + TR_BOOK_SCALE_BYTES] = {0};
    int64_t begin, count;
    const struct tr_tensor block = block_of(h, row, at, &begin, &count);

    if (at == begin)
        *part = (struct tr_home_part){.at = begin};
    TR_ASSERT(part->at == begin && part->held == at - begin);
    memcpy(part->x + part->held, from, (size_t)n * sizeof *from);
    part->held += n;
    if (part->held < count)
        return;
    tr_code_encode(tr_optim_state_book(row - TR_ROW_STATE), (struct tr_code_blocks){count, count},
                   part->x, count, bytes);
    h->q->on->upload(h->q, &block, bytes);
}

static bool in_block(const struct tr_home *h, int row, int64_t at)
{
    return row != TR_ROW_MASTER && tr_states_piece_at(h->states, h->first + at)->blocks.size > 0;
}

/* The first of `count` elements from `at` on, of a tile that is held, as far as they are brought at once; how many. */
static int64_t get_some(const struct tr_home *h, enum by by, int row, int64_t at, int64_t count,
                        float *to)
{
    int64_t n = in_block(h, row, at) ? in_whole_blocks(h, at, count) : 0;
    struct tr_tensor part;

    if (n > 0) {
        get_whole_blocks(h, by, row, at, n, to);
        return n;
    }
    n = alike(h, row, at, count);
    if (in_block(h, row, at)) {
        get_block(h, by, row, at, n, to);
        return n;
    }
    part = tr_home_row(h, row, tile_of(h, at), at, n);
    bring(h, by, to, &part);
    return n;
}

void tr_home_get(struct tr_home *h, int row, int64_t at, int64_t count, float *to)
{
    for (int64_t n; count > 0; at += n, to += n, count -= n) {
        tr_home_hold(h, tile_of(h, at), false);
        n = get_some(h, BY_QUEUE, row, at, count, to);
    }
}

void tr_home_peek(const struct tr_home *h, int row, int64_t at, int64_t count, float *to)
{
    TR_ASSERT(tr_home_at_hand(h));
    for (int64_t n; count > 0; at += n, to += n, count -= n)
        n = get_some(h, BY_CALLER, row, at, count, to);
}

void tr_home_put(struct tr_home *h, int row, int64_t at, int64_t count, const float *from)
{
    for (int64_t n; count > 0; at += n, from += n, count -= n) {
        struct tr_tensor part;

        n = alike(h, row, at, count);
        tr_home_hold(h, tile_of(h, at), true);
        if (in_block(h, row, at)) {
            put_block(h, row, at, n, from);
            continue;
        }
        part = tr_home_row(h, row, tile_of(h, at), at, n);
        h->q->on->upload(h->q, &part, from);
    }
}
