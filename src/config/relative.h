/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_RELATIVE_H
#define TR_CONFIG_RELATIVE_H

#include "config/dims.h"

/* Which row of the table of relative positions a distance has.  Pure. */

/* The bucket of a distance of up to `longest` - 1, by `buckets`, which is even: short ones, up to half of that,
   are their own, and longer ones share the other half by their logarithm; as negative as the distance is.  Source:
   He et al., "DeBERTa" (2021) and the code published with its version 2. */
int64_t tr_relative_bucket(int64_t distance, int64_t buckets, int64_t longest);

/* Of the table of relative positions the rows of all distances between so many tokens: how many, and the first. */
int64_t tr_relative_rows(const struct tr_dims *d, int64_t tokens);
int64_t tr_relative_first(const struct tr_dims *d, int64_t tokens);

/* out[2 tokens - 1]: the row of query minus key, which is 1 - tokens first, counted from tr_relative_first() on. */
void tr_relative_table(const struct tr_dims *d, int64_t tokens, int32_t *out);

#endif
