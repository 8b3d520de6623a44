/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_ATTENTION_H
#define TR_DEVICE_CUDA_CUDA_ATTENTION_H

#include <stddef.h>

#include "device/device.h"
#include "device/sizes.h"

/*
 * Who computes `attention` and `attention_bwd` of ops.def: cuDNN where it is open and serves the call
 * (device/cuda/cuda_sdpa.h), the kernels of this program for all else.  Both keep the same lse, so one may do
 * the gradient of what the other did.
 */
struct tr_cuda;

/*
 * Sets g->sdpa.  `scratch` is what it takes of g->scratch, in bytes; 0 without cuDNN.  g->arch, g->any_order and
 * g->compute are there, and its GPU is the current one.  With TR_ATTENTION_FUSED TR_ERESOURCE or TR_ECONFIG
 * where cuDNN is not to be had; with TR_ATTENTION_AUTO a line in the log says so.
 */
enum tr_status tr_cuda_attention_open(struct tr_cuda *g, enum tr_attention_by by,
                                      size_t *scratch) TR_MUST_CHECK;
void tr_cuda_attention_close(struct tr_cuda *g);

/* Why the graphs of device/cuda/sdpa.h cannot say a call, with `bounds` of documents or without, or NULL: static
   storage.  Dropout comes last: where it is named, nothing else is in the way.  Pure. */
const char *tr_cuda_attention_unsaid(struct tr_attention_sizes s, bool bounds,
                                     struct tr_attention_how how, const struct tr_dropout *drop);

/* Who may come into question: "cuDNN 9.19.0 or own kernels"; static storage.  The first calls find out, and
   tr_cuda_told_next() of g->told says, who does what. */
const char *tr_cuda_attention_describe(const struct tr_cuda *g);

/*
 * The kernels of this program for the rows `attention` and `attention_bwd` of ops.def (the files
 * kernels/attention*.cu): for GPUs, types and shapes that cuDNN does not take, and for machines
 * without it.
 *
 * Any operands that ops.def allows.  Where qkv, ctx and their gradients are fp16 or bf16, of one
 * type, lie on 16 bytes and have heads of more than 32 numbers, a multiple of 8, products run on tensor
 * cores: fp16 with code for sm_70 and newer, bf16 with code for sm_80 and newer (tr_cuda_arch()).  Tiles
 * are of 64, 80, 96, 128, 160, 224 or 320 columns, of which other widths fill a part.  All else runs in
 * fp32.  Both compute the same, but tensor cores take probabilities and gradients of scores rounded to
 * that type.
 *
 * The same bits every time.  The gradient uses the queue's scratch.  Both return whether it was tensor cores.
 */
bool tr_cuda_attention_own(struct tr_queue *q, const struct tr_tensor *ctx,
                           const struct tr_tensor *lse, const struct tr_tensor *qkv,
                           const struct tr_tensor *from, struct tr_attention_how how,
                           struct tr_dropout drop);
bool tr_cuda_attention_own_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                               const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_tensor *from, struct tr_attention_how how,
                               struct tr_dropout drop);

/*
 * As tr_backend.attention_relative() and its gradient (kernels/relative.cu): any operands, in fp32, the same bits
 * every time.  Where all have one type they have kernels for it.  The gradient uses the queue's scratch.
 */
void tr_cuda_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                                const struct tr_tensor *lse, const struct tr_tensor *qkv,
                                const struct tr_relative *to, struct tr_attention_how how,
                                struct tr_dropout drop);
void tr_cuda_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                    const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                    const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                    const struct tr_tensor *qkv, const struct tr_relative *to,
                                    struct tr_attention_how how, struct tr_dropout drop);

/* Of the queue's scratch a gradient takes no more than this, which is all of it but in tests:
   heads for which there is no room wait for the next launch. */
extern size_t tr_cuda_attention_scratch;

#endif
