/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/block.h"

void tr_block_allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                        enum tr_redop op)
{
    struct tr_pending p;

    c->via->allreduce_start(c, q, inout, op, &p);
    c->via->finish(c, q, &p);
}

void tr_block_reduce_scatter(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                             const struct tr_tensor *in, enum tr_redop op)
{
    struct tr_pending p;

    c->via->reduce_scatter_start(c, q, out, in, op, &p);
    c->via->finish(c, q, &p);
}

void tr_block_allgather(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout)
{
    struct tr_pending p;

    c->via->allgather_start(c, q, inout, &p);
    c->via->finish(c, q, &p);
}
