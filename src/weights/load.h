/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_LOAD_H
#define TR_WEIGHTS_LOAD_H

#include "ckpt/ckpt.h"
#include "comm/grid.h"
#include "config/dims.h"

/*
 * Weights of others straight into a run, without a checkpoint in between.  All is collective, with the same outcome on
 * all ranks.
 */

/* Whether --load `folder` leads to such weights: it has some (tr_weights_is()), and no checkpoint of ours. */
bool tr_weights_lead(struct tr_comm *world, const char *folder);

/*
 * As tr_ckpt_options(): the options that describe the model in `folder`, or in the config.json `config` (NULL: the
 * folder's own), as JSON for tr_config_load_model(), and its
 * true vocabulary, which is `vocab` (0: not given) where the format pads it.  Rank 0 reads them.  TR_EIO, TR_EDATA,
 * TR_ECONFIG; then *json is NULL.
 */
enum tr_status tr_weights_options(struct tr_comm *world, const char *folder, const char *config,
                                  int64_t vocab, int64_t labels, char **json,
                                  int64_t *true_vocab) TR_MUST_CHECK;

/* The same of a model without weights, from the config.json `config` or the folder of one. */
enum tr_status tr_weights_model_options(struct tr_comm *world, const char *config, char **json,
                                        int64_t *true_vocab) TR_MUST_CHECK;

/*
 * As tr_ckpt_load() with `finetune`: weights alone, in fp32.  Each rank opens the files and reads the rows that its
 * part of the model needs, and leaves what the files may lack of a head of classes as it is, all at the same time; of a tensor whose columns are our rows, all.  On the host there are
 * what weights/move.h says and a block of the device's.  `source` gets one line, owned by the caller.  TR_EDATA in a
 * sentence with each number in which the model is another than that of `dims`; TR_EIO.
 */
enum tr_status tr_weights_load(struct tr_grid *grid, const char *folder, const char *config,
                               const struct tr_dims *dims, const struct tr_ckpt_tensors *tensors,
                               char **source) TR_MUST_CHECK;

#endif
