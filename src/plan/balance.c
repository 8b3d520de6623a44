/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "plan/cost.h"
#include "plan/plan.h"

static double stage_seconds(const struct tr_cost *x, int stage)
{
    const struct tr_cost_chunk c = tr_cost_chunk(x, stage, 0);

    return c.forward + c.backward + c.tensor_forward + c.tensor_backward;
}

int64_t tr_plan_balanced(const struct tr_shape *s, const struct tr_machine *m)
{
    const struct tr_layout *l = &s->layout;
    const int between = l->p > 2 ? 1 : 0;
    struct tr_cost x;
    double layer, head, least = INFINITY;
    int64_t own, best = TR_PLAN_EVEN;

    if (l->p < 2 || l->k > 1)
        return TR_PLAN_EVEN;
    own = tr_layout_layers(l, l->p - 1, 0);
    if (own < 1 || tr_layout_layers(l, between, 0) < 1)
        return TR_PLAN_EVEN;
    tr_cost_init(&x, s, m);
    layer = stage_seconds(&x, between) / (double)tr_layout_layers(l, between, 0);
    head = stage_seconds(&x, l->p - 1) - (double)own * layer;
    for (int64_t last = own; last >= 0; last--) {
        const double others = ceil((double)(s->dims.layers - last) / (l->p - 1)) * layer;
        const double longest = fmax(others, (double)last * layer + head);

        if (longest < least) {
            least = longest;
            best = last;
        }
    }
    return best == own ? TR_PLAN_EVEN : best;
}

const char *tr_plan_layout(int64_t layers, int p, int64_t last, char list[TR_LAYOUT_TEXT])
{
    struct tr_layout l = {.p = p};
    const int64_t rest = layers - last, others = p - 1;

    (void)tr_layout_add(&l, others - rest % others, rest / others);
    (void)tr_layout_add(&l, rest % others, rest / others + 1);
    (void)tr_layout_add(&l, 1, last);
    return tr_layout_list(&l, list);
}
