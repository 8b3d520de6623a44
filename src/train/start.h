/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_START_H
#define TR_TRAIN_START_H

#include "comm/comm.h"
#include "config/config.h"
#include "config/words.h"

/*
 * The start of a run: what the ranks read together before anything else, and how long each part of it
 * takes.
 *
 * What every rank needs in full, the command line with its argument files and the size of the vocabulary,
 * rank 0 reads for all; large files are opened once per node (comm/share.h).  All else goes by collective
 * calls whose messages per rank grow with the logarithm of the ranks.
 */

/* The words that rank 0 was started with, argument files opened up and those of other programs translated
   (port/translate.h), on all ranks; release *out also after a failure.  Collective over `world`; TR_EIO, TR_ECONFIG as
   tr_args_argv() and tr_port_translate(). */
enum tr_status tr_start_words(struct tr_comm *world, int argc, char **argv,
                              struct tr_args *out) TR_MUST_CHECK;

/* Rank 0 reads --vocab-file or --tokenizer-model, if it counts, and all ranks know what is in it.  Where it cannot be read
   each is left to say so when it needs it.  Collective over `world`. */
void tr_start_vocab(struct tr_comm *world, struct tr_config *c);

/*
 * With --n-epochs the length of the run follows from how many samples the data have: count them, and leave
 * the numbers in c->blocks_known.  What tr_data_count() returns; unless they `must` be there, data that
 * cannot be read are no failure, since a plan may do with --data-blocks, and tr_shape_of() asks for it.
 * The second has rank 0 count for all, and they must be there except with --dry-run;
 * collective over `world`, the same status on all ranks.
 */
enum tr_status tr_start_count(struct tr_config *c, bool must) TR_MUST_CHECK;
enum tr_status tr_start_blocks(struct tr_comm *world, struct tr_config *c) TR_MUST_CHECK;

/*
 * A stop watch of this process that runs from its first moment; each part lasts from the end of the one
 * before.  Parts may come again, and add up.
 */
enum tr_start_part {
    TR_START_PROGRAM,    /* the system starts it, libraries included */
    TR_START_MPI,        /* MPI_Init, in which PMIx brings the ranks together */
    TR_START_LAUNCH,     /* options, checks of the nodes, the run's folder, the end of the job */
    TR_START_MODEL,      /* groups, device, memory, weights */
    TR_START_CHECKPOINT, /* reading it */
    TR_START_DATA,       /* datasets and index maps */
    TR_START_PARTS
};

/* Once, first of all: TR_START_PROGRAM is over. */
void tr_start_begin(void);
void tr_start_end(enum tr_start_part part);

/* Seconds since the process began, to about 10 ms; negative if nobody called tr_start_begin(). */
double tr_start_seconds(void);

/* Seconds of each part so far. */
const double *tr_start_parts(void);

/* --log-file: from now on rank 0's lines are written there, too (util/log.h).  Collective; TR_EIO on all ranks. */
enum tr_status tr_start_log_file(struct tr_comm *world, const struct tr_config *c) TR_MUST_CHECK;

#endif
