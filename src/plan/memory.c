/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/epochs.h"
#include "device/cuda/cuda_kernel.h"
#include "plan/plan_parts.h"
#include "train/links.h"
#include "train/run.h"

static const double MIB = 1048576.0;

static const char *const parts[] = {
#define LABEL(symbol, name) name,
    TR_LABELS_OF(LABEL)
#undef LABEL
#define PART(symbol, name) name,
        TR_PLAN_PARTS_OF(PART)
#undef PART
};

const char *tr_plan_part_name(int part)
{
    return parts[part];
}

const char *tr_plan_verdict_text(enum tr_plan_verdict v)
{
    static const char *const text[] = {"unknown", "fits", "tight", "does not fit"};

    return text[v];
}

static void of_library(const struct tr_shape *s, const struct tr_machine *m,
                       struct tr_plan_stage *g)
{
    if (!m)
        return;
    g->part[TR_LABEL_SCRATCH] += TR_CUDA_SCRATCH_BYTES;
    g->part[TR_PLAN_CONTEXT] = m->context * MIB;
    g->part[TR_PLAN_NCCL] = s->layout.world > 1 ? m->nccl * MIB : 0.0;
}

enum tr_status tr_plan_stage_of(const struct tr_config *c, const struct tr_shape *s,
                                const struct tr_machine *m, int stage, struct tr_plan_stage *out)
{
    int64_t host, files;
    struct tr_run r;

    *out = (struct tr_plan_stage){.stage = stage};
    out->rank = tr_grid_rank((struct tr_place){.pp = stage}, s->layout.w, s->layout.d);
    TR_TRY(tr_run_dry(&r, c, s, out->rank));
    out->params = tr_params_number(&r.model.params);
    for (int chunk = 0; chunk < s->layout.k; chunk++)
        out->layers += tr_layout_layers(&s->layout, stage, chunk);
    for (int i = 0; i < TR_LABELS; i++)
        out->part[i] = (double)r.arena.bytes[i];
    tr_links_bytes(r.links, &host, &files);
    out->memory_host = (double)(host + tr_epochs_bytes(&s->epochs));
    out->memory_files = (double)files;
    tr_run_close(&r);
    out->megatron = tr_plan_megatron_of(c, s, out);
    of_library(s, m, out);
    for (int i = 0; i < TR_PLAN_PARTS; i++)
        out->total += out->part[i];
    return TR_OK;
}

enum tr_plan_verdict tr_plan_verdict_of(double bytes, const struct tr_machine *m)
{
    const double card = m->memory * MIB;

    return bytes > card                   ? TR_PLAN_TOO_MUCH
           : bytes > TR_PLAN_TIGHT * card ? TR_PLAN_IS_TIGHT
                                          : TR_PLAN_FITS;
}

/* PyTorch gives back what it holds and does not use before it fails, so what it reserves is no need: above
   the peak it is a matter of how memory falls into pieces. */
enum tr_plan_verdict tr_plan_verdict_megatron(const struct tr_plan_stage *g,
                                              const struct tr_machine *m)
{
    const double library = g->part[TR_PLAN_CONTEXT] + g->part[TR_PLAN_NCCL];
    const double card = m->memory * MIB;

    if (g->megatron.peak_low + library > card)
        return TR_PLAN_TOO_MUCH;
    return g->megatron.reserved_high + library > card ? TR_PLAN_IS_TIGHT : TR_PLAN_FITS;
}
