/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/chunks.h"

#include "model/packing.h"
#include "util/log.h"

void tr_chunks_tell(const struct tr_run *r)
{
    const struct tr_layout *l = &r->shape.layout;
    const struct tr_residency_count moves =
        tr_residency_count(&r->model.params, &r->train_list, r->dp.stays);
    struct tr_packing p;

    if (l->chunks.memory == 0)
        return;
    tr_packing_of(&r->shape.dims, l, r->grid.at.pp, tr_packing_size(&r->shape.dims, l), &p);
    tr_print_rank0("> %d chunks of %lld elements for the parameters of layers, %.1f %% used\n",
                   p.chunks, (long long)p.size, tr_packing_used(&p) / 10.0);
    tr_print_rank0(
        "> slots on the device: %d for weights, %d for gradients; of %d parts of the model %d keep "
        "their "
        "optimizer states there; a step of %d micro-batch%s fetches %lld and writes %lld back\n",
        p.slots, p.gradient_slots, r->model.params.parts, r->dp.stays, r->train_list.micros,
        r->train_list.micros == 1 ? "" : "es", (long long)moves.fetches,
        (long long)moves.reductions);
}
