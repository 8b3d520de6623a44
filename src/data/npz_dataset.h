/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_NPZ_DATASET_H
#define TR_DATA_NPZ_DATASET_H

#include "comm/comm.h"
#include "config/config.h"
#include "util/status.h"

/*
 * Files of numpy as training data: where --data-path and its like name FILE.npz, its array --npz-array is read as the
 * dataset FILE_ARRAY_document.bin and .idx, next to it or in --data-cache-path, of which each row is a document.  It is
 * made by reading the file once, a row at a time, if it does not exist or is older.
 */

/* The prefix of the dataset that a word of --data-path means, owned by the caller: the word itself if it names no
   .npz file.  Pure. */
char *tr_npz_prefix(const struct tr_config *c, const char *word);

/* Make the datasets that the options mean, those that are to be made, and say so.  TR_EIO or TR_EDATA; not collective. */
enum tr_status tr_npz_make_mine(const struct tr_config *c) TR_MUST_CHECK;

/* The same on all ranks: rank 0 first, and then those that do not see what it made.  Collective;
   fails on all ranks if on any. */
enum tr_status tr_npz_make_all(const struct tr_config *c, struct tr_comm *world) TR_MUST_CHECK;

#endif
