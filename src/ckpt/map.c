/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/map.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/sum.h"

const char *tr_ckpt_group(int kind)
{
    static const char *const groups[] = {
#define KIND(symbol, group, field) group,
        TR_CKPT_KINDS_OF(KIND)
#undef KIND
    };

    return groups[kind];
}

/* The model on one rank.  tr_params_list() gives the order of the backward pass; the file has the
   reverse. */
void tr_ckpt_list_whole(const struct tr_shape *s, struct tr_params *out)
{
    struct tr_shape one = tr_shape_whole(s);

    tr_params_list(&one, 0, 0, out);
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

void tr_ckpt_map_build(const struct tr_shape *s, const struct tr_params *params, int tp,
                       struct tr_ckpt_map *out)
{
    int from = 0;

    memset(out, 0, sizeof *out);
    out->tp = tp;
    tr_ckpt_list_whole(s, &out->whole);
    out->count = params->count;
    out->list = calloc((size_t)params->count, sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the list of a checkpoint's tensors");
    for (int i = 0; i < params->count; i++) {
        const struct tr_param *p = &params->list[params->count - 1 - i];
        struct tr_ckpt_piece *piece = &out->list[i];

        piece->param = p;
        piece->tensor = find_tensor(&out->whole, p, from);
        piece->rows = p->split == 1 ? p->local[0] : p->real;
        piece->before = out->stored;
        if (!p->copy)
            from = piece->tensor + 1;
        if (tr_ckpt_stores(out, piece))
            out->stored += piece->rows * p->local[1];
    }
}

void tr_ckpt_map_release(struct tr_ckpt_map *m)
{
    tr_params_release(&m->whole);
    free(m->list);
    memset(m, 0, sizeof *m);
}

int tr_ckpt_number(const struct tr_ckpt_map *m, int kind, const struct tr_ckpt_piece *piece)
{
    return kind * m->whole.count + piece->tensor;
}

bool tr_ckpt_stores(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece)
{
    return tr_param_counts(piece->param, m->tp);
}

/* The row of the piece in which the element `at` of all stored ones lies, rounded up. */
static int64_t row_at(const struct tr_ckpt_piece *piece, int64_t base, int64_t at)
{
    int64_t cols = piece->param->local[1], row = (at - base + cols - 1) / cols;

    if (at <= base)
        return 0;
    return row < piece->rows ? row : piece->rows;
}

void tr_ckpt_share(const struct tr_ckpt_map *m, const struct tr_ckpt_piece *piece, int kind, int dp,
                   int d, int64_t *lo, int64_t *hi)
{
    int64_t base = kind * m->stored + piece->before, all = TR_CKPT_KINDS * m->stored;

    *lo = *hi = 0;
    if (!tr_ckpt_stores(m, piece))
        return;
    *lo = row_at(piece, base, all * dp / d);
    *hi = row_at(piece, base, all * (dp + 1) / d);
}

struct tr_ckpt_runs tr_ckpt_runs_of(const struct tr_param *p, int64_t lo, int64_t hi)
{
    int64_t cols = p->local[1], row0 = p->split == 0 ? p->first : 0;
    int64_t col0 = p->split == 1 ? p->first : 0;
    struct tr_ckpt_runs r = {
        .count = hi - lo,
        .elems = cols,
        .local = lo * cols,
        .local_step = cols,
        .whole = (row0 + lo) * p->full[1] + col0,
        .whole_step = p->full[1],
    };

    if (cols == p->full[1]) {
        r.elems *= r.count;
        r.count = r.elems > 0;
    }
    return r;
}

uint64_t tr_ckpt_sum_rows(const struct tr_param *p, const float *x, int64_t lo, int64_t hi)
{
    struct tr_ckpt_runs r = tr_ckpt_runs_of(p, lo, hi);
    uint64_t sum = 0;

    for (int64_t i = 0; i < r.count; i++)
        sum += tr_ckpt_sum(x + r.local + i * r.local_step, r.elems, r.whole + i * r.whole_step);
    return sum;
}

void tr_ckpt_tell(struct tr_comm *c, void *data, size_t bytes)
{
    struct tr_tensor words = tr_i32_1(data, (int64_t)(bytes / sizeof(int32_t)));

    TR_ASSERT(bytes % sizeof(int32_t) == 0);
    c->via->broadcast(c, NULL, &words, 0);
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
