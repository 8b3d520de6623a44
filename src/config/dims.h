/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_DIMS_H
#define TR_CONFIG_DIMS_H

#include <stdint.h>

#include "family/family.h"

/*
 * The dimensions of the model and of a sample, the same on every rank.  Counts of layers, heads,
 * numbers of a vector, or tokens.  Source: the options of group "Model", --seq-length and the
 * tokenizer; of the layout only W, which the padding of the vocabulary is a multiple of.
 */
struct tr_dims {
    struct tr_family family; /* the architecture, options applied */
    int64_t layers, hidden, heads, head_dim, ffn;
    int64_t groups;              /* key-value groups, of heads / groups heads each */
    int64_t embed;               /* width of the embedding */
    int64_t seq, positions;      /* T, and the most that the model has positions for */
    int64_t vocab, vocab_padded; /* true size, and padded to make-vocab-size-divisible-by * W */
    int64_t eod;                 /* token that ends a document, or -1 (config/vocab.h) */
};

#endif
