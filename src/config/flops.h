/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_FLOPS_H
#define TR_CONFIG_FLOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "config/dims.h"

/*
 * Floating-point operations of one iteration, as four published formulas count them, so that a
 * number can be compared with the one somebody else published.  With B samples of s tokens, l layers
 * of width h, MLPs of width f, V the padded vocabulary:
 *
 *   sc21   96 B s l h^2 (1 + s/6h + V/16lh) if all activations are recomputed, else
 *          72 B s l h^2 (1 + s/6h + V/12lh): what the hardware computes.  Narayanan et al.,
 *          "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21;
 *          BigScience's logs.
 *   2023   72 B s l h^2 (1 + s/6h + V/12lh): what the model needs.  Megatron-LM since November 2023.
 *   2024   12 B s l h^2 (2 + s/h + f/h + V/2lh): the same with any f.  Megatron-LM since March 2024.
 *   core   6 B s (l (4 h^2 + 2 h f) + h V) + 6 B s^2 l h: attention counted by half, for a token sees
 *          only those before it.  Megatron-LM since March 2025.
 *
 * sc21 and 2023 are for f = 4 h.  A multiplication and an addition count as two.
 *
 * Layers that differ from GPT-2's in an MLP with a gate, fewer groups than heads or heads of another width are
 * counted as Megatron-LM has since March 2024: by the elements m of a layer's matrices (config/work.h),
 *
 *   sc21   2 B s (4 l (m + 2 s a) + 3 V h) if all activations are recomputed, else 2024
 *   2023, 2024   6 B s (l (m + 2 s a) + V h)
 *   core   6 B s (l (m + s a) + V h)
 *
 * with a the heads times their width, m = h (2 a + 2 a g/n + 3 f) with n heads, g groups and a gate; and all four
 * are these where they are said of GPT-2.  A window is not looked at, nor is it in Megatron-LM.  Where embeddings
 * are narrower than h, V h is V e + 2 e h: the head and both projections.
 */

/* The formula that --flops-formula stands for: of "auto", sc21 where the log is that of 2021 or of
   BigScience, core where it is that of the newest versions. */
int tr_flops_formula(const struct tr_config *c);

/* Operations of one iteration of `batch` samples of the whole model.  `recompute`: the backward pass
   repeats the whole forward pass.  `formula` is a TR_FLOPS_ value, not AUTO. */
double tr_flops_count(int formula, const struct tr_dims *s, int64_t batch, bool recompute);

/* The formula as a line of the log writes it, of that model; NULL: of one like GPT-2. */
const char *tr_flops_text(int formula, const struct tr_dims *s, bool recompute);

#endif
