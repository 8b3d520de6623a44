/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BATCH_H
#define TR_DATA_BATCH_H

#include <stdint.h>

#include "config/config.h"
#include "config/shape.h"
#include "util/file.h"
#include "util/status.h"

/*
 * The three datasets of a run and the order of their samples: .bin/.idx read by mmap, split,
 * index maps, blends (data/indexed.h, samples.h, blend.h), and from them micro-batches of tokens.
 * They are the parts that --split makes of --data-path, or all of what --train-data-path,
 * --valid-data-path and --test-data-path name, or mock data (data/mock.h).
 *
 * Replica r of D takes positions [first + r B, first + (r + 1) B) of each block of B * D.  The state
 * of the data is one number, the samples consumed.  Position k in the order is the same sample in
 * every layout; with --dataloader-type cyclic it depends on B and D (data/cyclic.h), and the order
 * has no end.
 *
 * With --n-epochs the samples are blocks of the text (data/blocks.h), those of training in an order of
 * their own (data/epochs.h) and those of validation and test each once, in the order of the text: position
 * k is block k.  From the number of blocks on, positions of these two hold block 0, so that evaluation can
 * fill its last batch; tr_data_size() is that number.  Mock data then have --data-blocks samples of
 * training and no others.
 */
enum tr_split { TR_SPLIT_TRAIN, TR_SPLIT_VALID, TR_SPLIT_TEST, TR_SPLITS };

struct tr_data;

struct tr_comm;

/*
 * Open the datasets named by the configuration (group "Data" of options.def, whose rules
 * tr_shape_of() has checked) for the numbers of samples, the layout and the vocabulary of `s`; both
 * are borrowed for the call.  Index maps lie next to the data or in the cache folder; rank 0
 * checks or builds them, the others use its files or, where they do not see them, make their own
 * (data/samples.h).  Prints Megatron's lines ("> building train, validation, and test datasets
 * ..." to "> finished creating GPT datasets ...") from rank 0.  Files are opened by `by`, which is
 * borrowed for the call and may be NULL.
 *
 * Collective over `world`, and fails on all ranks if on any: TR_ECONFIG for --data-path or
 * --split, TR_EIO or TR_EDATA for a file, TR_EDATA if the ranks do not see the same data or there are
 * too few for the cyclic order.  *out is then NULL.
 */
enum tr_status tr_data_open(const struct tr_config *c, const struct tr_shape *s,
                            struct tr_comm *world, const struct tr_opener *by,
                            struct tr_data **out) TR_MUST_CHECK;
void tr_data_close(struct tr_data *x);

/*
 * With --n-epochs: how many blocks of --seq-length tokens the datasets of the configuration have
 * for training (--data-blocks at most), validation and test: c->blocks_known, from which
 * tr_shape_of() knows the length of the run.  Opens and closes them, prints nothing; not
 * collective.  TR_ECONFIG for a blend, of which no epoch can be made, or fewer
 * blocks than --data-blocks; TR_EIO or TR_EDATA for a file.
 */
enum tr_status tr_data_count(const struct tr_config *c, struct tr_blocks_known *out) TR_MUST_CHECK;

/*
 * With --n-epochs: a number that follows from all tokens of all samples of training, and hardly ever is
 * the same for other ones; whose activation cache something is.  `epochs` knows how many there are.
 * Opens and closes the dataset, of which each rank reads its part; prints nothing.  Collective
 * over `world`, the same on all ranks.  0 where the options name no data.  TR_EIO or TR_EDATA for a
 * file.
 */
enum tr_status tr_data_print(const struct tr_config *c, const struct tr_dims *dims,
                             const struct tr_epoch_plan *epochs, struct tr_comm *world,
                             uint64_t *out) TR_MUST_CHECK;

/* Samples in the order of a split: at least as many as were wanted, or 0 when none were wanted or
   the split has no documents or no path. */
int64_t tr_data_size(const struct tr_data *x, enum tr_split split);

/*
 * Sample `position` of a split: T + 1 tokens into text (tokens are text[0..T-1], labels
 * text[1..T]).  TR_EDATA if a token is not below the true vocabulary (names file and document) or
 * if position is beyond the end ("no samples left ...").  Not collective; allocates nothing; one
 * thread at a time.
 */
enum tr_status tr_data_sample(struct tr_data *x, enum tr_split split, int64_t position,
                              int32_t *text) TR_MUST_CHECK;

/* --show-data: print a sample of training as CocktailSGD does, if it is one that is to be: of tasks, each 64th, in two lines,
 *
 *     0.40429 0.5
 *     **cot**: A text of `tokens` tokens\nin one line
 *
 * the draw and the cumulative weight that it is below, and the task with the text.  Not collective. */
void tr_data_tell(const struct tr_data *x, int64_t position, const int32_t *text, int64_t tokens);

/*
 * The number of the sample at `position` of the order of training, the same in every epoch; or -1
 * without --n-epochs, where positions have no samples that come again, and of the other splits.
 * Those of a replica are tr_epoch_share() (config/amounts.h).  Any position from 0 on; not
 * collective; allocates nothing.
 */
int64_t tr_data_sample_id(struct tr_data *x, enum tr_split split, int64_t position);

#endif
