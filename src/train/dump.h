/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_DUMP_H
#define TR_TRAIN_DUMP_H

#include "job/run_folder.h"
#include "train/run.h"

/*
 * `trireme ctl SAVE dump`: SAVE/dump-0000120.txt, after iteration 120, with a paragraph for each rank:
 * where it runs, its place in the layout, its memory, and its timers since the last line of the log.
 * Collective over the world.  A file that cannot be written is a warning.
 */
void tr_dump(struct tr_run *r, const struct tr_run_folder *k);

#endif
