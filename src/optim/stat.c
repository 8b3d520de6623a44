/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/stat.h"

#include <math.h>

double tr_stat_params_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q)
{
    return sqrt(tr_optim_squares(o, group, q));
}

double tr_stat_zeros(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q, int64_t padding)
{
    return tr_optim_sum_grads(o, group, q, tr_optim_grads_queue(o, q)->on->count_zeros) -
           (double)padding;
}
