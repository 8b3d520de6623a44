/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/timer.h"

/* What is the same for all elements of a step. */
struct rule {
    struct tr_adamw adamw; /* without decay */
    float decay;           /* where it applies, */
    float decayed_bias1;   /* with this instead of adamw.bias1 */
};

static void *need(int64_t count, size_t size)
{
    void *p = calloc(count > 0 ? (size_t)count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the optimizer's list of spans");
    return p;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What `r` and `own` have in common; neighbours that are treated alike form one span: fewer and longer
   loops. */
static void add_span(struct tr_optim *o, const struct tr_region *r, const struct tr_bucket *own,
                     int64_t state, bool counts)
{
    const int64_t first = r->first > own->first ? r->first : own->first;
    const int64_t r_end = r->first + r->count, own_end = own->first + own->count;
    const int64_t end = r_end < own_end ? r_end : own_end;
    struct tr_optim_span *last = o->spans > 0 ? &o->span[o->spans - 1] : NULL;

    if (r->padding)
        return;
    state += first - own->first;
    if (last && last->decay == r->decay && last->frozen == r->frozen && last->counts == counts &&
        last->first + last->count == first && last->state + last->count == state &&
        state != o->kept) {
        last->count += end - first;
        return;
    }
    o->span[o->spans++] = (struct tr_optim_span){
        .first = first,
        .count = end - first,
        .state = state,
        .decay = r->decay,
        .frozen = r->frozen,
        .counts = counts,
    };
}

static void list_spans(struct tr_optim *o, int tp)
{
    const struct tr_params *ps = o->params;
    int64_t state = 0;

    o->span = need(ps->regions + o->owns, sizeof *o->span);
    for (int i = 0; i < o->owns; i++) {
        const struct tr_bucket *own = &o->own[i];

        for (int k = tr_regions_from(ps, own->first);
             k < ps->regions && ps->region[k].first < own->first + own->count; k++)
            add_span(o, &ps->region[k], own, state, tr_region_counts(&ps->region[k], tp));
        state += own->count;
    }
    o->owned = state;
}

/* A span that lies in several pieces of the states becomes as many. */
static void cut_spans(struct tr_optim *o)
{
    struct tr_optim_span *whole = o->span;
    const int n = o->spans;

    o->spans = 0;
    o->span = need(n + o->states.pieces, sizeof *o->span);
    for (int i = 0; i < n; i++) {
        struct tr_optim_span left = whole[i];

        for (const struct tr_states_piece *p = tr_states_piece_at(&o->states, left.state);
             left.count > 0; p++) {
            struct tr_optim_span *s = &o->span[o->spans];

            *s = left;
            s->count = smaller(p[1].at - left.state, left.count);
            o->spans += s->count > 0;
            left.first += s->count;
            left.state += s->count;
            left.count -= s->count;
        }
    }
    free(whole);
}

static void list_zeros(struct tr_optim *o)
{
    const struct tr_params *ps = o->params;

    o->zero = need(ps->regions, sizeof *o->zero);
    for (int i = 0; i < ps->regions; i++) {
        const struct tr_region *r = &ps->region[i];
        struct tr_bucket *last = o->zeros > 0 ? &o->zero[o->zeros - 1] : NULL;

        if (!r->adds)
            continue;
        if (last && last->first + last->count == r->first)
            last->count += r->count;
        else
            o->zero[o->zeros++] = (struct tr_bucket){r->first, r->count};
    }
}

/* The first elements stay with the device: those that are kept, or a fraction in whole tiles of 1024; in front of a part
   of a block. */
static void list_homes(struct tr_optim *o, const struct tr_optim_places *at)
{
    const int64_t share = (int64_t)((1.0 - at->hosted) * (double)o->owned) / 1024 * 1024;
    const int64_t wanted = o->kept > 0 ? o->kept : at->hosted > 0.0 ? share : o->owned;
    const int64_t kept = tr_states_border(&o->states, wanted);

    if (kept > 0 || o->owned == 0)
        o->home[o->homes++] = (struct tr_home){
            .count = kept, .tile = kept > 0 ? kept : 1, .states = &o->states, .q = at->device};
    if (kept < o->owned)
        o->home[o->homes++] = (struct tr_home){
            .first = kept,
            .states = &o->states,
            .count = o->owned - kept,
            .tile = at->tile,
            .q = at->host,
            .beside = true,
            .folders = at->folders,
            .slots = at->folders ? at->slots : 0,
        };
    o->beside = kept < o->owned ? &o->home[o->homes - 1] : NULL;
}

static void nobody(void *ctx, int64_t at, int64_t count)
{
    (void)ctx;
    (void)at;
    (void)count;
}

void tr_optim_warn(struct tr_optim *o, void (*before)(void *ctx, int64_t at, int64_t count),
                   void *ctx)
{
    o->before = before ? before : nobody;
    o->ctx = ctx;
}

void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp, const struct tr_bucket *own, int owns, const struct tr_optim_places *at)
{
    const struct tr_bucket all = {0, params->size};

    memset(o, 0, sizeof *o);
    tr_optim_warn(o, NULL, NULL);
    o->params = params;
    o->device = at->device;
    o->beta1 = c->adam_beta1;
    o->beta2 = c->adam_beta2;
    o->eps = c->adam_eps;
    o->clip = c->clip_grad;
    o->owns = own ? owns : 1;
    o->own = need(o->owns, sizeof *o->own);
    for (int i = 0; i < o->owns; i++)
        o->own[i] = own ? own[i] : all;
    o->kept = at->kept;
    tr_states_open(&o->states, params, o->own, o->owns, tr_state_block(c));
    list_spans(o, tp);
    cut_spans(o);
    list_zeros(o);
    list_homes(o, at);
    o->shard_hosted = at->weights && o->beside;
    o->grads_hosted = at->gradients && o->beside;
    o->stage = at->stage;
    o->stages = at->stages;
    TR_ASSERT(o->stage >= 0 && o->stage < o->stages);
    o->found = need(o->stages, sizeof *o->found);
}

enum tr_status tr_optim_start(struct tr_optim *o, const char *name)
{
    for (int i = 0; i < o->homes; i++)
        TR_TRY(tr_home_start(&o->home[i], name));
    return TR_OK;
}

void tr_optim_close(struct tr_optim *o)
{
    for (int i = 0; i < o->homes; i++)
        tr_home_close(&o->home[i]);
    tr_states_close(&o->states);
    free(o->own);
    free(o->span);
    free(o->found);
    free(o->zero);
    memset(o, 0, sizeof *o);
}

/* ---- memory ---- */

static struct tr_tensor take(struct tr_arena *a, enum tr_label label, enum tr_dtype type,
                             int64_t count)
{
    return tr_tensor_1(tr_arena_take(a, label, (size_t)(count * tr_dtype_bytes(type))), type,
                       count);
}

/* Gradients that came and rounded weights that go, of two tiles each. */
static void plan_tiles(struct tr_optim *o, struct tr_arena *host, enum tr_dtype values)
{
    const int64_t most = tr_home_most(o->beside);

    for (int i = 0; i < 2; i++) {
        if (!o->grads_hosted)
            o->came[i] = take(host, TR_LABEL_SCRATCH, o->params->grads.dtype, most);
        if (values != TR_F32 && !o->shard_hosted)
            o->going[i] = take(host, TR_LABEL_SCRATCH, values, most);
    }
}

/* Whether weights for others to bring lie apart from the masters. */
static bool has_shard(const struct tr_optim *o)
{
    return o->apart && o->beside && (!o->shard_hosted || o->rounds || o->beside->folders);
}

/* Weights of the elements that this rank updates, where the model has no room for all and their masters are not
   with the device: others gather them from here. */
static void plan_shard(struct tr_optim *o, struct tr_arena *a, enum tr_dtype values)
{
    if (has_shard(o))
        o->shard = take(a, TR_LABEL_WEIGHTS, values, o->owned - o->kept);
}

void tr_optim_plan(struct tr_optim *o, struct tr_arena *device, struct tr_arena *host,
                   enum tr_dtype values, bool steps)
{
    o->apart = o->params->windows;
    o->rounds = values != TR_F32;
    plan_shard(o, o->shard_hosted ? host : device, values);
    for (int i = 0; i < o->homes; i++) {
        struct tr_home *h = &o->home[i];
        const bool sharded = has_shard(o) && !h->beside && !o->rounds && !o->shard_hosted;

        tr_home_plan(h, h->beside ? host : device, h->beside || o->rounds || (o->apart && !sharded),
                     steps);
        if (sharded)
            h->row[TR_ROW_MASTER] = tr_tensor_span(&o->shard, h->first, h->count);
    }
    if (o->homes == 1 && !o->home[0].folders) {
        o->main = o->home[0].row[TR_ROW_MASTER];
        for (int i = 0; i < TR_STATES; i++)
            o->state[i] = o->home[0].row[TR_ROW_STATE + i];
    }
    if (o->shard_hosted && !has_shard(o))
        o->shard = o->beside->row[TR_ROW_MASTER];
    if (o->kept > 0)
        o->shard_here = o->rounds ? take(device, TR_LABEL_WEIGHTS, values, o->kept)
                                  : o->home[0].row[TR_ROW_MASTER];
    if (o->beside)
        plan_tiles(o, host, values);
    if (steps)
        o->sum =
            tr_f64_1(tr_arena_take(device, TR_LABEL_OPTIMIZER, (size_t)o->stages * sizeof(double)),
                     o->stages);
}

bool tr_optim_apart(const struct tr_optim *o)
{
    return o->beside || !tr_states_plain(&o->states);
}

bool tr_optim_at_hand(const struct tr_optim *o)
{
    bool all = true;

    for (int i = 0; i < o->homes; i++)
        all = all && tr_home_at_hand(&o->home[i]);
    return all;
}

bool tr_optim_in_files(const struct tr_optim *o)
{
    return o->beside && o->beside->folders;
}

int64_t tr_optim_tile_end(const struct tr_optim *o, int64_t at)
{
    const struct tr_home *h = &o->home[0];

    while (at >= h->first + h->count)
        h++;
    return h->first + tr_home_tile_end(h, at - h->first);
}

int64_t tr_optim_file_bytes(const struct tr_optim *o)
{
    return o->beside ? tr_home_file_bytes(o->beside) : 0;
}

struct tr_tensor tr_optim_masters(const struct tr_optim *o, int i)
{
    int64_t at = 0;

    if (!o->main.data)
        return tr_tensor_span(&o->params->values, o->own[i].first, o->own[i].count);
    for (int k = 0; k < i; k++)
        at += o->own[k].count;
    return tr_tensor_span(&o->main, at, o->own[i].count);
}

/* ---- spans ---- */

/* The elements of a span in `flat`, a flat buffer; or where there are buffers of owned elements, in that of the first
   ones, which stay with the device, or in that of the others. */
static struct tr_tensor part_of(const struct tr_optim *o, const struct tr_optim_span *s,
                                const struct tr_tensor *flat, const struct tr_tensor *here,
                                const struct tr_tensor *held)
{
    if (s->state < o->kept)
        return tr_tensor_span(here, s->state, s->count);
    return held->data ? tr_tensor_span(held, s->state - o->kept, s->count)
                      : tr_tensor_span(flat, s->first, s->count);
}

static struct tr_tensor grads_of(const struct tr_optim *o, const struct tr_optim_span *s)
{
    return part_of(o, s, &o->params->grads, &o->grads_here, &o->grads);
}

/* The first span that ends behind owned element `at`. */
static int span_from(const struct tr_optim *o, int64_t at)
{
    int low = 0, high = o->spans;

    while (low < high) {
        const int middle = low + (high - low) / 2;

        if (o->span[middle].state + o->span[middle].count > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* What span `i` has of owned elements lo .. hi - 1; false where that is nothing, and of all spans behind it. */
static bool common(const struct tr_optim *o, int i, int64_t lo, int64_t hi,
                   struct tr_optim_span *out)
{
    if (i >= o->spans)
        return false;
    *out = o->span[i];
    if (out->state + out->count > hi)
        out->count = hi - out->state;
    if (out->state < lo) {
        out->first += lo - out->state;
        out->count -= lo - out->state;
        out->state = lo;
    }
    return out->count > 0;
}

/* Where the weights of a span belong, or no data: the masters are all there is. */
static struct tr_tensor weights_of(const struct tr_optim *o, const struct tr_optim_span *s)
{
    const struct tr_tensor none = {0};

    if (o->apart && !o->shard.data)
        return none;
    return part_of(o, s, &o->params->values, &o->shard_here, &o->shard);
}

/* A row of a span that lies in tile `t` of a home. */
static struct tr_tensor row_of(const struct tr_home *h, int row, int64_t t,
                               const struct tr_optim_span *s)
{
    return tr_home_row(h, row, t, s->state - h->first, s->count);
}

static struct tr_tensor masters_of(const struct tr_optim *o, const struct tr_home *h, int64_t t,
                                   const struct tr_optim_span *s)
{
    return h->folders || h->row[TR_ROW_MASTER].data
               ? row_of(h, TR_ROW_MASTER, t, s)
               : tr_tensor_span(&o->params->values, s->first, s->count);
}

/* ---- tiles of a home that is not the device's ---- */

static void bounds(const struct tr_home *h, int64_t t, int64_t *lo, int64_t *hi)
{
    *lo = h->first + tr_home_cut(h, t);
    *hi = h->first + tr_home_cut(h, t + 1);
}

/* The elements of a span in one of the buffers for a tile. */
static struct tr_tensor in_tile(const struct tr_tensor *buffers, int64_t t, int64_t lo,
                                const struct tr_optim_span *s)
{
    return tr_tensor_span(&buffers[t % 2], s->state - lo, s->count);
}

/* The weights of tile t - 2 have left what tile t takes: buffers, and of files the places of tiles. */
static void make_way(struct tr_optim *o, struct tr_queue *q, int64_t t)
{
    q->on->moved(q, o->sent[t % 2]);
    o->sent[t % 2] = 0;
}

/* Before anything else is brought there. */
static void settle(struct tr_optim *o)
{
    for (int i = 0; i < 2 && o->beside; i++)
        make_way(o, o->device, i);
}

/* The weights of a span, which is in tile `t`, to where the model has them. */
static void send(struct tr_optim *o, struct tr_queue *q, int64_t t, const struct tr_optim_span *s)
{
    const struct tr_home *h = o->beside;
    const struct tr_tensor to = weights_of(o, s);
    struct tr_tensor from;
    int64_t lo, hi;

    bounds(h, t, &lo, &hi);
    from = o->rounds ? in_tile(o->going, t, lo, s) : row_of(h, TR_ROW_MASTER, t, s);
    o->sent[t % 2] = q->on->move(q, TR_LANE_IN, &to, &from);
}

/* The weights of a span where others bring them from, with the host, unless they are the masters. */
static void keep(struct tr_optim *o, int64_t t, const struct tr_optim_span *s)
{
    const struct tr_home *h = o->beside;
    const struct tr_tensor to = weights_of(o, s), from = row_of(h, TR_ROW_MASTER, t, s);

    if (to.data != from.data)
        h->q->on->copy(h->q, &to, &from);
}

/* What is queued from here on finds the weights of all tiles. */
static void end_sending(struct tr_optim *o, struct tr_queue *q)
{
    for (int i = 0; i < 2; i++)
        q->on->after(q, o->sent[i]);
}

static void publish_beside(struct tr_optim *o, struct tr_queue *q)
{
    struct tr_home *h = o->beside;
    struct tr_optim_span s;
    int64_t lo, hi;

    settle(o);
    for (int64_t t = 0; t < tr_home_tiles(h); t++) {
        bounds(h, t, &lo, &hi);
        make_way(o, q, t);
        tr_home_hold(h, t, false);
        tr_home_ahead(h, t + 1);
        for (int i = span_from(o, lo); common(o, i, lo, hi, &s); i++) {
            if (o->rounds && !o->shard_hosted) {
                const struct tr_tensor to = in_tile(o->going, t, lo, &s);
                const struct tr_tensor from = row_of(h, TR_ROW_MASTER, t, &s);

                h->q->on->copy(h->q, &to, &from);
            }
            if (o->shard_hosted)
                keep(o, t, &s);
            else
                send(o, q, t, &s);
        }
    }
    end_sending(o, q);
}

static void publish_here(struct tr_optim *o, const struct tr_home *h, struct tr_queue *q)
{
    const int64_t end = h->first + h->count;
    struct tr_optim_span s;

    if (!h->row[TR_ROW_MASTER].data)
        return;
    for (int i = span_from(o, h->first); common(o, i, h->first, end, &s); i++) {
        const struct tr_tensor to = weights_of(o, &s), from = row_of(h, TR_ROW_MASTER, 0, &s);

        if (to.data && to.data != from.data)
            q->on->copy(q, &to, &from);
    }
}

void tr_optim_publish(struct tr_optim *o, struct tr_queue *q)
{
    for (int i = 0; i < o->homes; i++)
        if (!o->home[i].beside)
            publish_here(o, &o->home[i], q);
    if (o->beside)
        publish_beside(o, q);
}

/* ---- elements, for who has them in memory of the host ---- */

enum way { GET, PUT, PEEK };

static void pass_on(struct tr_queue *q, const struct tr_tensor *there, float *x, enum way way)
{
    if (way == PUT)
        q->on->upload(q, there, x);
    else if (way == GET)
        q->on->download(q, x, there);
    else
        memcpy(x, there->data, (size_t)tr_tensor_bytes(there));
}

/* Of the model's weights, which are the masters of the device. */
static void access_values(struct tr_optim *o, int64_t at, int64_t count, float *x, enum way way)
{
    int64_t state = 0;

    for (int i = 0; i < o->owns; state += o->own[i++].count) {
        const int64_t lo = at > state ? at : state;
        const int64_t n = smaller(at + count, state + o->own[i].count) - lo;
        struct tr_tensor part;

        if (n <= 0)
            continue;
        part = tr_tensor_span(&o->params->values, o->own[i].first + lo - state, n);
        pass_on(o->device, &part, x + lo - at, way);
    }
}

static void access(struct tr_optim *o, int row, int64_t at, int64_t count, float *x, enum way way)
{
    if (way != PEEK)
        settle(o);
    for (int i = 0; i < o->homes; i++) {
        struct tr_home *h = &o->home[i];
        const int64_t lo = at > h->first ? at : h->first;
        const int64_t n = smaller(at + count, h->first + h->count) - lo;

        if (n <= 0)
            continue;
        if (row == TR_ROW_MASTER && !h->folders && !h->row[row].data)
            access_values(o, lo, n, x + lo - at, way);
        else if (way == PUT)
            tr_home_put(h, row, lo - h->first, n, x + lo - at);
        else if (way == GET)
            tr_home_get(h, row, lo - h->first, n, x + lo - at);
        else
            tr_home_peek(h, row, lo - h->first, n, x + lo - at);
    }
}

void tr_optim_get(struct tr_optim *o, int row, int64_t at, int64_t count, float *to)
{
    access(o, row, at, count, to, GET);
}

void tr_optim_put(struct tr_optim *o, int row, int64_t at, int64_t count, const float *from)
{
    access(o, row, at, count, (float *)from, PUT);
}

void tr_optim_peek(struct tr_optim *o, int row, int64_t at, int64_t count, float *to)
{
    access(o, row, at, count, to, PEEK);
}

/* ---- sums ---- */

/* Begin a sum: what is added up is that of this stage. */
static struct tr_tensor begin_sum(struct tr_optim *o, struct tr_queue *q)
{
    q->on->fill(q, &o->sum, 0.0F);
    return tr_tensor_span(&o->sum, o->stage, 1);
}

/* Over the ranks of `group`: that of each stage in o->found, and of all together. */
static double reduced(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q)
{
    double sum = 0.0;

    group->via->allreduce(group, q, &o->sum, TR_SUM);
    q->on->download(q, o->found, &o->sum);
    for (int i = 0; i < o->stages; i++)
        sum += o->found[i];
    return sum;
}

/* The queue that works on the gradients of a span where they lie. */
static struct tr_queue *grads_queue(const struct tr_optim *o, struct tr_queue *q,
                                    const struct tr_optim_span *s)
{
    return o->grads_hosted && q->on->apart && s->state >= o->kept ? o->beside->q : q;
}

/* Of the spans that queue `by` works on. */
static void add_grads(const struct tr_optim *o, struct tr_queue *q, struct tr_queue *by,
                      const struct tr_tensor *sum, tr_optim_adds *add)
{
    for (int i = 0; i < o->spans; i++) {
        const struct tr_optim_span *s = &o->span[i];
        const struct tr_tensor g = grads_of(o, s);

        if (s->counts && grads_queue(o, q, s) == by)
            add(by, sum, &g);
    }
}

double tr_optim_sum_grads(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                          tr_optim_adds *add)
{
    double hosted = 0.0;
    const struct tr_tensor host_sum = tr_f64_1(&hosted, 1), own = begin_sum(o, q);

    if (o->grads_hosted && q->on->apart) {
        add_grads(o, q, o->beside->q, &host_sum, add);
        q->on->upload(q, &own, &hosted);
    }
    add_grads(o, q, q, &own, add);
    return reduced(o, group, q);
}

/* Of the masters in a home, added to `sum`, which its queue works on. */
static void add_squares(struct tr_optim *o, struct tr_home *h, const struct tr_tensor *sum)
{
    struct tr_optim_span s;
    int64_t lo, hi;

    for (int64_t t = 0; t < tr_home_tiles(h); t++) {
        bounds(h, t, &lo, &hi);
        tr_home_hold(h, t, false);
        tr_home_ahead(h, t + 1);
        for (int i = span_from(o, lo); common(o, i, lo, hi, &s); i++) {
            const struct tr_tensor x = row_of(h, TR_ROW_MASTER, t, &s);

            if (s.counts)
                h->q->on->sumsq(h->q, sum, &x);
        }
    }
}

double tr_optim_squares(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q)
{
    const struct tr_tensor none = {0};
    double there = 0.0;
    const struct tr_tensor sum = tr_f64_1(&there, 1), own = begin_sum(o, q);

    settle(o);
    if (o->apart && o->beside)
        add_squares(o, o->beside, &sum);
    q->on->upload(q, &own, &there);
    for (int i = 0; i < o->homes && o->apart; i++)
        if (!o->home[i].beside)
            add_squares(o, &o->home[i], &own);
    for (int i = 0; i < o->spans && !o->apart; i++) {
        const struct tr_tensor x = part_of(o, &o->span[i], &o->params->values, &none, &none);

        if (o->span[i].counts)
            q->on->sumsq(q, &own, &x);
    }
    return reduced(o, group, q);
}

/* ---- the update ---- */

/* Of a span in tile `t` of a home.  `weights` get the new ones, rounded, or NULL. */
static void update_span(const struct tr_optim *o, const struct tr_home *h, int64_t t,
                        const struct tr_optim_span *s, const struct tr_tensor *weights,
                        const struct tr_tensor *g, const struct rule *rule)
{
    const struct tr_code_blocks blocks = tr_states_blocks(&o->states, s->state);
    const struct tr_tensor p = masters_of(o, h, t, s);
    const struct tr_tensor m = row_of(h, TR_ROW_STATE + TR_STATE_EXP_AVG, t, s);
    const struct tr_tensor v = row_of(h, TR_ROW_STATE + TR_STATE_EXP_AVG_SQ, t, s);
    struct tr_adamw adamw = rule->adamw;

    if (s->decay && !s->frozen) {
        adamw.decay = rule->decay;
        adamw.bias1 = rule->decayed_bias1;
    }
    if (s->frozen)
        adamw.lr = 0.0F;
    o->before(o->ctx, s->state, s->count);
    if (blocks.size > 0)
        h->q->on->adam8(h->q, weights, &p, &m, &v, g, adamw, blocks);
    else
        h->q->on->adamw(h->q, weights, &p, &m, &v, g, adamw);
}

static void update_here(const struct tr_optim *o, const struct tr_home *h, const struct rule *rule)
{
    const int64_t end = h->first + h->count;
    struct tr_optim_span s;

    for (int i = span_from(o, h->first); common(o, i, h->first, end, &s); i++) {
        const struct tr_tensor to = weights_of(o, &s);
        const struct tr_tensor g = grads_of(o, &s);

        update_span(o, h, 0, &s, o->rounds && to.data ? &to : NULL, &g, rule);
    }
}

/* Megatron-LM's timers of copies between half precision and fp32: what an update waits for them.  Where the weights
   are updated by who has the gradients, that pass reads and rounds, and there is nothing to wait for. */
static void copies_start(const struct tr_optim *o, enum tr_timer timer)
{
    if (o->rounds)
        tr_timer_start(timer);
}

static void copies_stop(const struct tr_optim *o, enum tr_timer timer)
{
    if (o->rounds)
        tr_timer_stop(timer);
}

/* The gradients of tile `t` begin to come.  Returns what to wait for. */
static int64_t call_gradients(struct tr_optim *o, struct tr_queue *q, int64_t t)
{
    const struct tr_home *h = o->beside;
    struct tr_optim_span s;
    int64_t lo, hi, last = 0;

    bounds(h, t, &lo, &hi);
    for (int i = span_from(o, lo); !o->grads_hosted && common(o, i, lo, hi, &s); i++) {
        const struct tr_tensor from = grads_of(o, &s);
        const struct tr_tensor to = in_tile(o->came, t, lo, &s);

        last = q->on->move(q, TR_LANE_OUT, &to, &from);
    }
    return last;
}

static void update_tile(struct tr_optim *o, struct tr_queue *q, int64_t t, const struct rule *rule)
{
    struct tr_home *h = o->beside;
    struct tr_optim_span s;
    int64_t lo, hi;

    bounds(h, t, &lo, &hi);
    tr_home_hold(h, t, true);
    for (int i = span_from(o, lo); common(o, i, lo, hi, &s); i++) {
        const struct tr_tensor g = o->grads_hosted ? grads_of(o, &s) : in_tile(o->came, t, lo, &s);

        if (o->rounds) {
            const struct tr_tensor weights =
                o->shard_hosted ? weights_of(o, &s) : in_tile(o->going, t, lo, &s);

            update_span(o, h, t, &s, &weights, &g, rule);
        } else {
            update_span(o, h, t, &s, NULL, &g, rule);
        }
        if (!o->shard_hosted)
            send(o, q, t, &s);
        else if (!o->rounds)
            keep(o, t, &s);
    }
    tr_home_behind(h, t);
}

/* While a tile is updated the gradients of the next come, the weights of the one before go, and with files the
   tiles behind it are read and those before it written. */
static void update_beside(struct tr_optim *o, struct tr_queue *q, const struct rule *rule)
{
    struct tr_home *h = o->beside;
    const int64_t tiles = tr_home_tiles(h);
    int64_t coming[2];

    settle(o);
    tr_home_ahead(h, 0);
    coming[0] = call_gradients(o, q, 0);
    for (int64_t t = 0; t < tiles; t++) {
        copies_start(o, TR_TIMER_COPY_WEIGHTS);
        make_way(o, q, t);
        copies_stop(o, TR_TIMER_COPY_WEIGHTS);
        if (t + 1 < tiles)
            coming[(t + 1) % 2] = call_gradients(o, q, t + 1);
        tr_home_hold(h, t, false);
        tr_home_ahead(h, t + 1);
        copies_start(o, TR_TIMER_COPY_GRADS);
        q->on->moved(q, coming[t % 2]);
        copies_stop(o, TR_TIMER_COPY_GRADS);
        update_tile(o, q, t, rule);
    }
    copies_start(o, TR_TIMER_COPY_WEIGHTS);
    end_sending(o, q);
    copies_stop(o, TR_TIMER_COPY_WEIGHTS);
}

static void update_homes(struct tr_optim *o, struct tr_queue *q, const struct rule *rule)
{
    for (int i = 0; i < o->homes; i++)
        if (!o->home[i].beside)
            update_here(o, &o->home[i], rule);
    if (o->beside) {
        update_beside(o, q, rule);
    } else {
        copies_start(o, TR_TIMER_COPY_WEIGHTS);
        copies_stop(o, TR_TIMER_COPY_WEIGHTS);
    }
}

/* A beta of 1 keeps a moment, a rate of 0 the weights.  With eps / sqrt(bias2) for eps the operation divides by
   (sqrt(v) + eps) / sqrt(bias2); and what it takes off p in one, (p - lr u) (1 - lr decay) is p - lr decay p less
   (1 - lr decay) times lr u. */
static void update_averaged(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                            const struct rule *usual)
{
    struct rule of_moments = *usual, of_weights = *usual;

    of_moments.decay = of_moments.adamw.lr = 0.0F;
    of_moments.adamw.beta2 = 1.0F;
    update_homes(o, q, &of_moments);
    how->average(how->ctx, &o->state[TR_STATE_EXP_AVG]);
    of_weights.adamw.beta1 = of_weights.adamw.beta2 = 1.0F;
    of_weights.adamw.eps = (float)(o->eps / sqrt((double)usual->adamw.bias2));
    of_weights.decayed_bias1 = (float)((double)usual->adamw.bias1 / (1.0 - how->lr * how->decay));
    update_homes(o, q, &of_weights);
}

static void update(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                   double factor)
{
    struct rule rule = {
        .adamw = {.lr = (float)how->lr,
                  .beta1 = (float)o->beta1,
                  .beta2 = (float)o->beta2,
                  .eps = (float)o->eps,
                  .grad_scale = (float)factor},
        .decay = (float)how->decay,
    };

    /* From the betas as floats: 0.999f is off by 1.3e-5 of 1 - beta2, and only a correction that is
       off by the same cancels it. */
    rule.adamw.bias1 = (float)(1.0 - pow((double)rule.adamw.beta1, (double)o->steps));
    rule.adamw.bias2 = (float)(1.0 - pow((double)rule.adamw.beta2, (double)o->steps));
    rule.decayed_bias1 = rule.adamw.bias1;
    if (how->average)
        update_averaged(o, q, how, &rule);
    else
        update_homes(o, q, &rule);
}

void tr_optim_clear(struct tr_optim *o, struct tr_queue *q)
{
    for (int i = 0; i < o->zeros && !o->grads.data; i++) {
        struct tr_tensor g = tr_tensor_span(&o->params->grads, o->zero[i].first, o->zero[i].count);

        q->on->fill(q, &g, 0.0F);
    }
}

static void add_squares_of(struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *x)
{
    q->on->sumsq(q, out, x);
}

struct tr_optim_result tr_optim_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                                     const struct tr_optim_how *how)
{
    const enum tr_timer timer = how->check ? TR_TIMER_UNSCALE : TR_TIMER_CLIP;
    struct tr_optim_result out = {0};

    if (o->clip <= 0.0 && !how->check)
        return out;
    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_start(timer);
    out.norm = sqrt(tr_optim_sum_grads(o, group, q, add_squares_of)) / how->loss_scale;
    out.part = sqrt(o->found[o->stage]) / how->loss_scale;
    out.skipped = !isfinite(out.norm);
    out.idle = !isfinite(out.part);
    out.all = true;
    for (int i = 0; i < o->stages; i++)
        out.all = out.all && !isfinite(o->found[i]);
    tr_timer_stop(timer);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    return out;
}

/* What clipping multiplies gradients by.  Where the norm was taken to see if they are finite, the timer of that
   has it. */
static double clipping(const struct tr_optim *o, const struct tr_optim_how *how, double norm)
{
    double factor;

    if (o->clip <= 0.0)
        return 1.0;
    if (how->check)
        tr_timer_start(TR_TIMER_CLIP);
    factor = fmin(o->clip / (norm + 1e-6), 1.0);
    if (how->check)
        tr_timer_stop(TR_TIMER_CLIP);
    return factor;
}

void tr_optim_update(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                     const struct tr_optim_result *found)
{
    const double factor = 1.0 / how->loss_scale;

    tr_timer_start(TR_TIMER_OPTIMIZER);
    copies_start(o, TR_TIMER_COPY_GRADS);
    copies_stop(o, TR_TIMER_COPY_GRADS);
    if (!found->all)
        o->steps++;
    if (!found->idle)
        update(o, q, how, factor * clipping(o, how, found->part));
    tr_optim_clear(o, q);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
}
