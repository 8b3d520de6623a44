/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "model/graphs.h"
#include "model/host_layers.h"
#include "model/model_parts.h"
#include "model/visits.h"
#include "telemetry/timer.h"

/* What the layers of one micro-batch need from its forward to its backward. */
struct place {
    struct tr_block_kept *block; /* [layers] */
    struct tr_tensor *slice;     /* [layers] of the input, with distributed inputs */
    struct tr_host_layer *away;  /* [layers] of those that are offloaded */
};

struct pool {
    int count, spare;
    struct place *place; /* [count] */
    struct place **free; /* [count], of which the first `spare` are free */
};

/* What one micro-batch needs besides. */
struct slot {
    struct place *at, *last; /* of the pool, or NULL; the one before */
    struct tr_embed_kept embed;
    struct tr_conv_kept conv;
    struct tr_head_kept head;
    struct tr_mask mask;
    struct tr_tensor sample; /* [B] (TR_I64) */
};

/* The batch that comes next, on the host. */
struct batch {
    int32_t *text;   /* [B, T + 1], or NULL if no part reads it */
    int64_t *sample; /* [B] */
    int32_t *token;  /* [N] tokens, then labels */
    int32_t *position,
        *from; /* [N] what model/attention_mask.h makes of the text, where it is asked for */
    float *weight;
    int32_t *lengths;         /* [B], with a head of classes */
    int32_t *taps;            /* [T N], with an encoder's embedding */
    float *share;             /* [B] on the chunk with that head */
    int32_t *place;           /* [N], with a key-value cache */
    struct tr_wanted *wanted; /* [B], of a head that computes forward only */
};

struct tr_chunk {
    struct tr_model *m;
    int first_layer, layers;
    bool embeds, heads;
    struct tr_chunk_room room;
    struct slot *slot;
    struct pool *pool;
    bool lends; /* the pool is its own */
    /* With m->split: places whose gradients of weights are to come, in a ring, the oldest at late[first]. */
    struct place **late; /* [pool->count] */
    int first_late, lates;
    struct batch next;
    struct tr_head head;
    struct tr_tensor *input, *output, *doutput, *dinput; /* [room]; see chunk.h */
    struct tr_tensor loss_sum;                           /* TR_F64 [1] */
    struct tr_tensor *cache;                             /* [micros * layers], or NULL */
    struct tr_graphs graphs;
};

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the layout of a model chunk");
    return p;
}

/* Positions that documents begin anew are those of a table behind the embedding, or turn queries and keys in every
   layer. */
static bool has_positions(const struct tr_chunk *c)
{
    return c->m->keys > 0 ||
           (c->m->mask_rule.positions &&
            (c->embeds || (c->layers > 0 && c->m->dims->family.positions == TR_POSITIONS_ROTARY)));
}

static bool has_lengths(const struct tr_chunk *c)
{
    return c->m->dims->head == TR_HEAD_CLASSES;
}

/* Which rows are padding, where they are zeroed. */
static bool has_taps(const struct tr_chunk *c)
{
    return has_lengths(c) && c->embeds && c->m->dims->family.encoder;
}

static void open_batch(struct tr_chunk *c)
{
    const struct tr_mask_rule *rule = &c->m->mask_rule;
    size_t batch = (size_t)c->m->micro_batch, rows = (size_t)tr_model_rows(c->m);
    struct batch *x = &c->next;

    x->sample = need(batch, sizeof *x->sample);
    if (!tr_chunk_reads_text(c))
        return;
    x->text = need(rows + batch, sizeof *x->text);
    x->token = need(rows, sizeof *x->token);
    if (c->heads && c->m->forward_only)
        x->wanted = need(batch, sizeof *x->wanted);
    if (has_lengths(c))
        x->lengths = need(batch, sizeof *x->lengths);
    if (has_taps(c))
        x->taps = need((size_t)tr_conv_taps(c->m->dims) * rows, sizeof *x->taps);
    if (has_lengths(c) && c->heads)
        x->share = need(batch, sizeof *x->share);
    if (has_positions(c))
        x->position = need(rows, sizeof *x->position);
    if (rule->attention)
        x->from = need(rows, sizeof *x->from);
    if (c->m->keys > 0)
        x->place = need(rows, sizeof *x->place);
    if ((rule->loss || rule->within) && c->heads)
        x->weight = need(rows, sizeof *x->weight);
}

