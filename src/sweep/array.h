/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_ARRAY_H
#define TR_SWEEP_ARRAY_H

#include "sweep/place.h"
#include "sweep/space.h"

/* A shape that an array task is to run. */
struct tr_sweep_task {
    const struct tr_sweep_shape *shape;
    double seconds; /* that its job has to have */
};

/*
 * Write a script for sbatch, --sweep-array, that has an array task for each of task[count], which calls `trireme sweep
 * --sweep-only SHAPE` with the options of this sweep.  The tasks of an array have the same nodes, so that each number
 * of ranks has a script of its own, with "-ranksN" in its name, where there are several.  With --dry-run they are
 * printed instead; with --sweep-submit they are submitted.
 *
 * TR_EIO where one cannot be written, TR_ERESOURCE where sbatch is missing or refuses it.
 */
enum tr_status tr_sweep_arrays(const struct tr_sweep *w, const struct tr_sweep_place *place,
                               const struct tr_sweep_task *task, int count) TR_MUST_CHECK;

#endif
