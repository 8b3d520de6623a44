/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_COMPRESSION_H
#define TR_CONFIG_COMPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "config/amounts.h"
#include "config/config.h"
#include "util/status.h"

/* Samples that one end of a compressed link can cache: TR_STORE_SAMPLES of codec/store.h. */
enum { TR_LINK_CACHED = 1 << 30 };

/* Compression between pipeline stages (quantization, delta compression), of activations forward and
   their gradients backward.  Source: --forward-compress-method, --backward-compress-method and
   their like. */
struct tr_link_compression {
    bool compressed;                      /* in some direction */
    int forward_bits, backward_bits;      /* of a number; 0: all that it has */
    unsigned forward_over, backward_over; /* dimensions of [B,T,H] with a common scale, as bits */
    int64_t whole_samples; /* that are sent as they are: the first of the run, all replicas */
};

/* From the options, for `stages` stages and the epochs of the run (config/compression.c); `sequence`:
   with sequence parallelism.  TR_ECONFIG as tr_shape_of(). */
enum tr_status tr_link_compression_of(const struct tr_config *c, int stages, bool sequence,
                                      const struct tr_epoch_plan *epochs,
                                      struct tr_link_compression *out) TR_MUST_CHECK;

#endif
