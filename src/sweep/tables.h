/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_TABLES_H
#define TR_SWEEP_TABLES_H

#include "sweep/results.h"
#include "sweep/space.h"

/*
 * Write anew, from all records, into `folder`:
 *
 *   results.md    Nodes, Size, DP, TP, PP, MBS, GBS, Mem, Sec/it, TFLOPs, Notes: the fastest per sample
 *                 first, then those that failed; and what was not run, with the reason
 *   results.csv   those that were measured, all digits
 *   failed.csv    those that failed, with the error
 *
 * and with --autotune-log that file, as Horovod's autotuning writes it.  TR_EIO if one cannot be written.
 */
enum tr_status tr_sweep_tables(const struct tr_sweep *w, const struct tr_sweep_results *r,
                               const struct tr_sweep_space *space,
                               const char *folder) TR_MUST_CHECK;

/* Median seconds of a sample of a record, HUGE_VAL where there is none. */
double tr_sweep_pace(const json_t *record);

/* The record that is fastest per sample, borrowed; NULL where none is good. */
const json_t *tr_sweep_best(const struct tr_sweep_results *r);

#endif
