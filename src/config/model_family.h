/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_MODEL_FAMILY_H
#define TR_CONFIG_MODEL_FAMILY_H

#include "config/config.h"
#include "family/family.h"
#include "util/status.h"

/*
 * The row of --model-family with the fields that options of the group "Model" set.  Fields that have no meaning
 * in the result (a rotary base without rotary positions) are 0, so that equal models have equal rows.
 * TR_ECONFIG with one sentence where there is no such family, or options contradict one another.
 */
enum tr_status tr_family_of(const struct tr_config *c, struct tr_family *out) TR_MUST_CHECK;

/* The inner width of the MLP where --ffn-hidden-size is not given. */
int64_t tr_family_ffn(const struct tr_family *f, int64_t hidden);

/* How many numbers of a head turn; 0 without rotary positions. */
int64_t tr_family_rotary(const struct tr_family *f, int64_t head_dim);

/* --attention-dropout and --hidden-dropout, or what the family was trained with. */
double tr_family_attention_dropout(const struct tr_config *c, const struct tr_family *f);
double tr_family_hidden_dropout(const struct tr_config *c, const struct tr_family *f);

#endif
