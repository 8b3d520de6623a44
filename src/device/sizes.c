/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/sizes.h"

static int64_t width(const struct tr_tensor *t)
{
    return t->dim[t->ndim - 1];
}

static int64_t height(const struct tr_tensor *t)
{
    return tr_tensor_elems(t) / width(t);
}

static bool matrix(const struct tr_tensor *t, int64_t rows, int64_t columns)
{
    return tr_dtype_is_float(t->dtype) && height(t) == rows && width(t) == columns;
}

static bool vector(const struct tr_tensor *t, int64_t elements)
{
    return tr_dtype_is_float(t->dtype) && tr_tensor_elems(t) == elements;
}

/* Numbers that are sums or their like: always TR_F32. */
static bool statistics(const struct tr_tensor *t, int64_t elements)
{
    return t->dtype == TR_F32 && tr_tensor_elems(t) == elements;
}

static bool indices(const struct tr_tensor *t, int64_t elements)
{
    return t->dtype == TR_I32 && tr_tensor_elems(t) == elements;
}

/* Rows of which a backend keeps some in scratch. */
static bool rows(const struct tr_tensor *t, int64_t n, int64_t h)
{
    return matrix(t, n, h) && h <= TR_MAX_WIDTH;
}

static bool droppable(const struct tr_dropout *drop)
{
    return drop->p >= 0.0 && drop->p < 1.0 &&
           (drop->p == 0.0 || (drop->sample && drop->tokens > 0 && drop->first_row >= 0));
}

/* Columns of the product for one of the result. */
static int64_t columns_of(enum tr_act act)
{
    TR_ASSERT((unsigned)act < TR_ACTS);
    return tr_act_gated(act) ? 2 : 1;
}

struct tr_linear_sizes tr_sizes_linear(const struct tr_tensor *y, const struct tr_tensor *pre,
                                       const struct tr_tensor *x, const struct tr_tensor *w,
                                       const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = {height(y), columns_of(act) * width(y), width(x)};

    TR_ASSERT(matrix(y, s.n, s.o / columns_of(act)) && matrix(x, s.n, s.i) && matrix(w, s.o, s.i));
    TR_ASSERT((!pre || matrix(pre, s.n, s.o)) && (!bias || vector(bias, s.o)));
    return s;
}

struct tr_linear_sizes tr_sizes_linear_dgrad(const struct tr_tensor *dx, const struct tr_tensor *dy,
                                             const struct tr_tensor *w, const struct tr_tensor *pre,
                                             enum tr_act act)
{
    struct tr_linear_sizes s = {height(dx), width(dy), width(dx) / columns_of(act)};

    TR_ASSERT(matrix(dx, s.n, columns_of(act) * s.i) && matrix(dy, s.n, s.o) &&
              matrix(w, s.o, s.i));
    TR_ASSERT(act == TR_ACT_NONE ? !pre : pre && matrix(pre, s.n, width(dx)));
    return s;
}

struct tr_linear_sizes tr_sizes_linear_wgrad(const struct tr_tensor *dw,
                                             const struct tr_tensor *dbias,
                                             const struct tr_tensor *dy, const struct tr_tensor *x)
{
    struct tr_linear_sizes s = {height(dy), width(dy), width(x)};

    TR_ASSERT(matrix(dw, s.o, s.i) && matrix(dy, s.n, s.o) && matrix(x, s.n, s.i));
    TR_ASSERT(!dbias || vector(dbias, s.o));
    return s;
}

struct tr_rows_sizes tr_sizes_norm(const struct tr_tensor *y, const struct tr_tensor *mean,
                                   const struct tr_tensor *rstd, const struct tr_tensor *x,
                                   const struct tr_tensor *gain, const struct tr_tensor *bias,
                                   struct tr_norm_how how)
{
    struct tr_rows_sizes s = {height(x), width(x)};

    TR_ASSERT(rows(y, s.n, s.h) && rows(x, s.n, s.h));
    TR_ASSERT(statistics(rstd, s.n) && vector(gain, s.h));
    TR_ASSERT(how.rms ? !mean && !bias : statistics(mean, s.n) && vector(bias, s.h));
    return s;
}

