/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_SDPA_H
#define TR_DEVICE_CUDA_SDPA_H

#include <stddef.h>

#include "device/device.h"

/*
 * Attention and its gradient (ops.def) as graphs of small operations, the form in which a library of
 * fused kernels takes them: cuDNN recognises the whole and runs it as one kernel.  A graph is a plain
 * table; device/cuda/cuda_sdpa.c makes cuDNN's descriptors from it and tests/device/t_sdpa.c computes it on
 * the host.  No library is needed here.
 *
 * What a graph can say: causal attention without dropout, every query from the first token of its
 * sample on (`from` NULL), qkv and results of one type, fp16 or bf16 where cuDNN runs it.
 */
struct tr_sdpa_sizes {
    int64_t b, heads, t, d; /* what the graph computes */
    int64_t row_heads;      /* heads in a row of qkv and ctx; `heads` of them, side by side, are
                               taken: all if b > 1 */
    bool any_order;         /* of backward: blocks of keys may be added to dq in any order */
};

enum tr_sdpa_type { TR_SDPA_DATA, TR_SDPA_F32, TR_SDPA_I32, TR_SDPA_BOOL };

/* Tensors of the graphs that have a name.  The scale and the two constants are one number each, given
   by value; ROWSUM [b,heads,t] and DQ_SUM [b,heads,t,d] fp32 are room that backward needs and leaves nothing
   in; DQ_SUM only with any_order. */
enum tr_sdpa_name {
    TR_SDPA_Q,
    TR_SDPA_K,
    TR_SDPA_V,
    TR_SDPA_SCALE,
    TR_SDPA_MASKED,
    TR_SDPA_LSE,
    TR_SDPA_CTX,
    TR_SDPA_DCTX,
    TR_SDPA_ONE,
    TR_SDPA_ROWSUM,
    TR_SDPA_DQ_SUM,
    TR_SDPA_DQ,
    TR_SDPA_DK,
    TR_SDPA_DV,
    TR_SDPA_NAMES
};

/* ABSENT: the graph does not have that name.  VIRTUAL: never in memory. */
enum tr_sdpa_place { TR_SDPA_ABSENT, TR_SDPA_MEMORY, TR_SDPA_VALUE, TR_SDPA_VIRTUAL };

/* Element (i, j, k, l) stands at sum of index times stride, in elements.  Keys and values of which the
   graph takes the transposed have it in their strides: [b,heads,d,t]. */
struct tr_sdpa_tensor {
    enum tr_sdpa_place place;
    enum tr_sdpa_type type;
    int64_t dim[4], stride[4];
};

/*
 * y = what `op` makes of its operands, which are numbers of tensors, or -1.  Sizes 1 are repeated as
 * needed.  Sums are fp32.
 */
enum tr_sdpa_op {
    TR_SDPA_MATMUL,    /* y = x times b, of the last two dimensions */
    TR_SDPA_TRANSPOSE, /* y is x with other strides */
    TR_SDPA_ROW_MAX,   /* over the last dimension */
    TR_SDPA_ROW_SUM,
    TR_SDPA_MUL, /* x * b, and so on */
    TR_SDPA_ADD,
    TR_SDPA_SUB,
    TR_SDPA_DIV,
    TR_SDPA_EXP,
    TR_SDPA_LOG,
    TR_SDPA_COPY,
    TR_SDPA_ROW, /* the index of the row, and the column, of each element of x */
    TR_SDPA_COLUMN,
    TR_SDPA_NOT_LESS, /* x >= b */
    TR_SDPA_SELECT    /* where t: x, elsewhere b */
};

struct tr_sdpa_node {
    enum tr_sdpa_op op;
    int x, b, t, y;
};

enum { TR_SDPA_MAX_TENSORS = 40, TR_SDPA_MAX_NODES = 24 };

struct tr_sdpa_graph {
    int tensors, nodes;
    struct tr_sdpa_tensor tensor[TR_SDPA_MAX_TENSORS];
    struct tr_sdpa_node node[TR_SDPA_MAX_NODES];
};

/* ctx and lse of qkv. */
void tr_sdpa_forward(struct tr_sdpa_sizes s, struct tr_sdpa_graph *g);

/*
 * dq, dk and dv of dctx, ctx, lse and qkv.  Without any_order dq is the product of a [t,t] matrix that is
 * rounded to the type of the data, which cuDNN's kernel has in its workspace.  With it dq is a sum in
 * fp32 (DQ_SUM) to which each block of keys adds when it is ready, by atomic additions: no matrix, but other
 * bits in every run.  tr_sdpa_backward_bytes() has the room of either.
 */
void tr_sdpa_backward(struct tr_sdpa_sizes s, struct tr_sdpa_graph *g);

/* Room that backward takes for ROWSUM, for that and DQ_SUM behind it (0 for the latter without any_order), and at
   most in all.  The first two are multiples of 256. */
size_t tr_sdpa_rowsum_bytes(struct tr_sdpa_sizes s);
size_t tr_sdpa_sums_bytes(struct tr_sdpa_sizes s);
size_t tr_sdpa_backward_bytes(struct tr_sdpa_sizes s);

/* The constants. */
float tr_sdpa_value(enum tr_sdpa_name name, float scale);

/*
 * Samples and heads are independent, so a batch goes through a small room in parts: whole samples, or
 * some heads of one, in sizes that differ by one at most.  `count` is 0 if not even one head fits.
 */
struct tr_sdpa_parts {
    int64_t count, b, heads; /* parts, and what there is to divide */
    int64_t per_sample;      /* parts of one sample; 1: parts are of whole samples */
};

struct tr_sdpa_part {
    int64_t b, heads; /* of this part */
    int64_t first_b, first_head;
};

struct tr_sdpa_parts tr_sdpa_share(struct tr_sdpa_sizes all, size_t room);
struct tr_sdpa_part tr_sdpa_part(struct tr_sdpa_parts p, int64_t i);

/* Where the elements of a part begin in the operand `name`, counted in elements: q, k, v and their
   gradients from the beginning of (d)qkv. */
int64_t tr_sdpa_offset(struct tr_sdpa_sizes all, struct tr_sdpa_part part, enum tr_sdpa_name name);

#endif
