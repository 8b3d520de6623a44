/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_product.h"

#include "device/cuda/cuda_dense.h"
#include "device/sizes.h"

enum {
    PART_ROWS = 128, /* fewer rows at a time are not worth the calls */
    BOUNDARY = 256   /* of what lies in scratch */
};

static size_t padded(size_t bytes)
{
    return (bytes + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
}

/* Rows first .. first + rows - 1 of a matrix of n columns. */
static struct tr_tensor rows_of(const struct tr_tensor *t, int64_t n, int64_t first, int64_t rows)
{
    int64_t offset = first * n * tr_dtype_bytes(t->dtype);

    return tr_tensor_2((char *)t->data + offset, t->dtype, rows, n);
}

static struct tr_cuda_factor factor(const struct tr_tensor *t, int64_t stride, bool turned)
{
    return (struct tr_cuda_factor){t->data, t->dtype, stride, turned};
}

/* ---- a product whose sums are finished by a kernel ---- */

/* How it is cut: what must be made fp32, whether the sums lie in scratch, and rows at a time. */
struct parts {
    bool convert_a, convert_b, sums;
    size_t a_bytes, b_bytes; /* in scratch; a's of one part unless it is turned */
    int64_t rows;
};

static struct parts cut(const struct tr_cuda_dense *d)
{
    struct parts p = {.rows = d->m,
                      .sums = d->finish.c->dtype != TR_F32 || tr_act_gated(d->finish.act)};
    bool convert = d->a.type != d->b.type;
    size_t fixed, row;

    p.convert_a = convert && d->a.type != TR_F32;
    p.convert_b = convert && d->b.type != TR_F32;
    p.b_bytes = p.convert_b ? padded((size_t)(d->k * d->n) * sizeof(float)) : 0;
    if (p.convert_a && d->a.turned)
        p.a_bytes = padded((size_t)(d->k * d->m) * sizeof(float));
    fixed = p.a_bytes + p.b_bytes + 2 * BOUNDARY;
    row = (size_t)(p.convert_a && !d->a.turned ? d->k : 0) + (size_t)(p.sums ? d->n : 0);
    row *= sizeof(float);
    if (fixed + row * (size_t)d->m > TR_CUDA_SCRATCH_BYTES) {
        size_t left = fixed < TR_CUDA_SCRATCH_BYTES ? TR_CUDA_SCRATCH_BYTES - fixed : 0;

        p.rows = row > 0 ? (int64_t)(left / row) / PART_ROWS * PART_ROWS : 0;
    }
    if (p.convert_a && !d->a.turned)
        p.a_bytes = padded((size_t)(d->k * p.rows) * sizeof(float));
    return p;
}

/* A factor of `rows` rows in memory, dense there, as fp32 at `to`. */
static struct tr_cuda_factor convert(struct tr_queue *q, struct tr_cuda_factor f, int64_t rows,
                                     void *to)
{
    struct tr_tensor from = tr_tensor_2((void *)f.p, f.type, rows, f.stride);
    struct tr_tensor made = tr_tensor_2(to, TR_F32, rows, f.stride);

    tr_cuda_copy(q, &made, &from);
    return (struct tr_cuda_factor){to, TR_F32, f.stride, f.turned};
}

/* Rows first .. first + rows - 1 of c. */
struct part {
    struct tr_tensor c, pre, slope_of;
    struct tr_cuda_dense d;
};

static void take_part(struct part *p, const struct tr_cuda_dense *d, int64_t first, int64_t rows)
{
    const struct tr_cuda_finish *f = &d->finish;
    int64_t before = first * (d->a.turned ? 1 : d->a.stride);

    p->d = *d;
    p->d.m = rows;
    p->d.a.p = (const char *)d->a.p + before * tr_dtype_bytes(d->a.type);
    p->c = rows_of(f->c, f->c->dim[f->c->ndim - 1], first, rows);
    p->d.finish.c = &p->c;
    if (f->pre) {
        p->pre = rows_of(f->pre, d->n, first, rows);
        p->d.finish.pre = &p->pre;
    }
    if (f->slope_of) {
        p->slope_of = rows_of(f->slope_of, f->slope_of->dim[f->slope_of->ndim - 1], first, rows);
        p->d.finish.slope_of = &p->slope_of;
    }
}

/* The sums of one part at `sums`, or in c when that is NULL, then finished.  False when cuBLASLt does not
   serve even this. */
static bool one_part(struct tr_queue *q, const struct tr_cuda_dense *d, float *sums)
{
    const struct tr_cuda_finish *f = &d->finish;
    struct tr_tensor to = tr_tensor_2(sums ? sums : f->c->data, TR_F32, d->m, d->n);
    struct tr_cuda_dense bare = *d;

    bare.finish = (struct tr_cuda_finish){.c = &to, .add = f->add && !sums};
    if (!tr_cuda_matmul(q, &bare))
        return false;
    if (sums || f->bias || f->pre || f->slope_of || f->act != TR_ACT_NONE)
        tr_cuda_finish_sums(q, tr_f32(&to), f);
    return true;
}

static bool in_parts(struct tr_queue *q, const struct tr_cuda_dense *whole)
{
    struct parts cuts = cut(whole);
    struct tr_cuda_dense d = *whole;
    char *scratch = tr_cuda_scratch(q, TR_CUDA_SCRATCH_BYTES);
    char *a_at = scratch + cuts.b_bytes, *rest = a_at + cuts.a_bytes;

    if (cuts.rows < 1)
        return false;
    d.spare = cuts.sums ? NULL : rest;
    d.spare_bytes = cuts.sums ? 0 : TR_CUDA_SCRATCH_BYTES - (size_t)(rest - scratch);
    if (cuts.convert_b)
        d.b = convert(q, d.b, d.b.turned ? d.n : d.k, scratch);
    if (cuts.convert_a && d.a.turned)
        d.a = convert(q, d.a, d.k, a_at);
    for (int64_t first = 0; first < d.m; first += cuts.rows) {
        int64_t rows = first + cuts.rows < d.m ? cuts.rows : d.m - first;
        struct part p;

        take_part(&p, &d, first, rows);
        if (cuts.convert_a && !d.a.turned)
            p.d.a = convert(q, p.d.a, rows, a_at);
        if (one_part(q, &p.d, cuts.sums ? (float *)(void *)rest : NULL))
            continue;
        if (first == 0)
            return false;
        tr_cuda_plain_product(q, &p.d); /* the last part may be of an odd size */
    }
    return true;
}

static void multiply(struct tr_queue *q, struct tr_cuda_dense d)
{
    d.spare = tr_cuda_scratch(q, TR_CUDA_SCRATCH_BYTES);
    d.spare_bytes = TR_CUDA_SCRATCH_BYTES;
    if (!tr_cuda_matmul(q, &d) && !in_parts(q, &d))
        tr_cuda_plain_product(q, &d);
}

/* ---- the operations ---- */

/* Whether an activation that cuBLASLt does not have reads its operand from `pre`: sums in scratch would go there
   in parts, at twice the bytes or more.  What is kept in halves makes halves of the same type. */
static bool through(const struct tr_tensor *y, const struct tr_tensor *pre, enum tr_act act)
{
    return act != TR_ACT_NONE && !tr_cuda_matmul_knows(act) && pre &&
           (pre->dtype == TR_F32 || pre->dtype == y->dtype);
}

void tr_cuda_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                    const struct tr_tensor *x, const struct tr_tensor *w,
                    const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear(y, pre, x, w, bias, act);
    struct tr_cuda_dense d = {.m = s.n,
                              .n = s.o,
                              .k = s.i,
                              .a = factor(x, s.i, false),
                              .b = factor(w, s.i, true),
                              .finish = {.c = y, .bias = bias, .pre = pre, .act = act}};

    if (!through(y, pre, act)) {
        multiply(q, d);
        return;
    }
    d.finish = (struct tr_cuda_finish){.c = pre, .bias = bias};
    multiply(q, d);
    tr_cuda_activate(q, y, pre, act);
}

