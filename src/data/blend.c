/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/blend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Positions within the parts are counted from the start of a block rather than kept: two bytes per
   sample instead of ten, which every rank holds. */
enum { BLOCK = 1024 };

/* Progress is shown after this many samples. */
enum { PART = 1 << 14 };

int64_t tr_blend_part_samples(int64_t n, double w)
{
    return (int64_t)ceil((double)n * w * 1.005);
}

static int furthest_behind(const double *weight, const int64_t *taken, int parts, int64_t k)
{
    double share = (double)(k > 1 ? k : 1), most = -HUGE_VAL;
    int best = 0;

    for (int i = 0; i < parts; i++) {
        double behind = weight[i] * share - (double)taken[i];

        if (behind > most) {
            most = behind;
            best = i;
        }
    }
    return best;
}

void tr_blend_build(struct tr_blend *b, const double *weight, const int64_t *size, int parts,
                    int64_t count, struct tr_meter *meter)
{
    size_t blocks = (size_t)(count / BLOCK) + 1, row = (size_t)parts;

    TR_ASSERT(parts >= 1 && parts <= TR_BLEND_PARTS && count >= 0);
    memset(b, 0, sizeof *b);
    b->parts = parts;
    b->taken = calloc(row, sizeof *b->taken);
    b->part = malloc(((size_t)count + 1) * sizeof *b->part);
    b->before = malloc(blocks * row * sizeof *b->before);
    if (!b->taken || !b->part || !b->before)
        tr_die(TR_ERESOURCE, "no memory left for a blended dataset of %lld samples",
               (long long)count);
    for (int64_t k = 0; k < count; k++) {
        int i = furthest_behind(weight, b->taken, parts, k);

        if (b->taken[i] == size[i])
            break;
        if (k % BLOCK == 0)
            memcpy(b->before + (size_t)(k / BLOCK) * row, b->taken, row * sizeof *b->taken);
        b->part[k] = (uint16_t)i;
        b->taken[i]++;
        b->count++;
        if (k % PART == PART - 1)
            tr_meter_add(meter, PART);
    }
}

void tr_blend_release(struct tr_blend *b)
{
    free(b->taken);
    free(b->part);
    free(b->before);
    memset(b, 0, sizeof *b);
}

int tr_blend_get(const struct tr_blend *b, int64_t k, int64_t *position)
{
    int64_t block = k / BLOCK;
    int i = b->part[k];

    *position = b->before[block * b->parts + i];
    for (int64_t at = block * BLOCK; at < k; at++)
        *position += b->part[at] == i;
    return i;
}
