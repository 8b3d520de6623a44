/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_LR_H
#define TR_OPTIM_LR_H

#include "config/lr_schedule.h"

/*
 * The learning rate after `samples` samples of executed (not skipped) steps, a pure function:
 *     n <= W, W > 0         init + (max - init) n / W
 *     constant              max
 *     n > D                 min
 *     inverse-square-root   max sqrt(W) / sqrt(n), but no less than min; W and n at least 1
 *     linear, cosine, WSD   min + part (max - min)
 * with r = (n - W) / (D - W), and for WSD r = (n - (D - A)) / A, the part being 1 while r <= 0:
 *     linear       1 - r
 *     cosine       (cos(pi r) + 1) / 2
 *     exponential  2 / 2^r - 1        (WSD only)
 *     minus_sqrt   1 - sqrt(r)        (WSD only)
 * W warmup_samples, D decay_samples, A wsd_samples, max lr, min min_lr, init warmup_init of the
 * schedule.  A may be longer than D - W, and than D: the warm-up covers the first samples of the
 * fall, and the rate drops at n = W to where the fall is by then.  Source: Megatron-LM's
 * learning_rates.py of 2021, optimizer_param_scheduler.py of 2025.
 */
double tr_lr_at(const struct tr_lr_schedule *s, double samples);

/*
 * The weight decay of the step after those samples: with r = n / wd_samples, at most 1,
 *     constant   end
 *     linear     start + r (end - start)
 *     cosine     start + (cos(pi (1 - r)) + 1) / 2 (end - start)
 * Source: the same.
 */
double tr_wd_at(const struct tr_lr_schedule *s, double samples);

#endif
