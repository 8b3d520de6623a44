/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequence classification: logits of the class of each sample, from one of its tokens.  Without a pooler that is the last
 * one, which is the first to have seen all; with it (BERT's; Devlin et al. 2019) the first one.
 *
 * It is little work, so tensor ranks do all of it.  With sequence parallelism the row of a sample lies on one of
 * them: all get it by a sum, and in backward the loss of a sample has its weight where its row is and 0 elsewhere.
 * Then the gradients of the parameters are, as those of norms, sums over the rows of a rank (tr_model_sum_parts()).
 */
#include "model/model_parts.h"
#include "tp/tp.h"

static bool pools(const struct tr_model *m)
{
    return m->dims->family.pooler;
}

static void plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h)
{
    const int64_t n = m->micro_batch, hidden = m->dims->hidden;

    h->logits = tr_model_take(a, TR_LABEL_LOGITS, m->type, n, m->dims->classes);
    h->loss = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    h->weight = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    for (int i = 0; i < 2; i++)
        h->rows[i] = tr_model_take(a, TR_LABEL_LOGITS, m->type, n, hidden);
    h->dpicked = tr_model_take(a, TR_LABEL_LOGITS, m->stream, n, hidden);
    h->logits_of = NULL;
}

static struct tr_tensor ints(struct tr_arena *a, int64_t n)
{
    return tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)n * sizeof(int32_t)), n);
}

static void plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k)
{
    const int64_t n = m->micro_batch, hidden = m->dims->hidden;

    k->x = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, tr_model_part_rows(m), hidden);
    k->picked = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, n, hidden);
    if (m->dims->family.final_norm)
        tr_norm_plan_rows(m, a, &k->norm, n, true);
    else
        k->norm.y = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, n, hidden);
    if (m->dims->embed != hidden)
        k->projected = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, n, m->dims->embed);
    if (pools(m)) {
        k->pre = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, n, hidden);
        k->pooled = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, n, hidden);
    }
    k->at = ints(a, n);
    k->labels = ints(a, n);
    k->share = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
    k->max = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
    k->stats = tr_f32_2(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, 2 * n), 2, n);
}

void tr_head_places(const struct tr_model *m, const int32_t *lengths, int32_t *at, float *share)
{
    const int64_t first = tr_model_first_row(m), end = first + tr_model_part_rows(m);

    for (int64_t b = 0; b < m->micro_batch; b++) {
        const int64_t row = b * m->tokens + (pools(m) ? 0 : lengths[b] - 1);

        at[b] = (int32_t)row;
        share[b] = row >= first && row < end ? (float)(1.0 / (double)m->micro_batch) : 0.0F;
    }
}

static struct tr_dropout dropout_of(const struct tr_model *m, const int64_t *sample)
{
    struct tr_dropout drop = tr_model_dropout(m, TR_STREAM_POOL_DROPOUT, 0, sample);

    drop.tokens = 1;
    drop.first_row = 0;
    return drop;
}

/* What the matrix of the classes multiplies. */
static const struct tr_tensor *input_of(const struct tr_head_kept *k)
{
    return k->pooled.data ? &k->pooled : k->projected.data ? &k->projected : &k->norm.y;
}

static void make_logits(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k)
{
    struct tr_tensor w = tr_model_value(m, TR_PARAM_CLASS_WEIGHT, -1), bias;

    m->q->on->linear(m->q, &h->logits, NULL, input_of(k), &w,
                     tr_model_bias(m, &bias, TR_PARAM_CLASS_BIAS, -1), TR_ACT_NONE);
}

static void pick(struct tr_model *m, struct tr_head_kept *k)
{
    struct tr_queue *q = m->q;

    q->on->embed(q, &k->picked, &k->at, &k->x, tr_model_first_row(m));
    if (m->tp.sequence)
        tr_tp_sum(&m->tp, q, &k->picked);
    if (m->dims->family.final_norm)
        tr_norm_forward(m, &k->norm, &k->norm.y, &k->picked, TR_PARAM_FINAL_GAIN,
                        TR_PARAM_FINAL_BIAS, -1);
    else
        q->on->copy(q, &k->norm.y, &k->picked);
}

