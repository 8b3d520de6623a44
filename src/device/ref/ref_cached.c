/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>

#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* The first element of the key (part 0) or value (1) of a place. */
static int64_t element(struct tr_cached_sizes s, int64_t b, int64_t group, int64_t part,
                       int64_t place)
{
    return (((b * s.groups + group) * 2 + part) * s.keys + place % s.keys) * s.d;
}

static void keep(struct tr_cached_sizes s, const struct tr_tensor *cache,
                 const struct tr_tensor *qkv, int64_t n, int64_t place)
{
    const int64_t each = s.heads / s.groups, width = (s.heads + 2 * s.groups) * s.d;

    for (int64_t group = 0; group < s.groups; group++)
        for (int64_t part = 0; part < 2; part++)
            for (int64_t d = 0; d < s.d; d++)
                set(cache, element(s, n / s.t, group, part, place) + d,
                    get(qkv, n * width + ((group * (each + 2)) + each + part) * s.d + d));
}

static void attend(struct tr_cached_sizes s, const struct tr_tensor *ctx,
                   const struct tr_tensor *cache, const struct tr_tensor *qkv,
                   struct tr_attention_how how, int64_t n, int64_t h, int64_t place)
{
    const int64_t each = s.heads / s.groups, group = h / each, b = n / s.t;
    const int64_t seen = how.window > 0 && how.window < s.keys ? how.window : s.keys;
    const int64_t first = place - seen + 1 > 0 ? place - seen + 1 : 0;
    const int64_t query =
        n * (s.heads + 2 * s.groups) * s.d + (group * (each + 2) + h % each) * s.d;
    const double slope = how.slopes ? get(how.slopes, h) : 0.0;
    double acc[TR_MAX_HEAD_DIM] = {0.0}, max = -INFINITY, sum = 0.0;

    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = first; j <= place; j++) {
            double score = 0.0, p;

            for (int64_t d = 0; d < s.d; d++)
                score += get(qkv, query + d) * get(cache, element(s, b, group, 0, j) + d);
            score = (double)how.scale * score + slope * (double)(j - place);
            if (pass == 0) {
                max = fmax(max, score);
                continue;
            }
            p = exp(score - max);
            sum += p;
            for (int64_t d = 0; d < s.d; d++)
                acc[d] += p * get(cache, element(s, b, group, 1, j) + d);
        }
    for (int64_t d = 0; d < s.d; d++)
        set(ctx, (n * s.heads + h) * s.d + d, acc[d] / sum);
}

void tr_ref_attention_cached(struct tr_queue *q, const struct tr_tensor *ctx,
                             const struct tr_tensor *cache, const struct tr_tensor *qkv,
                             const struct tr_tensor *place, struct tr_attention_how how)
{
    const struct tr_cached_sizes s = tr_sizes_cached(ctx, cache, qkv, place, how);

    (void)q;
    for (int64_t n = 0; n < s.b * s.t; n++)
        if (tr_i32(place)[n] >= 0)
            keep(s, cache, qkv, n, tr_i32(place)[n]);
    for (int64_t n = 0; n < s.b * s.t; n++)
        for (int64_t h = 0; h < s.heads; h++) {
            if (tr_i32(place)[n] >= 0)
                attend(s, ctx, cache, qkv, how, n, h, tr_i32(place)[n]);
            for (int64_t d = 0; d < s.d && tr_i32(place)[n] < 0; d++)
                set(ctx, (n * s.heads + h) * s.d + d, 0.0);
        }
}
