/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_BATCHES_H
#define TR_CONFIG_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "util/status.h"

/*
 * The batch: how it is divided into micro-batches for gradient accumulation, and how many samples an
 * iteration takes, from those that were consumed before it: a constant, or a ramp
 * (--rampup-batch-size START STEP OVER) with n increments in OVER samples, n = (G - START) / STEP:
 *     START + STEP * floor(consumed / (OVER / n))      while consumed <= OVER, then G
 * Counts are samples but for the micros.  Source: Megatron-LM of 2021, microbatches.py; its
 * divisions are of doubles.
 */
struct tr_batches {
    int64_t micro_batch;  /* B, samples per micro-batch */
    int64_t unit;         /* samples of one micro-batch of every replica: B * D */
    int64_t wanted;       /* G = --global-batch-size */
    int64_t global_batch; /* what runs of it, a multiple of the unit: the samples of all iterations
                                  but a ramp's, and of evaluation */
    int micros;           /* M, micro-batches of a replica in that: global_batch / unit */
    bool rounds;          /* --decrease-batch-size-if-needed */
    int64_t start, step, over; /* the ramp; step is 0 if there is none */
};

/* From the options.  TR_ECONFIG if a batch on the way cannot be divided into micro-batches for all
   replicas, unless --decrease-batch-size-if-needed takes the next smaller one that can; also if
   --iterations-to-skip has what is no number. */
enum tr_status tr_batches_of(const struct tr_config *c, int replicas,
                             struct tr_batches *out) TR_MUST_CHECK;

/* Samples of the iteration that begins when `consumed` are done; a multiple of the unit. */
int64_t tr_batches_at(const struct tr_batches *b, int64_t consumed);

/* Whether --iterations-to-skip passes over the samples of the iteration before which `done` iterations
   are done. */
bool tr_batches_pass(const struct tr_config *c, int64_t done);

/* How many whole iterations `samples` samples are. */
int64_t tr_batches_iterations(const struct tr_batches *b, int64_t samples);

/* The batches on the way: after i increments of how many in all; a multiple of the unit. */
int64_t tr_batches_increments(const struct tr_batches *b);
int64_t tr_batches_step(const struct tr_batches *b, int64_t i);

#endif
