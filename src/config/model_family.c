/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/model_family.h"

#include <math.h>

enum tr_status tr_family_of(const struct tr_config *c, struct tr_family *out)
{
    const struct tr_family *row = tr_family_find(c->model_family);

    if (!row)
        return TR_FAIL(TR_ECONFIG, "--model-family %s is not a family", c->model_family);
    *out = *row;
    out->eps = c->layernorm_epsilon;
    return TR_OK;
}

int64_t tr_family_ffn(const struct tr_family *f, int64_t hidden)
{
    const int64_t width = (int64_t)floor(f->ffn_factor * (double)hidden + 1e-6);

    return (width + f->ffn_multiple - 1) / f->ffn_multiple * f->ffn_multiple;
}
