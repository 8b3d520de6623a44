/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_PATH_H
#define TR_CKPT_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * The folder of checkpoints, DIR: DIR/iter_0000100/model_optim_rng.h5 and DIR's tracker.  Nothing
 * here is collective; when ranks save or load together, rank 0 alone calls it.  Strings returned
 * are owned by the caller.
 */

/* DIR/iter_0000100, and the file in such a folder. */
char *tr_ckpt_folder(const char *dir, int64_t iteration);
char *tr_ckpt_file_in(const char *folder);

/* The folder in which process `tag` prepares that iteration. */
char *tr_ckpt_temporary(const char *dir, int64_t iteration, long tag);

/* The largest iteration below `below` of which there is a folder, or -1. */
int64_t tr_ckpt_older(const char *dir, int64_t below);

/* The file that `path` means: itself, the file in it, or that of the latest checkpoint in it.
   TR_EIO if there is none. */
enum tr_status tr_ckpt_find(const char *path, char **file) TR_MUST_CHECK;

/* Give `temporary`, whose file is flushed, its name, in place of a checkpoint of that name if
   there is one, and then point the tracker at it.  After a failure the tracker is what it was. */
enum tr_status tr_ckpt_commit(const char *dir, int64_t iteration, long tag) TR_MUST_CHECK;

/* Remove a folder that holds nothing but a checkpoint; any other stays as it is. */
void tr_ckpt_remove(const char *folder);

/* Remove what killed saves left behind, and the checkpoints before the newest `keep_last` up to
   `iteration` (all stay if it is 0).  What cannot be removed stays; a warning says so. */
void tr_ckpt_tidy(const char *dir, int64_t iteration, int keep_last, long tag);

#endif
