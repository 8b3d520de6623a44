/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/timer.h"

/* Neighbours that are treated alike share a span: fewer and longer loops. */
static void add_param(struct tr_optim *o, const struct tr_param *p, int tp)
{
    bool counts = tr_param_counts(p, tp);
    struct tr_span *last = o->spans > 0 ? &o->span[o->spans - 1] : NULL;

    if (last && last->decay == p->decay && last->counts == counts) {
        last->count += p->elems;
        return;
    }
    o->span[o->spans++] = (struct tr_span){p->offset, p->elems, p->decay, counts};
}

void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp)
{
    memset(o, 0, sizeof *o);
    o->params = params;
    o->beta1 = c->adam_beta1;
    o->beta2 = c->adam_beta2;
    o->eps = c->adam_eps;
    o->decay = c->weight_decay;
    o->clip = c->clip_grad;
    o->span = calloc((size_t)params->count, sizeof *o->span);
    if (!o->span)
        tr_die(TR_ERESOURCE, "no memory left for the optimizer's list of spans");
    for (int i = 0; i < params->count; i++)
        add_param(o, &params->list[i], tp);
}

void tr_optim_close(struct tr_optim *o)
{
    free(o->span);
    memset(o, 0, sizeof *o);
}

void tr_optim_plan(struct tr_optim *o, struct tr_arena *a)
{
    int64_t n = o->params->elems;

    o->m = tr_f32_1(tr_arena_floats(a, "optimizer", n), n);
    o->v = tr_f32_1(tr_arena_floats(a, "optimizer", n), n);
    o->sum = tr_f64_1(tr_arena_take(a, "optimizer", sizeof(double)), 1);
}

static double norm(struct tr_optim *o, struct tr_comm *mp, struct tr_queue *q)
{
    *tr_f64(&o->sum) = 0.0;
    for (int i = 0; i < o->spans; i++) {
        struct tr_tensor g;

        if (!o->span[i].counts)
            continue;
        g = tr_tensor_span(&o->params->grads, o->span[i].first, o->span[i].count);
        q->on->sumsq(q, &o->sum, &g);
    }
    mp->via->allreduce(mp, q, &o->sum, TR_SUM);
    q->on->wait(q);
    return sqrt(*tr_f64(&o->sum));
}

static void update(struct tr_optim *o, struct tr_queue *q, double lr, double factor)
{
    struct tr_adamw how = {
        .lr = (float)lr,
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .eps = (float)o->eps,
        .grad_scale = (float)factor,
    };

    /* From the betas as floats: 0.999f is off by 1.3e-5 of 1 - beta2, and only a correction that is
       off by the same cancels it. */
    how.bias1 = (float)(1.0 - pow((double)how.beta1, (double)o->steps));
    how.bias2 = (float)(1.0 - pow((double)how.beta2, (double)o->steps));
    for (int i = 0; i < o->spans; i++) {
        int64_t first = o->span[i].first, count = o->span[i].count;
        struct tr_tensor p = tr_tensor_span(&o->params->values, first, count);
        struct tr_tensor g = tr_tensor_span(&o->params->grads, first, count);
        struct tr_tensor m = tr_tensor_span(&o->m, first, count);
        struct tr_tensor v = tr_tensor_span(&o->v, first, count);

        how.decay = o->span[i].decay ? (float)o->decay : 0.0F;
        q->on->adamw(q, NULL, &p, &m, &v, &g, how);
    }
}

double tr_optim_step(struct tr_optim *o, struct tr_comm *mp, struct tr_queue *q, double lr)
{
    double length = 0.0, factor = 1.0;

    tr_timer_start(TR_TIMER_OPTIMIZER);
    if (o->clip > 0.0) {
        tr_timer_start(TR_TIMER_CLIP);
        length = norm(o, mp, q);
        factor = fmin(o->clip / (length + 1e-6), 1.0);
        tr_timer_stop(TR_TIMER_CLIP);
    }
    if (isfinite(length)) {
        o->steps++;
        update(o, q, lr, factor);
    }
    q->on->fill(q, &o->params->grads, 0.0F);
    q->on->wait(q);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    return length;
}
