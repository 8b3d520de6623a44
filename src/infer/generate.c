/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/generate.h"

#include <stdlib.h>
#include <string.h>

#include "config/work.h"
#include "train/step.h"
#include "util/clock.h"

/* Room for one text. */
struct seat {
    int64_t text; /* -1: none */
    int64_t read; /* of its tokens, by the model */
    int64_t now;  /* tokens of the pass under way */
};

struct work {
    struct tr_run *r;
    struct tr_generation *g;
    bool cached;
    int64_t seats, next; /* text that comes next on this replica */
    struct seat *seat;
    struct tr_sampler sampler;
    float *scores;   /* [W, seats, V/W] on ranks with the head, */
    float *row;      /* [V] one of them, */
    float *logprob;  /* [seats] */
    int32_t *chosen; /* [seats] */
};

int64_t tr_generate_keys(const struct tr_dims *dims, int64_t tokens, int64_t block)
{
    const int64_t window = dims->family.window + block - 1;

    return dims->family.window > 0 && window < tokens ? window : tokens;
}

double tr_generate_cache(const struct tr_shape *s, int stage, int64_t texts, int64_t block)
{
    const struct tr_work_how how = tr_work_how_of(s);
    const int64_t keys = tr_generate_keys(&s->dims, s->dims.seq, block);

    return (double)tr_layout_stage_layers(&s->layout, stage) *
           tr_work_cache_bytes(&how, (double)texts, (double)keys);
}

void tr_written_release(struct tr_written *t)
{
    free(t->token);
    free(t->logprob);
    *t = (struct tr_written){0};
}

