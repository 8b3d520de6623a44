/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BLOCKS_H
#define TR_DATA_BLOCKS_H

#include <stdbool.h>
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
 * With --document-samples sample k is sequence first + k instead, whose T + 1 tokens are in no other.
 *
 * Where it begins is looked up in the index of the dataset, so that samples cost no memory.
 */
struct tr_blocks {
    int64_t seq, count; /* T, blocks */
    int64_t stride;     /* from the beginning of one to that of the next: T, or T + 1 */
    int64_t tokens;     /* n */
    int64_t before;     /* tokens of the dataset before the stream */
    int64_t reads;      /* tokens of a sample that are read: T + 1, or T, and the last label is 0 */
    const int32_t
        *row; /* where documents come in an order of their own: which is sample k; borrowed */
};

/* Tokens of those sequences, and how many blocks of `seq` a stream has. */
int64_t tr_blocks_tokens(const struct tr_index *x, int64_t first, int64_t last);
int64_t tr_blocks_of(int64_t tokens, int64_t seq);

/* Of an open dataset; `most` >= 0 ends it after so many blocks.  0 <= first <= last <=
   x->sequences. */
void tr_blocks_open(const struct tr_index *x, int64_t first, int64_t last, int64_t seq,
                    int64_t most, struct tr_blocks *out);

/* The same where each sequence is a sample, `row[first + k]` the k-th of them, or with `row` NULL first + k.  With `within`
   they have T tokens, and the last label, which nobody looks at, is 0.  TR_EDATA, naming the first one, if one has not
   that many tokens. */
struct tr_blocks_how {
    int64_t seq, most;
    bool within;
    const int32_t *row; /* borrowed until the last sample */
};
enum tr_status tr_blocks_open_documents(const struct tr_index *x, int64_t first, int64_t last,
                                        const struct tr_blocks_how *how,
                                        struct tr_blocks *out) TR_MUST_CHECK;

/* An order of `count` documents that is drawn from a seed: the numbers 0 .. count - 1, shuffled as data/epochs.h says, by
   the stream TR_STREAM_SPLIT.  Owned by the caller. */
int32_t *tr_blocks_shuffled(uint64_t seed, int64_t count);

/* Block k, 0 <= k < b->count, into text[seq + 1].  TR_EDATA as tr_index_read(), if a token is not below
   `limit`. */
enum tr_status tr_blocks_get(const struct tr_blocks *b, const struct tr_index *x, int64_t k,
                             int64_t limit, int32_t *text) TR_MUST_CHECK;

#endif
