/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/mode.h"

#include <math.h>

#include "telemetry/timer.h"
#include "util/log.h"

/*
 * --dp-mode local: local SGD, replicas that step on their own gradients and diverge.  From iteration
 * --train-warmup-steps on no gradients are exchanged: those of a replica are the mean over its own
 * micro-batches, clipped by the norm of its own, the same factor on all its ranks.  A gradient that is not
 * finite anywhere makes all replicas skip the step, so that they have one loss scale.
 */
bool tr_dp_reduces_in_warm_up(const struct tr_dp *x)
{
    return *x->of.iteration < x->of.config->train_warmup_steps;
}

void tr_dp_begin_apart(struct tr_dp *x)
{
    if (!tr_dp_reduces_in_warm_up(x))
        x->diverged = true;
}

double tr_dp_settle_apart(struct tr_dp *x, double norm, bool *skipped)
{
    struct tr_comm *world = x->of.world;
    double worst = *skipped ? (double)INFINITY : norm;
    struct tr_tensor t = tr_f64_1(&worst, 1);

    if (tr_dp_reduces_in_warm_up(x))
        return norm;
    tr_timer_start(TR_TIMER_OPTIMIZER);
    world->via->allreduce(world, NULL, &t, TR_MAX);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    *skipped = !isfinite(worst);
    return worst;
}

static void tell(struct tr_dp *x)
{
    tr_print_rank0("> replicas exchange nothing after iteration %lld\n",
                   (long long)x->of.config->train_warmup_steps);
}

const struct tr_dp_mode tr_dp_local = {
    .tell = tell,
    .reduces = tr_dp_reduces_in_warm_up,
    .begin = tr_dp_begin_apart,
    .settle = tr_dp_settle_apart,
};
