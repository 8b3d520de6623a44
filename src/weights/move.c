/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/move.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "weights/torch_write.h"
#include "weights/turn.h"

/* Columns of ours that are converted before they are turned. */
enum { TILE = 32 };

/* One parameter on its way. */
struct move {
    const struct tr_weights_table *table;
    struct tr_writeback *file; /* NULL: it is read */
    const struct tr_weights_item *item;
    const struct tr_arranged *how; /* of the item */
    int64_t first, end;            /* its rows that are wanted */
    int64_t cols, step;            /* of the parameter; rows of a block */
    float *block;                  /* [step, cols]; of the room, if there is one */
    struct tr_weights_room *room;
    /* Of their type: of each section the rows of a block, and those among them, one behind the other, or the whole tensor, where it is
       turned. */
    unsigned char *raw; /* NULL: the block is what is in the file */
    float *tile;        /* [TILE, step], where the tensor is not fp32 */
    int64_t bytes;      /* of all these */
    struct tr_weights_moved *moved;
};

/* Rows lo .. hi - 1 of a section are in the block. */
struct span {
    int64_t lo, hi;
    unsigned char *raw; /* the first of them */
};

/* Rows of ours that follow one another in a section as well. */
struct run {
    struct tr_arranged_row from;
    int64_t row, n; /* of ours, of the block */
};

static struct run run_at(const struct move *m, int64_t row, int64_t end)
{
    struct run r = {tr_arranged_row(m->how, row), row, 1};

    while (r.row + r.n < end) {
        const struct tr_arranged_row next = tr_arranged_row(m->how, r.row + r.n);

        if (next.section != r.from.section || next.row != r.from.row + r.n)
            break;
        r.n++;
    }
    return r;
}

static const struct tr_weights_tensor *tensor_of(const struct move *m, int section)
{
    const int tensor = tr_arranged_place(m->how, section).section;

    return &m->table->list[m->item->tensor[tensor]];
}

static void *need(struct move *m, int64_t bytes)
{
    void *p = malloc((size_t)bytes);

    m->bytes += bytes;
    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for %lld bytes of a tensor", (long long)bytes);
    return p;
}

static void open_block(struct move *m)
{
    const int64_t most = m->room ? m->room->elems : TR_WEIGHTS_BLOCK / (int64_t)sizeof(float);

    m->step = most / m->cols;
    m->step = m->step < 1 ? 1 : m->step > m->end - m->first ? m->end - m->first : m->step;
    if (!m->room) {
        m->block = need(m, m->step * m->cols * (int64_t)sizeof(float));
        return;
    }
    TR_ASSERT(m->step * m->cols <= m->room->elems);
    m->block = m->room->half[m->room->turn];
    m->bytes += 2 * m->room->elems * (int64_t)sizeof(float);
}

/* Rows of ours are rows of the tensor in fp32, in their order. */
static bool is_straight(const struct move *m)
{
    return tr_arranged_sections(m->how) == 1 && tr_arranged_spread(m->how) == 0 &&
           tensor_of(m, 0)->type == TR_WEIGHTS_F32;
}

static void open_move(struct move *m)
{
    m->cols = tr_arranged_width(m->how);
    open_block(m);
    if (tr_arranged_turned(m->how)) {
        const struct tr_weights_tensor *x = tensor_of(m, 0);

        m->raw = need(m, x->elems * tr_weights_type_bytes(x->type));
        if (x->type != TR_WEIGHTS_F32)
            m->tile = need(m, TILE * m->step * (int64_t)sizeof(float));
        return;
    }
    if (is_straight(m))
        return;
    m->raw = need(m, (m->step + tr_arranged_spread(m->how)) * m->cols * (int64_t)sizeof(float));
}

static void close_move(struct move *m)
{
    if (!m->room)
        free(m->block);
    free(m->tile);
    free(m->raw);
}