static void close_batch(struct batch *x)
{
    free(x->text);
    free(x->sample);
    free(x->token);
    free(x->position);
    free(x->from);
    free(x->weight);
    free(x->lengths);
    free(x->taps);
    free(x->share);
    free(x->place);
    free(x->wanted);
}

static struct pool *pool_open(int count, int layers)
{
    struct pool *p = need(1, sizeof *p);

    p->count = p->spare = count;
    p->place = need((size_t)count, sizeof *p->place);
    p->free = need((size_t)count, sizeof *p->free);
    for (int i = 0; i < count; i++) {
        p->place[i].block = need((size_t)layers, sizeof *p->place[i].block);
        p->place[i].slice = need((size_t)layers, sizeof *p->place[i].slice);
        p->place[i].away = need((size_t)layers, sizeof *p->place[i].away);
        p->free[i] = &p->place[i];
    }
    return p;
}

static void pool_close(struct pool *p)
{
    for (int i = 0; i < p->count; i++) {
        free(p->place[i].block);
        free(p->place[i].slice);
        free(p->place[i].away);
    }
    free(p->place);
    free(p->free);
    free(p);
}

/* The micro-batch of a slot takes a place of the pool, unless it has one, and frees it: the one that the slot
   had before, if that is free, so that few graphs serve. */
static struct place *take(const struct tr_chunk *c, struct slot *x)
{
    struct pool *p = c->pool;
    int i = p->spare - 1;

    if (x->at)
        return x->at;
    TR_ASSERT(p->spare > 0);
    while (i > 0 && p->free[i] != x->last)
        i--;
    if (p->free[i] != x->last)
        i = p->spare - 1;
    x->at = x->last = p->free[i];
    p->free[i] = p->free[--p->spare];
    return x->at;
}

static void give_back(const struct tr_chunk *c, struct slot *x)
{
    if (!x->at)
        return;
    c->pool->free[c->pool->spare++] = x->at;
    x->at = NULL;
}

static void keep_late(struct tr_chunk *c, struct slot *x)
{
    c->late[(c->first_late + c->lates++) % c->pool->count] = x->at;
    x->at = NULL;
}

static struct place *take_late(struct tr_chunk *c)
{
    struct place *at = c->late[c->first_late];

    TR_ASSERT(c->lates > 0);
    c->first_late = (c->first_late + 1) % c->pool->count;
    c->lates--;
    return at;
}

struct tr_chunk *tr_chunk_open(struct tr_model *m, int stage, int index, struct tr_chunk_room room,
                               struct tr_chunk *with)
{
    struct tr_chunk *c = need(1, sizeof *c);

    c->m = m;
    c->first_layer = (int)tr_layout_first_layer(m->layout, stage, index);
    c->layers = (int)tr_layout_layers(m->layout, stage, index);
    c->embeds = tr_layout_is_first(m->layout, stage, index);
    c->heads = tr_layout_is_last(m->layout, stage, index);
    c->room = room;
    c->input = need((size_t)room.inputs + 1, sizeof *c->input);
    c->output = need((size_t)room.outputs, sizeof *c->output);
    c->doutput = need((size_t)room.doutputs, sizeof *c->doutput);
    c->dinput = need((size_t)room.dinputs, sizeof *c->dinput);
    c->slot = need((size_t)room.slots, sizeof *c->slot);
    TR_ASSERT(!with || with->layers == c->layers);
    c->lends = !with;
    c->pool = with ? with->pool : pool_open(room.pool > 0 ? room.pool : room.slots, c->layers);
    c->late = need((size_t)c->pool->count, sizeof *c->late);
    open_batch(c);
    return c;
}