void tr_cuda_linear_dgrad(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dy, const struct tr_tensor *w,
                          const struct tr_tensor *pre, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear_dgrad(dx, dy, w, pre, act);

    multiply(q, (struct tr_cuda_dense){.m = s.n,
                                       .n = s.i,
                                       .k = s.o,
                                       .a = factor(dy, s.o, false),
                                       .b = factor(w, s.i, false),
                                       .finish = {.c = dx, .slope_of = pre, .act = act}});
}

/*
 * The bias's gradient in the same call of cuBLASLt, which saves reading dy once more.  It overwrites, so what is
 * to be added goes through scratch; not in halves, which would be rounded twice.  False, and nothing was queued:
 * cuBLASLt does not serve that.
 */
static bool with_bias(struct tr_queue *q, struct tr_cuda_dense d, const struct tr_tensor *dbias)
{
    const size_t bytes = padded((size_t)tr_tensor_bytes(dbias));
    char *scratch = tr_cuda_scratch(q, TR_CUDA_SCRATCH_BYTES);
    struct tr_tensor sums = *dbias;

    if (d.finish.add) {
        if (dbias->dtype != TR_F32 || bytes > TR_CUDA_SCRATCH_BYTES)
            return false;
        sums.data = scratch;
        d.spare = scratch + bytes;
        d.spare_bytes = TR_CUDA_SCRATCH_BYTES - bytes;
    }
    d.finish.rows = &sums;
    if (!tr_cuda_matmul(q, &d))
        return false;
    if (d.finish.add)
        tr_cuda_add(q, dbias, &sums);
    return true;
}

void tr_cuda_linear_wgrad(struct tr_queue *q, const struct tr_tensor *dw,
                          const struct tr_tensor *dbias, const struct tr_tensor *dy,
                          const struct tr_tensor *x, bool add)
{
    struct tr_linear_sizes s = tr_sizes_linear_wgrad(dw, dbias, dy, x);
    const struct tr_cuda_dense d = {.m = s.o,
                                    .n = s.i,
                                    .k = s.n,
                                    .a = factor(dy, s.o, true),
                                    .b = factor(x, s.i, false),
                                    .finish = {.c = dw, .add = add}};

    if (dbias && with_bias(q, d, dbias))
        return;
    multiply(q, d);
    if (dbias)
        tr_cuda_column_sums(q, dbias, dy, add);
}
