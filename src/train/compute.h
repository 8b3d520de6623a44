/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_COMPUTE_H
#define TR_TRAIN_COMPUTE_H

#include "train/run.h"

/* What a rank computes with: fill r->queue and r->device as --backend, --threads and the options of GPUs
   say; r->shape and r->launch are known.  Collective over r->world.  TR_ECONFIG for options that do not go
   with the backend or a model that is too wide, TR_ERESOURCE where it cannot be had, on all ranks. */
enum tr_status tr_compute_open(struct tr_run *r) TR_MUST_CHECK;

#endif
