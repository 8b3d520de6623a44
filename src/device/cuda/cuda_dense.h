/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_DENSE_H
#define TR_DEVICE_CUDA_CUDA_DENSE_H

#include "device/cuda/cuda_kernel.h"

/*
 * GEMMs (products of matrices) as the files that make them see them: device/cuda/cuda_product.c chooses,
 * device/cuda/cuda_matmul.c has cuBLASLt, kernels/product.cu and kernels/finish.cu are this program's own.
 */

/* A factor as it lies in memory: element (i, j) is p[i * stride + j], or, when `turned`,
   p[j * stride + i]. */
struct tr_cuda_factor {
    const void *p;
    enum tr_dtype type;
    int64_t stride;
    bool turned;
};

/*
 * What becomes of the sum s at (i, j):
 *
 *   z = s + bias[j] (+ c with `add`);  pre = z;  c = act(z), or with `slope_of` z * act'(slope_of)
 *
 * With a gated `act` columns 2 j and 2 j + 1 of z make column j of c, or an element of the sums columns 2 j and
 * 2 j + 1 of c: see linear and linear_dgrad in ops.def.  Nothing is added then.
 *
 * pre is [m,n], c and slope_of too but for the columns of a gated activation; all but c may be NULL.  `rows`[m], of c's type, is for tr_cuda_matmul() alone,
 * with nothing but `add` beside it: the sums of a's rows, whatever was there.
 */
struct tr_cuda_finish {
    const struct tr_tensor *c, *bias, *pre, *slope_of, *rows;
    enum tr_act act;
    bool add;
};

/* c[m,n] from the sums of a[m,k] b[k,n]. */
struct tr_cuda_dense {
    int64_t m, n, k;
    struct tr_cuda_factor a, b;
    struct tr_cuda_finish finish;

    /* Scratch that no operand lies in: where a product that adds is timed.  May be NULL. */
    void *spare;
    size_t spare_bytes;
};

/* Whether cuBLASLt has this activation in its epilogues. */
bool tr_cuda_matmul_knows(enum tr_act act);

/* One call of cuBLASLt does it all.  False, and nothing was queued: it does not serve that. */
bool tr_cuda_matmul(struct tr_queue *q, const struct tr_cuda_dense *d);

/* Any types, sizes and strides; an element is the sum over k in order. */
void tr_cuda_plain_product(struct tr_queue *q, const struct tr_cuda_dense *d);

/* The finish alone, of sums[m,n].  These may be c itself where it is TR_F32 and nothing is added to. */
void tr_cuda_finish_sums(struct tr_queue *q, const float *sums, const struct tr_cuda_finish *f);

/* y = act(z), z of any float type; with a gated activation twice as wide as y. */
void tr_cuda_activate(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *z,
                      enum tr_act act);

/* As tr_backend.activate_bwd(). */
void tr_cuda_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dy, const struct tr_tensor *x, enum tr_act act);

/* to[h] = (or, with `add`, +=) the sum of column h of x[n,h]; fp32 sums in an order that depends on n and h
   alone. */
void tr_cuda_column_sums(struct tr_queue *q, const struct tr_tensor *to, const struct tr_tensor *x,
                         bool add);

#endif
