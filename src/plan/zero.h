/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_ZERO_H
#define TR_PLAN_ZERO_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What DeepSpeed 0.19.8 estimates for weights, gradients and optimizer states under ZeRO of stage 2 and 3, bytes of a GPU
 * and of the host of a node: estimate_zero2_model_states_mem_needs() and estimate_zero3_model_states_mem_needs()
 * of its runtime/zero, with their buffer factor of 1.5 and truncated to whole bytes as there.
 */
struct tr_zero_row {
    int stage;
    bool offload_optimizer, offload_param;
    bool
        zero_init; /* weights are sharded as they are made; otherwise each process makes all of them */
    int64_t host, gpu;
};

enum { TR_ZERO_ROWS = 8 };

/* Of `params` parameters, of which the largest module has `largest`. */
void tr_zero_estimate(int64_t params, int64_t largest, int gpus_per_node, int nodes,
                      struct tr_zero_row out[TR_ZERO_ROWS]);

/*
 * Whole tensors on ranks, as fairscale's OSS cuts an optimizer for sharded DDP: in the order of the model, each goes to the
 * first of the ranks with the fewest elements so far.  Elements of the rank with most in the end, and of that with
 * fewest.
 */
struct tr_zero_whole {
    int64_t most, fewest;
};
struct tr_zero_whole tr_zero_whole(const int64_t *tensor, int n, int ranks);

#endif
