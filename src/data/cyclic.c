/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/cyclic.h"

#include <stdlib.h>

#include "data/torch_rng.h"

enum tr_status tr_cyclic_open(struct tr_cyclic *x, const char *what, int64_t total, int64_t batch,
                              int64_t replicas)
{
    int64_t unit = batch * replicas;

    *x = (struct tr_cyclic){.batch = batch, .replicas = replicas, .epoch = -1};
    if (total < unit)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld samples, fewer than one micro-batch of %lld on each of %lld "
                       "replicas, so --dataloader-type cyclic has nothing to take from it; give "
                       "more data or a smaller --micro-batch-size",
                       what, (long long)total, (long long)batch, (long long)replicas);
    x->active = total - total % unit;
    x->bucket = x->active / replicas;
    if (x->bucket >= TR_TORCH_LIMIT)
        return TR_FAIL(TR_EDATA,
                       "%s has %lld samples for each replica, and --dataloader-type cyclic can "
                       "shuffle less than %d; use --dataloader-type single",
                       what, (long long)x->bucket, TR_TORCH_LIMIT);
    x->order = malloc((size_t)x->bucket * sizeof *x->order);
    if (!x->order)
        tr_die(TR_ERESOURCE, "no memory left for the order of %lld samples", (long long)x->bucket);
    return TR_OK;
}

void tr_cyclic_close(struct tr_cyclic *x)
{
    free(x->order);
    *x = (struct tr_cyclic){0};
}

int64_t tr_cyclic_at(struct tr_cyclic *x, int64_t position)
{
    int64_t epoch = position / x->active, block = position % x->active / (x->batch * x->replicas);
    int64_t in_block = position % (x->batch * x->replicas);
    int64_t replica = in_block / x->batch, place = block * x->batch + in_block % x->batch;

    if (epoch != x->epoch) {
        /* PyTorch's generator takes the low 32 bits of a seed. */
        tr_torch_randperm((uint32_t)epoch, x->bucket, x->order);
        x->epoch = epoch;
    }
    return replica * x->bucket + (int64_t)x->order[place];
}
