/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_SIZES_H
#define TR_DEVICE_SIZES_H

#include "device/device.h"

/*
 * What the operands of an operation must look like: each function asserts it, in one place for all
 * backends, and returns the sizes that the loops run over.  Operands that may be NULL in ops.def
 * may be NULL here.
 *
 * Activations, weights and gradients of parameters are of any float type, each for itself;
 * statistics are TR_F32.
 */
struct tr_linear_sizes {
    int64_t n, o, i;
};

struct tr_linear_sizes tr_sizes_linear(const struct tr_tensor *y, const struct tr_tensor *pre,
                                       const struct tr_tensor *x, const struct tr_tensor *w,
                                       const struct tr_tensor *bias, enum tr_act act);
struct tr_linear_sizes tr_sizes_linear_dgrad(const struct tr_tensor *dx, const struct tr_tensor *dy,
                                             const struct tr_tensor *w, const struct tr_tensor *pre,
                                             enum tr_act act);
struct tr_linear_sizes tr_sizes_linear_wgrad(const struct tr_tensor *dw,
                                             const struct tr_tensor *dbias,
                                             const struct tr_tensor *dy, const struct tr_tensor *x);

/* n rows of h elements. */
struct tr_rows_sizes {
    int64_t n, h;
};

struct tr_rows_sizes tr_sizes_norm(const struct tr_tensor *y, const struct tr_tensor *mean,
                                   const struct tr_tensor *rstd, const struct tr_tensor *x,
                                   const struct tr_tensor *gain, const struct tr_tensor *bias,
                                   struct tr_norm_how how);
struct tr_rows_sizes tr_sizes_norm_bwd(const struct tr_tensor *dx, const struct tr_tensor *dgain,
                                       const struct tr_tensor *dbias, const struct tr_tensor *dy,
                                       const struct tr_tensor *dskip, const struct tr_tensor *x,
                                       const struct tr_tensor *gain, const struct tr_tensor *mean,
                                       const struct tr_tensor *rstd, struct tr_norm_how how);
struct tr_rows_sizes tr_sizes_residual(const struct tr_tensor *y, const struct tr_tensor *x,
                                       const struct tr_tensor *a, const struct tr_tensor *bias,
                                       const struct tr_dropout *drop);
struct tr_rows_sizes tr_sizes_residual_bwd(const struct tr_tensor *da,
                                           const struct tr_tensor *dbias,
                                           const struct tr_tensor *dy,
                                           const struct tr_dropout *drop);
struct tr_rows_sizes tr_sizes_dropout(const struct tr_tensor *y, const struct tr_dropout *drop);

/* For embed, embed_bwd and add_rows: n rows and ids; `table` has the same width and `r` rows. */
struct tr_embed_sizes {
    int64_t n, h, r;
};

struct tr_embed_sizes tr_sizes_embed(const struct tr_tensor *rows, const struct tr_tensor *ids,
                                     const struct tr_tensor *table);

struct tr_attention_sizes {
    int64_t b, heads, t, d, groups;
};

struct tr_attention_sizes
tr_sizes_attention(const struct tr_tensor *ctx, const struct tr_tensor *lse,
                   const struct tr_tensor *qkv, const struct tr_tensor *from,
                   struct tr_attention_how how, const struct tr_dropout *drop);

/* For attention_cached: `keys` is K. */
struct tr_cached_sizes {
    int64_t b, heads, t, d, groups, keys;
};
struct tr_cached_sizes tr_sizes_cached(const struct tr_tensor *ctx, const struct tr_tensor *cache,
                                       const struct tr_tensor *qkv, const struct tr_tensor *place,
                                       struct tr_attention_how how);

/* For attention_relative, which has as many groups as heads: `rows` of the table. */
struct tr_relative_sizes {
    int64_t b, heads, t, d, rows;
};
struct tr_relative_sizes tr_sizes_relative(const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                           const struct tr_tensor *qkv,
                                           const struct tr_relative *to,
                                           struct tr_attention_how how,
                                           const struct tr_dropout *drop);

/* For rotary, head_norm and its gradient: n rows, and `heads` queries and keys in each. */
struct tr_heads_sizes {
    int64_t n, heads, width;
};

struct tr_heads_sizes tr_sizes_rotary(const struct tr_tensor *y, const struct tr_tensor *x,
                                      const struct tr_tensor *table,
                                      const struct tr_tensor *position, struct tr_rotary_how how);
struct tr_heads_sizes tr_sizes_head_norm(const struct tr_tensor *y, const struct tr_tensor *rstd,
                                         const struct tr_tensor *x, const struct tr_tensor *q_gain,
                                         const struct tr_tensor *k_gain, struct tr_heads_how heads);
/* The rows of y and x. */
int64_t tr_sizes_columns(const struct tr_tensor *y, const struct tr_tensor *x, int64_t to,
                         int64_t from, int64_t count);

/* n rows of r logits, of which the first `valid` count; the other operands may be NULL. */
struct tr_xent_sizes {
    int64_t n, r;
};

struct tr_xent_sizes tr_sizes_xent(const struct tr_tensor *logits, const struct tr_tensor *max,
                                   const struct tr_tensor *stats, const struct tr_tensor *labels,
                                   const struct tr_tensor *weight, int64_t valid);

/* Elements of `loss`. */
int64_t tr_sizes_xent_loss(const struct tr_tensor *loss, const struct tr_tensor *stats);

/* Elements of two or more flat operands of one length: pass the last twice where there are two. */
int64_t tr_sizes_flat(const struct tr_tensor *a, const struct tr_tensor *b,
                      const struct tr_tensor *c, const struct tr_tensor *d);

/* Elements of p, m, v and g; half may be NULL. */
int64_t tr_sizes_adamw(const struct tr_tensor *half, const struct tr_tensor *p,
                       const struct tr_tensor *m, const struct tr_tensor *v,
                       const struct tr_tensor *g);

/* The same where m and v are bytes of blocks. */
int64_t tr_sizes_adam8(const struct tr_tensor *half, const struct tr_tensor *p,
                       const struct tr_tensor *m, const struct tr_tensor *v,
                       const struct tr_tensor *g, struct tr_code_blocks blocks);

/* Elements of x and y: of one type, or both of float types. */
int64_t tr_sizes_copy(const struct tr_tensor *y, const struct tr_tensor *x);

/* `out` is one double. */
void tr_sizes_scalar(const struct tr_tensor *out);

/*
 * An operand of [d[0],d[1],d[2]] and its scales: element (i, j, k) is of bucket
 * i * stride[0] + j * stride[1] + k * stride[2], where a dimension with one scale has stride 0.
 */
struct tr_fix_sizes {
    int64_t n, buckets, each; /* elements, scales, elements of a bucket */
    int64_t d[3], stride[3];
};

/* `code` may be NULL. */
struct tr_fix_sizes tr_sizes_fix(const struct tr_tensor *x, const struct tr_tensor *scale,
                                 const struct tr_tensor *code, struct tr_fix how);

/* Elements of x, to which the bits of `mask` belong; `taken`, which may be NULL, has *k of them. */
int64_t tr_sizes_mask(const struct tr_tensor *x, const struct tr_tensor *mask,
                      const struct tr_tensor *taken, int64_t *k);

/* Elements of y, which are those of a, and of b if that is not NULL, that `s` says. */
int64_t tr_sizes_select(const struct tr_tensor *y, const struct tr_tensor *a,
                        const struct tr_tensor *b, const struct tr_select *s);

/* Bytes of x, with its fingerprint in `out`. */
int64_t tr_sizes_fingerprint(const struct tr_tensor *out, const struct tr_tensor *x);

#endif
