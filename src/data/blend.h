/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BLEND_H
#define TR_DATA_BLEND_H

#include <stdint.h>

#include "util/meter.h"
#include "util/status.h"

/*
 * A blended dataset, Megatron's: sample k comes from the one that is furthest behind its weight,
 * the first i with the largest w_i max(k, 1) - (samples already taken from i), and is the next one
 * in that dataset's own order.
 */
struct tr_blend {
    int parts;
    int64_t count;   /* samples in the blend */
    int64_t *taken;  /* [parts], of all `count` samples: the weights achieved */
    uint16_t *part;  /* [count] */
    int64_t *before; /* [blocks][parts]: taken when a block of samples begins */
};

enum { TR_BLEND_PARTS = 32767 };

/* Samples that a part of weight w (of a sum of 1) must have for a blend of n. */
int64_t tr_blend_part_samples(int64_t n, double w);

/*
 * A blend of `count` samples, or of fewer if a part runs out of its size[i] samples before.
 * `weight` sums to 1; 1 <= parts <= TR_BLEND_PARTS.  `meter` counts samples, or is NULL.
 */
void tr_blend_build(struct tr_blend *b, const double *weight, const int64_t *size, int parts,
                    int64_t count, struct tr_meter *meter);
void tr_blend_release(struct tr_blend *b);

/* Sample k of the blend, 0 <= k < count: which part, and which position in its order. */
int tr_blend_get(const struct tr_blend *b, int64_t k, int64_t *position);

#endif
