/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/origin.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/links.h"
#include "telemetry/timer.h"
#include "train/step.h"
#include "util/log.h"

enum { PIECE = 1 << 18 }; /* numbers that are looked at together */

/* The bits of the exponent, which are all set where a number is not finite. */
static int64_t bad_in(const void *numbers, enum tr_dtype type, int64_t n)
{
    const uint32_t *x = numbers;
    const uint16_t *half = numbers, mask = type == TR_F16 ? 0x7c00 : 0x7f80;
    int64_t bad = 0;

    if (type == TR_F32)
        for (int64_t i = 0; i < n; i++)
            bad += (x[i] & 0x7f800000) == 0x7f800000;
    else
        for (int64_t i = 0; i < n; i++)
            bad += (half[i] & mask) == mask;
    return bad;
}

/* Numbers of `t`, in memory of the queue's device, that are not finite. */
static int64_t count_bad(struct tr_queue *q, const struct tr_tensor *t)
{
    const int64_t n = tr_tensor_elems(t);
    void *room = malloc((size_t)PIECE * sizeof(float));
    int64_t bad = 0;

    TR_ASSERT(tr_dtype_is_float(t->dtype));
    if (!room)
        tr_die(TR_ERESOURCE, "no memory left to look for numbers that are not finite");
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t some = n - at < PIECE ? n - at : PIECE;
        const struct tr_tensor piece = tr_tensor_span(t, at, some);

        q->on->download(q, room, &piece);
        bad += bad_in(room, t->dtype, some);
    }
    free(room);
    return bad;
}

/* The tied embedding is part of the embedding, and what the layers share as well. */
static int position_of(const struct tr_run *r, const struct tr_param *p)
{
    const struct tr_params *ps = &r->model.params;

    if (p->layer >= 0)
        return 1 + p->layer;
    return !p->embeds && ps->part[p->part].places & TR_PLACE_HEAD ? 1 + (int)r->shape.dims.layers
                                                                  : 0;
}

/* Does `a` come before `b`, by the order of their kind? */
static bool comes_first(const struct tr_origin *a, const struct tr_origin *b)
{
    if (a->kind == TR_ORIGIN_NONE || b->kind == TR_ORIGIN_NONE)
        return a->kind != TR_ORIGIN_NONE;
    if (a->position == b->position)
        return a->micro < b->micro;
    return a->kind == TR_ORIGIN_GRADIENT ? a->position > b->position : a->position < b->position;
}

static void take_first(struct tr_origin *out, const struct tr_origin *x)
{
    if (comes_first(x, out))
        *out = *x;
}

/* `x` has elements of parameter `p`. */
static void look_at(struct tr_run *r, struct tr_queue *q, const struct tr_param *p,
                    enum tr_origin_kind kind, const struct tr_tensor *x, struct tr_origin *out)
{
    struct tr_origin o = {.kind = kind, .position = position_of(r, p), .count = tr_tensor_elems(x)};

    o.bad = count_bad(q, x);
    snprintf(o.name, sizeof o.name, "%s", p->name);
    if (o.bad > 0)
        take_first(out, &o);
}

/* Not where layers take turns in windows: what they hold by now is another one. */
static void look_at_weights(struct tr_run *r, struct tr_origin *out)
{
    const struct tr_params *ps = &r->model.params;

    for (int i = 0; i < ps->count && !ps->windows; i++) {
        const struct tr_tensor x =
            tr_tensor_span(&ps->values, ps->list[i].offset, ps->list[i].elems);

        look_at(r, &r->queue, &ps->list[i], TR_ORIGIN_WEIGHT, &x, out);
    }
}

/* The parameters that have elements in `g`, which are those of `own`. */
static void look_at_own(struct tr_run *r, struct tr_queue *q, const struct tr_bucket *own,
                        const struct tr_tensor *g, struct tr_origin *out)
{
    const struct tr_params *ps = &r->model.params;
    const int64_t end = own->first + own->count;

    for (int i = tr_params_from(ps, own->first); i < ps->count && ps->list[i].offset < end; i++) {
        const struct tr_param *p = &ps->list[i];
        const int64_t from = p->offset > own->first ? p->offset : own->first;
        const int64_t to = p->offset + p->elems < end ? p->offset + p->elems : end;
        const struct tr_tensor x = tr_tensor_span(g, from - own->first, to - from);

        if (!p->frozen)
            look_at(r, q, p, TR_ORIGIN_GRADIENT, &x, out);
    }
}

void tr_origin_gradients(struct tr_run *r, struct tr_origin *out)
{
    *out = (struct tr_origin){.kind = TR_ORIGIN_NONE};
    for (int i = 0; i < r->dp.owns; i++) {
        const struct tr_tensor g = tr_dp_grads(&r->dp, i);
        const bool hosted = r->optim.grads_hosted && i >= r->dp.stays;

        if (r->dp.own[i].count > 0)
            look_at_own(r, hosted ? &r->host_queue : &r->queue, &r->dp.own[i], &g, out);
    }
    out->mixed = tr_dp_mixes(&r->dp);
    out->iteration = r->iteration;
}

/* tr_model.look */
static void look_at_output(void *ctx, int micro, int layer, const struct tr_tensor *y)
{
    struct tr_run *r = ctx;
    struct tr_origin o = {.kind = TR_ORIGIN_FORWARD,
                          .position = 1 + layer,
                          .micro = micro,
                          .bad = count_bad(&r->queue, y),
                          .count = tr_tensor_elems(y)};

    if (o.bad > 0)
        take_first(r->origin, &o);
}