void tr_weights_room_make(struct tr_weights_room *r, const struct tr_weights_map *m)
{
    int64_t row = 1, most = 1;

    for (int i = 0; i < m->count; i++) {
        const struct tr_arranged *a = &m->list[i].arranged;

        row = tr_arranged_width(a) > row ? tr_arranged_width(a) : row;
        most = a->param->full[0] * a->param->full[1] > most ? a->param->full[0] * a->param->full[1]
                                                            : most;
    }
    *r = (struct tr_weights_room){.elems = TR_WEIGHTS_BLOCK / 2 / (int64_t)sizeof(float)};
    r->elems = r->elems < row ? row : r->elems < most ? r->elems : most;
    for (int i = 0; i < 2; i++) {
        r->half[i] = malloc((size_t)r->elems * sizeof *r->half[i]);
        if (!r->half[i])
            tr_die(TR_ERESOURCE, "no memory left for blocks of a tensor");
    }
}

void tr_weights_room_release(struct tr_weights_room *r)
{
    free(r->half[0]);
    free(r->half[1]);
    *r = (struct tr_weights_room){.elems = 0};
}

/* Bytes of their file, to or from `raw`. */
static enum tr_status transfer(const struct move *m, const struct tr_weights_tensor *x, void *raw,
                               int64_t bytes, int64_t at)
{
    const struct tr_weights_file *f = &m->table->file[x->file];

    if (!m->file && tr_read_at(f->fd, raw, bytes, at) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s of %s: %s", x->name, f->path, strerror(errno));
    if (m->file && tr_writeback_put(&m->file[x->file], raw, bytes, at) != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", f->path, strerror(errno));
    if (m->moved) {
        struct tr_weights_moved *moved = &m->moved[x - m->table->list];

        moved->sum = tr_crc32(moved->sum, raw, (size_t)bytes);
        moved->bytes += bytes;
    }
    return TR_OK;
}

/* The rows of each section that rows lo .. hi - 1 of ours are, and where they are in memory. */
static void find_spans(const struct move *m, int64_t lo, int64_t hi,
                       struct span span[TR_ARRANGED_SECTIONS])
{
    unsigned char *raw = m->raw ? m->raw : (unsigned char *)m->block;

    memset(span, 0, (size_t)tr_arranged_sections(m->how) * sizeof *span);
    for (int64_t row = lo; row < hi;) {
        const struct run r = run_at(m, row, hi);
        struct span *s = &span[r.from.section];

        if (s->hi == s->lo)
            s->lo = s->hi = r.from.row;
        TR_ASSERT(s->hi == r.from.row || tr_arranged_spread(m->how) > 0);
        s->lo = r.from.row < s->lo ? r.from.row : s->lo;
        s->hi = r.from.row + r.n > s->hi ? r.from.row + r.n : s->hi;
        row += r.n;
    }
    for (int i = 0; i < tr_arranged_sections(m->how); i++) {
        span[i].raw = raw;
        raw += (span[i].hi - span[i].lo) * m->cols * tr_weights_type_bytes(tensor_of(m, i)->type);
    }
}

static enum tr_status transfer_spans(const struct move *m, const struct span *span)
{
    for (int i = 0; i < tr_arranged_sections(m->how); i++) {
        const struct tr_weights_tensor *x = tensor_of(m, i);
        const int64_t width = m->cols * tr_weights_type_bytes(x->type);
        const int64_t first = tr_arranged_place(m->how, i).row;

        if (span[i].hi > span[i].lo)
            TR_TRY(transfer(m, x, span[i].raw, (span[i].hi - span[i].lo) * width,
                            x->offset + (first + span[i].lo) * width));
    }
    return TR_OK;
}

/* Infinity has its place in every type; a number that would become it has not. */
static enum tr_status check_range(const struct move *m, const struct tr_weights_tensor *x,
                                  const float *from, int64_t n)
{
    static const float most[] = {
        [TR_WEIGHTS_F32] = INFINITY, [TR_WEIGHTS_F16] = 65520.0f, [TR_WEIGHTS_BF16] = 0x1.ffp+127f};
    const float limit = most[x->type];
    int beyond = 0;

    for (int64_t i = 0; i < n; i++)
        beyond |= (fabsf(from[i]) >= limit) & (fabsf(from[i]) <= FLT_MAX);
    if (!beyond)
        return TR_OK;
    return TR_FAIL(TR_EDATA, "%s has a number that %s cannot hold: give another --dtype",
                   m->how->param->name, tr_weights_type_name(x->type));
}

static enum tr_status convert(const struct move *m, const struct tr_weights_tensor *x, void *raw,
                              int64_t n, float *ours)
{
    if (!m->file) {
        tr_weights_to_float(x->type, raw, n, ours);
        return TR_OK;
    }
    TR_TRY(check_range(m, x, ours, n));
    tr_weights_from_float(x->type, ours, n, raw);
    return TR_OK;
}

/* Rows lo .. hi - 1 between the block and the rows of the sections. */
static enum tr_status convert_rows(const struct move *m, const struct span *span, int64_t lo,
                                   int64_t hi)
{
    for (int64_t row = lo; m->raw && row < hi;) {
        const struct run r = run_at(m, row, hi);
        const struct tr_weights_tensor *x = tensor_of(m, r.from.section);
        const int64_t width = m->cols * tr_weights_type_bytes(x->type);
        const struct span *s = &span[r.from.section];

        TR_TRY(convert(m, x, s->raw + (r.from.row - s->lo) * width, r.n * m->cols,
                       m->block + (row - lo) * m->cols));
        row += r.n;
    }
    return TR_OK;
}

/* A run of rows of ours between the block and columns of the tensor that has another type, a few columns of ours at a
   time. */
static enum tr_status turn_tiles(const struct move *m, const struct tr_weights_tensor *x,
                                 int64_t first, int64_t n, float *ours)
{
    const int64_t width = x->dim[1], each = tr_weights_type_bytes(x->type);

    for (int64_t col = 0; col < m->cols; col += TILE) {
        const int64_t tile = m->cols - col < TILE ? m->cols - col : TILE;

        if (m->file)
            tr_turn(ours + col, m->cols, n, tile, m->tile, n);
        for (int64_t c = 0; c < tile; c++)
            TR_TRY(convert(m, x, m->raw + ((col + c) * width + first) * each, n, m->tile + c * n));
        if (!m->file)
            tr_turn(m->tile, n, tile, n, ours + col, m->cols);
    }
    return TR_OK;
}

static enum tr_status turn_run(const struct move *m, const struct run *r, int64_t lo)
{
    const struct tr_weights_tensor *x = tensor_of(m, r->from.section);
    const int64_t first = tr_arranged_place(m->how, r->from.section).row + r->from.row;
    float *ours = m->block + (r->row - lo) * m->cols;
    void *raw = m->raw;
    float *theirs = (float *)raw + first;

    if (x->type != TR_WEIGHTS_F32)
        return turn_tiles(m, x, first, r->n, ours);
    if (m->file)
        tr_turn(ours, m->cols, r->n, m->cols, theirs, x->dim[1]);
    else
        tr_turn(theirs, x->dim[1], m->cols, r->n, ours, m->cols);
    return TR_OK;
}

static enum tr_status turn(const struct move *m, int64_t lo, int64_t hi)
{
    for (int64_t row = lo; row < hi;) {
        const struct run r = run_at(m, row, hi);

        TR_TRY(turn_run(m, &r, lo));
        row += r.n;
    }
    return TR_OK;
}

static enum tr_status use_block(struct move *m, struct tr_weights_end *e, int64_t lo, int64_t hi)
{
    float *x = m->block;

    if (m->room) {
        m->room->turn ^= 1;
        m->block = m->room->half[m->room->turn];
    }
    return e->block(e->ctx, m->item, lo * m->cols, x, (hi - lo) * m->cols);
}

static enum tr_status move_turned(struct move *m, struct tr_weights_end *e)
{
    const struct tr_weights_tensor *x = tensor_of(m, 0);
    const int64_t bytes = x->elems * tr_weights_type_bytes(x->type);

    if (!m->file)
        TR_TRY(transfer(m, x, m->raw, bytes, x->offset));
    for (int64_t lo = m->first; lo < m->end; lo += m->step) {
        const int64_t hi = m->end - lo < m->step ? m->end : lo + m->step;

        if (m->file)
            TR_TRY(use_block(m, e, lo, hi));
        TR_TRY(turn(m, lo, hi));
        if (!m->file)
            TR_TRY(use_block(m, e, lo, hi));
    }
    return m->file ? transfer(m, x, m->raw, bytes, x->offset) : TR_OK;
}

static enum tr_status move_rows(struct move *m, struct tr_weights_end *e)
{
    struct span span[TR_ARRANGED_SECTIONS];

    for (int64_t lo = m->first; lo < m->end; lo += m->step) {
        const int64_t hi = m->end - lo < m->step ? m->end : lo + m->step;

        find_spans(m, lo, hi, span);
        if (m->file)
            TR_TRY(use_block(m, e, lo, hi));
        else
            TR_TRY(transfer_spans(m, span));
        TR_TRY(convert_rows(m, span, lo, hi));
        if (m->file)
            TR_TRY(transfer_spans(m, span));
        else
            TR_TRY(use_block(m, e, lo, hi));
    }
    return TR_OK;
}

/* Rows lo .. hi - 1 of the parameter, each of which may be several for the arrangement. */
static enum tr_status move(struct move *m, int64_t lo, int64_t hi, struct tr_weights_end *e)
{
    const int64_t each = tr_arranged_height(m->how) / m->how->param->full[0];
    enum tr_status s;

    TR_ASSERT(0 <= lo && lo < hi && hi <= m->how->param->full[0]);
    m->first = lo * each;
    m->end = hi * each;
    m->moved = e->moved;
    open_move(m);
    e->peak = m->bytes > e->peak ? m->bytes : e->peak;
    s = tr_arranged_turned(m->how) ? move_turned(m, e) : move_rows(m, e);
    close_move(m);
    return s;
}

enum tr_status tr_weights_read(const struct tr_weights_table *t, const struct tr_weights_item *m,
                               int64_t lo, int64_t hi, struct tr_weights_end *to)
{
    struct move v = {.table = t, .item = m, .how = &m->arranged, .room = to->room};

    return move(&v, lo, hi, to);
}

enum tr_status tr_weights_write(const struct tr_weights_table *t, struct tr_writeback *file,
                                const struct tr_weights_item *m, struct tr_weights_end *from)
{
    struct move v = {.table = t, .file = file, .item = m, .how = &m->arranged};

    return move(&v, 0, m->arranged.param->full[0], from);
}

enum tr_status tr_weights_go_on(int (*stopped)(void))
{
    const int number = stopped ? stopped() : 0;

    if (number == 0)
        return TR_OK;
    return TR_FAIL(TR_ETEMP, "stopped by signal %d (%s); nothing was written", number,
                   strsignal(number));
}

void tr_weights_meter(struct tr_meter *meter, const char *verb, const struct tr_weights_map *m,
                      int size, double interval)
{
    int64_t elems = 0;

    for (int i = 0; i < m->count; i++)
        elems += tr_weights_owner(m, i, size) == 0 ? m->list[i].arranged.param->elems : 0;
    tr_meter_start(meter, verb, elems * (int64_t)sizeof(float), interval);
}

const char *tr_weights_of_each(int size)
{
    return size > 1 ? " of each rank" : "";
}
