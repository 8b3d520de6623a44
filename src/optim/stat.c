/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/stat.h"

#include <math.h>

/* What `add` adds up over the elements that count: those of `all`, a flat buffer. */
static double
sum(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q, const struct tr_tensor *all,
    void (*add)(struct tr_queue *, const struct tr_tensor *, const struct tr_tensor *))
{
    *tr_f64(&o->sum) = 0.0;
    for (int i = 0; i < o->spans; i++) {
        struct tr_tensor part;

        if (!o->span[i].counts)
            continue;
        part = tr_tensor_span(all, o->span[i].first, o->span[i].count);
        add(q, &o->sum, &part);
    }
    group->via->allreduce(group, q, &o->sum, TR_SUM);
    q->on->wait(q);
    return *tr_f64(&o->sum);
}

double tr_stat_params_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q)
{
    return sqrt(sum(o, group, q, &o->params->values, q->on->sumsq));
}

double tr_stat_zeros(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q, int64_t padding)
{
    return sum(o, group, q, &o->params->grads, q->on->count_zeros) - (double)padding;
}
