/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

/*
 * The distributed optimizer (ZeRO-1, Rajbhandari et al. 2020): a replica receives the sum of its slice of each
 * bucket, updates that, and the replicas gather the weights from one another (dp/buckets.h).
 */
static void cost(const struct tr_shape *s, double params, double grad, double elem,
                 struct tr_dp_cost *out)
{
    out->reduce = (struct tr_dp_leg){.bytes = params * tr_data_parallel_wire(&s->dp, grad),
                                     .passes = 1.0,
                                     .during = 1.0,
                                     .kind = TR_DP_LEG_REDUCE_SCATTER};
    out->gather = (struct tr_dp_leg){.bytes = params * elem,
                                     .passes = 1.0,
                                     .during = s->dp.overlap_gather ? 1.0 : 0.0,
                                     .kind = TR_DP_LEG_ALLGATHER};
}

const struct tr_dp_mode tr_dp_shard = {.cost = cost};
