/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_PRECISION_H
#define TR_CONFIG_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/* The number formats of training, in mixed precision or fp32 throughout.  Source: --fp16, --bf16,
   --accumulate-allreduce-grads-in-fp32, --fp32-residual-connection, --optimizer, --adam8bit-block. */
struct tr_precision {
    bool half, bf16;     /* weights and activations in half precision: bf16, else fp16 */
    bool grads_fp32;     /* gradients in fp32 though the weights are half */
    bool stream_fp32;    /* the residual stream in fp32 though the weights are half */
    int64_t state_block; /* elements of a block of optimizer states in 8 bits; 0: they are fp32 */
};

/* The last of them. */
int64_t tr_state_block(const struct tr_config *c);

/* Bytes of a state of one element: 4, or 1 and its part of the scale of a block. */
double tr_state_bytes(int64_t state_block);

#endif
