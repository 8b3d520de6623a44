/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DEVICE_CODEC_TRIAL_H
#define TR_TESTS_DEVICE_CODEC_TRIAL_H

#include "device/trial.h"

/* The trials of t_ops.c for quantization and sparsification. */
void fix_scale_trial(struct trial *t);
void fix_encode_trial(struct trial *t);
void fix_decode_trial(struct trial *t);
void topk_mask_trial(struct trial *t);
void mask_take_trial(struct trial *t);
void mask_add_trial(struct trial *t);
void select_take_trial(struct trial *t);
void select_put_trial(struct trial *t);
void select_add_trial(struct trial *t);
void subtract_trial(struct trial *t);
void fingerprint_trial(struct trial *t);

#endif
