/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BLOCKS_H
#define TR_DATA_BLOCKS_H

#include <stdint.h>

#include "data/indexed.h"
#include "util/status.h"

/*
 * The samples of --n-epochs: the sequences first .. last - 1 of a dataset are one stream of n
 * tokens, and block k is the T + 1 tokens of it from k T on: T that are read and the label of the
 * last, with which block k + 1 begins.  There are floor((n - 1) / T) of them; fewer than T + 1
 * tokens are left over.
 *
 * A block is the same text whatever else a run does, which is what makes its number the name of a sample.
 * Where it begins is looked up in the index of the dataset, so that samples cost no memory.
 */
struct tr_blocks {
    int64_t seq, count; /* T, blocks */
    int64_t tokens;     /* n */
    int64_t before;     /* tokens of the dataset before the stream */
};

/* Tokens of those sequences, and how many blocks of `seq` a stream has. */
int64_t tr_blocks_tokens(const struct tr_index *x, int64_t first, int64_t last);
int64_t tr_blocks_of(int64_t tokens, int64_t seq);

/* Of an open dataset; `most` >= 0 ends it after so many blocks.  0 <= first <= last <=
   x->sequences. */
void tr_blocks_open(const struct tr_index *x, int64_t first, int64_t last, int64_t seq,
                    int64_t most, struct tr_blocks *out);

/* Block k, 0 <= k < b->count, into text[seq + 1].  TR_EDATA as tr_index_read(), if a token is not below
   `limit`. */
enum tr_status tr_blocks_get(const struct tr_blocks *b, const struct tr_index *x, int64_t k,
                             int64_t limit, int32_t *text) TR_MUST_CHECK;

#endif
