/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_WORK_H
#define TR_CONFIG_WORK_H

#include <stdbool.h>

#include "config/dims.h"
#include "config/shape.h"

/*
 * What one tensor rank does for one micro-batch in a part of the model: products of matrices, attention, other
 * passes through memory, messages between tensor ranks, and what is kept from the forward to the backward pass.
 * The only place that has the arithmetic of a layer: FLOP figures, the planner's time and memory, `bench gemm`,
 * the report and the limits on sizes add up these lists.  How many parameters there are, model/param.def says.
 *
 * Sizes are whole numbers in doubles, so that products of large ones do not overflow.
 */
enum tr_work_part { TR_WORK_EMBED, TR_WORK_LAYER, TR_WORK_HEAD };

/* What of a layer waits for what: a branch ends in one sum over the tensor ranks.  The ends of the model are a
   branch each. */
enum tr_work_branch { TR_WORK_ATTENTION, TR_WORK_MLP, TR_WORK_BRANCHES, TR_WORK_END = 0 };

/* y[rows,columns] = x[rows,inner] w[columns,inner]^T in the forward pass.  The gradients of x and of w, in the
   backward pass, are as many operations each: 2 rows inner columns. */
struct tr_work_gemm {
    const char *name;
    enum tr_work_branch branch;
    double rows, inner, columns;
    bool again; /* the matrix is that of a product before it */
};

/* Scores of queries and keys, and the values that they weigh: 4 head_dim operations for each pair. */
struct tr_work_attention {
    double heads, head_dim; /* of this rank; 0 heads: no attention */
    double square;          /* pairs of a query and a key of a head, in all samples: B T^2 */
    double
        pairs; /* those that are seen: B T (T + 1) / 2, fewer with a window; all of an encoder, twice
                               where scores are disentangled, which takes as many operations again */
    double share; /* pairs over those without a window */
};

/* An operation that is no product: numbers read and written, in each row, each way, where nothing is fused.  A
   mask of dropout is a byte, half a number. */
struct tr_work_pass {
    const char *name;
    double rows, forward, backward;
    bool wide; /* numbers of 4 bytes, not of the type of activations */
};

/* A message between the tensor ranks.  `bytes` are those of the whole tensor: an all-reduce moves it twice. */
enum tr_work_collective_kind { TR_WORK_ALL_REDUCE, TR_WORK_ALL_GATHER, TR_WORK_REDUCE_SCATTER };
struct tr_work_collective {
    const char *name;
    enum tr_work_branch branch;
    enum tr_work_collective_kind kind;
    bool backward;
    bool beside; /* goes on while the branch computes the gradients of weights, or of inputs */
    double bytes;
};

/* A tensor [rows,width] that waits for the backward pass. */
enum tr_work_type { TR_WORK_STREAM, TR_WORK_TYPE, TR_WORK_FP32, TR_WORK_INT32 };
struct tr_work_kept {
    const char *name;
    enum tr_work_type type; /* that of the residual stream, of activations, or 4 bytes */
    double rows, width;
};

enum {
    TR_WORK_GEMMS = 5,
    TR_WORK_PASSES = 10,
    TR_WORK_COLLECTIVES = 12,
    TR_WORK_KEEPS = 16,
};
struct tr_work {
    int gemms, passes, collectives, keeps;
    struct tr_work_gemm gemm[TR_WORK_GEMMS];
    struct tr_work_attention attention;
    struct tr_work_pass pass[TR_WORK_PASSES];
    struct tr_work_collective collective[TR_WORK_COLLECTIVES];
    struct tr_work_kept kept[TR_WORK_KEEPS];
    double joins; /* numbers of the rank that get dropout on their way to the residual stream */
};

/* On how many tensor ranks, with how many tokens, in numbers of how many bytes. */
struct tr_work_how {
    const struct tr_dims *dims;
    double tokens; /* of a micro-batch, N = B T */
    int w;
    bool sequence; /* sequence parallelism */
    double elem;   /* bytes of an activation */
    double stream; /* bytes of a number of the residual stream */
};
struct tr_work_how tr_work_how_of(const struct tr_shape *s);

/* The same of one token of the whole model on one rank, in fp32. */
struct tr_work_how tr_work_how_whole(const struct tr_dims *dims);

void tr_work_of(const struct tr_work_how *how, enum tr_work_part part, struct tr_work *out);

/* Elements of the matrices: multiplications of a token in a forward pass. */
double tr_work_weights(const struct tr_work *x);

/* Of the largest of them. */
double tr_work_largest(const struct tr_work *x);

/* Bytes kept: what the arena has for them, but for the ends of its tensors (util/arena.h). */
double tr_work_kept_bytes(const struct tr_work *x, const struct tr_work_how *how);

/* The key-value cache of `texts` texts in one layer, bytes: `keys` keys and as many values of each of the rank's
   groups, in the type of activations.  What the arena has for it, but for the ends of its tensors. */
double tr_work_cache_bytes(const struct tr_work_how *how, double texts, double keys);

/* Bytes that Megatron-LM keeps of it, without scores: the same tensors without statistics, all of the type of
   activations, and the masks of dropout, which are drawn again here.  Of GPT-2's layer in half precision that is
   Korthikanti et al., 2022, equation 4: (18 + 4 f/h) s b h. */
double tr_work_megatron_bytes(const struct tr_work *x, const struct tr_work_how *how);

#endif
