/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model.h"

int64_t tr_model_rows(const struct tr_model *m)
{
    return m->micro_batch * m->tokens;
}

int64_t tr_model_part_rows(const struct tr_model *m)
{
    return tr_tp_rows(&m->tp, tr_model_rows(m));
}

int64_t tr_model_first_row(const struct tr_model *m)
{
    return tr_tp_first_row(&m->tp, tr_model_rows(m));
}

int64_t tr_model_scored_rows(const struct tr_model *m)
{
    return m->picks ? m->micro_batch : tr_model_rows(m);
}

struct tr_tensor tr_model_take(struct tr_arena *a, enum tr_label label, enum tr_dtype type,
                               int64_t rows, int64_t width)
{
    size_t bytes = (size_t)(rows * width * tr_dtype_bytes(type));

    return tr_tensor_2(tr_arena_take(a, label, bytes), type, rows, width);
}

int64_t tr_model_groups(const struct tr_model *m)
{
    const int64_t groups = m->dims->groups / m->layout->w;

    return groups > 0 ? groups : 1;
}

int64_t tr_model_qkv_width(const struct tr_model *m)
{
    return (m->dims->heads / m->layout->w + 2 * tr_model_groups(m)) * m->dims->head_dim;
}

int64_t tr_model_gathered_width(const struct tr_model *m)
{
    const struct tr_dims *d = m->dims;

    return m->layout->w > d->groups ? (d->heads + 2 * d->groups) * d->head_dim : 0;
}

int64_t tr_model_mlp_width(const struct tr_model *m)
{
    return m->dims->ffn / m->layout->w * (tr_act_gated(m->dims->family.act) ? 2 : 1);
}

struct tr_tensor tr_model_as_wide(const struct tr_tensor *x, int64_t width)
{
    const struct tr_tensor start = tr_tensor_span(x, 0, x->dim[0] * width);

    return tr_tensor_2(start.data, x->dtype, x->dim[0], width);
}

struct tr_tensor tr_model_part(const struct tr_model *m, const struct tr_tensor *x)
{
    int64_t rows = tr_model_part_rows(m), width = x->dim[1];
    struct tr_tensor part = tr_tensor_span(x, tr_model_first_row(m) * width, rows * width);

    return tr_tensor_2(part.data, x->dtype, rows, width);
}

const struct tr_tensor *tr_model_whole(struct tr_model *m, const struct tr_tensor *part)
{
    if (!m->tp.sequence)
        return part;
    m->gathered_rows = tr_model_as_wide(&m->whole, part->dim[1]);
    tr_tp_enter_fwd(&m->tp, m->q, &m->gathered_rows, part);
    return &m->gathered_rows;
}

const struct tr_tensor *tr_model_whole_start(struct tr_model *m, const struct tr_tensor *part,
                                             struct tr_pending *p)
{
    *p = (struct tr_pending){.call = NULL};
    if (!m->tp.sequence)
        return part;
    m->gathered_rows = tr_model_as_wide(&m->whole, part->dim[1]);
    tr_tp_enter_fwd_start(&m->tp, m->q, &m->gathered_rows, part, p);
    return &m->gathered_rows;
}

bool tr_model_sums(const struct tr_model *m, const struct tr_region *r)
{
    return r->by_heads || (m->tp.sequence && r->alike);
}

/* The gradients that are summed over tensor ranks, of the elements `held`, which lie from `at` on in `grads`:
   between there and one vector, from its element `to` on.  Returns where that ends. */
static int64_t copy_summed(struct tr_model *m, const struct tr_bucket *held,
                           const struct tr_tensor *grads, int64_t at, int64_t to, bool back)
{
    const struct tr_params *ps = &m->params;
    const int64_t end = held->first + held->count;

    for (int i = tr_regions_from(ps, held->first); i < ps->regions && ps->region[i].first < end;
         i++) {
        const struct tr_region *r = &ps->region[i];
        const int64_t lo = r->first > held->first ? r->first : held->first;
        const int64_t hi = r->first + r->count < end ? r->first + r->count : end;
        struct tr_tensor flat, packed;

        if (!tr_model_sums(m, r))
            continue;
        flat = tr_tensor_span(grads, at + lo - held->first, hi - lo);
        packed = tr_tensor_span(&m->shared, to, hi - lo);
        if (back)
            m->q->on->copy(m->q, &flat, &packed);
        else
            m->q->on->copy(m->q, &packed, &flat);
        to += hi - lo;
    }
    return to;
}

static int64_t copy_all_summed(struct tr_model *m, const struct tr_bucket *held, int n,
                               const struct tr_tensor *grads, bool back)
{
    int64_t at = 0, to = 0;

    for (int i = 0; i < n; at += held[i++].count)
        to = copy_summed(m, &held[i], grads, at, to, back);
    return to;
}

void tr_model_sum_parts(struct tr_model *m, const struct tr_bucket *held, int n,
                        const struct tr_tensor *grads)
{
    struct tr_tensor summed;
    int64_t elems;

    if (!m->shared.data)
        return;
    elems = copy_all_summed(m, held, n, grads, false);
    if (elems == 0)
        return;
    summed = tr_tensor_span(&m->shared, 0, elems);
    tr_tp_sum(&m->tp, m->q, &summed);
    copy_all_summed(m, held, n, grads, true);
}

struct tr_dropout tr_model_dropout(const struct tr_model *m, enum tr_stream stream, int site,
                                   const int64_t *sample)
{
    double p = stream == TR_STREAM_ATTN_DROPOUT ? m->attention_dropout : m->hidden_dropout;

    return (struct tr_dropout){
        .p = m->training ? p : 0.0,
        .seed = m->seed,
        .stream = stream,
        .site = site,
        .sample = sample,
        .tokens = m->tokens,
        .first_row = stream == TR_STREAM_ATTN_DROPOUT ? 0 : tr_model_first_row(m),
    };
}

static const struct tr_param *need(const struct tr_model *m, enum tr_param_row row, int layer)
{
    const struct tr_param *p = tr_param_find(&m->params, row, layer);

    TR_ASSERT(p);
    return p;
}

struct tr_tensor tr_model_value(const struct tr_model *m, enum tr_param_row row, int layer)
{
    return tr_param_value(&m->params, need(m, row, layer));
}

struct tr_tensor tr_model_grad(const struct tr_model *m, enum tr_param_row row, int layer)
{
    return tr_param_grad(&m->params, need(m, row, layer));
}

const struct tr_tensor *tr_model_bias(const struct tr_model *m, struct tr_tensor *to,
                                      enum tr_param_row row, int layer)
{
    const struct tr_param *p = tr_param_find(&m->params, row, layer);

    if (!p)
        return NULL;
    *to = tr_param_value(&m->params, p);
    return to;
}

const struct tr_tensor *tr_model_dbias(const struct tr_model *m, struct tr_tensor *to,
                                       enum tr_param_row row, int layer)
{
    const struct tr_param *p = tr_param_find(&m->params, row, layer);

    if (!p)
        return NULL;
    *to = tr_param_grad(&m->params, p);
    return to;
}
