/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_MODEL_FAMILY_H
#define TR_CONFIG_MODEL_FAMILY_H

#include "config/config.h"
#include "family/family.h"
#include "util/status.h"

/* The row of --model-family with the fields that options set.  TR_ECONFIG with one sentence where there is no
   such row, or fields contradict one another. */
enum tr_status tr_family_of(const struct tr_config *c, struct tr_family *out) TR_MUST_CHECK;

/* The inner width of the MLP where --ffn-hidden-size is not given. */
int64_t tr_family_ffn(const struct tr_family *f, int64_t hidden);

#endif
