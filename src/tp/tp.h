/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TP_TP_H
#define TR_TP_TP_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/device.h"

/*
 * Tensor parallelism: the ranks of a group hold shards of the same layer, and two operators join
 * their work: enter is Megatron's f, leave its g (Shoeybi et al., "Megatron-LM", 2019, section 3).
 *
 *   enter   stands before a layer whose outputs are sharded (column-parallel: qkv, MLP up, logits).
 *           Forward: every rank uses the whole x.
 *           Backward: each rank has the part of dx that came through its shard; all-reduce them.
 *   leave   stands after a layer whose inputs are sharded (row-parallel: attention output, MLP
 *           down, and the embedding, which is one on one-hot rows).
 *           Forward: each rank has one term of y; sum them.  What is added once, such as the bias
 *           and the residual, is added after.
 *           Backward: every rank uses the whole dy.
 *
 * So a block costs two sums forward and two backward.
 *
 * Sequence parallelism (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
 * Models", 2022, section 4.2) shards the activations between a leave and the next enter as well: of
 * the N rows of the stream each rank holds a block of N/W, its `part`; `full` is all N of them.
 * Then a leave is a reduce-scatter and an enter an all-gather, and each is the gradient of the
 * other: as many bytes as the sums, and a W-th of the memory.  Rows are sharded, not sequences, so
 * N has to divide by W and T need not.  Parameters of what is sharded that way (norms, and biases
 * that are added after a leave) have, on each rank, the gradient of its rows: sum them over the
 * group with tr_tp_sum() after backward.
 *
 * Code is the same with and without it when it takes the rows of the stream from tr_tp_rows() and
 * makes, without it, `part` and `full` one tensor; that is asserted.  With it `part` [N/W,...] is
 * memory of its own or block `rank` of `full` [N,...], which saves a copy in enter_fwd and
 * leave_bwd, and what is written to `full` there replaces all of it.
 *
 * All functions are collective over the group, return the same bits on all its ranks, and are empty
 * when it has one rank and `part` is `full`.  Tensors are TR_F32, TR_F16 or TR_BF16, of one type.
 */
struct tr_tp {
    struct tr_comm *comm; /* borrowed */
    bool sequence;
};

/* How many of the stream's `n` rows this rank holds, and the first of them. */
int64_t tr_tp_rows(const struct tr_tp *tp, int64_t n);
int64_t tr_tp_first_row(const struct tr_tp *tp, int64_t n);

/* full = the parts of all ranks.  With sequence parallelism a layer needs it again in backward, for
   the gradient of its weights: keep `part` and call it once more, or keep `full`. */
void tr_tp_enter_fwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                     const struct tr_tensor *part);

/* part = this rank's rows of the sum over the ranks of full, whose other rows are lost. */
void tr_tp_enter_bwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *part,
                     const struct tr_tensor *full);

/* part = this rank's rows of the sum over the ranks of full, whose other rows are lost. */
void tr_tp_leave_fwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *part,
                     const struct tr_tensor *full);

/* full = the parts of all ranks. */
void tr_tp_leave_bwd(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *full,
                     const struct tr_tensor *part);

/*
 * x = sum, or elementwise maximum, over the ranks, the same shape on all of them: what the
 * vocabulary-parallel loss needs between xent_max, xent_sum and xent_loss (device/ops.def), which
 * have no gradient of their own, and the sum of partial gradients above.
 */
void tr_tp_sum(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *x);
void tr_tp_max(const struct tr_tp *tp, struct tr_queue *q, const struct tr_tensor *x);

#endif
