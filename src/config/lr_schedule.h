/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_LR_SCHEDULE_H
#define TR_CONFIG_LR_SCHEDULE_H

#include <stdint.h>

#include "config/config.h"
#include "util/status.h"

/*
 * The learning-rate schedule: every number that the learning rate and the weight decay depend on
 * besides the samples done.  Both count samples, as Megatron's optimizer scheduler does.  What the
 * chosen styles do not use is 0, so that it counts for nothing in a comparison.  A checkpoint keeps
 * all of them, and a run that resumes must have the same ones or an option that says which to
 * follow; that is why the struct is made of this table.
 *
 * NUMBER(type, field, "attribute", "options")
 *      type         REAL double, CHOICE int: TR_LR_..., TR_WSD_... and TR_WD_... of enums.def
 *      field        of struct tr_lr_schedule; a length in samples where it ends in that
 *      "attribute"  its name in a checkpoint
 *      "options"    what to type to change it; for a CHOICE the option that spells it, and no more
 */
#define TR_LR_SCHEDULE_OF(NUMBER)                                                                \
    NUMBER(REAL, lr, "max_lr", "--lr")                                                           \
    NUMBER(REAL, min_lr, "min_lr", "--min-lr")                                                   \
    NUMBER(REAL, warmup_init, "lr_warmup_init", "--lr-warmup-init")                              \
    NUMBER(REAL, warmup_samples, "lr_warmup_samples", "--lr-warmup-fraction, --lr-warmup-iters") \
    NUMBER(REAL, decay_samples, "lr_decay_samples",                                              \
           "--lr-decay-iters or else --train-iters, times --global-batch-size")                  \
    NUMBER(CHOICE, decay_style, "lr_decay_style", "--lr-decay-style")                            \
    NUMBER(REAL, wsd_samples, "lr_wsd_decay_samples",                                            \
           "--lr-wsd-decay-iters, times --global-batch-size")                                    \
    NUMBER(CHOICE, wsd_style, "lr_wsd_decay_style", "--lr-wsd-decay-style")                      \
    NUMBER(REAL, wd_start, "start_weight_decay", "--start-weight-decay, or --weight-decay")      \
    NUMBER(REAL, wd_end, "end_weight_decay", "--end-weight-decay, or --weight-decay")            \
    NUMBER(REAL, wd_samples, "weight_decay_incr_samples",                                        \
           "--train-iters, times --global-batch-size")                                           \
    NUMBER(CHOICE, wd_style, "weight_decay_incr_style", "--weight-decay-incr-style")

struct tr_lr_schedule {
#define REAL double
#define CHOICE int
#define NUMBER(type, field, attribute, options) type field;
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
};

/* From the options; `batch` is the global batch size, `train_samples` the length
   of the run.  TR_ECONFIG as tr_shape_of(). */
enum tr_status tr_lr_schedule_of(const struct tr_config *c, int64_t batch, int64_t train_samples,
                                 struct tr_lr_schedule *out) TR_MUST_CHECK;

#endif
