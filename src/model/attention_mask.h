/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_ATTENTION_MASK_H
#define TR_MODEL_ATTENTION_MASK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The effect of end-of-document tokens (EOD) when several documents are packed in a sample.  Such a
 * token belongs to the document that it ends; only the tokens that are read count, not the last
 * label.
 *
 *     loss        --eod-mask-loss: the prediction after an end of text has no weight, since the
 *                 next document does not follow from this one
 *     within      --loss-within-samples: the last prediction of a sample, whose label is not among the tokens
 *                 that are read, has no weight: as of a model that gets T tokens as their own labels
 *     positions   --reset-position-ids: the positions of a document count from 0
 *     attention   --reset-attention-mask: a token sees only tokens of its own document
 *
 * The loss of a micro-batch is its mean over the tokens that count, as in Megatron-LM of 2021, and
 * the loss of a step the mean of its micro-batches; so with `loss` it depends, slightly, on the
 * micro-batch size.  In a micro-batch that reads nothing but ends of text no token counts: its loss
 * is 0, without gradient, and is still one of those in the mean.
 */
struct tr_mask_rule {
    int32_t eod;
    bool loss, within, positions, attention;
};

/*
 * For a micro-batch text[batch, seq + 1], each out[batch * seq], or NULL for what is not wanted: the
 * position of each token; the first token of its sample that it sees; its weight in the mean loss,
 * the same for all that count, of sum 1.
 */
void tr_mask_of(const int32_t *text, int64_t batch, int64_t seq, int32_t eod, int32_t *position,
                int32_t *from, float *weight);

/* The weights alone: of tokens that are no `eod` (-1: there is none), with `within` without the last of a sample. */
void tr_mask_weigh(const int32_t *text, int64_t batch, int64_t seq, int32_t eod, bool within,
                   float *weight);

#endif
