/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model.h"

void tr_model_plan(struct tr_model *m, struct tr_arena *a)
{
    const struct tr_shape *s = m->shape;
    int64_t rows = s->micro_batch * s->seq, hidden = s->hidden;
    int64_t inner = s->ffn / s->w, local = s->hidden / s->w;
    int32_t *position;

    m->row = tr_f32_2(tr_arena_floats(a, "scratch", rows * hidden), rows, hidden);
    m->row2 = tr_f32_2(tr_arena_floats(a, "scratch", rows * hidden), rows, hidden);
    m->wide = tr_f32_2(tr_arena_floats(a, "scratch", rows * inner), rows, inner);
    m->dqkv = tr_f32_2(tr_arena_floats(a, "scratch", rows * 3 * local), rows, 3 * local);
    m->dctx = tr_f32_2(tr_arena_floats(a, "scratch", rows * local), rows, local);
    position = tr_arena_take(a, "scratch", (size_t)rows * sizeof *position);
    m->position = tr_i32_1(position, rows);
    for (int64_t n = 0; position && n < rows; n++)
        position[n] = (int32_t)(n % s->seq);
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
        .tokens = m->shape->seq,
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
