/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_ACTIVATIONS_H
#define TR_CONFIG_ACTIVATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* How memory for activations is saved between the forward and the backward pass.  Source:
   --sequence-parallel, --recompute-... and their older names, --cpu-offloading. */
struct tr_activations {
    bool sequence;            /* sequence parallelism: the residual stream is sharded along the
                                 sequence over tensor-parallel ranks; false when w is 1 */
    int recompute;            /* TR_RECOMPUTE_NONE, _UNIFORM, _BLOCK of enums.def */
    int64_t recompute_layers; /* per group, or per chunk */
    int64_t
        offload_layers; /* of each chunk, the first of them: their activations lie with the host */
    bool distribute_inputs; /* of recomputed layers, over tensor-parallel ranks */
};

#endif
