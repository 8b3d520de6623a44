/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_READ_OPTIONS_H
#define TR_TRAIN_READ_OPTIONS_H

#include "comm/comm.h"
#include "config/config.h"
#include "config/words.h"

/*
 * All options of a run from its words: those of the command line, where --load leads, with
 * --use-checkpoint-args what describes the model in the checkpoint there, below what the words say, and what is in
 * the vocabulary and the data.  *c has been initialized.  Collective over `world`, the same status on all ranks;
 * TR_ECONFIG, TR_EIO, TR_EDATA as tr_config_parse_args(), tr_ckpt_locate(), tr_ckpt_options() and
 * tr_start_blocks().
 */
enum tr_status tr_read_options(struct tr_config *c, const struct tr_args *words,
                               struct tr_comm *world) TR_MUST_CHECK;

/* The same of a run that is nothing without a checkpoint: the model is always that of --load, which must be given. */
enum tr_status tr_read_model(struct tr_config *c, const struct tr_args *words,
                             struct tr_comm *world) TR_MUST_CHECK;

#endif
