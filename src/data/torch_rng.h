/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_TORCH_RNG_H
#define TR_DATA_TORCH_RNG_H

#include <stdint.h>

/*
 * torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on PyTorch's CPU, bit for bit:
 * Megatron's cyclic order of samples is made of it.  The generator is MT19937 as in numpy_rng.h.
 * From the first element up, each is swapped with one at or above it, chosen by the remainder of a
 * draw of 32 bits.  From TR_TORCH_LIMIT elements on PyTorch's versions differ from one another.
 */
enum { TR_TORCH_LIMIT = 214748364 }; /* (2^32 - 1) / 20 */

/* The permutation of 0 .. n - 1 into out[n]; 0 <= n < TR_TORCH_LIMIT. */
void tr_torch_randperm(uint32_t seed, int64_t n, uint32_t *out);

#endif
