/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_SHAPE_H
#define TR_CONFIG_SHAPE_H

#include "config/activations.h"
#include "config/amounts.h"
#include "config/batches.h"
#include "config/compression.h"
#include "config/config.h"
#include "config/dims.h"
#include "config/layout.h"
#include "config/lr_schedule.h"
#include "config/precision.h"
#include "config/data_parallel.h"
#include "config/offload.h"
#include "util/status.h"

/*
 * All numbers of a run that follow from the options and the number of ranks, and every rule that
 * joins two options.  No rank of its own and no communication; the one file it may read is
 * --vocab-file, to count its entries.  `plan` and `train` ask the same function.
 *
 * Each part has a header of its own.  A module that reads one or two of them takes those, and does
 * not include this file.
 */
struct tr_shape {
    struct tr_layout layout;
    struct tr_dims dims;
    struct tr_batches batches;
    struct tr_precision precision;
    struct tr_activations activations;
    struct tr_dropout_rates {
        double attention, hidden;
    } dropout;
    struct tr_data_parallel dp;
    struct tr_offload offload;
    struct tr_link_compression links;
    struct tr_amounts amounts;
    struct tr_epoch_plan epochs;
    struct tr_lr_schedule lr_schedule;
    unsigned exit_signals; /* --exit-signal: exit_signal values of enums.def as bits */
};

/*
 * Derive.  TR_ECONFIG with one sentence that names the options, the rule and the nearest values
 * that would do: heads not divisible by W, layers by P * K, global batch by B * D, sequence longer
 * than the positions, a world that is not W * P * D, interleaving with M not divisible by P,
 * options that exclude one another, required ones that are missing.  TR_EIO or TR_EDATA for a bad
 * --vocab-file.  --data-path is not asked for here: a plan needs none.
 */
enum tr_status tr_shape_of(const struct tr_config *c, int world,
                           struct tr_shape *out) TR_MUST_CHECK;

#endif
