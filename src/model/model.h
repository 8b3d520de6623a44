/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_MODEL_H
#define TR_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "config/activations.h"
#include "config/dims.h"
#include "config/layout.h"
#include "device/device.h"
#include "family/family.h"
#include "model/attention_mask.h"
#include "model/param.h"
#include "tp/tp.h"
#include "util/arena.h"

/*
 * Common to the parts of a rank's model: sizes, types, parameters, the tensor-parallel group, the
 * queue, and scratch memory that is dead between two calls.  The parts (embed.c, block.c, head.c)
 * hold no memory of their own; what backward needs lies in the slot of a micro-batch (chunk.h).
 *
 * Rows.  Without sequence parallelism every tensor rank has all N rows of the residual stream.
 * With it (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
 * 2022, section 4.2.2) a rank has N / W of them, called its part, and operations on rows (norms,
 * dropout, residual additions) are done once instead of W times.  Here a part is consecutive rows
 * of [B,T], not a piece of each sample: a row is a row, and so only N must divide by W.
 *
 * Types.  Weights, activations and messages are of `type`; the residual stream and its gradient of
 * `stream`, which is fp32 with --fp32-residual-connection.  Statistics are fp32.
 */
/* What the rule of model/attention_mask.h makes of one micro-batch, each [N]; empty where it is not asked for. */
struct tr_mask {
    struct tr_tensor position, from; /* TR_I32 */
    struct tr_tensor weight;
    struct tr_tensor
        taps; /* [T N] TR_I32, of an encoder's first stage: rows that each tap of the convolution
                                 reads, or -1; the middle one has the rows that are no padding */
    struct tr_tensor
        lengths; /* [B] TR_I32, of a head of classes: tokens of each sample, what follows is padding */
    struct tr_tensor
        place; /* TR_I32: of each token in the cache, or below 0; with a key-value cache */
};

/* The tokens of a sample, first .. first + count - 1, whose logits a forward pass makes. */
struct tr_wanted {
    int64_t first, count;
};

/* All modules of a chunk at once, for m->enter; windows that offloaded layers take turns in. */
enum { TR_MODULE_ALL = -1, TR_HOST_WINDOWS = 3 };

struct tr_model {
    /* How large the model is and how it is laid out, borrowed; samples per micro-batch. */
    const struct tr_dims *dims;
    const struct tr_layout *layout;
    const struct tr_activations *activations;
    int64_t micro_batch;
    int64_t tokens; /* of each sample in a pass: T, or fewer with a key-value cache */

    struct tr_params params;
    struct tr_tp tp;
    struct tr_queue *q; /* borrowed */
    uint64_t seed;      /* of dropout */
    double attention_dropout, hidden_dropout;
    struct tr_norm_how norm;
    bool training;     /* dropout is on */
    bool forward_only; /* there is no backward pass, so nothing that only it needs */
    bool picks;        /* forward only: logits of one token of each sample at most, and no losses */
    bool graphs;       /* passes are captured and replayed (model/graphs.h); the backend can */

    /* Called when a pass comes to a module (model/visits.h), before it reads weights and writes gradients, and when
       it leaves it; NULL where nothing is to be done there. */
    void (*enter)(void *ctx, int module);
    void (*leave)(void *ctx, int module);
    bool split; /* backward leaves the gradients of the weights of layers for tr_chunk_weights() */
    bool fresh; /* each micro-batch writes gradients anew, instead of adding to those before */
    /* Called after each layer, forward and backward, while messages may be under way; may be NULL. */
    void (*after_layer)(void *ctx);
    /* Called with what the embedding (layer -1) and each layer makes of a micro-batch, y in memory of the device, in a
       forward pass; NULL: nobody looks.  Without graphs. */
    void (*look)(void *ctx, int micro, int layer, const struct tr_tensor *y);
    void *ctx; /* of all four */
    bool adds; /* backward adds to the gradients of weights (gradient accumulation), or sets them */
    enum tr_dtype type, stream;
    struct tr_mask_rule mask_rule;
    int64_t keys; /* that the key-value cache has room for, of each sample; 0: there is none */
    const struct tr_tensor
        *cache; /* [B groups 2, keys, D] of the layer under way, borrowed; NULL without */
    const struct tr_mask *mask; /* of the micro-batch under way, borrowed */

    /* Scratch.  Letters as in tensor.h; one rank's shard by heads or inner width. */
    struct tr_tensor row, row_part;   /* [N,H] output of a branch or its gradient; its part */
    struct tr_tensor row2, row2_part; /* [N,H] gradient of a normed input; its part */
    struct tr_tensor whole;           /* [N,H] normed input of all ranks, if they have parts */
    struct tr_tensor gathered_rows;   /* as much of that as is in use */
    struct tr_tensor between; /* [n,H] a gradient on its way, where the order of norms needs one */
    struct tr_tensor wide;    /* [N,F/W] gradient inside the MLP, twice as wide where it is gated */
    struct tr_tensor dqkv;    /* [N,(heads + 2 groups) D] */
    struct tr_tensor dctx;    /* [N,heads D] */
    struct tr_tensor gathered,
        dproduct;              /* [W,N,C/W] and [N,C/W], C = (heads + 2 groups) D of the whole
                                            model, where there are more tensor ranks than groups */
    struct tr_tensor position; /* [N] (TR_I32) n % T */
    struct tr_tensor angles, sines,
        slopes; /* positions.h, what the family has: [T,.] [T,H] [heads] */
    struct tr_tensor
        bucket; /* disentangled attention: [2 T - 1] (TR_I32) which of the rows below a distance has */
    struct tr_tensor normed,
        normed_stats[2];   /* the rows of the table that are used, normed: [R,H], [R] */
    struct tr_tensor drel; /* [R,(heads + 2 groups) D] */
    struct tr_tensor columns,
        conv_dx;             /* of the convolution: [N,H T], and the gradient of its input, [N,H] */
    struct tr_tensor shared; /* the gradients that tensor ranks sum up, in one vector */