void tr_chunk_close(struct tr_chunk *c)
{
    if (!c)
        return;
    if (c->lends)
        pool_close(c->pool);
    close_batch(&c->next);
    tr_graphs_close(&c->graphs);
    free(c->cache);
    free(c->slot);
    free(c->late);
    free(c->input);
    free(c->output);
    free(c->doutput);
    free(c->dinput);
    free(c);
}

static void plan_messages(struct tr_chunk *c, struct tr_arena *a, struct tr_tensor *t, int count)
{
    for (int i = 0; i < count; i++)
        t[i] = tr_model_take(a, TR_LABEL_MESSAGES, c->m->stream, tr_model_part_rows(c->m),
                             c->m->dims->hidden);
}

/* Layers that are offloaded take turns in the same memory, and the input of the first, a message, has its own.
   Layers that are recomputed use the same memory, except for the input of the first of a group: all
   of it, or a slice with --distribute-saved-activations.  The input of the chunk is a message, so
   it is never sliced. */
static void plan_layer(struct tr_chunk *c, struct tr_arena *a, struct place *x, int i)
{
    struct tr_model *m = c->m;
    int member = i - tr_recomputed_from(m->activations, i);
    int64_t size = tr_model_part_rows(m) * m->dims->hidden / m->layout->w;

    if (tr_host_layer_has(m->activations, i)) {
        x->block[i] = m->hosted.kept[tr_host_layer_window(i)];
        if (i == 0)
            tr_block_plan_row(m, a, &x->block[i].x);
        return;
    }
    if (!tr_recomputed(m->activations, i)) {
        tr_block_plan_row(m, a, &x->block[i].x);
        tr_block_plan(m, a, &x->block[i]);
        return;
    }
    x->block[i] = m->again[member];
    if (member > 0)
        return;
    if (i == 0 || !m->activations->distribute_inputs)
        tr_block_plan_row(m, a, &x->block[i].x);
    else
        x->slice[i] = tr_tensor_1(
            tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)(size * tr_dtype_bytes(m->stream))),
            m->stream, size);
}

static void plan_batch(struct tr_chunk *c, struct tr_arena *a, struct slot *x)
{
    int64_t n = tr_model_rows(c->m), batch = c->m->micro_batch;
    size_t bytes = (size_t)n * sizeof(int32_t);

    x->sample =
        tr_i64_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)batch * sizeof(int64_t)), batch);
    if (c->next.position)
        x->mask.position = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, bytes), n);
    if (c->next.from)
        x->mask.from = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, bytes), n);
    if (c->next.place)
        x->mask.place = tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, bytes), n);
    if (c->next.lengths)
        x->mask.lengths = tr_i32_1(
            tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)batch * sizeof(int32_t)), batch);
    if (c->next.taps) {
        const int64_t taps = tr_conv_taps(c->m->dims) * n;

        x->mask.taps =
            tr_i32_1(tr_arena_take(a, TR_LABEL_ACTIVATIONS, (size_t)taps * sizeof(int32_t)), taps);
    }
    if (c->next.weight)
        x->mask.weight = tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, n), n);
}

void tr_chunk_plan_cache(struct tr_chunk *c, struct tr_arena *a, int micros)
{
    const struct tr_model *m = c->m;
    const int64_t rows = m->micro_batch * tr_model_groups(m) * 2, d = m->dims->head_dim;
    const size_t bytes = (size_t)(rows * m->keys * d * tr_dtype_bytes(m->type));

    if (m->keys == 0 || c->layers == 0)
        return;
    if (!c->cache)
        c->cache = need((size_t)micros * (size_t)c->layers, sizeof *c->cache);
    for (int i = 0; i < micros * c->layers; i++)
        c->cache[i] =
            tr_tensor_3(tr_arena_take(a, TR_LABEL_CACHE, bytes), m->type, rows, m->keys, d);
}

