/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "model/model_parts.h"
#include "tp/tp.h"

/* Words, projected to the hidden size where the embedding is narrower, scaled, with positions, a norm and
   dropout: what of it the family has. */

static bool projected(const struct tr_model *m)
{
    return m->dims->embed != m->dims->hidden;
}

void tr_embed_plan(struct tr_model *m, struct tr_arena *a, struct tr_embed_kept *k)
{
    int64_t rows = m->micro_batch * m->tokens, part = tr_model_part_rows(m);

    k->ids = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)rows * sizeof(int32_t)), rows);
    if (projected(m))
        k->words = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, m->dims->embed);
    if (m->dims->family.embed_norm) {
        tr_block_plan_row(m, a, &k->sum);
        tr_norm_plan(m, a, &k->norm, false);
    }
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

/* The learned table from the row of position 0 on. */
static struct tr_tensor from_first(const struct tr_model *m, struct tr_tensor table)
{
    const int64_t skip = m->dims->family.position_offset, h = table.dim[1];
    struct tr_tensor rest = tr_tensor_span(&table, skip * h, (table.dim[0] - skip) * h);

    return tr_tensor_2(rest.data, table.dtype, table.dim[0] - skip, h);
}

static float scale_of(const struct tr_model *m)
{
    return (float)sqrt((double)m->dims->hidden);
}

/* The words of the rows of this rank, as wide as the stream. */
static const struct tr_tensor *words_forward(struct tr_model *m, struct tr_embed_kept *k)
{
    struct tr_tensor words = tr_model_value(m, TR_PARAM_WORD_EMBED, -1), project;
    struct tr_tensor all = tr_model_as_wide(&m->row, m->dims->embed);
    struct tr_tensor part = tr_model_part(m, &all);
    struct tr_queue *q = m->q;

    q->on->embed(q, &all, &k->ids, &words, first_word(m));
    tr_tp_leave_fwd(&m->tp, q, &part, &all);
    if (!projected(m))
        return &m->row_part;
    project = tr_model_value(m, TR_PARAM_PROJECT_IN, -1);
    q->on->copy(q, &k->words, &part);
    q->on->linear(q, &m->row2_part, NULL, &k->words, &project, NULL, TR_ACT_NONE);
    return &m->row2_part;
}

static void add_positions(struct tr_model *m, const struct tr_tensor *y)
{
    struct tr_tensor positions = positions_of(m), table;

    if (m->dims->family.positions == TR_POSITIONS_LEARNED)
        table = from_first(m, tr_model_value(m, TR_PARAM_POS_EMBED, -1));
    else if (m->sines.data)
        table = m->sines;
    else
        return;
    m->q->on->add_rows(m->q, y, &positions, &table);
}

void tr_embed_forward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *y,
                      const int64_t *sample)
{
    const struct tr_family *f = &m->dims->family;
    const struct tr_tensor *sum = f->embed_norm ? &k->sum : y;
    struct tr_queue *q = m->q;

    q->on->copy(q, sum, words_forward(m, k));
    if (f->scale_embedding)
        q->on->scale(q, sum, scale_of(m));
    add_positions(m, sum);
    if (f->embed_norm)
        tr_norm_forward(m, &k->norm, f->encoder ? &m->row2_part : y, sum, TR_PARAM_EMBED_GAIN,
                        TR_PARAM_EMBED_BIAS, -1);
    if (f->encoder)
        tr_conv_mask(m, y, &m->row2_part);
    q->on->dropout(q, y, tr_model_dropout(m, TR_STREAM_EMBED_DROPOUT, 0, sample));
}

/* From the gradient of the rows of this rank to that of the table of words. */
static void words_backward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *dy)
{
    struct tr_tensor words = tr_model_grad(m, TR_PARAM_WORD_EMBED, -1);
    struct tr_tensor all = tr_model_as_wide(&m->row, m->dims->embed);
    struct tr_tensor part = tr_model_part(m, &all);
    struct tr_queue *q = m->q;

    if (projected(m)) {
        struct tr_tensor project = tr_model_value(m, TR_PARAM_PROJECT_IN, -1);
        struct tr_tensor dproject = tr_model_grad(m, TR_PARAM_PROJECT_IN, -1);

        q->on->copy(q, &m->row2_part, dy);
        q->on->linear_dgrad(q, &part, &m->row2_part, &project, NULL, TR_ACT_NONE);
        q->on->linear_wgrad(q, &dproject, NULL, &m->row2_part, &k->words, m->adds);
    } else {
        q->on->copy(q, &part, dy);
    }
    tr_tp_leave_bwd(&m->tp, q, &all, &part);
    q->on->embed_bwd(q, &words, &all, &k->ids, first_word(m));
}

void tr_embed_backward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *dy,
                       const int64_t *sample)
{
    const struct tr_family *f = &m->dims->family;
    const struct tr_tensor *d = f->embed_norm ? &m->between : dy;
    struct tr_tensor positions = positions_of(m), table;
    struct tr_queue *q = m->q;

    q->on->dropout(q, dy, tr_model_dropout(m, TR_STREAM_EMBED_DROPOUT, 0, sample));
    if (f->encoder)
        tr_conv_mask(m, &m->row2_part, dy);
    if (f->embed_norm)
        tr_norm_backward(m, &k->norm, d, f->encoder ? &m->row2_part : dy, NULL, &k->sum,
                         TR_PARAM_EMBED_GAIN, TR_PARAM_EMBED_BIAS, -1);
    if (f->positions == TR_POSITIONS_LEARNED) {
        table = from_first(m, tr_model_grad(m, TR_PARAM_POS_EMBED, -1));
        q->on->embed_bwd(q, &table, d, &positions, 0);
    }
    if (f->scale_embedding)
        q->on->scale(q, d, scale_of(m));
    words_backward(m, k, d);
}
