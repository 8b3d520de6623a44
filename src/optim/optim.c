/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/timer.h"

static void *need(int64_t count, size_t size)
{
    void *p = calloc(count > 0 ? (size_t)count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the optimizer's list of spans");
    return p;
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
    if (last && last->decay == r->decay && last->counts == counts &&
        last->first + last->count == first && last->state + last->count == state) {
        last->count += end - first;
        return;
    }
    o->span[o->spans++] = (struct tr_optim_span){
        .first = first,
        .count = end - first,
        .state = state,
        .decay = r->decay,
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

void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp, const struct tr_bucket *own, int owns)
{
    const struct tr_bucket all = {0, params->size};

    memset(o, 0, sizeof *o);
    o->params = params;
    o->beta1 = c->adam_beta1;
    o->beta2 = c->adam_beta2;
    o->eps = c->adam_eps;
    o->clip = c->clip_grad;
    o->owns = own ? owns : 1;
    o->own = need(o->owns, sizeof *o->own);
    for (int i = 0; i < o->owns; i++)
        o->own[i] = own ? own[i] : all;
    list_spans(o, tp);
    list_zeros(o);
}

void tr_optim_close(struct tr_optim *o)
{
    free(o->own);
    free(o->span);
    free(o->zero);
    memset(o, 0, sizeof *o);
}

static struct tr_tensor take(const struct tr_optim *o, struct tr_arena *a, enum tr_dtype type)
{
    const size_t bytes = (size_t)(o->owned * tr_dtype_bytes(type));

    return tr_tensor_1(tr_arena_take(a, TR_LABEL_OPTIMIZER, bytes), type, o->owned);
}

void tr_optim_plan(struct tr_optim *o, struct tr_arena *a, enum tr_dtype values, bool steps)
{
    o->apart = o->params->windows;
    if (values != TR_F32 || o->apart)
        o->main = take(o, a, TR_F32);
    if (!steps)
        return;
    for (int i = 0; i < TR_STATES; i++)
        o->state[i] = take(o, a, tr_optim_state_type(i));
    o->sum = tr_f64_1(tr_arena_take(a, TR_LABEL_OPTIMIZER, sizeof(double)), 1);
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

void tr_optim_publish(struct tr_optim *o, struct tr_queue *q)
{
    int64_t at = 0;

    for (int i = 0; o->main.data && !o->apart && i < o->owns; i++) {
        struct tr_tensor from = tr_tensor_span(&o->main, at, o->own[i].count);
        struct tr_tensor to = tr_tensor_span(&o->params->values, o->own[i].first, o->own[i].count);

        q->on->copy(q, &to, &from);
        at += o->own[i].count;
    }
}

/* The elements of a span in `flat`, a flat buffer, or where there is one in `held`, an [owned] one. */
static struct tr_tensor part_of(const struct tr_optim_span *s, const struct tr_tensor *flat,
                                const struct tr_tensor *held)
{
    return held->data ? tr_tensor_span(held, s->state, s->count)
                      : tr_tensor_span(flat, s->first, s->count);
}

static double sum_of(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                     const struct tr_tensor *flat, const struct tr_tensor *held, tr_optim_adds *add)
{
    double sum;

    q->on->fill(q, &o->sum, 0.0F);
    for (int i = 0; i < o->spans; i++) {
        struct tr_tensor part;

        if (!o->span[i].counts)
            continue;
        part = part_of(&o->span[i], flat, held);
        add(q, &o->sum, &part);
    }
    group->via->allreduce(group, q, &o->sum, TR_SUM);
    q->on->download(q, &sum, &o->sum);
    return sum;
}

double tr_optim_sum_grads(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                          tr_optim_adds *add)
{
    return sum_of(o, group, q, &o->params->grads, &o->grads, add);
}

double tr_optim_sum_values(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                           tr_optim_adds *add)
{
    const struct tr_tensor none = {0};

    return sum_of(o, group, q, &o->params->values, o->apart ? &o->main : &none, add);
}

static void update(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                   double factor)
{
    struct tr_adamw rule = {
        .lr = (float)how->lr,
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .eps = (float)o->eps,
        .grad_scale = (float)factor,
    };

    const struct tr_tensor none = {0};

    /* From the betas as floats: 0.999f is off by 1.3e-5 of 1 - beta2, and only a correction that is
       off by the same cancels it. */
    rule.bias1 = (float)(1.0 - pow((double)rule.beta1, (double)o->steps));
    rule.bias2 = (float)(1.0 - pow((double)rule.beta2, (double)o->steps));
    for (int i = 0; i < o->spans; i++) {
        const struct tr_optim_span *s = &o->span[i];
        struct tr_tensor value = part_of(s, &o->params->values, o->apart ? &o->main : &none);
        struct tr_tensor g = part_of(s, &o->params->grads, &o->grads);
        struct tr_tensor m = tr_tensor_span(&o->state[TR_STATE_EXP_AVG], s->state, s->count);
        struct tr_tensor v = tr_tensor_span(&o->state[TR_STATE_EXP_AVG_SQ], s->state, s->count);

        rule.decay = s->decay ? (float)how->decay : 0.0F;
        if (o->main.data && !o->apart) {
            struct tr_tensor main = tr_tensor_span(&o->main, s->state, s->count);

            q->on->adamw(q, &value, &main, &m, &v, &g, rule);
        } else {
            q->on->adamw(q, NULL, &value, &m, &v, &g, rule);
        }
    }
}

static void zero_gradients(struct tr_optim *o, struct tr_queue *q)
{
    for (int i = 0; i < o->zeros && !o->grads.data; i++) {
        struct tr_tensor g = tr_tensor_span(&o->params->grads, o->zero[i].first, o->zero[i].count);

        q->on->fill(q, &g, 0.0F);
    }
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
    out.norm = sqrt(tr_optim_sum_grads(o, group, q, q->on->sumsq)) / how->loss_scale;
    out.skipped = !isfinite(out.norm);
    tr_timer_stop(timer);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    return out;
}

void tr_optim_update(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                     const struct tr_optim_result *found)
{
    double factor = 1.0 / how->loss_scale;

    tr_timer_start(TR_TIMER_OPTIMIZER);
    if (o->clip > 0.0)
        factor *= fmin(o->clip / (found->norm + 1e-6), 1.0);
    if (!found->skipped) {
        o->steps++;
        update(o, q, how, factor);
    }
    zero_gradients(o, q);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
}
