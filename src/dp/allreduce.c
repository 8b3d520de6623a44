/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

/*
 * --dp-mode allreduce: the gradients of each bucket are all-reduced, and every replica makes the same update
 * of all weights (dp/buckets.h).
 */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    (void)elem;
    out->reduce = (struct tr_dp_leg){.bytes = params * tr_data_parallel_wire(&s->dp, grad),
                                     .passes = 2.0,
                                     .during = 1.0,
                                     .kind = TR_DP_LEG_ALLREDUCE};
}

const struct tr_dp_mode tr_dp_allreduce = {.cost = cost};