void tr_chunk_plan_host(struct tr_chunk *c, struct tr_arena *host)
{
    for (int i = 0; c->lends && i < c->pool->count; i++)
        for (int layer = 0; layer < c->layers; layer++)
            if (tr_host_layer_has(c->m->activations, layer))
                tr_host_layer_place(c->m, host, &c->pool->place[i].away[layer]);
}

void tr_chunk_places(struct tr_chunk *c, int32_t **position, int32_t **place)
{
    *position = c->next.position;
    *place = c->next.place;
}

struct tr_wanted *tr_chunk_wanted(struct tr_chunk *c)
{
    return c->next.wanted;
}

void tr_chunk_plan(struct tr_chunk *c, struct tr_arena *a)
{
    for (int i = 0; c->lends && i < c->pool->count; i++)
        for (int layer = 0; layer < c->layers; layer++)
            plan_layer(c, a, &c->pool->place[i], layer);
    for (int i = 0; i < c->room.slots; i++) {
        struct slot *x = &c->slot[i];

        plan_batch(c, a, x);
        if (c->embeds)
            tr_embed_plan(c->m, a, &x->embed);
        if (c->embeds && tr_conv_is(c->m, c->first_layer))
            tr_conv_plan(c->m, a, &x->conv);
        if (c->heads)
            tr_head_plan_kept(c->m, a, &x->head);
    }
    if (c->heads)
        tr_head_plan(c->m, a, &c->head);
    else
        plan_messages(c, a, c->output, c->room.outputs);
    if (!c->embeds)
        plan_messages(c, a, c->input, c->room.inputs);
    plan_messages(c, a, c->doutput, c->room.doutputs);
    plan_messages(c, a, c->dinput, c->room.dinputs);
    c->loss_sum = tr_f64_1(tr_arena_take(a, TR_LABEL_MESSAGES, sizeof(double)), 1);
}

bool tr_chunk_reads_text(const struct tr_chunk *c)
{
    return c->embeds || c->heads || c->m->mask_rule.attention || has_positions(c) || has_lengths(c);
}

bool tr_chunk_has_loss(const struct tr_chunk *c)
{
    return c->heads;
}

static struct slot *slot_of(struct tr_chunk *c, int micro)
{
    return &c->slot[micro % c->room.slots];
}

void tr_chunk_batch(struct tr_chunk *c, int32_t **text, int64_t **sample)
{
    *text = c->next.text;
    *sample = c->next.sample;
}

/* The tokens of each sample, and in place of padding some token, which nothing may depend on. */
static void end_texts(const struct tr_chunk *c)
{
    const int64_t seq = c->m->tokens;
    const struct batch *x = &c->next;

    for (int64_t b = 0; b < c->m->micro_batch; b++) {
        int32_t *text = x->text + b * (seq + 1);
        int32_t n = 0;

        while (n < seq && text[n] >= 0)
            n++;
        TR_ASSERT(n > 0);
        x->lengths[b] = n;
        memset(text + n, 0, (size_t)(seq - n) * sizeof *text);
    }
}

/* Numbers first .. first + T - 1 of each sample's T + 1. */
static void upload_text(const struct tr_chunk *c, const struct tr_tensor *to, int64_t first)
{
    int64_t seq = c->m->tokens;

    for (int64_t b = 0; b < c->m->micro_batch; b++)
        memcpy(c->next.token + b * seq, c->next.text + b * (seq + 1) + first,
               (size_t)seq * sizeof *c->next.token);
    c->m->q->on->upload(c->m->q, to, c->next.token);
}

