/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_CHUNKS_H
#define TR_TRAIN_CHUNKS_H

#include "train/run.h"

/* Say in the log how weights of layers are packed into chunks on rank 0, how many there is room for, and how many a
   step moves; nothing where there are no chunks. */
void tr_chunks_tell(const struct tr_run *r);

#endif
