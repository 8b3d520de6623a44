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

/* Is there such a file in the folder? */
bool tr_ckpt_holds(const char *folder);

/* The folder in which process `tag` prepares that iteration. */
char *tr_ckpt_temporary(const char *dir, int64_t iteration, long tag);

/* The iteration of which a folder of that name is, or -1 if it is not exactly how one is named. */
int64_t tr_ckpt_iteration(const char *name);

/* The largest iteration below `below` of which there is a folder, or -1. */
int64_t tr_ckpt_older(const char *dir, int64_t below);

/* The iteration to resume from: what tr_ckpt_latest() says, or with a damaged tracker that of the newest
   folder, and a warning.  -1 and TR_OK without a tracker; TR_EDATA, TR_EIO. */
enum tr_status tr_ckpt_newest(const char *dir, int64_t *iteration) TR_MUST_CHECK;

/* "4 and 8": the iterations of which there are checkpoints, the newest eight and how many are older; ""
   if there are none. */
char *tr_ckpt_iterations(const char *dir);

/* TR_EIO with a sentence: there is none of that iteration, and which there are. */
enum tr_status tr_ckpt_missing(const char *dir, int64_t iteration) TR_MUST_CHECK;

/* The file that `path` means: itself, the file in it, or that of the latest checkpoint in it.
   TR_EIO if there is none. */
enum tr_status tr_ckpt_find(const char *path, char **file) TR_MUST_CHECK;

/* Give `temporary`, whose file is flushed, its name, in place of a checkpoint of that name if
   or a link of that name if there is one, and then point the tracker at it.  What the link led to stays
   as it is.  After a failure the tracker is what it was. */
enum tr_status tr_ckpt_commit(const char *dir, int64_t iteration, long tag) TR_MUST_CHECK;

/* Take back what tr_ckpt_commit() has done before it failed, in a folder that had no checkpoints: the folder of that
   iteration goes, and with `tracker` the tracker. */
void tr_ckpt_withdraw(const char *dir, int64_t iteration, bool tracker);

/*
 * Removing: nothing outside DIR is touched.  Folders are opened through no link and emptied by their
 * descriptors.  What is not only a checkpoint stays, and so does a link with the name of a checkpoint; a
 * link with the name of something that a save prepares is removed, and not what it leads to.  A
 * warning says each of these.  DIR itself may be a link.
 */

/* Remove a folder that a save prepared, if it is there and holds nothing but a checkpoint. */
void tr_ckpt_remove(const char *folder);

/* A warning for each folder that a killed save or import left in `dir`, if no other is writing it. */
void tr_ckpt_tell_leftovers(const char *dir);

/* Remove what killed saves left behind, and the checkpoints before the newest `keep_last` up to
   `iteration` (all stay if it is 0).  What cannot be removed stays; a warning says so. */
void tr_ckpt_tidy(const char *dir, int64_t iteration, int keep_last, long tag);

#endif
