/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_CKPT_WEIGHTS_H
#define TR_CMD_CKPT_WEIGHTS_H

#include "config/option.h"

/* `trireme ckpt import` and `export`: words behind the name; and the table of their options. */
enum tr_status tr_ckpt_import(int argc, char **argv) TR_MUST_CHECK;
enum tr_status tr_ckpt_export(int argc, char **argv) TR_MUST_CHECK;
const struct tr_options *tr_ckpt_options_table(void);

#endif
