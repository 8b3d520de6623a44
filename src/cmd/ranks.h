/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_RANKS_H
#define TR_CMD_RANKS_H

#include "comm/comm.h"
#include "config/option.h"
#include "config/words.h"

/*
 * A verb that computes on the ranks that a launcher started, or alone on one, with options of its own (`own`, in
 * *base) besides those of `trireme train`: start MPI, read the words, call `work` with those of train, and end MPI.
 * Returns the exit code; the sentence of a failure has been printed.
 */
int tr_cmd_on_ranks(int argc, char **argv, const struct tr_options *own, void *base,
                    enum tr_status (*work)(const void *base, const struct tr_args *words,
                                           struct tr_comm *world));

#endif
