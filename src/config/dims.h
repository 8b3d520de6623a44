/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_DIMS_H
#define TR_CONFIG_DIMS_H

#include <stdint.h>

#include "config/config.h"
#include "family/family.h"
#include "util/status.h"

/* The widest head that --kv-channels may ask for: TR_MAX_HEAD_DIM of device/device.h, and t_families compares
   them. */
enum { TR_WIDEST_HEAD = 320 };

/* What the last stage makes of the residual stream: of each token the logits of the next one, or of each sample the
   logits of its class. */
enum tr_head_kind { TR_HEAD_LANGUAGE, TR_HEAD_CLASSES };

/*
 * The dimensions of the model and of a sample, the same on every rank.  Counts of layers, heads,
 * numbers of a vector, or tokens.  Source: the options of group "Model", --seq-length and the
 * tokenizer; of the layout only W, which the padding of the vocabulary is a multiple of.
 */
struct tr_dims {
    struct tr_family family; /* the architecture, options applied */
    int64_t layers, hidden, heads, head_dim, ffn;
    int64_t groups;                /* key-value groups, of heads / groups heads each */
    int64_t embed;                 /* width of the embedding */
    int64_t seq, positions;        /* T, and the most that the model has positions for */
    int64_t vocab, vocab_padded;   /* true size, and padded to make-vocab-size-divisible-by * W */
    const struct tr_words *freeze; /* --freeze, borrowed from the options; NULL: none */
    enum tr_head_kind head;
    int64_t classes; /* of the head, or 0 */
    int64_t eod;     /* token that ends a document, or -1 (config/vocab.h) */
};

/* Of a model over w tensor ranks.  TR_ECONFIG with one sentence and the nearest value that would do; TR_EIO or
   TR_EDATA for a bad --vocab-file. */
enum tr_status tr_dims_of(const struct tr_config *c, int w, struct tr_dims *m) TR_MUST_CHECK;

/* What the graphs of cuDNN's attention need and a layer over w tensor ranks does not have, or NULL; static storage. */
const char *tr_dims_fused_needs(const struct tr_dims *m, int w);

/* Options as a log has them: with what the family and the sizes make of those of the group "Model" that are not given,
   so that a reader of a log need not know the family.  The same dims follow from them.  `options` borrows the texts of
   `c`, and `window`, so it is not copied. */
struct tr_told {
    struct tr_config options;
    char window[24];
};
void tr_dims_tell(const struct tr_config *c, const struct tr_dims *m, struct tr_told *told);

#endif
