/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_SPLIT_H
#define TR_DATA_SPLIT_H

#include <stdint.h>

#include "util/status.h"

/*
 * Which sequences of a dataset are for training, validation and test: bound[k] .. bound[k + 1] -
 * 1 for part k.  `text` is --split: up to three numbers of any unit with commas (or slashes)
 * between them, "969, 30, 1"; missing ones are 0.
 *
 * Bounds are rounded half to even, in one of two ways (`rounding`, of enums.def):
 *   TR_ROUNDING_2021   each part is rounded, and what the sum is off goes to the first
 *   TR_ROUNDING_NEWER  the cumulative bounds are rounded
 * They may differ by one sequence.  TR_ECONFIG if `text` is not such a list.
 */
enum tr_status tr_split_bounds(const char *text, int64_t sequences, int rounding,
                               int64_t bound[4]) TR_MUST_CHECK;

#endif
