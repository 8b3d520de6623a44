/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_MODEL_PARTS_H
#define TR_MODEL_MODEL_PARTS_H

#include "model/model.h"

/*
 * The parts that a chunk is made of; internal to model/.  Each has what it keeps from forward to
 * backward, a plan that takes it from the arena, and the pair of passes.  Forward reads x and leaves
 * y; backward reads dy and leaves dx, and adds to the gradients of its parameters.  All calls are
 * collective over the tensor-parallel group.  Below, n is the rows of this rank's part of the stream
 * (model.h): N, or N / W with sequence parallelism.
 */

/* Word and position embedding with dropout: the input of the first layer. */
struct tr_embed_kept {
    struct tr_tensor ids; /* [N] (TR_I32) */
};
void tr_embed_plan(struct tr_model *m, struct tr_arena *a, struct tr_embed_kept *k);
void tr_embed_forward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *y,
                      const int64_t *sample);
/* dy[n,H] is overwritten. */
void tr_embed_backward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *dy,
                       const int64_t *sample);

/*
 * One transformer layer, norm before each sublayer:
 *     s = x + dropout(attention(norm1(x)) + bias)        y = s + dropout(mlp(norm2(s)) + bias)
 * Attention and MLP are sharded over the tensor-parallel group by heads and by inner width, each
 * with one all-reduce forward and one backward (Shoeybi et al. 2019, figure 3).
 */
struct tr_block_kept {
    struct tr_tensor x;                   /* [n,H] the input; the caller writes it */
    struct tr_tensor norm1, mean1, rstd1; /* [n,H] [n] [n] */
    struct tr_tensor qkv, lse, ctx;       /* [N,3H/W] [B,A/W,T] [N,H/W] */
    struct tr_tensor s;                   /* [n,H] between the sublayers */
    struct tr_tensor norm2, mean2, rstd2;
    struct tr_tensor pre, act; /* [N,F/W] before and after the activation */
};
/* The input separately from the rest: recomputation keeps one without the other. */
void tr_block_plan_input(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k);
void tr_block_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k);
/* y may be NULL when only what backward needs is wanted: then the last GEMM is left out. */
void tr_block_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                      const struct tr_tensor *y, const int64_t *sample);
/* dx may be dy itself. */
void tr_block_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                       const struct tr_tensor *dx, const struct tr_tensor *dy,
                       const int64_t *sample);

/* Last norm, logits from the tied embedding, vocabulary-parallel cross entropy. */
struct tr_head_kept {
    struct tr_tensor x; /* [n,H] the input; the caller writes it */
    struct tr_tensor norm, mean, rstd;
    struct tr_tensor labels;     /* [N] (TR_I32) */
    struct tr_tensor max, stats; /* [N] [2,N] */
};
/* Logits take N * V / W numbers, so there is one buffer for all micro-batches; backward recomputes
   them when another micro-batch has used it since (GPipe, interleaving).  The caller says whose they are,
   after each pass: backward makes their gradient of them. */
struct tr_head {
    struct tr_tensor logits;       /* [N,V/W] */
    struct tr_tensor loss, weight; /* [N] per token: loss, and its weight in the sum */
    const struct tr_head_kept *logits_of;
};
void tr_head_plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h);
void tr_head_plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k);
/* loss_sum (TR_F64 [1]) += mean loss of the micro-batch's tokens, of those that count (mask.h). */
void tr_head_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_tensor *loss_sum);
/* The weights of the tokens in `factor` times the mean loss of the micro-batch, for the pass that follows. */
void tr_head_weigh(struct tr_model *m, struct tr_head *h, double factor);
/* dx = gradient of the loss as tr_head_weigh() has weighed it. */
void tr_head_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                      const struct tr_tensor *dx);

#endif
