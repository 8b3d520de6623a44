/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_BLOCK_H
#define TR_COMM_BLOCK_H

#include "comm/comm.h"

/* The blocking calls of a transport that has nothing faster for them than to start and to finish: for
   its table.  Internal to comm/. */
void tr_block_allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                        enum tr_redop op);
void tr_block_reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                             const struct tr_tensor *in, enum tr_redop op);
void tr_block_allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout);

#endif
