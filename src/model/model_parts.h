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

/* A norm of rows of the stream.  `output` false: its output is not kept. */
struct tr_norm_kept {
    struct tr_tensor y, mean, rstd; /* [n,H] [n] [n]; no mean where norms are RMS */
};
void tr_norm_plan(struct tr_model *m, struct tr_arena *a, struct tr_norm_kept *k, bool output);
void tr_norm_plan_rows(struct tr_model *m, struct tr_arena *a, struct tr_norm_kept *k, int64_t rows,
                       bool output);
/* y = norm(x); `shift` may be of a row that the family lacks.  And its gradient, as norm_bwd of ops.def. */
void tr_norm_forward(struct tr_model *m, struct tr_norm_kept *k, const struct tr_tensor *y,
                     const struct tr_tensor *x, enum tr_param_row gain, enum tr_param_row shift,
                     int layer);
void tr_norm_backward(struct tr_model *m, struct tr_norm_kept *k, const struct tr_tensor *dx,
                      const struct tr_tensor *dy, const struct tr_tensor *dskip,
                      const struct tr_tensor *x, enum tr_param_row gain, enum tr_param_row shift,
                      int layer);

/* The input of the first layer. */
struct tr_embed_kept {
    struct tr_tensor ids;     /* [N] (TR_I32) */
    struct tr_tensor words;   /* [n,E], where it is projected */
    struct tr_tensor sum;     /* [n,H] the input of the norm, where there is one */
    struct tr_norm_kept norm; /* without output */
};
void tr_embed_plan(struct tr_model *m, struct tr_arena *a, struct tr_embed_kept *k);
void tr_embed_forward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *y,
                      const int64_t *sample);
/* dy[n,H] is overwritten. */
void tr_embed_backward(struct tr_model *m, struct tr_embed_kept *k, const struct tr_tensor *dy,
                       const int64_t *sample);

/*
 * The branches of a layer, each with what it keeps, a plan that takes it from the arena, a forward pass, and a
 * backward pass in two calls: the gradient of the input, and that of the weights.  block.c has their meaning,
 * norms and residual additions.  `heads` and `groups` are this rank's, D the width of a head.
 */
struct tr_attention_kept {
    struct tr_tensor raw,
        head_rstd;        /* [N,(heads + 2 groups) D] [N,heads + groups], with norms of heads */
    struct tr_tensor rel; /* [R,(heads + 2 groups) D], with relative positions */
    struct tr_tensor qkv, lse, ctx; /* [N,(heads + 2 groups) D] [B,heads,T] [N,heads D] */
};
struct tr_mlp_kept {
    struct tr_tensor pre, act; /* [N,F/W], twice as wide where it is gated, and [N,F/W] */
};

/*
 * One layer.  Attention and MLP are sharded over the tensor-parallel group by heads and by inner width, each
 * with one all-reduce forward and one backward (Shoeybi et al. 2019, figure 3).
 */
struct tr_block_kept {
    struct tr_tensor x; /* [n,H] the input; the caller writes it */
    struct tr_norm_kept norm[2];
    struct tr_attention_kept attention;
    struct tr_tensor s, s2; /* [n,H] sums of the stream, where norms read them */
    struct tr_tensor late
        [2]; /* [n,H] with m->split: gradients of the outputs of the branches, from backward on in
                                 the memory of x and s; those of their first products are in that of
                                 attention.qkv and mlp.pre */
    struct tr_mlp_kept mlp;
};
/* Rows of the stream, [n,H]: the input, which is apart from the rest because recomputation keeps one without
   the other. */
void tr_block_plan_row(struct tr_model *m, struct tr_arena *a, struct tr_tensor *x);
void tr_block_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k);
/* y may be NULL when only what backward needs is wanted: then products that nothing reads are left out.  It may be
   k->x, where layers that are recomputed share one input: nothing reads x once y is written. */
void tr_block_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                      const struct tr_tensor *y, const int64_t *sample);
/* dx may be dy itself. */
void tr_block_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                       const struct tr_tensor *dx, const struct tr_tensor *dy,
                       const int64_t *sample);

