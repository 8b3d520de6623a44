/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_PRECISION_H
#define TR_CONFIG_PRECISION_H

#include <stdbool.h>

/* The number formats of training, in mixed precision or fp32 throughout.  Source: --fp16, --bf16,
   --accumulate-allreduce-grads-in-fp32, --fp32-residual-connection. */
struct tr_precision {
    bool half, bf16;  /* weights and activations in half precision: bf16, else fp16 */
    bool grads_fp32;  /* gradients in fp32 though the weights are half */
    bool stream_fp32; /* the residual stream in fp32 though the weights are half */
};

#endif