/* What follows the tokens whose logits are wanted. */
static void upload_labels(const struct tr_chunk *c, const struct tr_tensor *to)
{
    const struct tr_wanted *wanted = c->next.wanted;
    int32_t *token = c->next.token;
    struct tr_tensor some;

    if (!wanted)
        upload_text(c, to, 1);
    if (!wanted || c->m->picks)
        return;
    for (int64_t b = 0; b < c->m->micro_batch; token += wanted[b++].count)
        memcpy(token, c->next.text + b * (c->m->tokens + 1) + wanted[b].first + 1,
               (size_t)wanted[b].count * sizeof *token);
    if (token == c->next.token)
        return;
    some = tr_tensor_1(to->data, TR_I32, token - c->next.token);
    c->m->q->on->upload(c->m->q, &some, c->next.token);
}

/* The class of each sample, and which of its tokens the head reads. */
static void upload_classes(const struct tr_chunk *c, const struct tr_head_kept *to)
{
    const struct tr_model *m = c->m;
    const struct batch *x = &c->next;

    for (int64_t b = 0; b < m->micro_batch; b++)
        x->token[b] = x->text[b * (m->tokens + 1) + m->tokens];
    m->q->on->upload(m->q, &to->labels, x->token);
    tr_head_places(m, x->lengths, x->token, x->share);
    m->q->on->upload(m->q, &to->at, x->token);
    m->q->on->upload(m->q, &to->share, x->share);
}

static void upload_mask(const struct tr_chunk *c, const struct tr_mask *to)
{
    const struct tr_mask_rule *rule = &c->m->mask_rule;
    const struct batch *x = &c->next;
    struct tr_queue *q = c->m->q;

    if (x->lengths)
        q->on->upload(q, &to->lengths, x->lengths);
    if (x->taps) {
        tr_conv_rows(c->m->dims, x->lengths, c->m->micro_batch, c->m->tokens, x->taps);
        q->on->upload(q, &to->taps, x->taps);
    }
    if (x->place)
        q->on->upload(q, &to->place, x->place);
    else
        tr_mask_of(x->text, c->m->micro_batch, c->m->tokens, c->m->mask_rule.eod, x->position,
                   x->from, NULL);
    if (x->weight)
        tr_mask_weigh(x->text, c->m->micro_batch, c->m->tokens, rule->loss ? rule->eod : -1,
                      rule->within, x->weight);
    if (x->position)
        q->on->upload(q, &to->position, x->position);
    if (x->from)
        q->on->upload(q, &to->from, x->from);
    if (x->weight)
        q->on->upload(q, &to->weight, x->weight);
}

/* Tokens are the first T of each sample's T + 1 numbers, labels the last T. */
static void upload_batch(const struct tr_chunk *c, const struct slot *x)
{
    c->m->q->on->upload(c->m->q, &x->sample, c->next.sample);
    if (!c->next.text)
        return;
    if (c->next.lengths)
        end_texts(c);
    upload_mask(c, &x->mask);
    if (c->embeds)
        upload_text(c, &x->embed.ids, 0);
    if (c->heads && c->next.lengths)
        upload_classes(c, &x->head);
    else if (c->heads)
        upload_labels(c, &x->head.labels);
}

/* This rank's slice of the input of layer `i`, which is the same on all tensor ranks. */
static struct tr_tensor slice_of(const struct tr_chunk *c, const struct place *x, int i)
{
    int64_t size = x->slice[i].dim[0];

    return tr_tensor_span(&x->block[i].x, c->m->tp.comm->rank * size, size);
}

static void keep_slice(struct tr_chunk *c, const struct place *x, int i)
{
    struct tr_tensor part = slice_of(c, x, i);

    c->m->q->on->copy(c->m->q, &x->slice[i], &part);
}

static void restore_slice(struct tr_chunk *c, const struct place *x, int i)
{
    struct tr_tensor part = slice_of(c, x, i);
    struct tr_comm *tp = c->m->tp.comm;

    c->m->q->on->copy(c->m->q, &part, &x->slice[i]);
    tr_timers_own_pause();
    tp->via->allgather(tp, c->m->q, &x->block[i].x);
    tr_timers_own_resume();
}

struct tr_tensor tr_chunk_output(struct tr_chunk *c, int micro)
{
    return c->output[micro % c->room.outputs];
}

