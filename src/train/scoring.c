/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/scoring.h"

#include <stdlib.h>
#include <string.h>

#include "util/half.h"

static void *need(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the predictions of an evaluation");
    return p;
}

static float number_at(const void *x, enum tr_dtype type, int64_t i)
{
    if (type == TR_F32)
        return ((const float *)x)[i];
    return type == TR_BF16 ? tr_bf16_to_float(((const uint16_t *)x)[i])
                           : tr_f16_to_float(((const uint16_t *)x)[i]);
}

static int64_t largest(const void *x, enum tr_dtype type, int64_t from, int64_t count)
{
    int64_t best = 0;

    for (int64_t c = 1; c < count; c++)
        if (number_at(x, type, from + c) > number_at(x, type, from + best))
            best = c;
    return best;
}

static void count(struct tr_run *r, int micro, int64_t position)
{
    struct tr_scoring *x = r->reader;
    struct tr_chunk *c = r->chunk[r->shape.layout.k - 1];
    const struct tr_tensor logits = tr_chunk_logits(c), label = tr_chunk_labels(c);
    const int64_t classes = logits.dim[1];

    (void)micro;
    if (r->grid.at.tp != 0)
        return;
    r->queue.on->download(&r->queue, x->logits, &logits);
    r->queue.on->download(&r->queue, x->label, &label);
    for (int64_t b = 0; b < logits.dim[0]; b++)
        if (position + b >= x->first && position + b < x->end)
            tr_scores_add(&x->scores, x->label[b],
                          largest(x->logits, logits.dtype, b * classes, classes));
}

void tr_scoring_begin(struct tr_run *r, const struct tr_evaluation *e, struct tr_scoring *x)
{
    const struct tr_classify *task = tr_classify_of(r->config);
    const int64_t classes = r->shape.dims.classes, batch = r->shape.batches.micro_batch;

    *x = (struct tr_scoring){.first = e->first, .end = e->first + e->samples};
    if (r->shape.dims.head != TR_HEAD_CLASSES)
        return;
    x->metrics = task ? task->metrics : (1U << TR_METRICS) - 1;
    x->logits = need((size_t)(batch * classes), sizeof(float));
    x->label = need((size_t)batch, sizeof *x->label);
    tr_scores_open(&x->scores, classes);
    r->reader = x;
    r->scored = count;
}

void tr_scoring_end(struct tr_run *r, struct tr_scoring *x)
{
    const size_t n = (size_t)x->scores.classes * 3;
    int64_t *all;

    if (!x->scores.count)
        return;
    r->scored = NULL;
    r->reader = NULL;
    all = need(n * (size_t)r->world->size, sizeof *all);
    r->world->via->gather_all(r->world, x->scores.count, (int64_t)(n * sizeof *all), all);
    memset(x->scores.count, 0, n * sizeof *all);
    for (size_t i = 0; i < n * (size_t)r->world->size; i++)
        x->scores.count[i % n] += all[i];
    free(all);
}

void tr_scoring_close(struct tr_scoring *x)
{
    tr_scores_close(&x->scores);
    free(x->logits);
    free(x->label);
}