struct tr_rows_sizes tr_sizes_norm_bwd(const struct tr_tensor *dx, const struct tr_tensor *dgain,
                                       const struct tr_tensor *dbias, const struct tr_tensor *dy,
                                       const struct tr_tensor *dskip, const struct tr_tensor *x,
                                       const struct tr_tensor *gain, const struct tr_tensor *mean,
                                       const struct tr_tensor *rstd, struct tr_norm_how how)
{
    struct tr_rows_sizes s = tr_sizes_norm(dx, mean, rstd, x, gain, dbias, how);

    TR_ASSERT(matrix(dy, s.n, s.h) && vector(dgain, s.h));
    TR_ASSERT(!dskip || matrix(dskip, s.n, s.h));
    return s;
}

struct tr_rows_sizes tr_sizes_residual(const struct tr_tensor *y, const struct tr_tensor *x,
                                       const struct tr_tensor *a, const struct tr_tensor *bias,
                                       const struct tr_dropout *drop)
{
    struct tr_rows_sizes s = {height(x), width(x)};

    TR_ASSERT(rows(y, s.n, s.h) && rows(x, s.n, s.h) && rows(a, s.n, s.h));
    TR_ASSERT((!bias || vector(bias, s.h)) && droppable(drop));
    return s;
}

struct tr_rows_sizes tr_sizes_residual_bwd(const struct tr_tensor *da,
                                           const struct tr_tensor *dbias,
                                           const struct tr_tensor *dy,
                                           const struct tr_dropout *drop)
{
    struct tr_rows_sizes s = {height(dy), width(dy)};

    TR_ASSERT(rows(da, s.n, s.h) && rows(dy, s.n, s.h) && (!dbias || vector(dbias, s.h)));
    TR_ASSERT(droppable(drop));
    return s;
}

struct tr_rows_sizes tr_sizes_dropout(const struct tr_tensor *y, const struct tr_dropout *drop)
{
    struct tr_rows_sizes s = {height(y), width(y)};

    TR_ASSERT(rows(y, s.n, s.h) && droppable(drop));
    return s;
}

struct tr_embed_sizes tr_sizes_embed(const struct tr_tensor *rows, const struct tr_tensor *ids,
                                     const struct tr_tensor *table)
{
    struct tr_embed_sizes s = {height(rows), width(rows), height(table)};

    TR_ASSERT(tr_dtype_is_float(rows->dtype) && indices(ids, s.n) && matrix(table, s.r, s.h));
    return s;
}

struct tr_attention_sizes
tr_sizes_attention(const struct tr_tensor *ctx, const struct tr_tensor *lse,
                   const struct tr_tensor *qkv, const struct tr_tensor *from,
                   struct tr_attention_how how, const struct tr_dropout *drop)
{
    struct tr_attention_sizes s = {lse->dim[0], lse->dim[1], lse->dim[2], 0, 0};

    TR_ASSERT(lse->ndim == 3 && lse->dtype == TR_F32);
    s.d = width(ctx) / s.heads;
    TR_ASSERT(s.d > 0 && s.d <= TR_MAX_HEAD_DIM && matrix(ctx, s.b * s.t, s.heads * s.d));
    s.groups = (width(qkv) / s.d - s.heads) / 2;
    TR_ASSERT(s.groups > 0 && s.heads % s.groups == 0);
    TR_ASSERT(matrix(qkv, s.b * s.t, (s.heads + 2 * s.groups) * s.d));
    TR_ASSERT(how.window >= 0 && (!how.slopes || statistics(how.slopes, s.heads)));
    TR_ASSERT(!from || indices(from, s.b * s.t));
    TR_ASSERT(droppable(drop) && (drop->p == 0.0 || (drop->tokens == s.t && drop->first_row == 0)));
    return s;
}

struct tr_relative_sizes tr_sizes_relative(const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                           const struct tr_tensor *qkv,
                                           const struct tr_relative *to,
                                           struct tr_attention_how how,
                                           const struct tr_dropout *drop)
{
    const struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, NULL, how, drop);
    const int64_t rows = height(to->rel);

    TR_ASSERT(s.groups == s.heads && how.window == 0 && !how.slopes);
    TR_ASSERT(rows > 0 && matrix(to->rel, rows, 3 * s.heads * s.d));
    TR_ASSERT(indices(to->bucket, 2 * s.t - 1) && (!to->lengths || indices(to->lengths, s.b)));
    return (struct tr_relative_sizes){s.b, s.heads, s.t, s.d, rows};
}

struct tr_cached_sizes tr_sizes_cached(const struct tr_tensor *ctx, const struct tr_tensor *cache,
                                       const struct tr_tensor *qkv, const struct tr_tensor *place,
                                       struct tr_attention_how how)
{
    struct tr_cached_sizes s = {.d = cache->dim[2], .keys = cache->dim[1]};