/* The gradients of weights that backward has left with m->split.  Only where norms stand before both branches: other
   layers have no memory of x and s to leave in what they are made of. */
void tr_block_weights(struct tr_model *m, struct tr_block_kept *k, int layer);

void tr_attention_plan(struct tr_model *m, struct tr_arena *a, struct tr_attention_kept *k);
void tr_attention_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                          const struct tr_tensor *in, const int64_t *sample, bool whole);
void tr_attention_dgrad(struct tr_model *m, struct tr_block_kept *k, int layer,
                        const struct tr_tensor *dy, const int64_t *sample);
/* From the gradient of the first product's output, that of the branch's and the input. */
void tr_attention_wgrad(struct tr_model *m, struct tr_block_kept *k, int layer,
                        const struct tr_tensor *dfirst, const struct tr_tensor *dy,
                        const struct tr_tensor *in, bool bias);
/* Where dgrad leaves the first of these, and where it waits with m->split. */
struct tr_tensor tr_attention_dfirst(const struct tr_model *m);
struct tr_tensor tr_attention_late(const struct tr_model *m, const struct tr_block_kept *k);
/* Disentangled attention (relative.c): what stands in for attention between the two products. */
bool tr_relative_is(const struct tr_model *m);
void tr_relative_plan(struct tr_model *m, struct tr_arena *a, struct tr_attention_kept *k);
void tr_relative_plan_scratch(struct tr_model *m, struct tr_arena *a);
void tr_relative_forward(struct tr_model *m, struct tr_attention_kept *k, int layer,
                         const int64_t *sample, struct tr_attention_how how);
void tr_relative_dgrad(struct tr_model *m, struct tr_attention_kept *k, int layer,
                       const int64_t *sample, struct tr_attention_how how);
/* Adds to the gradients of the weight and the bias of queries, keys and values. */
void tr_relative_wgrad(struct tr_model *m, int layer);

/*
 * The convolution of an encoder (convolution.c), beside the first layer: with e what the embedding makes, y that
 * layer's output and mask() zero where samples are padded, y becomes
 * mask(norm(y + gelu(dropout(conv(e))))).  All tensor ranks do all of it.
 */
struct tr_conv_kept {
    struct tr_tensor before; /* [N,H] what gelu reads */
    struct tr_tensor sum;    /* [N,H] what the norm reads */
    struct tr_norm_kept norm;
};
bool tr_conv_is(const struct tr_model *m, int layer);
void tr_conv_plan(struct tr_model *m, struct tr_arena *a, struct tr_conv_kept *k);
void tr_conv_plan_scratch(struct tr_model *m, struct tr_arena *a);
void tr_conv_forward(struct tr_model *m, struct tr_conv_kept *k, const struct tr_tensor *e,
                     const struct tr_tensor *y, const int64_t *sample);
/* dy becomes the gradient of the layer's output; that of e is kept until tr_conv_add(), which adds it to de. */
void tr_conv_backward(struct tr_model *m, struct tr_conv_kept *k, const struct tr_tensor *e,
                      const struct tr_tensor *dy, const int64_t *sample);
void tr_conv_add(struct tr_model *m, const struct tr_tensor *de);

/* How many taps there are rows for; the rows of the middle one, which name what is no padding. */
int64_t tr_conv_taps(const struct tr_dims *d);
struct tr_tensor tr_conv_real(const struct tr_model *m);

/* y[N,H] = x, zero where samples are padded. */
void tr_conv_mask(struct tr_model *m, const struct tr_tensor *y, const struct tr_tensor *x);

/* taps[T N] for samples of those lengths, of `tokens` rows each. */
void tr_conv_rows(const struct tr_dims *d, const int32_t *lengths, int64_t batch, int64_t tokens,
                  int32_t *taps);

