/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_CONFIG_PARTS_H
#define TR_CONFIG_CONFIG_PARTS_H

#include "config/config.h"

/* What config.c and arguments.c share. */

/* How many options there are. */
enum {
    TR_CONFIG_ROWS = 0
#define OPT(group, type, field, name, initial, check, help) +1
#include "config/options.def"
};

/* The options in the order of their field names, without regard to case; returns how many. */
int tr_config_sorted(const struct tr_opt *out[TR_CONFIG_ROWS]);

/* The name with '_' for '-', and the value as Python prints it; owned by the caller. */
char *tr_config_field_name(const struct tr_opt *o);
char *tr_config_value_text(const struct tr_opt *o, const struct tr_config *c);

#endif
