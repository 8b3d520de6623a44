/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TP_TP_H
#define TR_TP_TP_H

#include "comm/comm.h"
#include "device/device.h"

/*
 * Tensor parallelism: the ranks of a group hold slices of the same layer, and two operators join
 * their work.  Source: Shoeybi et al., "Megatron-LM" (2019), section 3, where they are f and g.
 *
 *   enter   stands before a layer whose outputs are sliced (column-parallel: qkv, MLP up, logits).
 *           Forward: every rank uses the whole x; nothing to do, so there is no function for it.
 *           Backward: each rank knows the part of dx that came through its slice; sum them.
 *   leave   stands behind a layer whose inputs are sliced (row-parallel: attention output, MLP
 *           down, and the embedding, which is one on one-hot rows).
 *           Forward: each rank has one term of y; sum them.  What is added once, such as the bias
 *           and the residual, is added after.
 *           Backward: every rank gets the whole dy; nothing to do.
 *
 * So a block costs two sums forward and two backward.  All functions work in place, are collective
 * over `tp`, return the same bits on all its ranks, and do nothing when it has one rank.  `x` is
 * TR_F32 of any shape, the same on all ranks.
 */

/* dx = sum over the ranks of dx: backward of enter. */
void tr_tp_enter_bwd(struct tr_comm *tp, struct tr_queue *q, const struct tr_tensor *dx);

/* y = sum over the ranks of y: forward of leave. */
void tr_tp_leave_fwd(struct tr_comm *tp, struct tr_queue *q, const struct tr_tensor *y);

/*
 * x = sum, or elementwise maximum, over the ranks: what the vocabulary-parallel loss needs between
 * xent_max, xent_sum and xent_loss (device/ops.def).  They have no gradient of their own: xent_bwd
 * is the gradient of the whole loss.
 */
void tr_tp_sum(struct tr_comm *tp, struct tr_queue *q, const struct tr_tensor *x);
void tr_tp_max(struct tr_comm *tp, struct tr_queue *q, const struct tr_tensor *x);

#endif
