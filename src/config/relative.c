/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/relative.h"

#include <math.h>

int64_t tr_relative_bucket(int64_t distance, int64_t buckets, int64_t longest)
{
    const int64_t far = distance < 0 ? -distance : distance, middle = buckets / 2;
    double part;
    int64_t bucket;

    if (far <= middle)
        return distance;
    part = log((double)far / (double)middle) / log((double)(longest - 1) / (double)middle);
    /* A whole number but for rounding, as at the longest distance, is that number. */
    bucket = middle + (int64_t)ceil(part * (double)(middle - 1) * (1.0 - 1e-12));
    return distance < 0 ? -bucket : bucket;
}

static int64_t row_of(const struct tr_dims *d, int64_t distance)
{
    const int64_t span = d->family.position_buckets;
    const int64_t row = span + tr_relative_bucket(distance, span, d->family.relative_longest);

    return row < 0 ? 0 : row < 2 * span ? row : 2 * span - 1;
}

int64_t tr_relative_first(const struct tr_dims *d, int64_t tokens)
{
    return row_of(d, 1 - tokens);
}

int64_t tr_relative_rows(const struct tr_dims *d, int64_t tokens)
{
    return row_of(d, tokens - 1) - row_of(d, 1 - tokens) + 1;
}

void tr_relative_table(const struct tr_dims *d, int64_t tokens, int32_t *out)
{
    for (int64_t i = 0; i < 2 * tokens - 1; i++)
        out[i] = (int32_t)(row_of(d, i - tokens + 1) - tr_relative_first(d, tokens));
}
