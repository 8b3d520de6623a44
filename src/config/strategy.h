/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_STRATEGY_H
#define TR_CONFIG_STRATEGY_H

#include <stdbool.h>

#include "util/status.h"

/*
 * Names of Lightning's strategies (strategy.def), in any case.  `put` gets each option that `name` stands for, as
 * tr_deepspeed_read() calls it.  TR_ECONFIG for a name that is refused, that no row has, or one of whose options
 * does not exist.  Not collective.
 */
typedef void tr_strategy_put(void *ctx, const char *word, const char *where);
enum tr_status tr_strategy_read(const char *name, tr_strategy_put *put, void *ctx) TR_MUST_CHECK;

/* What the log says of a name that was read: "--strategy X stands for --a b", and its note; owned by the caller. */
char *tr_strategy_text(const char *name);

/* Row i of those that stand for options, or false behind the last. */
bool tr_strategy_listed(int i, const char **name, const char **about);

#endif
