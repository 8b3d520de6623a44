/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/cost.h"
#include "plan/plan_parts.h"

/* Of all tensor ranks and replicas of a stage. */
static void add_stage(struct tr_plan *p, const struct tr_cost *x, const struct tr_plan_stage *g)
{
    const struct tr_layout *l = &p->shape.layout;
    const double ranks = (double)l->w * l->d, params = (double)g->params;
    struct tr_plan_traffic *t = p->traffic;

    for (int chunk = 0; chunk < l->k; chunk++)
        t[TR_PLAN_TRAFFIC_TENSOR].bytes +=
            ranks * p->shape.batches.micros * tr_cost_tensor_bytes(x, g->stage, chunk);
    t[TR_PLAN_TRAFFIC_REDUCE].bytes += ranks * tr_cost_reduce_bytes(x, params);
    t[TR_PLAN_TRAFFIC_GATHER].bytes += ranks * tr_cost_gather_bytes(x, params);
}

void tr_plan_traffic_of(struct tr_plan *p)
{
    const struct tr_layout *l = &p->shape.layout;
    const double ranks = (double)l->w * l->d;
    struct tr_plan_traffic *t = p->traffic;
    struct tr_cost x;

    tr_cost_init(&x, &p->shape, &p->machine);
    for (int i = 0; i < l->p; i++)
        add_stage(p, &x, &p->stage[i]);
    if (l->p > 1)
        t[TR_PLAN_TRAFFIC_STAGES].bytes =
            ranks * p->shape.batches.micros * tr_layout_links(l) *
            tr_cost_transfer_bytes(&x, p->config.scatter_gather_tensors_in_pipeline);
    t[TR_PLAN_TRAFFIC_TIED].bytes = 2.0 * ranks * tr_cost_tied_bytes(&x);
    t[TR_PLAN_TRAFFIC_TENSOR].between = tr_cost_spans(&x, TR_COST_TENSOR);
    t[TR_PLAN_TRAFFIC_STAGES].between = t[TR_PLAN_TRAFFIC_TIED].between =
        tr_cost_spans(&x, TR_COST_STAGES);
    t[TR_PLAN_TRAFFIC_REDUCE].between = t[TR_PLAN_TRAFFIC_GATHER].between =
        tr_cost_spans(&x, TR_COST_REPLICAS);
}
