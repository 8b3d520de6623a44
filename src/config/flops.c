/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/flops.h"

int tr_flops_formula(const struct tr_config *c)
{
    if (c->flops_formula != TR_FLOPS_AUTO)
        return c->flops_formula;
    return c->log_format == TR_FORMAT_CORE ? TR_FLOPS_CORE : TR_FLOPS_SC21;
}

double tr_flops_count(int formula, const struct tr_dims *s, int64_t batch, bool recompute)
{
    double tokens = (double)batch * (double)s->seq, t = (double)s->seq;
    double l = (double)s->layers, h = (double)s->hidden, f = (double)s->ffn;
    double v = (double)s->vocab_padded;

    switch (formula) {
    case TR_FLOPS_SC21:
    case TR_FLOPS_2023:
        if (formula == TR_FLOPS_SC21 && recompute)
            return 96.0 * tokens * l * h * h * (1.0 + t / (6.0 * h) + v / (16.0 * l * h));
        return 72.0 * tokens * l * h * h * (1.0 + t / (6.0 * h) + v / (12.0 * l * h));
    case TR_FLOPS_2024:
        return 12.0 * tokens * l * h * h * (2.0 + t / h + f / h + v / (2.0 * l * h));
    default:
        TR_ASSERT(formula == TR_FLOPS_CORE);
        return 6.0 * tokens * (l * (4.0 * h * h + 2.0 * h * f) + h * v) + 6.0 * tokens * t * l * h;
    }
}

const char *tr_flops_text(int formula, bool recompute)
{
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
