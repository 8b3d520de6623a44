/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"

/*
 * A product of rows side by side: column c T + i of row t is column c of row t + i - (T - 1) / 2 of the same sample, or
 * zero where that is outside of it.  So the matrix is [H,T H], [H,H,T] as others have it.
 */

bool tr_conv_is(const struct tr_model *m, int layer)
{
    return m->dims->family.convolution > 0 && layer == 0;
}

int64_t tr_conv_taps(const struct tr_dims *d)
{
    return d->family.convolution > 0 ? d->family.convolution : 1;
}

void tr_conv_rows(const struct tr_dims *d, const int32_t *lengths, int64_t batch, int64_t tokens,
                  int32_t *taps)
{
    const int64_t count = tr_conv_taps(d);

    for (int64_t i = 0; i < count; i++)
        for (int64_t n = 0; n < batch * tokens; n++) {
            const int64_t t = n % tokens + i - (count - 1) / 2;
            const bool real = t >= 0 && t < lengths[n / tokens];

            taps[i * batch * tokens + n] = real ? (int32_t)(n / tokens * tokens + t) : -1;
        }
}

/* The rows of one tap. */
static struct tr_tensor tap(const struct tr_model *m, int64_t i)
{
    const int64_t rows = tr_model_rows(m);

    return tr_tensor_span(&m->mask->taps, i * rows, rows);
}

struct tr_tensor tr_conv_real(const struct tr_model *m)
{
    return tap(m, (tr_conv_taps(m->dims) - 1) / 2);
}

void tr_conv_mask(struct tr_model *m, const struct tr_tensor *y, const struct tr_tensor *x)
{
    const struct tr_tensor real = tr_conv_real(m);

    m->q->on->embed(m->q, y, &real, x, 0);
}

static struct tr_tensor take(struct tr_model *m, struct tr_arena *a, enum tr_label label)
{
    return tr_model_take(a, label, m->type, tr_model_rows(m), m->dims->hidden);
}

void tr_conv_plan(struct tr_model *m, struct tr_arena *a, struct tr_conv_kept *k)
{
    k->before = take(m, a, TR_LABEL_ACTIVATIONS);
    k->sum = take(m, a, TR_LABEL_ACTIVATIONS);
    tr_norm_plan(m, a, &k->norm, false);
}

void tr_conv_plan_scratch(struct tr_model *m, struct tr_arena *a)
{
    m->columns = tr_model_take(a, TR_LABEL_SCRATCH, m->type, tr_model_rows(m),
                               m->dims->family.convolution * m->dims->hidden);
    if (!m->forward_only)
        m->conv_dx = take(m, a, TR_LABEL_SCRATCH);
}

/* The numbers of rows [N,width] one below the other. */
static struct tr_tensor below(const struct tr_tensor *x, int64_t width)
{
    return tr_tensor_2(x->data, x->dtype, tr_tensor_elems(x) / width, width);
}

/* m->columns of e. */
static void spread(struct tr_model *m, const struct tr_tensor *e)
{
    const int64_t taps = m->dims->family.convolution;
    const struct tr_tensor to = below(&m->columns, taps), from = below(&m->row, 1);

    for (int64_t i = 0; i < taps; i++) {
        const struct tr_tensor rows = tap(m, i);

        m->q->on->embed(m->q, &m->row, &rows, e, 0);
        m->q->on->columns(m->q, &to, &from, i, 0, 1);
    }
}

static struct tr_dropout dropout_of(const struct tr_model *m, const int64_t *sample)
{
    return tr_model_dropout(m, TR_STREAM_CONV_DROPOUT, 0, sample);
}

void tr_conv_forward(struct tr_model *m, struct tr_conv_kept *k, const struct tr_tensor *e,
                     const struct tr_tensor *y, const int64_t *sample)
{
    struct tr_tensor w = tr_model_value(m, TR_PARAM_CONV_WEIGHT, -1);
    struct tr_tensor bias = tr_model_value(m, TR_PARAM_CONV_BIAS, -1);
    const struct tr_dropout none = {.p = 0.0};
    struct tr_queue *q = m->q;

    spread(m, e);
    q->on->linear(q, &k->before, NULL, &m->columns, &w, &bias, TR_ACT_NONE);
    q->on->dropout(q, &k->before, dropout_of(m, sample));
    q->on->activate(q, &m->row, &k->before, TR_ACT_GELU);
    q->on->residual(q, &k->sum, y, &m->row, NULL, none);
    tr_norm_forward(m, &k->norm, &m->row, &k->sum, TR_PARAM_CONV_GAIN, TR_PARAM_CONV_SHIFT, -1);
    tr_conv_mask(m, y, &m->row);
}

/* From m->columns, the gradient of what spread() made, to m->conv_dx. */
static void gather(struct tr_model *m)
{
    const int64_t taps = m->dims->family.convolution;
    const struct tr_tensor from = below(&m->columns, taps), to = below(&m->row, 1);

    m->q->on->fill(m->q, &m->conv_dx, 0.0F);
    for (int64_t i = 0; i < taps; i++) {
        const struct tr_tensor rows = tap(m, i);

        m->q->on->columns(m->q, &to, &from, 0, i, 1);
        m->q->on->embed_bwd(m->q, &m->conv_dx, &m->row, &rows, 0);
    }
}

void tr_conv_backward(struct tr_model *m, struct tr_conv_kept *k, const struct tr_tensor *e,
                      const struct tr_tensor *dy, const int64_t *sample)
{
    struct tr_tensor w = tr_model_value(m, TR_PARAM_CONV_WEIGHT, -1);
    struct tr_tensor dw = tr_model_grad(m, TR_PARAM_CONV_WEIGHT, -1);
    struct tr_tensor dbias = tr_model_grad(m, TR_PARAM_CONV_BIAS, -1);
    struct tr_queue *q = m->q;

    /* It is zero there but for what the compression of messages leaves. */
    tr_conv_mask(m, &m->row2, dy);
    tr_norm_backward(m, &k->norm, dy, &m->row2, NULL, &k->sum, TR_PARAM_CONV_GAIN,
                     TR_PARAM_CONV_SHIFT, -1);
    q->on->activate_bwd(q, &m->row2, dy, &k->before, TR_ACT_GELU);
    q->on->dropout(q, &m->row2, dropout_of(m, sample));
    spread(m, e);
    q->on->linear_wgrad(q, &dw, &dbias, &m->row2, &m->columns, m->adds);
    q->on->linear_dgrad(q, &m->columns, &m->row2, &w, NULL, TR_ACT_NONE);
    gather(m);
}

void tr_conv_add(struct tr_model *m, const struct tr_tensor *de)
{
    m->q->on->add(m->q, de, &m->conv_dx);
}
