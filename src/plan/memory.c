/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "infer/generate.h"
#include "plan/plan_parts.h"
#include "train/run.h"

static const double MIB = 1048576.0;

const char *tr_plan_verdict_text(enum tr_plan_verdict v)
{
    static const char *const text[] = {"unknown", "fits", "tight", "does not fit"};

    return text[v];
}

enum tr_status tr_plan_stage_of(const struct tr_config *c, const struct tr_shape *s,
                                const struct tr_machine *m, int stage, struct tr_plan_stage *out)
{
    struct tr_run r;

    *out = (struct tr_plan_stage){.stage = stage};
    out->rank = tr_grid_rank(&s->layout, (struct tr_place){.pp = stage});
    TR_TRY(tr_run_dry(&r, c, NULL, s, out->rank));
    out->params = tr_params_number(&r.model.params);
    out->layers = tr_layout_stage_layers(&s->layout, stage);
    if (s->dims.head == TR_HEAD_LANGUAGE)
        out->text_cache = tr_generate_cache(s, stage, 1, TR_GENERATE_BLOCK);
    tr_memory_of(&r, m, &out->memory);
    tr_run_close(&r);
    out->megatron = tr_plan_megatron_of(c, s, out);
    if (m)
        out->megatron.libraries = tr_memory_libraries(m, s->layout.world);
    return TR_OK;
}

double tr_plan_largest(const struct tr_config *c, const struct tr_shape *s,
                       const struct tr_machine *m, double room, double *layers, int64_t *params)
{
    const int p = s->layout.p;
    const int stages[] = {0, tr_layout_longest_stage(&s->layout), p / 2, p - 1};
    double most = 0.0;

    if (params)
        *params = 0;
    for (int i = 0; i < 4 && most <= room; i++) {
        struct tr_plan_stage g;

        if (i > 0 && (stages[i] == stages[i - 1] || stages[i] == 0))
            continue;
        *layers += (double)s->dims.layers / p + (double)s->layout.k * p;
        if (*layers > TR_PLAN_MOST_LAYERS || tr_plan_stage_of(c, s, m, stages[i], &g) != TR_OK)
            return INFINITY;
        most = g.memory.total > most ? g.memory.total : most;
        if (params && g.params > *params)
            *params = g.params;
    }
    return most;
}

enum tr_plan_verdict tr_plan_verdict_of(double bytes, const struct tr_machine *m)
{
    const double card = m->memory * MIB;

    return bytes > card                   ? TR_PLAN_TOO_MUCH
           : bytes > TR_PLAN_TIGHT * card ? TR_PLAN_IS_TIGHT
                                          : TR_PLAN_FITS;
}

/* PyTorch frees cached blocks before it fails, so reserved memory is no requirement: above the peak
   it depends on fragmentation. */
enum tr_plan_verdict tr_plan_verdict_megatron(const struct tr_plan_stage *g,
                                              const struct tr_machine *m)
{
    const struct tr_plan_megatron *x = &g->megatron;
    const double card = m->memory * MIB;

    if (x->peak_low + x->libraries > card)
        return TR_PLAN_TOO_MUCH;
    return x->reserved_high + x->libraries > card ? TR_PLAN_IS_TIGHT : TR_PLAN_FITS;
}
