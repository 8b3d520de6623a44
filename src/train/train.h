/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TRAIN_H
#define TR_TRAIN_TRAIN_H

#include "comm/comm.h"
#include "config/config.h"

/*
 * A whole run: build it from its options, resume from --load, train to --train-iters or until
 * --exit-interval or --exit-duration-in-mins ends it, and take it down.  Rank 0 prints the log; loss
 * and timers in it are those of the last rank.
 * Evaluation and saving are kept out of the elapsed time and the timers of the interval around them.
 *
 * Returns TR_OK when the run is finished or was asked to stop, with everything saved; TR_ECONFIG,
 * TR_EDATA, TR_EIO or TR_ERESOURCE when it cannot be set up or saved; TR_EINTERNAL when the loss or
 * the gradients are not finite (nothing is saved then: the last checkpoint is the last good state).
 * The same on all ranks, with the same sentence.  Collective over `world`.
 */
enum tr_status tr_train(const struct tr_config *config, struct tr_comm *world) TR_MUST_CHECK;

#endif
