/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_STAT_H
#define TR_OPTIM_STAT_H

#include "optim/optim.h"

/*
 * Numbers over the whole model that the log can show.  Each element counts once, like in the norm of
 * the gradients.  Collective over `group`, which is that of tr_optim_norm(); the result is the same on
 * all its ranks.
 */

/* The 2-norm of all parameters: of the weights as the model computes with them, not the masters; with
   --zero-stage 3 of the masters. */
double tr_stat_params_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q);

/* Elements of the gradients that are zero, without the `padding` elements of the word embedding whose
   gradient is always zero: they are different ones in each layout.  (In Megatron padding takes part in
   the softmax, and its gradient is not zero.)  Between the sum over replicas and the step, which uses
   the gradients up. */
double tr_stat_zeros(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                     int64_t padding);

#endif
