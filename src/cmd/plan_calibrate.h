/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_PLAN_CALIBRATE_H
#define TR_CMD_PLAN_CALIBRATE_H

#include "config/option.h"
#include "config/words.h"

/* `trireme plan --fit`: fit the profile `machine` to the runs of logs and folders, and print it, or one JSON object;
   `typed` are options of training for what the logs do not say. */
enum tr_status tr_plan_calibrate(const struct tr_words *paths, const struct tr_args *typed,
                                 const char *machine, bool json) TR_MUST_CHECK;

#endif
