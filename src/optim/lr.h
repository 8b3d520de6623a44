/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_LR_H
#define TR_OPTIM_LR_H

#include "config/shape.h"

/*
 * The learning rate after `samples` samples of executed (not skipped) steps, a pure function:
 *     n <= W, W > 0   max * n / W
 *     constant        max
 *     n > D           min
 *     r = (n - W) / (D - W)
 *     linear          min + (1 - r) (max - min)
 *     cosine          min + (cos(pi r) + 1) / 2 (max - min)
 * with W, D, max, min from the shape.  Source: Megatron-LM of 2021, learning_rates.py.
 */
double tr_lr_at(const struct tr_shape *s, double samples);

#endif
