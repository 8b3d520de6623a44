/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_TRANSLATE_H
#define TR_PORT_TRANSLATE_H

#include <stdbool.h>

#include "config/words.h"
#include "port/marks.h"

/*
 * A command line of CocktailSGD or AC-SGD, as their scripts give it to each process, for a run.
 *
 * A line with --pipeline-group-size is one of theirs: of CocktailSGD with --total-steps or --train-warmup-steps, which
 * AC-SGD lacks, else of AC-SGD.  Of a line of ours with --dp-mode cocktail_sgd the variables of the environment that
 * configure the exchange are read, too.  The tables are those of `trireme port` (dialects.def).
 */

/* Of the launch. */
struct tr_port_launch {
    int ranks, nodes;
};

bool tr_port_is_theirs(const struct tr_args *a);

/*
 * Replace the words `a` by ours, each with the place that it came from.  `said` gets a line for each option that has
 * another name or value here or no effect, one with what is done without an option, and one with what the environment
 * says.  Reads config.json of --model-name.  TR_ECONFIG with the sentence of what will not do, of several after each
 * has its line of the log; then *a is as it was.  Rank 0 calls it.
 */
enum tr_status tr_port_translate(struct tr_args *a, const struct tr_port_launch *launch,
                                 struct tr_list *said) TR_MUST_CHECK;

/*
 * --rank and --cuda-id of such a line against the rank that was started with it, and its number on this host: each
 * process has its own words.  TR_ECONFIG for another rank; another GPU is a warning.
 */
enum tr_status tr_port_check_ids(int argc, char **argv, int rank, int local_rank) TR_MUST_CHECK;

#endif