void tr_mlp_plan(struct tr_model *m, struct tr_arena *a, struct tr_mlp_kept *k);
void tr_mlp_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                    const struct tr_tensor *in, const int64_t *sample, bool whole);
void tr_mlp_dgrad(struct tr_model *m, struct tr_block_kept *k, int layer,
                  const struct tr_tensor *dy, const int64_t *sample);
void tr_mlp_wgrad(struct tr_model *m, struct tr_block_kept *k, int layer,
                  const struct tr_tensor *dfirst, const struct tr_tensor *dy,
                  const struct tr_tensor *in, bool bias);
struct tr_tensor tr_mlp_dfirst(const struct tr_model *m);
struct tr_tensor tr_mlp_late(const struct tr_model *m, const struct tr_block_kept *k);

/* The two heads.  Last norm, logits, vocabulary-parallel cross entropy.  Of a model that computes forward only all but
   `x` has R rows, those of the tokens that are wanted, one sample after the other; else R = N and n.  A head of classes
   has R = B rows, of one token of each sample, and the same on all tensor ranks. */
struct tr_head_kept {
    struct tr_tensor x; /* [n,H] the input; the caller writes it */
    struct tr_norm_kept norm;
    struct tr_tensor projected;  /* [n,E], where the embedding is narrower than the stream */
    struct tr_tensor labels;     /* [R] (TR_I32) */
    struct tr_tensor max, stats; /* [R] [2,R]; these three not with m->picks */

    /* Of classes: which of the N rows is that token's, and its weight on this tensor rank in the mean over samples,
       1 / B or, where it has not that row, 0, [B] each; the row [B,H], and with a pooler what its
       activation makes of what. */
    struct tr_tensor at, share, picked, pre, pooled;
};
/* Logits take N * V / W numbers, so there is one buffer for all micro-batches; backward recomputes
   them when another micro-batch has used it since (GPipe, interleaving).  The caller says whose they are,
   after each pass: backward makes their gradient of them. */
struct tr_head {
    struct tr_tensor logits;       /* [R,V/W] */
    struct tr_tensor loss, weight; /* [R] per token: loss, and its weight in the sum */
    struct tr_tensor rows[2];      /* of classes: [B,H] gradients on their way */
    struct tr_tensor dpicked;      /*   and that of the row, of the stream's type */
    const struct tr_head_kept *logits_of;
};

/* A kind of head (config/dims.h): what tr_head_plan() and the others below do. */
struct tr_head_way {
    void (*plan)(struct tr_model *m, struct tr_arena *a, struct tr_head *h);
    void (*plan_kept)(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k);
    void (*forward)(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                    const struct tr_wanted *wanted, const int64_t *sample,
                    const struct tr_tensor *loss_sum);
    void (*weigh)(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k,
                  double factor);
    void (*backward)(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_tensor *dx, const int64_t *sample);
};
extern const struct tr_head_way tr_head_language, tr_head_classes;

void tr_head_plan(struct tr_model *m, struct tr_arena *a, struct tr_head *h);
void tr_head_plan_kept(struct tr_model *m, struct tr_arena *a, struct tr_head_kept *k);
/* loss_sum (TR_F64 [1]) += mean loss of the micro-batch's tokens, of those that count (mask.h), or of its samples.
   `wanted` [B]: forward only, of these tokens alone, whose losses are not summed up; NULL: of all. */
void tr_head_forward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                     const struct tr_wanted *wanted, const int64_t *sample,
                     const struct tr_tensor *loss_sum);
/* The weights of the tokens in `factor` times the mean loss of the micro-batch, for the pass that follows. */
void tr_head_weigh(struct tr_model *m, struct tr_head *h, const struct tr_head_kept *k,
                   double factor);
/* dx = gradient of the loss as tr_head_weigh() has weighed it. */
void tr_head_backward(struct tr_model *m, struct tr_head *h, struct tr_head_kept *k,
                      const struct tr_tensor *dx, const int64_t *sample);

/* Of a head of classes, for tokens of `lengths`, memory of the host: what k->at and k->share are to be, [B] each. */
void tr_head_places(const struct tr_model *m, const int32_t *lengths, int32_t *at, float *share);

#endif