struct tr_tensor tr_chunk_doutput(struct tr_chunk *c, int micro)
{
    return c->doutput[micro % c->room.doutputs];
}

struct tr_tensor tr_chunk_dinput(struct tr_chunk *c, int micro)
{
    return c->dinput[micro % c->room.dinputs];
}

static void after_layer(const struct tr_chunk *c)
{
    if (c->m->after_layer)
        c->m->after_layer(c->m->ctx);
}

/* Where the input of the first layer lies; a chunk without layers has the embedding or the head alone. */
static struct tr_tensor first_input(struct tr_chunk *c, struct slot *x, int micro)
{
    if (c->layers > 0)
        return take(c, x)->block[0].x;
    return c->heads ? x->head.x : tr_chunk_output(c, micro);
}

struct tr_tensor tr_chunk_input(struct tr_chunk *c, int micro)
{
    if (c->room.inputs > 0)
        return c->input[micro % c->room.inputs];
    return first_input(c, slot_of(c, micro), micro);
}

/* Where layer `i` writes its output. */
static struct tr_tensor output_of(struct tr_chunk *c, const struct slot *x, int i, int micro)
{
    if (i + 1 < c->layers)
        return x->at->block[i + 1].x;
    return c->heads ? x->head.x : tr_chunk_output(c, micro);
}

static int head_of(const struct tr_chunk *c)
{
    return c->layers + 1;
}

/* The forward or backward of a micro-batch: what its operations follow from. */
struct pass {
    struct tr_chunk *c;
    struct slot *x;
    int micro;
    bool whole; /* nothing is done between its operations: it may be a graph */
};

/* Before and after what the pass does with a module. */
static void enter(const struct pass *p, int module)
{
    const struct tr_model *m = p->c->m;

    if (m->enter && !p->whole)
        m->enter(m->ctx, module);
}

static void leave(const struct pass *p, int module)
{
    const struct tr_model *m = p->c->m;

    if (m->leave && !p->whole)
        m->leave(m->ctx, module);
}

static struct tr_pass key_of(const struct pass *p, enum tr_pass_kind kind)
{
    const bool backward = kind == TR_PASS_BACKWARD;
    const struct tr_chunk *c = p->c;

    return (struct tr_pass){
        .kind = (int32_t)kind,
        .training = c->m->training,
        .adds = kind != TR_PASS_FORWARD && c->m->adds,
        .again = backward && c->heads && c->head.logits_of != &p->x->head,
        .slot = kind != TR_PASS_WEIGHTS ? (int32_t)(p->x - c->slot) : -1,
        .place = p->x->at ? (int32_t)(p->x->at - c->pool->place) : -1,
        .output = c->heads || kind == TR_PASS_WEIGHTS ? -1 : p->micro % c->room.outputs,
        .doutput = backward ? p->micro % c->room.doutputs : -1,
        .dinput = backward ? p->micro % c->room.dinputs : -1,
    };
}

static void run(struct pass *p, enum tr_pass_kind kind, void (*work)(void *pass))
{
    const struct tr_pass key = key_of(p, kind);
    struct tr_chunk *c = p->c;

    p->whole = p->whole && c->m->graphs;
    if (!p->whole) {
        work(p);
        return;
    }
    if (c->m->enter)
        c->m->enter(c->m->ctx, TR_MODULE_ALL);
    tr_graphs_run(&c->graphs, c->m->q, &key, work, p);
    after_layer(c);
}

static void look(const struct pass *p, int layer, const struct tr_tensor *y)
{
    const struct tr_model *m = p->c->m;

    if (m->look)
        m->look(m->ctx, p->micro, layer, y);
}

/* What stands beside layer `i` of the chunk, behind which y is. */
static void beside_layer(const struct pass *p, int i, const struct tr_tensor *y)
{
    struct tr_chunk *c = p->c;

    if (tr_conv_is(c->m, c->first_layer + i))
        tr_conv_forward(c->m, &p->x->conv, &p->x->at->block[i].x, y, tr_i64(&p->x->sample));
}

