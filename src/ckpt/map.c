/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/map.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/sum.h"

const char *tr_ckpt_group(int kind)
{
    return kind == TR_CKPT_MODEL ? TR_CKPT_WEIGHTS : tr_optim_state_group(kind - TR_CKPT_STATE);
}

bool tr_ckpt_has_states(const struct tr_ckpt_tensors *tensors)
{
    return tensors->access ? tensors->states : tensors->state[0].data != NULL;
}

/* The model on one rank.  tr_params_list_whole() gives the order of the backward pass; the file has
   the reverse. */
void tr_ckpt_list_whole(const struct tr_dims *dims, struct tr_params *out)
{
    tr_params_list_whole(dims, out);
    for (int i = 0, j = out->count - 1; i < j; i++, j--) {
        struct tr_param kept = out->list[i];

        out->list[i] = out->list[j];
        out->list[j] = kept;
    }
}

/* Looks from `from` onwards first, where it is unless `p` is a copy. */
static int find_tensor(const struct tr_params *whole, const struct tr_param *p, int from)
{
    for (int i = 0; i < whole->count; i++) {
        int at = (from + i) % whole->count;

        if (whole->list[at].row == p->row && whole->list[at].layer == p->layer)
            return at;
    }
    tr_die(TR_EINTERNAL, "the model lacks the parameter %s of a rank", p->name);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The pieces of a parameter, one for each span that meets it. */
static void add_pieces(struct tr_ckpt_map *m, const struct tr_ckpt_tensors *tensors,
                       const struct tr_param *p, int tensor)
{
    int64_t exist = p->split == 1 ? p->elems : p->real * p->local[1], held = 0;

    for (int i = 0; i < tensors->spans; i++) {
        const struct tr_bucket *s = &tensors->span[i];
        int64_t lo = larger(s->first - p->offset, 0);
        int64_t end = smaller(s->first + s->count - p->offset, p->elems);

        if (lo < end) {
            struct tr_ckpt_piece *piece = &m->list[m->count++];

            piece->param = p;
            piece->tensor = tensor;
            piece->lo = lo;
            piece->hi = larger(smaller(end, exist), lo);
            piece->end = end;
            piece->at = held + p->offset + lo - s->first;
            piece->before = m->stored;
            if (tr_ckpt_stores(m, piece) && !tr_ckpt_alternates(p))
                m->stored += piece->hi - piece->lo;
        }
        held += s->count;
    }
}

static void open_bounce(struct tr_ckpt_map *m, const struct tr_ckpt_tensors *tensors)
{
    m->access = tensors->access;
    m->peek = tensors->peek;
    m->tile_end = tensors->tile_end;
    m->ctx = tensors->ctx;
    m->q = tensors->q;
    if (!m->access && (!m->q || !m->q->on->apart))
        return;
    m->bounce = malloc(TR_CKPT_BOUNCE * sizeof *m->bounce);
    if (!m->bounce)
        tr_die(TR_ERESOURCE, "no memory left to bring a checkpoint's tensors to the host");
}

void tr_ckpt_map_build(const struct tr_dims *dims, const struct tr_ckpt_tensors *tensors, int tp,
                       struct tr_ckpt_map *out)
{
    const struct tr_params *params = tensors->params;
    int from = 0;

    memset(out, 0, sizeof *out);
    out->tp = tp;
    out->kinds = tr_ckpt_has_states(tensors) ? TR_CKPT_KINDS : 1;
    out->value_flat = tensors->value_flat;
    out->sharded = tensors->sharded;
    out->buffer[TR_CKPT_MODEL] = tensors->value;
    for (int i = 0; i < TR_STATES; i++) {
        TR_ASSERT(!tensors->state[i].data == !tensors->state[0].data);
        TR_ASSERT(!tensors->state[i].data || tensors->state[i].dtype == TR_F32);
        out->buffer[TR_CKPT_STATE + i] = tensors->state[i];
    }
    open_bounce(out, tensors);
    tr_ckpt_list_whole(dims, &out->whole);
    /* A span that ends inside a parameter makes one piece more. */
    out->list = calloc((size_t)params->count + (size_t)tensors->spans, sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the list of a checkpoint's tensors");
    for (int i = params->count - 1; i >= 0; i--) {
        const struct tr_param *p = &params->list[i];
        int tensor = find_tensor(&out->whole, p, from);

        if (!p->copy)
            from = tensor + 1;
        add_pieces(out, tensors, p, tensor);
    }
}

void tr_ckpt_map_release(struct tr_ckpt_map *m)
{
    tr_params_release(&m->whole);
    free(m->list);
    free(m->bounce);
    memset(m, 0, sizeof *m);
}

int tr_ckpt_find_tensor(const struct tr_ckpt_map *m, const struct tr_param *p)
{
    return find_tensor(&m->whole, p, 0);
}

int tr_ckpt_number(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece)
{
    return kind * m->whole.count + piece->tensor;
}

bool tr_ckpt_stores(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece)
{
    return tr_param_counts(piece->param, m->tp);
}

bool tr_ckpt_alternates(const struct tr_param *p)
{
    return p->split == 1 && p->local[1] < p->full[1];
}

/* Place in the buffer of element `elem` (lo .. end - 1) of the piece. */
static int64_t place_of(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                        int64_t elem)
{
    if (kind == TR_CKPT_MODEL && m->value_flat)
        return piece->param->offset + elem;
    return piece->at + elem - piece->lo;
}

static struct tr_tensor elements(const struct tr_ckpt_map *m, int kind,
                                 const struct tr_ckpt_piece *piece, int64_t lo, int64_t hi)
{
    return tr_tensor_span(&m->buffer[kind], place_of(m, kind, piece, lo), hi - lo);
}

int64_t tr_ckpt_upto(const struct tr_ckpt_map *m, int64_t lo, int64_t hi)
{
    return m->bounce ? smaller(hi, lo + TR_CKPT_BOUNCE) : hi;
}

float *tr_ckpt_room(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                    int64_t lo)
{
    return m->bounce ? m->bounce : tr_f32(&m->buffer[kind]) + place_of(m, kind, piece, lo);
}

void tr_ckpt_copy(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                  int64_t lo, int64_t hi, float *to)
{
    const struct tr_tensor out = tr_tensor_1(to, TR_F32, hi - lo);
    struct tr_tensor part;

    if (m->access) {
        m->access(m->ctx, kind, place_of(m, kind, piece, lo), hi - lo, to, false);
        return;
    }
    part = elements(m, kind, piece, lo, hi);
    if (m->bounce)
        m->q->on->download(m->q, to, &part);
    else if (m->q)
        m->q->on->copy(m->q, &out, &part); /* by all of its threads */
    else
        tr_ckpt_peek(m, kind, piece, lo, hi, to);
}

bool tr_ckpt_at_hand(const struct tr_ckpt_map *m)
{
    return m->access ? m->peek != NULL : !m->bounce;
}

void tr_ckpt_peek(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                  int64_t lo, int64_t hi, float *to)
{
    const int64_t at = place_of(m, kind, piece, lo);

    TR_ASSERT(tr_ckpt_at_hand(m));
    if (m->peek)
        m->peek(m->ctx, kind, at, hi - lo, to);
    else
        memcpy(to, tr_f32(&m->buffer[kind]) + at, (size_t)(hi - lo) * sizeof *to);
}

const float *tr_ckpt_get(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                         int64_t lo, int64_t hi)
{
    if (m->access) {
        m->access(m->ctx, kind, place_of(m, kind, piece, lo), hi - lo, m->bounce, false);
    } else if (m->bounce) {
        struct tr_tensor part = elements(m, kind, piece, lo, hi);

        m->q->on->download(m->q, m->bounce, &part);
    }
    return tr_ckpt_room(m, kind, piece, lo);
}

void tr_ckpt_put(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece,
                 int64_t lo, int64_t hi)
{
    if (m->access) {
        m->access(m->ctx, kind, place_of(m, kind, piece, lo), hi - lo, m->bounce, true);
    } else if (m->bounce) {
        struct tr_tensor part = elements(m, kind, piece, lo, hi);

        m->q->on->upload(m->q, &part, m->bounce);
    }
}

void tr_ckpt_pad(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece)
{
    for (int64_t lo = piece->hi, hi; lo < piece->end; lo = hi) {
        float *x = tr_ckpt_room(m, kind, piece, lo);

        hi = tr_ckpt_upto(m, lo, piece->end);
        memset(x, 0, (size_t)(hi - lo) * sizeof *x);
        tr_ckpt_put(m, kind, piece, lo, hi);
    }
}

/* The element of the piece that is number `at` of all stored ones, or the nearest. */
static int64_t element_at(const struct tr_ckpt_piece *piece, int64_t base, int64_t at)
{
    return larger(piece->lo, smaller(piece->hi, piece->lo + at - base));
}

/* The element from which on replica `dp` of `d` writes, at the beginning of a row. */
static int64_t row_at(const struct tr_ckpt_piece *piece, int dp, int d)
{
    const int64_t cols = piece->param->local[1];

    if (dp == d)
        return piece->hi;
    return larger(piece->lo, (piece->lo + (piece->hi - piece->lo) * dp / d) / cols * cols);
}

void tr_ckpt_share(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece, int kind, int dp,
                   int d, int64_t *lo, int64_t *hi)
{
    int64_t base = kind * m->stored + piece->before, all = m->kinds * m->stored;

    *lo = piece->lo;
    *hi = piece->hi;
    if (!tr_ckpt_stores(m, piece)) {
        *hi = *lo;
    } else if (!m->sharded && tr_ckpt_alternates(piece->param)) {
        *lo = row_at(piece, dp, d);
        *hi = row_at(piece, dp + 1, d);
    } else if (!m->sharded) {
        *lo = element_at(piece, base, all * dp / d);
        *hi = element_at(piece, base, all * (dp + 1) / d);
    }
}

struct tr_ckpt_run tr_ckpt_run_at(const struct tr_param *p, int64_t at, int64_t end)
{
    int64_t cols = p->local[1], row = at / cols, col = at % cols, elems = end - at;

    if (cols < p->full[1])
        elems = smaller(elems, cols - col);
    if (p->split == 0)
        row += p->first;
    if (p->split == 1)
        col += p->first;
    return (struct tr_ckpt_run){row * p->full[1] + col, elems};
}

uint64_t tr_ckpt_sum_elems(const struct tr_param *p, const float *x, int64_t lo, int64_t hi)
{
    struct tr_ckpt_run r;
    uint64_t sum = 0;

    for (int64_t at = lo; at < hi; at += r.elems) {
        r = tr_ckpt_run_at(p, at, hi);
        sum += tr_ckpt_sum(x + at - lo, r.elems, r.whole);
    }
    return sum;
}

void tr_ckpt_tell(struct tr_comm *c, void *data, size_t bytes)
{
    struct tr_tensor words = tr_i32_1(data, (int64_t)(bytes / sizeof(int32_t)));

    TR_ASSERT(bytes % sizeof(int32_t) == 0);
    c->via->broadcast(c, NULL, &words, 0);
}

/* In words of 4 bytes. */
void tr_ckpt_tell_text(struct tr_comm *c, char **text)
{
    int64_t bytes = *text ? ((int64_t)strlen(*text) + 4) / 4 * 4 : 0;
    char *all;

    tr_ckpt_tell(c, &bytes, sizeof bytes);
    if (bytes == 0)
        return;
    all = calloc(1, (size_t)bytes);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for a text of a checkpoint");
    if (c->rank == 0)
        memcpy(all, *text, strlen(*text));
    tr_ckpt_tell(c, all, (size_t)bytes);
    free(c->rank == 0 ? *text : NULL);
    *text = all;
}

/* Transports add floating-point numbers.  Limbs of 16 bits add up exactly in 53. */
void tr_ckpt_add(struct tr_comm *c, uint64_t *x, int n)
{
    enum { LIMBS = 4, BITS = 16 };
    double *limbs = malloc((size_t)n * LIMBS * sizeof *limbs);
    struct tr_tensor t = tr_f64_1(limbs, (int64_t)n * LIMBS);

    if (!limbs)
        tr_die(TR_ERESOURCE, "no memory left to add up checksums");
    for (int i = 0; i < n * LIMBS; i++)
        limbs[i] = (double)(x[i / LIMBS] >> (i % LIMBS * BITS) & 0xffff);
    c->via->allreduce(c, NULL, &t, TR_SUM);
    memset(x, 0, (size_t)n * sizeof *x);
    for (int i = 0; i < n * LIMBS; i++)
        x[i / LIMBS] += (uint64_t)limbs[i] << (i % LIMBS * BITS);
    free(limbs);
}