    TR_ASSERT(cache->ndim == 3 && tr_dtype_is_float(cache->dtype) && s.d <= TR_MAX_HEAD_DIM);
    s.heads = width(ctx) / s.d;
    s.groups = (width(qkv) / s.d - s.heads) / 2;
    TR_ASSERT(s.groups > 0 && s.heads % s.groups == 0);
    s.b = cache->dim[0] / (2 * s.groups);
    s.t = height(qkv) / s.b;
    TR_ASSERT(cache->dim[0] == 2 * s.groups * s.b && matrix(ctx, s.b * s.t, s.heads * s.d));
    TR_ASSERT(matrix(qkv, s.b * s.t, (s.heads + 2 * s.groups) * s.d));
    TR_ASSERT(indices(place, s.b * s.t));
    TR_ASSERT(how.window >= 0 && (!how.slopes || statistics(how.slopes, s.heads)));
    return s;
}

static struct tr_heads_sizes heads_of(const struct tr_tensor *y, const struct tr_tensor *x,
                                      struct tr_heads_how how)
{
    struct tr_heads_sizes s = {height(x), how.heads + how.groups, how.width};

    TR_ASSERT(how.groups > 0 && how.heads % how.groups == 0 && how.width > 0 &&
              how.width <= TR_MAX_HEAD_DIM);
    TR_ASSERT(matrix(x, s.n, (how.heads + 2 * how.groups) * s.width) && matrix(y, s.n, width(x)));
    return s;
}

struct tr_heads_sizes tr_sizes_rotary(const struct tr_tensor *y, const struct tr_tensor *x,
                                      const struct tr_tensor *table,
                                      const struct tr_tensor *position, struct tr_rotary_how how)
{
    struct tr_heads_sizes s = heads_of(y, x, how.heads);

    TR_ASSERT(how.rotary > 0 && how.rotary % 2 == 0 && how.rotary <= how.heads.width);
    TR_ASSERT(table->dtype == TR_F32 && width(table) == how.rotary && indices(position, s.n));
    return s;
}

struct tr_heads_sizes tr_sizes_head_norm(const struct tr_tensor *y, const struct tr_tensor *rstd,
                                         const struct tr_tensor *x, const struct tr_tensor *q_gain,
                                         const struct tr_tensor *k_gain, struct tr_heads_how heads)
{
    struct tr_heads_sizes s = heads_of(y, x, heads);

    TR_ASSERT(statistics(rstd, s.n * s.heads));
    TR_ASSERT(vector(q_gain, s.width) && vector(k_gain, s.width));
    return s;
}

int64_t tr_sizes_columns(const struct tr_tensor *y, const struct tr_tensor *x, int64_t to,
                         int64_t from, int64_t count)
{
    TR_ASSERT(y->dtype == x->dtype && tr_dtype_is_float(x->dtype) && height(y) == height(x));
    TR_ASSERT(to >= 0 && from >= 0 && count > 0 && to + count <= width(y) &&
              from + count <= width(x));
    return height(x);
}

struct tr_xent_sizes tr_sizes_xent(const struct tr_tensor *logits, const struct tr_tensor *max,
                                   const struct tr_tensor *stats, const struct tr_tensor *labels,
                                   const struct tr_tensor *weight, int64_t valid)
{
    struct tr_xent_sizes s = {height(logits), width(logits)};

    TR_ASSERT(tr_dtype_is_float(logits->dtype) && statistics(max, s.n) && valid >= 0 &&
              valid <= s.r);
    TR_ASSERT((!stats || statistics(stats, 2 * s.n)) && (!labels || indices(labels, s.n)));
    TR_ASSERT(!weight || statistics(weight, s.n));
    return s;
}

int64_t tr_sizes_xent_loss(const struct tr_tensor *loss, const struct tr_tensor *stats)
{
    int64_t n = tr_tensor_elems(loss);

    TR_ASSERT(statistics(loss, n) && statistics(stats, 2 * n));
    return n;
}

int64_t tr_sizes_flat(const struct tr_tensor *a, const struct tr_tensor *b,
                      const struct tr_tensor *c, const struct tr_tensor *d)
{
    int64_t n = tr_tensor_elems(a);

    TR_ASSERT(vector(a, n) && vector(b, n) && vector(c, n) && vector(d, n));
    return n;
}