static void look_at_loss(struct tr_run *r, struct tr_origin *out)
{
    struct tr_chunk *last = r->chunk[r->shape.layout.k - 1];
    const struct tr_origin o = {
        .kind = TR_ORIGIN_FORWARD, .position = 1 + (int)r->shape.dims.layers, .bad = 1, .count = 1};

    if (tr_chunk_has_loss(last) && !isfinite(tr_chunk_take_loss(last)))
        take_first(out, &o);
}

/* The samples of the step that was the last one, once more. */
static void look_at_forward(struct tr_run *r, struct tr_origin *out)
{
    const bool graphs = r->model.graphs;

    r->origin = out;
    r->model.look = look_at_output;
    r->model.graphs = false;
    tr_timers_pause(true);
    tr_step_forward(r, r->first_sample);
    tr_timers_pause(false);
    r->model.graphs = graphs;
    r->model.look = NULL;
    r->origin = NULL;
    look_at_loss(r, out);
}

/* The first of all ranks, and whose it is; the lowest of several. */
static struct tr_origin first_of_all(struct tr_run *r, const struct tr_origin *mine, int *rank)
{
    struct tr_comm *world = r->world;
    struct tr_origin *all = calloc((size_t)world->size, sizeof *all);
    struct tr_origin first = {.kind = TR_ORIGIN_NONE};

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to compare where %d ranks stand", world->size);
    world->via->gather_all(world, mine, sizeof *mine, all);
    for (int i = 0; i < world->size; i++) {
        if (comes_first(&all[i], &first))
            *rank = i;
        take_first(&first, &all[i]);
    }
    free(all);
    return first;
}

/* tr_grads_look */
static void look_at_replica(void *ctx, int64_t first, const struct tr_tensor *grads)
{
    struct tr_run *r = ctx;
    const struct tr_bucket of = {first, tr_tensor_elems(grads)};

    look_at_own(r, &r->queue, &of, grads, r->origin);
}

/* The step that began after `iteration` of them once more: *own are this rank's gradients before replicas sum them, *sums
   those after that. */
static void repeat(struct tr_run *r, int64_t iteration, struct tr_origin *own,
                   struct tr_origin *sums)
{
    const int64_t iterations = r->iteration, consumed = r->consumed_train;
    const struct tr_traffic_count sent = r->traffic.count;
    const bool graphs = r->model.graphs;

    r->iteration = iteration;
    r->consumed_train = r->first_sample;
    r->model.graphs = false;
    r->origin = own;
    r->dp.look = (struct tr_grads_look){look_at_replica, r};
    tr_timers_pause(true);
    tr_step_gradients(r);
    (void)tr_step_loss(r);
    tr_timers_pause(false);
    tr_origin_gradients(r, sums);
    tr_optim_clear(&r->optim, &r->queue);
    r->dp.look = (struct tr_grads_look){NULL, NULL};
    r->origin = NULL;
    r->model.graphs = graphs;
    r->traffic.count = sent;
    r->consumed_train = consumed;
    r->iteration = iterations;
}

/* *first, of the sums over replicas, becomes that of a replica, if one has it; what is said of it. */
static const char *find_replica(struct tr_run *r, struct tr_origin *first, int *rank)
{
    struct tr_origin own = {.kind = TR_ORIGIN_NONE}, sums, found;
    int at = 0;

    if (!first->mixed)
        return "";
    if (tr_comm_max(r->world, tr_links_remember(r->links)) > 0)
        return ", summed over replicas";
    repeat(r, first->iteration, &own, &sums);
    found = first_of_all(r, &own, &at);
    if (found.kind != TR_ORIGIN_NONE) {
        *first = found;
        *rank = at;
        return "";
    }
    return tr_comm_max(r->world, sums.kind != TR_ORIGIN_NONE) > 0
               ? ", in the sum over replicas alone"
               : ", summed over replicas, and finite when the step was done again";
}

static void describe(const struct tr_run *r, const struct tr_origin *o, const char *note, int rank,
                     char *text)
{
    const int layers = (int)r->shape.dims.layers;
    char what[160], layer[64];

    snprintf(layer, sizeof layer, "the output of layer %d of 0 to %d", o->position - 1, layers - 1);
    if (o->kind == TR_ORIGIN_FORWARD)
        snprintf(what, sizeof what, "%s",
                 o->position == 0        ? "the output of the embedding"
                 : o->position <= layers ? layer
                                         : "the loss, behind the last layer,");
    else
        snprintf(what, sizeof what, "the %s %s",
                 o->kind == TR_ORIGIN_WEIGHT ? "weight" : "gradient of", o->name);
    snprintf(text, TR_ORIGIN_BYTES, "%s (%" PRId64 " of %" PRId64 " numbers%s) on rank %d on %s",
             what, o->bad, o->count, note, rank, r->launch.host[rank]);
}

void tr_origin_find(struct tr_run *r, const struct tr_origin *gradients, char *text)
{
    struct tr_origin mine = {.kind = TR_ORIGIN_NONE}, first;
    const char *note = "";
    int rank = 0;

    look_at_weights(r, &mine);
    first = first_of_all(r, &mine, &rank);
    if (first.kind == TR_ORIGIN_NONE) {
        look_at_forward(r, &mine);
        first = first_of_all(r, &mine, &rank);
    }
    if (first.kind == TR_ORIGIN_NONE) {
        first = first_of_all(r, gradients, &rank);
        note = find_replica(r, &first, &rank);
    }
    text[0] = '\0';
    if (first.kind != TR_ORIGIN_NONE)
        describe(r, &first, note, rank, text);
}
