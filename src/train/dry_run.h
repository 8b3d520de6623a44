/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_DRY_RUN_H
#define TR_TRAIN_DRY_RUN_H

#include <stdio.h>

#include "config/config.h"
#include "train/run.h"
#include "util/status.h"

/*
 * `trireme train --dry-run`: Megatron's lines of sizes and arguments, then for each stage of the
 * pipeline what its first tensor rank of the first replica holds: layers, parameters, and its memory
 * (train/memory.h) in the rows of `trireme plan` without a machine.  They are counted by the functions that allocate when training begins
 * (tr_run_dry()).
 *
 * `ranks` is how many were started.  With one, and without --world-size, it plans for one replica,
 * the smallest world size, and says so; which is what tr_plan_world() does.  With `only` the run computes forward
 * only.  Returns what tr_shape_of() returns.  Not collective.
 */
enum tr_status tr_plan_print(const struct tr_config *c, const struct tr_forward_only *only,
                             int ranks, FILE *f) TR_MUST_CHECK;
int tr_plan_world(const struct tr_config *c, int ranks, FILE *f);

#endif
