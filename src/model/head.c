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
    k->norm = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, part, hidden);
    k->mean = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, part), part);
    k->rstd = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, part), part);
    k->labels = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)n * sizeof(int32_t)), n);
    k->max = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
    k->stats = tr_f32_2(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, 2 * n), 2, n);
}

static void make_logits(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k)
{
    struct tr_tensor words = tr_model_value(m, TR_PARAM_WORD_EMBED, -1);

    m->q->on->linear(m->q, &h->logits, NULL, tr_model_whole(m, &k->norm), &words, NULL,
                     TR_ACT_NONE);
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

void tr_head_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_tensor *loss_sum)
{
    const struct tr_param *word = tr_param_find(&m->params, TR_PARAM_WORD_EMBED, -1);
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_FINAL_GAIN, -1);
    struct tr_tensor shift = tr_model_value(m, TR_PARAM_FINAL_BIAS, -1);
    struct tr_queue *q = m->q;

    q->on->layernorm(q, &k->norm, &k->mean, &k->rstd, &k->x, &gain, &shift, m->eps);
    make_logits(m, h, k);
    q->on->xent_max(q, &k->max, &h->logits, word->real);
    tr_tp_max(&m->tp, q, &k->max);
    q->on->xent_sum(q, &k->stats, &h->logits, &k->max, &k->labels, word->first, word->real);
    tr_tp_sum(&m->tp, q, &k->stats);
    q->on->xent_loss(q, &h->loss, &k->stats);
    tr_head_weigh(m, h, 1.0);
    q->on->weighted_sum(q, loss_sum, &h->loss, &h->weight);
}

void tr_head_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                      const struct tr_tensor *dx)
{
    const struct tr_param *word = tr_param_find(&m->params, TR_PARAM_WORD_EMBED, -1);
    struct tr_tensor words = tr_param_value(&m->params, word);
    struct tr_tensor dwords = tr_param_grad(&m->params, word);
    struct tr_tensor gain = tr_model_value(m, TR_PARAM_FINAL_GAIN, -1);
    struct tr_tensor dgain = tr_model_grad(m, TR_PARAM_FINAL_GAIN, -1);
    struct tr_tensor dshift = tr_model_grad(m, TR_PARAM_FINAL_BIAS, -1);
    const struct tr_tensor *normed;
    struct tr_pending gather, sum;
    struct tr_queue *q = m->q;

    if (h->logits_of != k)
        make_logits(m, h, k);
    q->on->xent_bwd(q, &h->logits, &k->max, &k->stats, &k->labels, &h->weight, word->first,
                    word->real);
    normed = tr_model_whole_start(m, &k->norm, &gather);
    q->on->linear_dgrad(q, &m->row2, &h->logits, &words, NULL, TR_ACT_NONE);
    tr_tp_finish(&m->tp, q, &gather);
    tr_tp_enter_bwd_start(&m->tp, q, &m->row2_part, &m->row2, &sum);
    q->on->linear_wgrad(q, &dwords, NULL, &h->logits, normed, m->adds);
    tr_tp_finish(&m->tp, q, &sum);
    q->on->layernorm_bwd(q, dx, &dgain, &dshift, &m->row2_part, NULL, &k->x, &gain, &k->mean,
                         &k->rstd);
}
