/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/shape.h"
#include "model/packing.h"
#include "model/param.h"
#include "pipeline/residency.h"
#include "pipeline/sched.h"
#include "plan/formulas.h"
#include "plan/plan_parts.h"
#include "util/log.h"

static const double MIB = 1048576.0;

/* Elements of parts from `from` on that are in no chunk: they come once, after the update. */
static int64_t ends(const struct tr_params *ps, int from)
{
    int64_t n = 0;

    for (int i = from; i < ps->parts; i++)
        n += ps->part[i].values_window < 0 ? ps->part[i].count : 0;
    return n;
}

static void count_moves(const struct tr_params *ps, const struct tr_shape *s,
                        const struct tr_sched *list, struct tr_plan_moves *out)
{
    const int shards = s->dp.optimizer_shards, stays = tr_packing_stays(ps, &s->layout, shards);
    const struct tr_residency_count all = tr_residency_count(ps, list, 0);
    const struct tr_residency_count moved = tr_residency_count(ps, list, stays);

    *out = (struct tr_plan_moves){
        .fetches = moved.fetches,
        .writes = moved.reductions,
        .fetched = (double)(moved.fetched + ends(ps, stays)) / shards,
        .written = (double)moved.reduced / shards,
        .gathered = (double)(all.fetched + ends(ps, 0)),
    };
}

enum tr_status tr_plan_moves_of(const struct tr_config *c, const struct tr_shape *shape,
                                int64_t size, int stage, struct tr_plan_moves *out)
{
    struct tr_shape s = *shape;
    struct tr_params params;
    const struct tr_residency how = {.params = &params,
                                     .layout = &s.layout,
                                     .activations = &s.activations,
                                     .stage = stage,
                                     .reduce = TR_REDUCE_EACH};
    struct tr_sched list = tr_plan_list(&s, stage, s.batches.micros);
    enum tr_status status;

    list.overlap = c->overlap_p2p_communication;
    s.layout.chunks.size = size;
    tr_params_list(&s.dims, &s.layout, 0, stage, &params);
    status = tr_sched_build(&list);
    if (status == TR_OK)
        status = tr_residency_add(&how, &list);
    if (status == TR_OK)
        count_moves(&params, &s, &list, out);
    tr_sched_release(&list);
    tr_params_release(&params);
    return status;
}

static struct tr_plan_chunk_size size_of(const struct tr_plan *p, int64_t size)
{
    const struct tr_chunking *c = &p->shape.layout.chunks;
    struct tr_plan_chunk_size x = {.elements = size};
    struct tr_packing k;

    tr_packing_of(&p->shape.dims, &p->shape.layout, p->worst, size, &k);
    x.used = tr_packing_used(&k) / 1000.0;
    x.chunks = k.chunks;
    x.slots = k.slots;
    x.bytes = (double)k.chunks * (double)k.largest * c->value_bytes;
    if (k.slots < k.at_once ||
        tr_plan_moves_of(&p->config, &p->shape, size, p->worst, &x.moves) != TR_OK)
        x.least = tr_packing_least(&k, c);
    return x;
}

int tr_plan_chunk_sizes(const struct tr_plan *p, struct tr_plan_chunk_size out[TR_PACKING_SIZES])
{
    const struct tr_layout *l = &p->shape.layout;
    int64_t used, sizes[TR_PACKING_SIZES];
    int n = 1;

    if (l->chunks.memory == 0)
        return 0;
    sizes[0] = used = tr_packing_size(&p->shape.dims, l);
    if (l->chunks.size == 0)
        n = tr_packing_sizes(&p->shape.dims, l, sizes);
    for (int i = 0; i < n; i++) {
        out[i] = size_of(p, sizes[i]);
        out[i].chosen = sizes[i] == used;
    }
    return n;
}

static void print_size(const struct tr_plan_chunk_size *x, FILE *f)
{
    fprintf(f, "%c %14lld%8.1f%8d%14.2f", x->chosen ? '*' : ' ', (long long)x->elements,
            100.0 * x->used, x->chunks, x->bytes / MIB);
    if (x->least > 0)
        fprintf(f, "  needs %.2f MiB\n", (double)x->least / MIB);
    else
        fprintf(f, "%8d%10lld%10lld\n", x->slots, (long long)x->moves.fetches,
                (long long)x->moves.writes);
}

void tr_plan_chunks(const struct tr_plan *p, FILE *f)
{
    struct tr_plan_chunk_size x[TR_PACKING_SIZES];
    const int n = tr_plan_chunk_sizes(p, x);

    if (n == 0)
        return;
    fprintf(f, "\nsizes of chunks, on a rank of stage %d, with %.2f MiB for slots (* is used)\n",
            p->worst, (double)p->shape.layout.chunks.memory / MIB);
    fprintf(f, "  %14s%8s%8s%14s%8s%10s%10s\n", "elements", "% used", "chunks", "weights, MiB",
            "slots", "fetches", "writes");
    for (int i = 0; i < n; i++)
        print_size(&x[i], f);
}
