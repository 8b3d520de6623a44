/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/flops.h"

#include "config/work.h"

int tr_flops_formula(const struct tr_config *c)
{
    if (c->flops_formula != TR_FLOPS_AUTO)
        return c->flops_formula;
    return c->log_format == TR_FORMAT_CORE ? TR_FLOPS_CORE : TR_FLOPS_SC21;
}

/* A layer as those of GPT-2 are, which the formulas of 2021 and 2023 know: 4 h^2 in attention, and an MLP that
   they take for 8 h^2. */
static bool is_closed(const struct tr_dims *s)
{
    return !tr_act_gated(s->family.act) && s->groups == s->heads &&
           s->heads * s->head_dim == s->hidden;
}

/* Multiplications of a token in the matrices of a layer. */
static double layer_of(int formula, const struct tr_dims *s)
{
    const struct tr_work_how how = tr_work_how_whole(s);
    struct tr_work work;

    if ((formula == TR_FLOPS_SC21 || formula == TR_FLOPS_2023) && is_closed(s))
        return 12.0 * (double)s->hidden * (double)s->hidden;
    tr_work_of(&how, TR_WORK_LAYER, &work);
    return tr_work_weights(&work);
}

/* The same of the matrices of the ends. */
static double ends_of(const struct tr_dims *s)
{
    const struct tr_work_how how = tr_work_how_whole(s);
    struct tr_work embed, head;

    tr_work_of(&how, TR_WORK_EMBED, &embed);
    tr_work_of(&how, TR_WORK_HEAD, &head);
    return tr_work_weights(&embed) + tr_work_weights(&head);
}

double tr_flops_count(int formula, const struct tr_dims *s, int64_t batch, bool recompute)
{
    const double tokens = (double)batch * (double)s->seq;
    const double passes = formula == TR_FLOPS_SC21 && recompute ? 4.0 : 3.0;
    const double seen = formula == TR_FLOPS_CORE ? 0.5 : 1.0;
    const double attention = 2.0 * seen * (double)s->seq * (double)s->heads * (double)s->head_dim;

    return 2.0 * tokens *
           (passes * (double)s->layers * (layer_of(formula, s) + attention) + 3.0 * ends_of(s));
}

const char *tr_flops_text(int formula, const struct tr_dims *s, bool recompute)
{
    if (s && !is_closed(s) && (formula == TR_FLOPS_SC21 || formula == TR_FLOPS_2023))
        return formula == TR_FLOPS_2023
                   ? "2023, 6 B s (l (m + 2 s a) + V h): recomputation not counted"
               : recompute ? "sc21, 2 B s (4 l (m + 2 s a) + 3 V h): with all recomputation"
                           : "sc21, 6 B s (l (m + 2 s a) + V h): nothing is recomputed";
    if (s && !is_closed(s))
        return formula == TR_FLOPS_2024
                   ? "2024, 6 B s (l (m + 2 s a) + V h): recomputation not counted"
                   : "core, 6 B s (l (m + s a) + V h): recomputation not counted, attention by "
                     "half";
    switch (formula) {
    case TR_FLOPS_SC21:
        return recompute ? "sc21, 96 B s l h^2 (1 + s/6h + V/16lh): with all recomputation"
                         : "sc21, 72 B s l h^2 (1 + s/6h + V/12lh): nothing is recomputed";
    case TR_FLOPS_2023:
        return "2023, 72 B s l h^2 (1 + s/6h + V/12lh): recomputation not counted";
    case TR_FLOPS_2024:
        return "2024, 12 B s l h^2 (2 + s/h + f/h + V/2lh): recomputation not counted";
    default:
        TR_ASSERT(formula == TR_FLOPS_CORE);
        return "core, 6 B s (l (4 h^2 + 2 h f) + h V) + 6 B s^2 l h: recomputation not counted, "
               "attention by half";
    }
}
