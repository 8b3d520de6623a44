/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_LAYOUT_H
#define TR_CONFIG_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "util/status.h"

/*
 * How the model and the batch are laid out over the ranks: the sizes of the parallel groups, the
 * pipeline schedule, and the layers of each pipeline stage.  No rank of its own.  Source: the
 * number of ranks, the options of group "Parallelism", --num-layers.
 */
struct tr_layout {
    int world, w, p, d; /* ranks: all, tensor, pipeline, data parallel; world = w * p * d */
    int k;              /* model chunks per pipeline rank; 1 unless interleaved */
    int schedule;       /* enum tr_sched_kind of pipeline/sched.h, as enums.def spells it */
    int group;          /* N, micro-batches that a chunk takes before the next one; P, or more
                           where the schedule is interleaved */
    /* What a pipeline stage holds, in layers and what counts as one, divided among K chunks. */
    int64_t first_slots, middle_slots, last_slots;
    bool embed_counts, loss_counts; /* the embedding, the head take the place of a layer */
};

/* The slots of each stage and K, for the P of `l` (config/layout.c).  TR_ECONFIG as
   tr_shape_of(). */
enum tr_status tr_layout_stages(const struct tr_config *c, struct tr_layout *l) TR_MUST_CHECK;

/* How many layers chunk `chunk` of pipeline stage `stage` holds, none only where the embedding or
   the head counts as one and stands alone, and the first of them (0-based, in the whole model).
   The order is chunk 0 of all stages, then chunk 1 of all: with equal stages chunk c of stage r
   holds L / (P K) and starts at c * (L / K) + r * (L / (P K)). */
int64_t tr_layout_layers(const struct tr_layout *l, int stage, int chunk);
int64_t tr_layout_first_layer(const struct tr_layout *l, int stage, int chunk);

/* How many the largest chunk of all holds. */
int64_t tr_layout_most_layers(const struct tr_layout *l);

/* All of `layers` layers on one rank. */
struct tr_layout tr_layout_single(int64_t layers);

#endif
