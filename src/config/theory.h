/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_THEORY_H
#define TR_CONFIG_THEORY_H

#include "config/shape.h"

/*
 * Memory of a rank by formula, as Megatron Core reports it at the start of a run.  The memory of
 * this program is planned exactly: --memory-plan shows it.
 */

/* Bytes of weights, gradients and optimizer state of `params` parameters: 16 each in fp32 and in
   half precision, 18 where weights in half precision have fp32 gradients; of these the optimizer's
   8 in fp32, else 12, are sharded over `shards` replicas.  With states in 8 bits 6 less, but for the scales of blocks. */
double tr_theory_weights(const struct tr_precision *p, int64_t params, int shards);

/*
 * Bytes of activations in half precision with sequence parallelism and no matrices of scores:
 *     s b h (18 + 4 f/h) l + 8 s b p + s b h p
 * times 1 + (p-1) / (p v) if interleaved, else times min(1, m / p); plus 4 s b h (1 + V/h) if p is 1;
 * all divided by t.  Where a layer is another than GPT-2's, what it keeps stands for (18 + 4 f/h): see
 * tr_work_megatron_bytes().  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
 * Models", 2022, as Megatron Core puts it.  Negative where the formula does not hold.
 */
double tr_theory_activations(const struct tr_shape *s);

#endif