static void forward_layers(const struct pass *p)
{
    struct tr_chunk *c = p->c;
    const struct place *at = p->x->at;

    for (int i = 0; i < c->layers; i++) {
        struct tr_tensor y = output_of(c, p->x, i, p->micro);

        if (at->slice[i].dim[0] > 0)
            keep_slice(c, at, i);
        tr_host_layer_before(c->m, i);
        enter(p, i + 1);
        c->m->cache = c->cache ? &c->cache[p->micro * c->layers + i] : NULL;
        tr_block_forward(c->m, &at->block[i], c->first_layer + i, &y, tr_i64(&p->x->sample));
        beside_layer(p, i, &y);
        look(p, c->first_layer + i, &y);
        if (c->m->training && tr_host_layer_has(c->m->activations, i))
            tr_host_layer_send(c->m, i, &p->x->at->away[i]);
        if (!p->whole)
            after_layer(c);
        leave(p, i + 1);
    }
}

static void forward_pass(void *pass)
{
    const struct pass *p = pass;
    struct tr_chunk *c = p->c;
    struct tr_tensor first = first_input(c, p->x, p->micro);

    if (c->embeds) {
        enter(p, 0);
        tr_embed_forward(c->m, &p->x->embed, &first, tr_i64(&p->x->sample));
        look(p, -1, &first);
        leave(p, 0);
    }
    forward_layers(p);
    if (c->heads) {
        enter(p, head_of(c));
        tr_head_forward(c->m, &c->head, &p->x->head, c->next.wanted, tr_i64(&p->x->sample),
                        &c->loss_sum);
        leave(p, head_of(c));
    }
}

void tr_chunk_forward(struct tr_chunk *c, int micro, bool whole)
{
    struct slot *x = slot_of(c, micro);
    struct pass p = {.c = c, .x = x, .micro = micro, .whole = whole};
    struct tr_tensor first;

    first = first_input(c, x, micro);
    if (c->room.inputs > 0 && !c->embeds)
        c->m->q->on->copy(c->m->q, &first, &c->input[micro % c->room.inputs]);
    upload_batch(c, x);
    c->m->mask = &x->mask;
    run(&p, TR_PASS_FORWARD, forward_pass);
    c->head.logits_of = c->heads ? &x->head : NULL;
    if (!c->m->training)
        give_back(c, x);
}

/* Layers first .. last of a group, for what their backward needs. */
static void forward_again(const struct pass *p, int first, int last)
{
    struct tr_chunk *c = p->c;
    const struct place *at = p->x->at;

    if (at->slice[first].dim[0] > 0)
        restore_slice(c, at, first);
    for (int i = first; i <= last; i++) {
        enter(p, i + 1);
        tr_block_forward(c->m, &at->block[i], c->first_layer + i,
                         i < last ? &at->block[i + 1].x : NULL, tr_i64(&p->x->sample));
        if (i < last)
            beside_layer(p, i, &at->block[i + 1].x);
        leave(p, i + 1);
    }
}

static void backward_layer(const struct pass *p, int i)
{
    struct tr_chunk *c = p->c;
    struct tr_tensor dx = tr_chunk_dinput(c, p->micro);
    struct tr_tensor dy = i == c->layers - 1 ? tr_chunk_doutput(c, p->micro) : dx;

    enter(p, i + 1);
    if (i > 0 && tr_host_layer_has(c->m->activations, i - 1))
        tr_host_layer_bring(c->m, i - 1, &p->x->at->away[i - 1]);
    if (tr_host_layer_has(c->m->activations, i))
        tr_host_layer_await(c->m, i);
    if (tr_conv_is(c->m, c->first_layer + i))
        tr_conv_backward(c->m, &p->x->conv, &p->x->at->block[i].x, &dy, tr_i64(&p->x->sample));
    tr_block_backward(c->m, &p->x->at->block[i], c->first_layer + i, &dx, &dy,
                      tr_i64(&p->x->sample));
    if (tr_conv_is(c->m, c->first_layer + i))
        tr_conv_add(c->m, &dx);
    if (!p->whole)
        after_layer(c);
    leave(p, i + 1);
}

