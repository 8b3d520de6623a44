/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BATCH_H
#define TR_DATA_BATCH_H

#include <stdint.h>

#include "config/config.h"
#include "config/shape.h"
#include "util/file.h"
#include "util/status.h"

/*
 * The three data sets of a run and the order of their samples: .bin/.idx read by mmap, split,
 * index maps, blends (data/index.h, samples.h, blend.h), and from them micro-batches of tokens.
 * They are the parts that --split makes of --data-path, or all of what --train-data-path,
 * --valid-data-path and --test-data-path name, or made up (data/mock.h).
 *
 * Replica r of D takes positions [first + r B, first + (r + 1) B) of each block of B * D.  The state
 * of the data is one number, the samples consumed.  Position k in the order is the same sample in
 * every layout; with --dataloader-type cyclic it depends on B and D (data/cyclic.h), and the order
 * has no end.
 */
enum tr_split { TR_SPLIT_TRAIN, TR_SPLIT_VALID, TR_SPLIT_TEST, TR_SPLITS };

struct tr_data;

struct tr_comm;

/*
 * Open the data sets named by the configuration (group "Data" of options.def, whose rules
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

#endif
