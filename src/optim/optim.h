/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_OPTIM_H
#define TR_OPTIM_OPTIM_H

#include <stdint.h>

#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "model/param.h"
#include "util/arena.h"

/*
 * The optimizer: the norm of all gradients, clipping, and AdamW (decoupled decay, Loshchilov and
 * Hutter 2019) over the flat buffers, in spans of equal weight decay.
 */
struct tr_span {
    int64_t first, count;       /* elements of the flat buffers */
    bool decay;                 /* weight decay applies */
    bool counts;                /* part of the norm on this rank; see tr_param_counts() */
};

struct tr_optim {
    const struct tr_params *params;     /* borrowed */
    int spans;
    struct tr_span *span;               /* [spans], owned */
    struct tr_tensor m, v;              /* [elems] moments, in the arena */
    struct tr_tensor sum;               /* TR_F64 [1] */
    double beta1, beta2, eps, decay, clip;
    int64_t steps;                      /* executed; the t of the bias corrections */
};

/* `tp` is this rank's place in its tensor-parallel group. */
void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp);
void tr_optim_close(struct tr_optim *o);

/* Take the moments from the arena ("optimizer"). */
void tr_optim_plan(struct tr_optim *o, struct tr_arena *a);

/*
 * One step at learning rate `lr`.  Returns the norm of the gradients before clipping, over all
 * parameters of the model (0 when --clip-grad is 0: it is then not computed).  When the norm is
 * larger than --clip-grad, gradients are scaled by clip / (norm + 1e-6), as Megatron does.  When it
 * is not finite, nothing is updated: the weights stay what the last good step made them.
 * Collective over `mp`, the model-parallel group.  Gradients are zero afterwards.  Charged to
 * "optimizer", the norm to "optimizer-clip-main-grad" inside it.
 */
double tr_optim_step(struct tr_optim *o, struct tr_comm *mp, struct tr_queue *q, double lr);

#endif
