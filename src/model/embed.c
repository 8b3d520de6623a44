/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"
#include "tp/tp.h"

void tr_embed_plan(struct tr_model *m, struct tr_arena *a, struct tr_embed_kept *k)
{
    int64_t rows = m->micro_batch * m->dims->seq;

    k->ids = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)rows * sizeof(int32_t)), rows);
}

/* First row of the vocabulary that this rank holds. */
static int64_t first_word(const struct tr_model *m)
{
    return tr_param_find(&m->params, TR_PARAM_WORD_EMBED, -1)->first;
}

/* The positions of the rows of this rank. */
static struct tr_tensor positions_of(const struct tr_model *m)
{
    const struct tr_tensor *all = m->mask->position.data ? &m->mask->position : &m->position;

    return tr_tensor_span(all, tr_model_first_row(m), tr_model_part_rows(m));
}

void tr_embed_forward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *y,
                      const int64_t *sample)
{
    struct tr_tensor words = tr_model_value(m, TR_PARAM_WORD_EMBED, -1);
    struct tr_tensor table = tr_model_value(m, TR_PARAM_POS_EMBED, -1);
    struct tr_tensor positions = positions_of(m);
    struct tr_queue *q = m->q;

    q->on->embed(q, &m->row, &k->ids, &words, first_word(m));
    tr_tp_leave_fwd(&m->tp, q, &m->row_part, &m->row);
    q->on->copy(q, y, &m->row_part);
    q->on->add_rows(q, y, &positions, &table);
    q->on->dropout(q, y, tr_model_dropout(m, TR_STREAM_EMBED_DROPOUT, 0, sample));
}

void tr_embed_backward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *dy,
                       const int64_t *sample)
{
    struct tr_tensor words = tr_model_grad(m, TR_PARAM_WORD_EMBED, -1);
    struct tr_tensor table = tr_model_grad(m, TR_PARAM_POS_EMBED, -1);
    struct tr_tensor positions = positions_of(m);
    struct tr_queue *q = m->q;

    q->on->dropout(q, dy, tr_model_dropout(m, TR_STREAM_EMBED_DROPOUT, 0, sample));
    q->on->embed_bwd(q, &table, dy, &positions, 0);
    q->on->copy(q, &m->row_part, dy);
    tr_tp_leave_bwd(&m->tp, q, &m->row, &m->row_part);
    q->on->embed_bwd(q, &words, &m->row, &k->ids, first_word(m));
}
