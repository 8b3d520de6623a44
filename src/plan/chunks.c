/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/shape.h"
#include "model/packing.h"
#include "model/param.h"
#include "pipeline/residency.h"
#include "pipeline/sched.h"
#include "plan/plan_parts.h"
#include "util/log.h"

static const double MIB = 1048576.0;

/* What a step of a stage moves with chunks of one size. */
static enum tr_status count_moves(const struct tr_plan *p, int64_t size, int stage,
                                  struct tr_residency_count *out)
{
    struct tr_shape s = p->shape;
    struct tr_params params;
    const struct tr_residency how = {.params = &params,
                                     .layout = &s.layout,
                                     .activations = &s.activations,
                                     .stage = stage,
                                     .reduce = TR_REDUCE_EACH};
    struct tr_sched list = {.kind = (enum tr_sched_kind)s.layout.schedule,
                            .ranks = s.layout.p,
                            .rank = stage,
                            .chunks = s.layout.k,
                            .micros = s.batches.micros,
                            .group = s.layout.group,
                            .overlap = p->config.overlap_p2p_communication};
    enum tr_status status;

    s.layout.chunks.size = size;
    tr_params_list(&s.dims, &s.layout, 0, stage, &params);
    status = tr_sched_build(&list);
    if (status == TR_OK)
        status = tr_residency_add(&how, &list);
    if (status == TR_OK)
        *out = tr_residency_count(&params, &list,
                                  tr_packing_stays(&params, &s.layout, s.dp.optimizer_shards));
    tr_sched_release(&list);
    tr_params_release(&params);
    return status;
}

static void print_size(const struct tr_plan *p, int64_t size, int stage, bool chosen, FILE *f)
{
    const struct tr_chunking *c = &p->shape.layout.chunks;
    struct tr_residency_count moves = {0};
    struct tr_packing k;

    tr_packing_of(&p->shape.dims, &p->shape.layout, stage, size, &k);
    fprintf(f, "%c %14lld%8.1f%8d%14.2f", chosen ? '*' : ' ', (long long)size,
            tr_packing_used(&k) / 10.0, k.chunks,
            (double)k.chunks * (double)k.largest * c->value_bytes / MIB);
    if (k.slots < k.at_once || count_moves(p, size, stage, &moves) != TR_OK)
        fprintf(f, "  needs %.2f MiB\n", (double)tr_packing_least(&k, c) / MIB);
    else
        fprintf(f, "%8d%10lld%10lld\n", k.slots, (long long)moves.fetches,
                (long long)moves.reductions);
}

void tr_plan_chunks(const struct tr_plan *p, FILE *f)
{
    const struct tr_layout *l = &p->shape.layout;
    const int64_t used = tr_packing_size(&p->shape.dims, l);
    int64_t sizes[TR_PACKING_SIZES] = {used};
    const int n = l->chunks.size > 0 ? 1 : tr_packing_sizes(&p->shape.dims, l, sizes);

    if (l->chunks.memory == 0)
        return;
    fprintf(f, "\nsizes of chunks, on a rank of stage %d, with %.2f MiB for slots (* is used)\n",
            p->worst, (double)l->chunks.memory / MIB);
    fprintf(f, "  %14s%8s%8s%14s%8s%10s%10s\n", "elements", "% used", "chunks", "weights, MiB",
            "slots", "fetches", "writes");
    for (int i = 0; i < n; i++)
        print_size(p, sizes[i], p->worst, sizes[i] == used, f);
}
