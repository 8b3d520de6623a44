/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_INFER_INFER_H
#define TR_INFER_INFER_H

#include "config/words.h"
#include "token/tokenizer.h"
#include "train/run.h"

/*
 * A model that computes forward only: weights from --load, the architecture from the same checkpoint, the layout
 * and the machine from the options of `trireme train`, and the tokenizer that goes with it.  Below are
 * the steps that evaluation and generation have in common; all of them are collective over the world, with the
 * same status on all ranks.
 */

/*
 * The options of such a run from its words.  What only training asks for is settled: nothing is saved, one step,
 * no optimizer, the activations of one layer at a time.  Unless given, --micro-batch-size is what `samples` at once
 * take, `most` at most, and --global-batch-size a micro-batch for each pipeline stage of each replica.  *shape is
 * what follows.
 */
enum tr_status tr_infer_options(struct tr_config *c, const struct tr_args *words,
                                struct tr_comm *world, int64_t samples, int64_t most,
                                struct tr_shape *shape) TR_MUST_CHECK;

/* The tokenizer that the options name, `merges` the file of gpt2-bpe or NULL; TR_ECONFIG if they name none, or one with more tokens than the model. */
enum tr_status tr_infer_tokenizer(const struct tr_config *c, const char *merges,
                                  const struct tr_shape *shape, struct tr_comm *world,
                                  struct tr_tokenizer **out) TR_MUST_CHECK;

/* In place of the run, with --dry-run: what each rank would hold, on stdout of rank 0. */
enum tr_status tr_infer_plan(const struct tr_config *c, const struct tr_forward_only *only,
                             struct tr_comm *world) TR_MUST_CHECK;

/* Open the run and load the weights.  Close it also after a failure. */
enum tr_status tr_infer_open(struct tr_run *r, const struct tr_config *c,
                             const struct tr_forward_only *only,
                             struct tr_comm *world) TR_MUST_CHECK;

/*
 * Append the tokens of a text to *out: with `special` between the special tokens that other programs put before and,
 * with `whole`, behind it.  TR_EDATA if the tokenizer gives up on the text.  Not collective.
 */
enum tr_status tr_infer_encode(const struct tr_tokenizer *t, const char *text, size_t bytes,
                               bool special, bool whole, struct tr_tokens *out) TR_MUST_CHECK;

/* What rank 0 has of `t`, on all ranks. */
void tr_infer_tell(struct tr_comm *world, struct tr_tokens *t);

#endif
