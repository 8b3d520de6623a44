/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"
#include "device/ref.h"

void tr_cpu_fix_scale(struct tr_queue *q, const struct tr_tensor *scale, const struct tr_tensor *x,
                      struct tr_fix how)
{
    tr_ref_fix_scale(q, scale, x, how);
}

void tr_cpu_fix_encode(struct tr_queue *q, const struct tr_tensor *code, const struct tr_tensor *x,
                       const struct tr_tensor *scale, struct tr_fix how)
{
    tr_ref_fix_encode(q, code, x, scale, how);
}

void tr_cpu_fix_decode(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *code,
                       const struct tr_tensor *scale, struct tr_fix how, bool add)
{
    tr_ref_fix_decode(q, y, code, scale, how, add);
}

void tr_cpu_topk_mask(struct tr_queue *q, const struct tr_tensor *mask, const struct tr_tensor *x,
                      int64_t k)
{
    tr_ref_topk_mask(q, mask, x, k);
}

void tr_cpu_mask_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                      const struct tr_tensor *mask)
{
    tr_ref_mask_take(q, y, x, mask);
}

void tr_cpu_mask_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *v,
                     const struct tr_tensor *mask, float factor)
{
    tr_ref_mask_add(q, y, v, mask, factor);
}

void tr_cpu_select_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                        const struct tr_tensor *b, struct tr_select s)
{
    tr_ref_select_take(q, y, a, b, s);
}

void tr_cpu_select_put(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s)
{
    tr_ref_select_put(q, a, y, s);
}

void tr_cpu_select_add(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s, float factor)
{
    tr_ref_select_add(q, a, y, s, factor);
}

void tr_cpu_subtract(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                     const struct tr_tensor *b)
{
    tr_ref_subtract(q, y, a, b);
}

void tr_cpu_fingerprint(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    tr_ref_fingerprint(q, out, x);
}
