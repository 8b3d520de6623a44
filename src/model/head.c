/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"
#include "tp/tp.h"

void tr_head_plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h)
{
    int64_t n = tr_model_rows(m), width = m->dims->vocab_padded / m->layout->w;

    h->logits = tr_model_take(a, TR_LABEL_LOGITS, m->type, n, width);
    h->loss = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    h->weight = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    h->logits_of = NULL;
}

void tr_head_plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k)
{
    int64_t n = tr_model_rows(m), part = tr_model_part_rows(m), hidden = m->dims->hidden;

    k->x = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, part, hidden);
    if (m->dims->family.final_norm)
        tr_norm_plan(m, a, &k->norm, true);
    else
        k->norm.y = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, hidden);
    if (m->dims->embed != hidden)
        k->projected = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, m->dims->embed);
    k->labels = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)n * sizeof(int32_t)), n);
    k->max = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
    k->stats = tr_f32_2(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, 2 * n), 2, n);
}

/* The matrix that makes logits, and its bias: the word embedding's where they are tied. */
static const struct tr_param *output_matrix(const struct tr_model *m)
{
    return tr_param_find(&m->params,
                         m->dims->family.tied ? TR_PARAM_WORD_EMBED : TR_PARAM_HEAD_WEIGHT, -1);
}

/* What the matrix multiplies. */
static const struct tr_tensor *input_of(const struct tr_head_kept *k)
{
    return k->projected.data ? &k->projected : &k->norm.y;
}

static void make_logits(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k)
{
    struct tr_tensor words = tr_param_value(&m->params, output_matrix(m)), bias;

    m->q->on->linear(m->q, &h->logits, NULL, tr_model_whole(m, input_of(k)), &words,
                     tr_model_bias(m, &bias, TR_PARAM_HEAD_BIAS, -1), TR_ACT_NONE);
}

void tr_head_weigh(struct tr_model *m, struct tr_head *h, double factor)
{
    struct tr_queue *q = m->q;

    if (!m->mask->weight.data) {
        q->on->fill(q, &h->weight, (float)(factor / (double)tr_model_rows(m)));
        return;
    }
    q->on->copy(q, &h->weight, &m->mask->weight);
    q->on->scale(q, &h->weight, (float)factor);
}

/* The last norm, and the projection to the width of the embedding: what of it the family has. */
static void prepare(struct tr_model *m, struct tr_head_kept *k)
{
    struct tr_tensor project;

    if (m->dims->family.final_norm)
        tr_norm_forward(m, &k->norm, &k->norm.y, &k->x, TR_PARAM_FINAL_GAIN, TR_PARAM_FINAL_BIAS,
                        -1);
    else
        m->q->on->copy(m->q, &k->norm.y, &k->x);
    if (!k->projected.data)
        return;
    project = tr_model_value(m, TR_PARAM_PROJECT_OUT, -1);
    m->q->on->linear(m->q, &k->projected, NULL, &k->norm.y, &project, NULL, TR_ACT_NONE);
}

void tr_head_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_tensor *loss_sum)
{
    const struct tr_param *word = output_matrix(m);
    struct tr_queue *q = m->q;

    prepare(m, k);
    make_logits(m, h, k);
    q->on->xent_max(q, &k->max, &h->logits, word->real);
    tr_tp_max(&m->tp, q, &k->max);
    q->on->xent_sum(q, &k->stats, &h->logits, &k->max, &k->labels, word->first, word->real);
    tr_tp_sum(&m->tp, q, &k->stats);
    q->on->xent_loss(q, &h->loss, &k->stats);
    tr_head_weigh(m, h, 1.0);
    q->on->weighted_sum(q, loss_sum, &h->loss, &h->weight);
}

/* From the gradient of input_of(), in `part`, to dx. */
static void prepare_backward(struct tr_model *m, struct tr_head_kept *k, const struct tr_tensor *dx,
                             const struct tr_tensor *part)
{
    const struct tr_tensor *dnorm = part;
    struct tr_queue *q = m->q;

    if (k->projected.data) {
        struct tr_tensor project = tr_model_value(m, TR_PARAM_PROJECT_OUT, -1);
        struct tr_tensor dproject = tr_model_grad(m, TR_PARAM_PROJECT_OUT, -1);

        q->on->linear_dgrad(q, &m->row_part, part, &project, NULL, TR_ACT_NONE);
        q->on->linear_wgrad(q, &dproject, NULL, part, &k->norm.y, m->adds);
        dnorm = &m->row_part;
    }
    if (m->dims->family.final_norm)
        tr_norm_backward(m, &k->norm, dx, dnorm, NULL, &k->x, TR_PARAM_FINAL_GAIN,
                         TR_PARAM_FINAL_BIAS, -1);
    else
        q->on->copy(q, dx, dnorm);
}

void tr_head_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                      const struct tr_tensor *dx)
{
    const struct tr_param *word = output_matrix(m);
    struct tr_tensor words = tr_param_value(&m->params, word);
    struct tr_tensor dwords = tr_param_grad(&m->params, word), dbias;
    struct tr_tensor whole = tr_model_as_wide(&m->row2, m->dims->embed);
    struct tr_tensor part = tr_model_part(m, &whole);
    const struct tr_tensor *in;
    struct tr_pending gather, sum;
    struct tr_queue *q = m->q;

    if (h->logits_of != k)
        make_logits(m, h, k);
    q->on->xent_bwd(q, &h->logits, &k->max, &k->stats, &k->labels, &h->weight, word->first,
                    word->real);
    in = tr_model_whole_start(m, input_of(k), &gather);
    q->on->linear_dgrad(q, &whole, &h->logits, &words, NULL, TR_ACT_NONE);
    tr_tp_finish(&m->tp, q, &gather);
    tr_tp_enter_bwd_start(&m->tp, q, &part, &whole, &sum);
    q->on->linear_wgrad(q, &dwords, tr_model_dbias(m, &dbias, TR_PARAM_HEAD_BIAS, -1), &h->logits,
                        in, m->adds);
    tr_tp_finish(&m->tp, q, &sum);
    prepare_backward(m, k, dx, &part);
}