static void forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                    const struct tr_wanted *wanted, const int64_t *sample,
                    const struct tr_tensor *loss_sum)
{
    const struct tr_dropout drop = dropout_of(m, sample);
    struct tr_queue *q = m->q;
    struct tr_tensor w, bias;

    (void)wanted;
    pick(m, k);
    if (k->projected.data) {
        w = tr_model_value(m, TR_PARAM_PROJECT_OUT, -1);
        q->on->linear(q, &k->projected, NULL, &k->norm.y, &w, NULL, TR_ACT_NONE);
    }
    if (pools(m)) {
        w = tr_model_value(m, TR_PARAM_POOLER_WEIGHT, -1);
        q->on->linear(q, &k->pooled, &k->pre, &k->norm.y, &w,
                      tr_model_bias(m, &bias, TR_PARAM_POOLER_BIAS, -1), TR_ACT_GELU);
        if (drop.p > 0.0)
            q->on->dropout(q, &k->pooled, drop);
    }
    make_logits(m, h, k);
    q->on->xent_max(q, &k->max, &h->logits, m->dims->classes);
    q->on->xent_sum(q, &k->stats, &h->logits, &k->max, &k->labels, 0, m->dims->classes);
    q->on->xent_loss(q, &h->loss, &k->stats);
    q->on->fill(q, &h->weight, (float)(1.0 / (double)m->micro_batch));
    q->on->weighted_sum(q, loss_sum, &h->loss, &h->weight);
}

static void weigh(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k,
                  double factor)
{
    m->q->on->copy(m->q, &h->weight, &k->share);
    m->q->on->scale(m->q, &h->weight, (float)factor);
}

/* From the gradient of the logits to that of input_of(), and on through the pooler, or the projection. */
static const struct tr_tensor *matrices_backward(struct tr_model *m, struct tr_head *h,
                                                 struct tr_head_kept *k, const int64_t *sample)
{
    const struct tr_dropout drop = dropout_of(m, sample);
    struct tr_tensor w = tr_model_value(m, TR_PARAM_CLASS_WEIGHT, -1);
    struct tr_tensor dw = tr_model_grad(m, TR_PARAM_CLASS_WEIGHT, -1), dbias;
    struct tr_tensor d = tr_model_as_wide(&h->rows[0], m->dims->embed);
    struct tr_queue *q = m->q;

    q->on->linear_dgrad(q, &d, &h->logits, &w, pools(m) ? &k->pre : NULL,
                        pools(m) ? TR_ACT_GELU : TR_ACT_NONE);
    q->on->linear_wgrad(q, &dw, tr_model_dbias(m, &dbias, TR_PARAM_CLASS_BIAS, -1), &h->logits,
                        input_of(k), m->adds);
    if (pools(m)) {
        if (drop.p > 0.0)
            q->on->dropout(q, &d, drop);
        w = tr_model_value(m, TR_PARAM_POOLER_WEIGHT, -1);
        dw = tr_model_grad(m, TR_PARAM_POOLER_WEIGHT, -1);
        q->on->linear_wgrad(q, &dw, tr_model_dbias(m, &dbias, TR_PARAM_POOLER_BIAS, -1), &d,
                            &k->norm.y, m->adds);
    } else if (k->projected.data) {
        w = tr_model_value(m, TR_PARAM_PROJECT_OUT, -1);
        dw = tr_model_grad(m, TR_PARAM_PROJECT_OUT, -1);
        q->on->linear_wgrad(q, &dw, NULL, &d, &k->norm.y, m->adds);
    } else {
        return &h->rows[0];
    }
    q->on->linear_dgrad(q, &h->rows[1], &d, &w, NULL, TR_ACT_NONE);
    return &h->rows[1];
}

static void backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_tensor *dx, const int64_t *sample)
{
    const struct tr_tensor *dnorm;
    struct tr_queue *q = m->q;

    if (h->logits_of != k)
        make_logits(m, h, k);
    q->on->xent_bwd(q, &h->logits, &k->max, &k->stats, &k->labels, &h->weight, 0, m->dims->classes);
    dnorm = matrices_backward(m, h, k, sample);
    if (m->dims->family.final_norm)
        tr_norm_backward(m, &k->norm, &h->dpicked, dnorm, NULL, &k->picked, TR_PARAM_FINAL_GAIN,
                         TR_PARAM_FINAL_BIAS, -1);
    else
        q->on->copy(q, &h->dpicked, dnorm);
    q->on->fill(q, dx, 0.0F);
    q->on->embed_bwd(q, dx, &h->dpicked, &k->at, tr_model_first_row(m));
}

const struct tr_head_way tr_head_classes = {
    .plan = plan,
    .plan_kept = plan_kept,
    .forward = forward,
    .weigh = weigh,
    .backward = backward,
};
