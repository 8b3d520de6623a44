/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"
#include "tp/tp.h"

static void language_plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h)
{
    int64_t n = tr_model_scored_rows(m), width = m->dims->vocab_padded / m->layout->w;

    h->logits = tr_model_take(a, TR_LABEL_LOGITS, m->type, n, width);
    if (!m->picks)
        h->loss = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    if (!m->forward_only)
        h->weight = tr_f32_1(tr_arena_floats(a, TR_LABEL_LOGITS, n), n);
    h->logits_of = NULL;
}

static void plan_losses(struct tr_arena *a, struct tr_head_kept *k, int64_t n)
{
    k->labels = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)n * sizeof(int32_t)), n);
    k->max = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
    k->stats = tr_f32_2(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, 2 * n), 2, n);
}

static void language_plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k)
{
    int64_t n = tr_model_scored_rows(m), part = tr_model_part_rows(m), hidden = m->dims->hidden;
    const int64_t rows = m->picks ? n : part;

    TR_ASSERT(!m->forward_only || !m->tp.sequence);
    k->x = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, part, hidden);
    if (m->dims->family.final_norm)
        tr_norm_plan_rows(m, a, &k->norm, rows, true);
    else
        k->norm.y = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, hidden);
    if (m->dims->embed != hidden)
        k->projected = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, m->dims->embed);
    if (!m->picks)
        plan_losses(a, k, n);
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

static void language_weigh(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k,
                           double factor)
{
    struct tr_queue *q = m->q;

    (void)k;
    if (!m->mask->weight.data) {
        q->on->fill(q, &h->weight, (float)(factor / (double)tr_model_rows(m)));
        return;
    }
    q->on->copy(q, &h->weight, &m->mask->weight);
    q->on->scale(q, &h->weight, (float)factor);
}

static struct tr_tensor rows_of(const struct tr_tensor *x, int64_t first, int64_t count)
{
    const struct tr_tensor span = tr_tensor_span(x, first * x->dim[1], count * x->dim[1]);

    return tr_tensor_2(span.data, x->dtype, count, x->dim[1]);
}

/* Rows to .. to + count - 1 of the last norm, where the family has it, from rows `from` on of the stream. */
static void normed(struct tr_model *m, struct tr_head_kept *k, int64_t to, int64_t from,
                   int64_t count)
{
    const struct tr_tensor x = rows_of(&k->x, from, count), y = rows_of(&k->norm.y, to, count);
    struct tr_norm_kept part = {.rstd = {0}};

    if (!m->dims->family.final_norm) {
        m->q->on->copy(m->q, &y, &x);
        return;
    }
    if (!m->norm.rms)
        part.mean = tr_tensor_span(&k->norm.mean, to, count);
    part.rstd = tr_tensor_span(&k->norm.rstd, to, count);
    tr_norm_forward(m, &part, &y, &x, TR_PARAM_FINAL_GAIN, TR_PARAM_FINAL_BIAS, -1);
}

/* The last norm, and the projection to the width of the embedding: what of it the family has. */
static void prepare(struct tr_model *m, struct tr_head_kept *k, const struct tr_wanted *wanted)
{
    struct tr_tensor project;
    int64_t at = 0;

    if (!wanted)
        normed(m, k, 0, 0, k->x.dim[0]);
    for (int64_t b = 0; wanted && b < m->micro_batch; at += wanted[b++].count)
        if (wanted[b].count > 0)
            normed(m, k, at, b * m->tokens + wanted[b].first, wanted[b].count);
    if (!k->projected.data)
        return;
    project = tr_model_value(m, TR_PARAM_PROJECT_OUT, -1);
    m->q->on->linear(m->q, &k->projected, NULL, &k->norm.y, &project, NULL, TR_ACT_NONE);
}

/* The tensors of R rows have `rows` from now on, at most as many as were planned. */
static void set_rows(struct tr_head *h, struct tr_head_kept *k, int64_t rows)
{
    k->norm.y.dim[0] = k->norm.mean.dim[0] = k->norm.rstd.dim[0] = rows;
    k->projected.dim[0] = k->labels.dim[0] = k->max.dim[0] = k->stats.dim[1] = rows;
    h->logits.dim[0] = h->loss.dim[0] = rows;
}

/* The losses of the logits, [R], the same on all tensor ranks. */
static void make_losses(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k)
{
    const struct tr_param *word = output_matrix(m);
    struct tr_queue *q = m->q;

    q->on->xent_max(q, &k->max, &h->logits, word->real);
    tr_tp_max(&m->tp, q, &k->max);
    q->on->xent_sum(q, &k->stats, &h->logits, &k->max, &k->labels, word->first, word->real);
    tr_tp_sum(&m->tp, q, &k->stats);
    q->on->xent_loss(q, &h->loss, &k->stats);
}

static int64_t count_of(const struct tr_model *m, const struct tr_wanted *wanted)
{
    int64_t rows = 0;

    for (int64_t b = 0; b < m->micro_batch; b++)
        rows += wanted[b].count;
    return rows;
}

static void forward_of(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                       const struct tr_wanted *wanted)
{
    const int64_t rows = count_of(m, wanted);

    TR_ASSERT(m->forward_only && rows <= tr_model_scored_rows(m));
    set_rows(h, k, rows);
    if (rows == 0)
        return;
    prepare(m, k, wanted);
    make_logits(m, h, k);
    if (!m->picks)
        make_losses(m, h, k);
}

static void language_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                             const struct tr_wanted *wanted, const int64_t *sample,
                             const struct tr_tensor *loss_sum)
{
    struct tr_queue *q = m->q;

    (void)sample;
    if (wanted) {
        forward_of(m, h, k, wanted);
        return;
    }
    prepare(m, k, NULL);
    make_logits(m, h, k);
    make_losses(m, h, k);
    language_weigh(m, h, k, 1.0);
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

static void language_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                              const struct tr_tensor *dx, const int64_t *sample)
{
    const struct tr_param *word = output_matrix(m);
    struct tr_tensor words = tr_param_value(&m->params, word);
    struct tr_tensor dwords = tr_param_grad(&m->params, word), dbias;
    struct tr_tensor whole = tr_model_as_wide(&m->row2, m->dims->embed);
    struct tr_tensor part = tr_model_part(m, &whole);
    const struct tr_tensor *in;
    struct tr_pending gather, sum;
    struct tr_queue *q = m->q;

    (void)sample;
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

const struct tr_head_way tr_head_language = {
    .plan = language_plan,
    .plan_kept = language_plan_kept,
    .forward = language_forward,
    .weigh = language_weigh,
    .backward = language_backward,
};

/* ---- of either kind ---- */

static const struct tr_head_way *way_of(const struct tr_model *m)
{
    static const struct tr_head_way *const ways[] = {
        [TR_HEAD_LANGUAGE] = &tr_head_language, [TR_HEAD_CLASSES] = &tr_head_classes};

    return ways[m->dims->head];
}

void tr_head_plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h)
{
    way_of(m)->plan(m, a, h);
}

void tr_head_plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k)
{
    way_of(m)->plan_kept(m, a, k);
}

void tr_head_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_wanted *wanted, const int64_t *sample,
                     const struct tr_tensor *loss_sum)
{
    way_of(m)->forward(m, h, k, wanted, sample, loss_sum);
}

void tr_head_weigh(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k,
                   double factor)
{
    way_of(m)->weigh(m, h, k, factor);
}

void tr_head_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                      const struct tr_tensor *dx, const int64_t *sample)
{
    way_of(m)->backward(m, h, k, dx, sample);
}
