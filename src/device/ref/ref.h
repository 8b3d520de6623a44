/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_REF_REF_H
#define TR_DEVICE_REF_REF_H

#include "device/device.h"

/* The plain meaning of every row of ops.def: loops, sums in double, one thread. */
#define OP(name, tol, params) void tr_ref_##name params;
#include "device/ops.def"
#undef OP

/* Of struct tr_backend, no row of the table. */
void tr_ref_attention_cached(struct tr_queue *q, const struct tr_tensor *ctx,
                             const struct tr_tensor *cache, const struct tr_tensor *qkv,
                             const struct tr_tensor *place, struct tr_attention_how how);

/* Of struct tr_backend, no rows of the table. */
void tr_ref_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_relative *to, struct tr_attention_how how,
                               struct tr_dropout drop);
void tr_ref_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                   const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                   const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                   const struct tr_tensor *qkv, const struct tr_relative *to,
                                   struct tr_attention_how how, struct tr_dropout drop);
void tr_ref_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks);
void tr_ref_activate(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     enum tr_act act);
void tr_ref_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *x, enum tr_act act);

extern const struct tr_backend tr_ref;

#endif