static void *need(void *old, int64_t count, size_t size)
{
    void *p = reallocarray(old, count > 0 ? (size_t)count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the texts that are generated");
    return p;
}

static struct tr_written *text_of(const struct work *w, const struct seat *s)
{
    return &w->g->text[s->text];
}

static struct tr_chunk *last_chunk(const struct tr_run *r)
{
    return r->chunk[r->shape.layout.k - 1];
}

/* The seat of a sample: micro-batches of all replicas lie one after another. */
static struct seat *seat_of(struct tr_run *r, int64_t position)
{
    const int64_t batch = r->model.micro_batch, unit = batch * r->shape.layout.d;
    struct work *w = r->reader;

    return &w->seat[position / unit * batch + position % batch];
}

/* ---- what the model asks for ---- */

static enum tr_status sample(struct tr_run *r, enum tr_split split, int64_t position, int32_t *text)
{
    const struct seat *s = seat_of(r, position);
    const struct work *w = r->reader;

    (void)split;
    memset(text, 0, (size_t)(r->model.tokens + 1) * sizeof *text);
    if (s->text >= 0)
        memcpy(text, text_of(w, s)->token + s->read, (size_t)s->now * sizeof *text);
    return TR_OK;
}

/* Positions beyond the last one belong to no token. */
static void placed(struct tr_run *r, int64_t position, int32_t *at, int32_t *place)
{
    const struct seat *s = seat_of(r, position);
    const int64_t last = r->shape.dims.seq - 1;

    for (int64_t t = 0; t < r->model.tokens; t++) {
        const int64_t p = s->read + t;

        at[t] = (int32_t)(p < last ? p : last);
        place[t] = t < s->now ? (int32_t)p : -1;
    }
}

static int64_t unread(const struct work *w, const struct seat *s)
{
    return s->text < 0 ? 0 : text_of(w, s)->count - s->read;
}

/* Whether the pass has read all of a text, so that a token follows. */
static bool follows(const struct work *w, const struct seat *s)
{
    return s->now > 0 && s->now == unread(w, s);
}

static struct tr_wanted wanted(struct tr_run *r, int64_t position)
{
    const struct seat *s = seat_of(r, position);

    return (struct tr_wanted){s->now - 1, follows(r->reader, s)};
}

/* The scores behind the last token of each text that is read, to this rank's part of r->picked. */
static void scored(struct tr_run *r, int micro, int64_t position)
{
    const int64_t batch = r->model.micro_batch,
                  width = r->shape.dims.vocab_padded / r->shape.layout.w;
    const struct tr_tensor logits = tr_chunk_logits(last_chunk(r));
    const struct work *w = r->reader;
    int64_t row = 0;

    (void)position;
    for (int64_t seat = micro * batch; seat < (micro + 1) * batch; seat++) {
        struct tr_tensor to, from;

        if (!follows(w, &w->seat[seat]))
            continue;
        to = tr_tensor_span(&r->picked, (r->grid.at.tp * w->seats + seat) * width, width);
        from = tr_tensor_span(&logits, row++ * width, width);
        r->queue.on->copy(&r->queue, &to, &from);
    }
}

/* ---- a pass ---- */

static void sit(struct work *w)
{
    for (int64_t i = 0; i < w->seats; i++)
        if (w->seat[i].text < 0 && w->next < w->g->texts) {
            w->seat[i] = (struct seat){.text = w->next};
            w->next += w->r->shape.layout.d;
        }
}

/* How many tokens each text has in the pass; false if there is no text. */
static bool share_out(struct work *w)
{
    int64_t most = 0;

    for (int64_t i = 0; i < w->seats; i++)
        most = unread(w, &w->seat[i]) > most ? unread(w, &w->seat[i]) : most;
    if (most > 0 && w->cached)
        tr_run_tokens(w->r, most > 1 ? w->r->only->block : 1);
    for (int64_t i = 0; i < w->seats; i++) {
        const int64_t n = unread(w, &w->seat[i]);

        w->seat[i].now = n < w->r->model.tokens ? n : w->r->model.tokens;
        w->g->fed += w->seat[i].now;
    }
    return most > 0;
}

/* The scores of a seat in the order of the vocabulary, without padding. */
static const float *scores_of(struct work *w, int64_t seat)
{
    const int64_t width = w->r->shape.dims.vocab_padded / w->r->shape.layout.w;

    for (int part = 0; part < w->r->shape.layout.w; part++)
        memcpy(w->row + part * width, w->scores + (part * w->seats + seat) * width,
               (size_t)width * sizeof *w->row);
    return w->row;
}

/* All ranks of the last stage choose the same from the same scores; the others hear of it. */
static void choose(struct work *w)
{
    struct tr_run *r = w->r;
    const struct tr_layout *l = &r->shape.layout;

    if (tr_chunk_has_loss(last_chunk(r))) {
        r->grid.tp.via->allgather(&r->grid.tp, &r->queue, &r->picked);
        r->queue.on->download(&r->queue, w->scores, &r->picked);
        for (int64_t i = 0; i < w->seats; i++)
            if (follows(w, &w->seat[i]))
                w->chosen[i] = tr_sample(&w->sampler, scores_of(w, i), &w->g->how, w->seat[i].text,
                                         text_of(w, &w->seat[i])->count, &w->logprob[i]);
        r->queue.on->upload(&r->queue, &r->chosen, w->chosen);
    }
    if (l->p > 1)
        r->grid.pp.via->broadcast(&r->grid.pp, &r->queue, &r->chosen, tr_layout_head_stage(l));
    r->queue.on->download(&r->queue, w->chosen, &r->chosen);
}

static enum tr_text_end end_of(const struct work *w, const struct seat *s)
{
    const struct tr_written *t = text_of(w, s);
    const int32_t token = t->token[t->count - 1];

    if (token == w->g->eod)
        return TR_TEXT_END;
    if (w->g->heard && w->g->heard(w->g->ctx, s->text, token))
        return TR_TEXT_STOP;
    if (t->count - t->prompt == w->g->most)
        return TR_TEXT_LENGTH;
    return t->count == w->r->shape.dims.seq ? TR_TEXT_CONTEXT : TR_TEXT_GOES_ON;
}

/* The pass is over: texts grow, and those that end leave. */
static void grow(struct work *w)
{
    int64_t more = 0;

    for (int64_t i = 0; i < w->seats; i++) {
        struct seat *s = &w->seat[i];
        const bool grows = follows(w, s);
        struct tr_written *t;

        if (s->text < 0)
            continue;
        s->read = w->cached ? s->read + s->now : 0;
        if (!grows)
            continue;
        t = text_of(w, s);
        t->token[t->count] = w->chosen[i];
        t->logprob[t->count++] = w->logprob[i];
        more++;
        t->end = end_of(w, s);
        if (t->end != TR_TEXT_GOES_ON)
            *s = (struct seat){.text = -1};
    }
    if (w->g->meter)
        tr_meter_add(w->g->meter, more);
}

/* ---- all of it ---- */

/* Room for all tokens that a text may have. */
static void make_room(struct tr_written *t, int64_t most)
{
    t->token = need(t->token, t->prompt + most, sizeof *t->token);
    t->logprob = need(NULL, t->prompt + most, sizeof *t->logprob);
    memset(t->logprob, 0, (size_t)(t->prompt + most) * sizeof *t->logprob);
    t->count = t->prompt;
    t->end = TR_TEXT_GOES_ON;
}

static void open_work(struct work *w)
{
    struct tr_run *r = w->r;
    const int64_t vocab = r->shape.dims.vocab_padded;

    w->cached = r->only->block > 0;
    w->seats = r->model.micro_batch * r->eval_list.micros;
    w->next = r->grid.at.dp;
    w->seat = need(NULL, w->seats, sizeof *w->seat);
    w->chosen = need(NULL, w->seats, sizeof *w->chosen);
    w->logprob = need(NULL, w->seats, sizeof *w->logprob);
    for (int64_t i = 0; i < w->seats; i++) {
        w->seat[i] = (struct seat){.text = -1};
        w->chosen[i] = 0;
        w->logprob[i] = 0.0F;
    }
    if (tr_chunk_has_loss(last_chunk(r))) {
        w->scores = need(NULL, w->seats * vocab, sizeof *w->scores);
        w->row = need(NULL, vocab, sizeof *w->row);
        tr_sampler_open(&w->sampler, r->shape.dims.vocab);
    }
    for (int64_t i = 0; i < w->g->texts; i++)
        make_room(&w->g->text[i], w->g->most);
    r->reader = w;
    r->sample = sample;
    r->placed = placed;
    r->wanted = wanted;
    r->scored = scored;
}

static void close_work(struct work *w)
{
    w->r->scored = NULL;
    w->r->wanted = NULL;
    tr_sampler_close(&w->sampler);
    free(w->seat);
    free(w->chosen);
    free(w->logprob);
    free(w->scores);
    free(w->row);
}

/* Text i, from the rank of its replica that has probabilities. */
static void share_text(struct work *w, int64_t i)
{
    const struct tr_layout *l = &w->r->shape.layout;
    const int root =
        tr_grid_rank(l, (struct tr_place){.pp = tr_layout_head_stage(l), .dp = (int)(i % l->d)});
    struct tr_written *t = &w->g->text[i];
    int64_t head[] = {t->count, t->end};
    struct tr_tensor numbers = tr_i64_1(head, 2), tokens, logprobs;
    struct tr_comm *world = w->r->world;

    world->via->broadcast(world, NULL, &numbers, root);
    t->count = head[0];
    t->end = (enum tr_text_end)head[1];
    tokens = tr_i32_1(t->token, t->count);
    logprobs = tr_f32_1(t->logprob, t->count);
    world->via->broadcast(world, NULL, &tokens, root);
    world->via->broadcast(world, NULL, &logprobs, root);
}

void tr_generate(struct tr_run *r, struct tr_generation *g)
{
    struct work w = {.r = r, .g = g};
    const double began = tr_now();

    open_work(&w);
    g->fed = 0;
    for (sit(&w); share_out(&w); sit(&w)) {
        tr_step_forward(r, 0);
        choose(&w);
        grow(&w);
    }
    g->seconds = tr_now() - began;
    for (int64_t i = 0; i < g->texts; i++)
        share_text(&w, i);
    close_work(&w);
}