    /* Where offloaded layers keep what their backward needs (model/host_layers.h). */
    struct tr_host_windows {
        struct tr_block_kept *kept;            /* [TR_HOST_WINDOWS], owned; NULL without */
        struct tr_tensor all[TR_HOST_WINDOWS]; /* the memory of each, TR_F32 */
        int64_t sent[TR_HOST_WINDOWS], came[TR_HOST_WINDOWS]; /* copies of it: tr_backend.move() */
    } hosted;

    /* Where the layers of one recomputed group keep what their backward needs; the same for all
       groups. */
    int agains;
    struct tr_block_kept *again; /* [agains], owned */
};

/* After the fields above "Scratch" are set: make room for what tr_model_plan() fills in. */
void tr_model_open(struct tr_model *m);
void tr_model_close(struct tr_model *m);

/* Take the scratch memory from the arena (TR_LABEL_SCRATCH): positions and what follows from them alone, and all
   else, which may be taken again after m->tokens has changed.  And, when that is there, put into the former what
   stays the same. */
void tr_model_plan_tables(struct tr_model *m, struct tr_arena *a);
void tr_model_plan(struct tr_model *m, struct tr_arena *a);
void tr_model_prepare(struct tr_model *m);

/* N; the rows of the residual stream on this rank, and the first of them. */
int64_t tr_model_rows(const struct tr_model *m);
int64_t tr_model_part_rows(const struct tr_model *m);
int64_t tr_model_first_row(const struct tr_model *m);

/* How many rows of logits there is room for: N, or with m->picks B. */
int64_t tr_model_scored_rows(const struct tr_model *m);

/* Memory for [rows,width] numbers of `type` from the arena. */
struct tr_tensor tr_model_take(struct tr_arena *a, enum tr_label label, enum tr_dtype type,
                               int64_t rows, int64_t width);

/* Of this rank: key-value groups, columns of queries, keys and values, columns of the MLP's first product. */
int64_t tr_model_groups(const struct tr_model *m);
int64_t tr_model_qkv_width(const struct tr_model *m);
int64_t tr_model_mlp_width(const struct tr_model *m);

/* Columns of queries, keys and values of the whole model, where tensor ranks gather them because there are more
   ranks than groups; else 0. */
int64_t tr_model_gathered_width(const struct tr_model *m);

/* The memory of x[rows,.] as rows of `width` numbers; this rank's rows of a tensor of all N. */
struct tr_tensor tr_model_as_wide(const struct tr_tensor *x, int64_t width);
struct tr_tensor tr_model_part(const struct tr_model *m, const struct tr_tensor *x);

/* The input of a column-parallel GEMM: `part` itself, or all ranks' parts in m->whole, which stay
   there until the next call.  Collective over the tensor-parallel group. */
const struct tr_tensor *tr_model_whole(struct tr_model *m, const struct tr_tensor *part);

/* The same, under way until tr_tp_finish(). */
const struct tr_tensor *tr_model_whole_start(struct tr_model *m, const struct tr_tensor *part,
                                             struct tr_pending *p);

/* With sequence parallelism, the gradient of a parameter that is not sharded is on each rank the
   sum over its rows only, and that of the gain of a norm of heads is always the sum over its heads: add these
   up, once per step, when backward is done.  `grads` are the elements of those `n` spans of the flat buffer, one
   after the other.  Collective over the tensor-parallel group. */
void tr_model_sum_parts(struct tr_model *m, const struct tr_bucket *held, int n,
                        const struct tr_tensor *grads);
bool tr_model_sums(const struct tr_model *m, const struct tr_region *r);

/* The dropout of the hidden state at `stream` of layer `site`, off outside training.  `sample` is
   [B], borrowed, memory of the device. */
struct tr_dropout tr_model_dropout(const struct tr_model *m, enum tr_stream stream, int site,
                                   const int64_t *sample);

/* Value and gradient of a parameter that this rank has or, where the family lacks it, NULL; *to is memory for
   the answer. */
const struct tr_tensor *tr_model_bias(const struct tr_model *m, struct tr_tensor *to,
                                      enum tr_param_row row, int layer);
const struct tr_tensor *tr_model_dbias(const struct tr_model *m, struct tr_tensor *to,
                                       enum tr_param_row row, int layer);

/* Value and gradient of a parameter that this rank must have. */
struct tr_tensor tr_model_value(const struct tr_model *m, enum tr_param_row row, int layer);
struct tr_tensor tr_model_grad(const struct tr_model *m, enum tr_param_row row, int layer);

#endif
