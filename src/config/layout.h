/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_LAYOUT_H
#define TR_CONFIG_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "config/route.h"
#include "util/status.h"

/* Virtual stages that follow one another and hold the same number of layers. */
struct tr_layout_run {
    int stages;
    int layers; /* of each */
};
enum { TR_LAYOUT_RUNS = 256, TR_LAYOUT_TEXT = 24 * TR_LAYOUT_RUNS };

/* Weights and gradients of layers in chunks, which come to slots of the device and go.  Source: --chunk-memory,
   --chunk-size and the precision. */
struct tr_chunking {
    int64_t memory; /* bytes of the device that slots may take; 0: there are no chunks */
    int64_t size;   /* elements of a chunk on one rank; 0: what fits best (model/packing.h) */
    int value_bytes, grad_bytes; /* of a weight, of a gradient */
};

/*
 * How the model and the batch are laid out over the ranks: the sizes of the parallel groups, the
 * order of ranks, the pipeline schedule, and the layers of each pipeline stage.  No rank of its own.
 * Source: the number of ranks, the options of group "Parallelism", --num-layers.
 */
struct tr_layout {
    int world, w, p, d; /* ranks: all, tensor, pipeline, data parallel; world = w * p * d */
    bool tp_pp_dp;      /* ranks in the order tensor, pipeline, data; otherwise tensor, data,
                           pipeline (comm/grid.h) */
    bool
        overlap_tensor; /* sums over tensor ranks in backward go on while gradients of weights are made */
    int gradient_windows; /* layers of whose gradients a rank has room at once; 0: of all of its own */
    int weight_windows; /* the same of weights */
    struct tr_chunking chunks;
    bool part_shards; /* each part of the flat buffers (model/param.h) is sharded by itself */
    int k;            /* model chunks per pipeline rank; 1 unless interleaved or a vee */
    bool vee;         /* where the virtual stages are: config/route.h */
    int schedule;     /* enum tr_sched_kind of pipeline/sched.h, as enums.def spells it */
    int group;        /* N, micro-batches that a chunk takes before the next one; P, or more
                           where the schedule is interleaved */
    /* The layers of all P K virtual stages, in the order in which a micro-batch passes through them.  The
       first holds the embedding besides, the last the head. */
    int runs;
    struct tr_layout_run run[TR_LAYOUT_RUNS];
    bool spread; /* no option says where the layers are that P does not divide */
};

/* K and the layers of the virtual stages, for the P of `l`.  TR_ECONFIG as tr_shape_of(). */
enum tr_status tr_layout_stages(const struct tr_config *c, struct tr_layout *l) TR_MUST_CHECK;

/*
 * What --pipeline-model-parallel-layout says, for the P of `l`: K and the layers.  The text is either
 * Megatron-Core's, "Ett|(ttt|)*6tL" (E embedding, t a layer, L head and loss, | between stages, x*n and
 * (...)*n for repeats, commas and blanks for nothing), or a list of layers, "6,6,6,6,7,7,7,3" or
 * "6*4,7*3,3", in which only the first and the last may be 0.  TR_ECONFIG, with what to write, if it
 * is neither, leaves a stage without work, or does not have `layers` layers on a multiple of P stages.
 */
enum tr_status tr_layout_parse(const char *text, int64_t layers, struct tr_layout *l) TR_MUST_CHECK;

/* Append virtual stages of `layers` layers each.  False where there is no room for another run. */
bool tr_layout_add(struct tr_layout *l, int64_t stages, int64_t layers);

/*
 * `layers` on `stages` stages, as even as can be: what is left over goes to the stages before the last,
 * one layer each.  The last has the head, of about V / 12 H layers' work (Narayanan et al., SC 2021,
 * equation 3); the first has the embedding, and stage r of 1F1B holds the activations of
 * P - r micro-batches, so that early ones have least memory to spare.  The same two ends are shortened by
 * Llama 3 (arXiv:2407.21783, section 3.3.2), and the same stages are the longest in AC-SGD's GPT-2 XL:
 * 6,6,6,6,7,7,7,3.
 */
void tr_layout_spread(struct tr_layout *l, int64_t stages, int64_t layers);

struct tr_route tr_layout_route(const struct tr_layout *l);

/* Whether chunk `chunk` of pipeline stage `stage` is the first virtual stage, with the embedding; the last one,
   with the head. */
bool tr_layout_is_first(const struct tr_layout *l, int stage, int chunk);
bool tr_layout_is_last(const struct tr_layout *l, int stage, int chunk);

/* Whether the stage has one that is; which stage has the head; whether that is another than the one with the
   embedding. */
bool tr_layout_has_embedding(const struct tr_layout *l, int stage);
bool tr_layout_has_head(const struct tr_layout *l, int stage);
int tr_layout_head_stage(const struct tr_layout *l);
bool tr_layout_ends_apart(const struct tr_layout *l);

/* How many virtual stages send their output to another rank. */
int tr_layout_links(const struct tr_layout *l);

/* How many layers chunk `chunk` of pipeline stage `stage` holds, none only where the embedding or
   the head stands alone, and the first of them (0-based, in the whole model). */
int64_t tr_layout_layers(const struct tr_layout *l, int stage, int chunk);
int64_t tr_layout_first_layer(const struct tr_layout *l, int stage, int chunk);

/* How many all chunks of a stage hold, and the first of the stages that hold most. */
int64_t tr_layout_stage_layers(const struct tr_layout *l, int stage);
int tr_layout_longest_stage(const struct tr_layout *l);

/* How many the largest chunk of all holds; whether all chunks hold that many. */
int64_t tr_layout_most_layers(const struct tr_layout *l);
bool tr_layout_is_even(const struct tr_layout *l);

/* The layers as a list that --pipeline-model-parallel-layout takes: "6*4,7*3,3".  Returns `buf`. */
const char *tr_layout_list(const struct tr_layout *l, char buf[TR_LAYOUT_TEXT]);

/* From a rank to its neighbours in the pipeline, and in the data-parallel group. */
int tr_layout_pipeline_stride(const struct tr_layout *l);
int tr_layout_data_stride(const struct tr_layout *l);

/* All of `layers` layers on one rank; and on `p` equal stages of `k` chunks, of w * p * d ranks. */
struct tr_layout tr_layout_single(int64_t layers);
struct tr_layout tr_layout_equal(int w, int p, int d, int k, int64_t layers);

#endif
