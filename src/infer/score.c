/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/score.h"

#include <stdlib.h>
#include <string.h>

#include "train/step.h"

static void *need(int64_t count, size_t size)
{
    void *p = calloc(count > 0 ? (size_t)count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the windows of a text");
    return p;
}

int64_t tr_score_slide(int64_t tokens, int64_t length, int64_t stride, struct tr_window **out)
{
    int64_t count = 0, done = 0, most = tokens / stride + 1;
    struct tr_window *w = need(most, sizeof *w);

    TR_ASSERT(stride > 0 && stride <= length);
    for (int64_t begin = 0; done < tokens; begin += stride) {
        const int64_t end = begin + length < tokens ? begin + length : tokens;
        const int64_t first = done > begin ? done : begin + 1;

        if (first < end)
            w[count++] = (struct tr_window){begin, first, end};
        done = end;
    }
    *out = w;
    return count;
}

/* What a window has of the sample that it is: T + 1 tokens, those behind it of no meaning, since no token sees
   what follows it. */
static enum tr_status sample(struct tr_run *r, enum tr_split split, int64_t position, int32_t *text)
{
    const struct tr_score *s = r->reader;
    const struct tr_window *w;

    (void)split;
    memset(text, 0, (size_t)(r->model.tokens + 1) * sizeof *text);
    if (position >= s->count)
        return TR_OK;
    w = &s->window[position];
    return s->read(s->ctx, w->begin, w->end - w->begin, text);
}

/* Tokens whose successors count. */
static struct tr_wanted wanted(struct tr_run *r, int64_t position)
{
    const struct tr_score *s = r->reader;
    const struct tr_window *w = &s->window[position];

    if (position >= s->count)
        return (struct tr_wanted){0, 0};
    return (struct tr_wanted){w->first - w->begin - 1, w->end - w->first};
}

/* Of the predictions of a window that count. */
static void add_up(struct tr_score *s, int64_t i, const float *loss, const float *margin,
                   int64_t count)
{
    for (int64_t t = 0; t < count; t++) {
        s->loss[i] += (double)loss[t];
        s->misses[i] += margin[t] < 0.0F;
    }
}

static void scored(struct tr_run *r, int micro, int64_t position)
{
    struct tr_chunk *c = r->chunk[r->shape.layout.k - 1];
    const struct tr_tensor losses = tr_chunk_losses(c), margins = tr_chunk_margins(c);
    const int64_t rows = losses.dim[0];
    float *loss = need(2 * rows, sizeof *loss), *margin = loss + rows;
    struct tr_score *s = r->reader;
    int64_t at = 0, count;

    (void)micro;
    if (rows > 0 && r->grid.at.tp == 0) {
        const struct tr_tensor second = tr_tensor_span(&margins, rows, rows);

        r->queue.on->download(&r->queue, loss, &losses);
        r->queue.on->download(&r->queue, margin, &second);
        for (int64_t b = 0; b < r->model.micro_batch && position + b < s->count; b++, at += count) {
            count = wanted(r, position + b).count;
            add_up(s, position + b, loss + at, margin + at, count);
        }
    }
    free(loss);
}

static int64_t counted(const struct tr_score *s, int64_t from, int64_t count)
{
    int64_t n = 0;

    for (int64_t i = from; i < from + count && i < s->count; i++)
        n += s->window[i].end - s->window[i].first;
    return n;
}

void tr_score_windows(struct tr_run *r, struct tr_score *s)
{
    const int64_t batch = r->shape.batches.global_batch;
    struct tr_tensor loss = tr_f64_1(s->loss, s->count), misses = tr_f64_1(s->misses, s->count);

    memset(s->loss, 0, (size_t)s->count * sizeof *s->loss);
    memset(s->misses, 0, (size_t)s->count * sizeof *s->misses);
    r->reader = s;
    r->sample = sample;
    r->scored = scored;
    r->wanted = wanted;
    for (int64_t at = 0; at < s->count; at += batch) {
        tr_step_forward(r, at);
        if (s->meter)
            tr_meter_add(s->meter, counted(s, at, batch));
    }
    r->scored = NULL;
    r->wanted = NULL;
    if (s->count == 0)
        return;
    r->world->via->allreduce(r->world, NULL, &loss, TR_SUM);
    r->world->via->allreduce(r->world, NULL, &misses, TR_SUM);
}