int64_t tr_sizes_adamw(const struct tr_tensor *half, const struct tr_tensor *p,
                       const struct tr_tensor *m, const struct tr_tensor *v,
                       const struct tr_tensor *g)
{
    int64_t n = tr_tensor_elems(p);

    TR_ASSERT(statistics(p, n) && statistics(m, n) && statistics(v, n) && vector(g, n));
    TR_ASSERT(!half ||
              ((half->dtype == TR_F16 || half->dtype == TR_BF16) && tr_tensor_elems(half) == n));
    return n;
}

static bool bytes(const struct tr_tensor *t, int64_t count)
{
    return t->dtype == TR_U8 && tr_tensor_elems(t) == count;
}

int64_t tr_sizes_adam8(const struct tr_tensor *half, const struct tr_tensor *p,
                       const struct tr_tensor *m, const struct tr_tensor *v,
                       const struct tr_tensor *g, struct tr_code_blocks blocks)
{
    const int64_t n = tr_tensor_elems(p), in_blocks = tr_code_bytes(blocks, n);

    TR_ASSERT(blocks.lead > 0 && blocks.lead <= blocks.size && blocks.size <= TR_BLOCK_MOST);
    TR_ASSERT(statistics(p, n) && bytes(m, in_blocks) && bytes(v, in_blocks) && vector(g, n));
    TR_ASSERT(!half ||
              ((half->dtype == TR_F16 || half->dtype == TR_BF16) && tr_tensor_elems(half) == n));
    return n;
}

int64_t tr_sizes_copy(const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_tensor_elems(y);

    TR_ASSERT(y->dtype == x->dtype || (tr_dtype_is_float(y->dtype) && tr_dtype_is_float(x->dtype)));
    TR_ASSERT(tr_tensor_elems(x) == n);
    return n;
}

void tr_sizes_scalar(const struct tr_tensor *out)
{
    TR_ASSERT(out->dtype == TR_F64 && tr_tensor_elems(out) == 1);
}

struct tr_fix_sizes tr_sizes_fix(const struct tr_tensor *x, const struct tr_tensor *scale,
                                 const struct tr_tensor *code, struct tr_fix how)
{
    struct tr_fix_sizes s = {.n = tr_tensor_elems(x), .buckets = 1, .each = 1};

    TR_ASSERT(tr_dtype_is_float(x->dtype) && x->ndim == 3);
    TR_ASSERT(how.bits >= 1 && how.bits <= 8 && how.over < 8);
    for (int i = 2; i >= 0; i--) {
        s.d[i] = x->dim[i];
        if (how.over >> i & 1) {
            s.each *= s.d[i];
        } else {
            s.stride[i] = s.buckets;
            s.buckets *= s.d[i];
        }
    }
    TR_ASSERT(scale->dtype == TR_F16 && tr_tensor_elems(scale) == s.buckets);
    TR_ASSERT(!code || bytes(code, (s.n * how.bits + 7) / 8));
    return s;
}

int64_t tr_sizes_mask(const struct tr_tensor *x, const struct tr_tensor *mask,
                      const struct tr_tensor *taken, int64_t *k)
{
    int64_t n = tr_tensor_elems(x);

    TR_ASSERT(tr_dtype_is_float(x->dtype) && bytes(mask, (n + 7) / 8));
    if (taken)
        *k = tr_tensor_elems(taken);
    TR_ASSERT(!taken || tr_dtype_is_float(taken->dtype));
    TR_ASSERT(*k >= 1 && *k <= n);
    return n;
}

int64_t tr_sizes_select(const struct tr_tensor *y, const struct tr_tensor *a,
                        const struct tr_tensor *b, const struct tr_select *s)
{
    int64_t n = tr_tensor_elems(y), all = tr_tensor_elems(a);

    TR_ASSERT(tr_dtype_is_float(y->dtype) && tr_dtype_is_float(a->dtype));
    TR_ASSERT(!b || vector(b, all));
    if (s->index)
        TR_ASSERT(indices(s->index, n));
    else
        TR_ASSERT(s->first >= 0 && s->step > 0 && s->first + (n - 1) * s->step < all);
    return n;
}

int64_t tr_sizes_fingerprint(const struct tr_tensor *out, const struct tr_tensor *x)
{
    TR_ASSERT(out->dtype == TR_I64 && tr_tensor_elems(out) == 1);
    return tr_tensor_bytes(x);
}
