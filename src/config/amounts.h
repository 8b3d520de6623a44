/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_AMOUNTS_H
#define TR_CONFIG_AMOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/batches.h"
#include "config/config.h"
#include "util/status.h"

/* How long the run is and how much data it wants, in iterations and samples.  Source:
   --train-iters, --train-samples or --n-epochs; --eval-iters, --eval-interval; --log-interval. */
struct tr_amounts {
    int64_t train_iters;
    int64_t log_interval; /* iterations between two lines of the log */
    int64_t eval_iters, eval_interval;
    int64_t train_samples, valid_samples, test_samples; /* wanted from the datasets */
};

/* The passes over the training data of --n-epochs; all 0 without.  Source: besides that,
   --data-blocks or the data, the batch size, --seed. */
struct tr_epoch_plan {
    int64_t count;          /* --n-epochs */
    int64_t blocks;         /* samples of the training data, */
    int64_t samples, iters; /*   and how many of them an epoch takes: so many whole iterations */
    int64_t replicas, seed; /* what their order follows from besides: D, --seed, */
    int64_t order;          /*   --epoch-order */
};

/*
 * What the order of the samples follows from with --n-epochs; all 0 without.  A checkpoint keeps
 * these too, since a run that resumed within an epoch with another order would take samples twice.
 *
 * NUMBER(field, "attribute", "options")
 *      field        of struct tr_epoch_plan, an int64_t
 *      "attribute"  its name in a checkpoint
 *      "options"    what to type to change it
 */
#define TR_EPOCH_ORDER_OF(NUMBER)                                                                 \
    NUMBER(blocks, "data_blocks", "the data, --seq-length or --data-blocks")                      \
    NUMBER(samples, "epoch_samples", "--global-batch-size or --epoch-iters")                      \
    NUMBER(replicas, "epoch_replicas", "ranks over --tensor- and --pipeline-model-parallel-size") \
    NUMBER(seed, "epoch_seed", "--seed")                                                          \
    NUMBER(order, "epoch_order", "--epoch-order")

/* Whether --train-samples gives the length of the run; then schedules are given in samples, too. */
bool tr_amounts_by_samples(const struct tr_config *c);

/* Both from the options and the batches of `d` replicas.  TR_ECONFIG as
   tr_shape_of(). */
enum tr_status tr_amounts_of(const struct tr_config *c, const struct tr_batches *batches, int d,
                             struct tr_amounts *out, struct tr_epoch_plan *plan) TR_MUST_CHECK;

/*
 * With --n-epochs: the samples of the training data that replica `replica` takes in every epoch,
 * and no other does: *count of them from *first on.  These numbers differ by one at most; an epoch
 * takes as many samples of each replica as make whole iterations of the smallest.  Without
 * --n-epochs both are 0.
 */
void tr_epoch_share(const struct tr_epoch_plan *e, int replica, int64_t *first, int64_t *count);

#endif
