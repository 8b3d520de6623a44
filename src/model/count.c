/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/count.h"

#include "model/param.h"

static double with_layers(struct tr_dims dims, int64_t layers)
{
    struct tr_params params;
    double number;

    dims.layers = layers;
    tr_params_list_whole(&dims, &params);
    number = (double)tr_params_number(&params);
    tr_params_release(&params);
    return number;
}

/* All layers are alike, so lists of one and of two are enough. */
double tr_count_parameters(const struct tr_dims *dims, bool padded)
{
    struct tr_dims whole = *dims;
    double one;

    if (padded)
        whole.vocab = whole.vocab_padded;
    one = with_layers(whole, 1);
    return one + ((double)dims->layers - 1.0) * (with_layers(whole, 2) - one);
}
