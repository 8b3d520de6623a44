/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/stat.h"

#include <math.h>

double tr_stat_params_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q)
{
    return sqrt(tr_optim_squares(o, group, q));
}

static void add_zeros(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    q->on->count_zeros(q, out, x);
}

double tr_stat_zeros(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q, int64_t padding)
{
    return tr_optim_sum_grads(o, group, q, add_zeros) - (double)padding;
}
