/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_PRODUCT_H
#define TR_DEVICE_CUDA_CUDA_PRODUCT_H

#include "device/cuda/cuda.h"

/*
 * What multiplies on a GPU: linear, linear_dgrad and linear_wgrad of ops.def, which are
 * tr_cuda_linear() and so on.  A product takes the first of three ways that serves it:
 *
 *   1. one call of cuBLASLt, with bias and GELU in it: factors of one type, the result of that type or
 *      in fp32;
 *   2. a call of cuBLASLt whose sums are fp32, and a kernel that finishes them; factors of two types are
 *      made fp32 before.  What needs scratch goes in parts that fit it.  The operand of an activation that
 *      cuBLASLt does not have goes to `pre`, where that is given, and needs none;
 *   3. a kernel for everything (kernels/product.cu): whatever sizes, types and addresses.
 *
 * In all of them sums are fp32 and a result in fp16 or bf16 is rounded once.  The way that a shape
 * took once it takes always, so a run gives the same bits for the same operands.
 */
struct tr_cuda_product;

/*
 * Make ready for products on the compute stream of `g`, whose other fields are set: opens cuBLASLt and
 * takes its workspace, 32 MiB or from sm_90 on 64 MiB of device memory.
 *
 * With `tune`, the first product of a shape times what cuBLASLt proposes for it, on its own operands,
 * and keeps the fastest; the host waits for that.  Without, it is the first proposal: each run takes the
 * same, which timing cannot promise.
 *
 * TR_ERESOURCE when cuBLASLt or the memory is not to be had.
 */
enum tr_status tr_cuda_product_open(struct tr_cuda *g, bool tune,
                                    struct tr_cuda_product **out) TR_MUST_CHECK;

/* `p` may be NULL.  Nothing is under way. */
void tr_cuda_product_close(struct tr_cuda_product *p);

#endif