static void backward_layers(const struct pass *p)
{
    const struct tr_activations *a = p->c->m->activations;
    const int last = p->c->layers - 1;

    if (last >= 0 && tr_host_layer_has(a, last))
        tr_host_layer_bring(p->c->m, last, &p->x->at->away[last]);
    for (int i = last, first; i >= 0; i = first - 1) {
        first = tr_recomputed_from(a, i);
        if (tr_recomputed(a, i))
            forward_again(p, first, i);
        for (int layer = i; layer >= first; layer--)
            backward_layer(p, layer);
    }
}

static void backward_pass(void *pass)
{
    const struct pass *p = pass;
    struct tr_chunk *c = p->c;
    struct tr_tensor dinput = tr_chunk_dinput(c, p->micro);
    struct tr_tensor doutput = c->layers == 0 && c->heads ? dinput : tr_chunk_doutput(c, p->micro);

    if (c->heads) {
        enter(p, head_of(c));
        tr_head_backward(c->m, &c->head, &p->x->head, &doutput, tr_i64(&p->x->sample));
        leave(p, head_of(c));
    }
    backward_layers(p);
    if (c->embeds) {
        enter(p, 0);
        tr_embed_backward(c->m, &p->x->embed, c->layers > 0 ? &dinput : &doutput,
                          tr_i64(&p->x->sample));
        leave(p, 0);
    }
}

void tr_chunk_backward(struct tr_chunk *c, int micro, double factor, bool whole)
{
    struct slot *x = slot_of(c, micro);
    struct pass p = {.c = c, .x = x, .micro = micro, .whole = whole};

    c->m->adds = micro > 0 && !c->m->fresh;
    c->m->mask = &x->mask;
    if (c->heads)
        tr_head_weigh(c->m, &c->head, &x->head, factor);
    run(&p, TR_PASS_BACKWARD, backward_pass);
    c->head.logits_of = NULL;
    if (c->m->split)
        keep_late(c, x);
    else
        give_back(c, x);
}

static void weights_pass(void *pass)
{
    const struct pass *p = pass;
    struct tr_chunk *c = p->c;

    for (int i = c->layers - 1; i >= 0; i--) {
        enter(p, i + 1);
        tr_block_weights(c->m, &p->x->at->block[i], c->first_layer + i);
        if (!p->whole)
            after_layer(c);
        leave(p, i + 1);
    }
}

void tr_chunk_weights(struct tr_chunk *c, int micro, bool whole)
{
    struct slot x = {.at = take_late(c)};
    struct pass p = {.c = c, .x = &x, .micro = micro, .whole = whole};

    c->m->adds = micro > 0 && !c->m->fresh;
    run(&p, TR_PASS_WEIGHTS, weights_pass);
    give_back(c, &x);
}

struct tr_tensor tr_chunk_loss(struct tr_chunk *c)
{
    return c->loss_sum;
}

double tr_chunk_take_loss(struct tr_chunk *c)
{
    struct tr_queue *q = c->m->q;
    double loss;

    q->on->download(q, &loss, &c->loss_sum);
    q->on->fill(q, &c->loss_sum, 0.0F);
    return loss;
}

struct tr_tensor tr_chunk_losses(struct tr_chunk *c)
{
    return c->head.loss;
}

struct tr_tensor tr_chunk_margins(struct tr_chunk *c)
{
    return c->head.logits_of->stats;
}

struct tr_tensor tr_chunk_labels(struct tr_chunk *c)
{
    return c->head.logits_of->labels;
}

struct tr_tensor tr_chunk_logits(struct tr_chunk *c)
{
    return c->head.logits;
}
