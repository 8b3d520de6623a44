/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_DATA_PARALLEL_H
#define TR_CONFIG_DATA_PARALLEL_H

#include <stdbool.h>

#include "config/config.h"
#include "util/status.h"

/* The modes that other options than --dp-mode choose. */
enum {
#define MODE(symbol, value, spelling, structure, replicas, exchanges)
#define MODE_BY(symbol, value, structure) symbol = value,
#include "config/modes.def"
};

/* What a data-parallel group does with gradients, weights and the optimizer state.  Source:
   --dp-mode (config/modes.def) and its options, --use-distributed-optimizer, --zero-stage and its options,
   --overlap-param-gather. */
struct tr_data_parallel {
    int mode;             /* the row of modes.def that is at work: TR_DP_ALLREDUCE when d is 1 */
    int optimizer_shards; /* over how many replicas optimizer states are sharded (ZeRO-1): d, a divisor of it
                             with hybrid sharding, or 1 */
    int gradient_shards; /* the same of gradients (ZeRO-2) */
    int weight_shards;   /* and of the weights of layers (ZeRO-3) */
    bool each;           /* gradients are reduced to their owners in each micro-batch */
    bool by_layer;       /* weights of layers come ahead of use and go after it */
    int64_t ahead; /* layers that are gathered ahead of use; or -1: as many as fill a network */
    bool keeps_weights;  /* that are gathered, until the update */
    bool overlap_gather; /* and their weights are gathered during the forward pass */
    bool warms_up; /* the first --train-warmup-steps are those of all-reduce; false when d is 1 */
    bool diverges; /* local SGD: after the warm-up replicas diverge; false when d is 1 */
    bool keeps_errors; /* after it each rank keeps what its messages left out; false when d is 1 */
    int wire;          /* --dp-wire, of buckets; TR_WIRE_SAME when d is 1 */
    double delta_bits; /* bits that they then send for a parameter, in each direction */
};

/* Whether that --dp-mode has a warm-up, where there are several replicas, and whether these diverge after it. */
bool tr_dp_mode_warms_up(int mode);
bool tr_dp_mode_diverges(int mode);

/* Bytes of a gradient on its way between replicas, which has `grad` elsewhere. */
double tr_data_parallel_wire(const struct tr_data_parallel *dp, double grad);

/* Elements of a bucket of gradients as --ddp-bucket-size or --fusion-threshold-mb say, or TR_UNSET_INT. */
int64_t tr_data_parallel_bucket(const struct tr_config *c);

/* From the options, for `d` replicas.  TR_ECONFIG as tr_shape_of(). */
enum tr_status tr_data_parallel_of(const struct tr_config *c, int d,
                                   struct tr_data_parallel *out) TR_MUST_CHECK;

#endif
