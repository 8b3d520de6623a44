/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/torch_rng.h"

#include "data/numpy_rng.h"
#include "util/status.h"

void tr_torch_randperm(uint32_t seed, int64_t n, uint32_t *out)
{
    struct tr_numpy_rng r;

    TR_ASSERT(n >= 0 && n < TR_TORCH_LIMIT);
    tr_numpy_seed(&r, seed);
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint32_t)i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + (int64_t)tr_numpy_u32(&r) % (n - i);
        uint32_t was = out[i];

        out[i] = out[j];
        out[j] = was;
    }
}
