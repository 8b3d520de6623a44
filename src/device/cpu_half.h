/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_HALF_H
#define TR_DEVICE_CPU_HALF_H

#include "device/cpu_simd.h"
#include "tensor/tensor.h"
#include "util/half.h"

/*
 * Operands whose elements are TR_F32, TR_F16 or TR_BF16, for kernels that know floats only.  An
 * operand in floats is used where it lies; of one in halves, a row or a block at a time is converted
 * into scratch and back.  Conversions are those of util/half.h, whatever instructions do them.
 */

/* n elements of type `t` as floats. */
void tr_cpu_widen(enum tr_dtype t, const void *from, int64_t n, float *to);

/* n floats, rounded to type `t`. */
void tr_cpu_narrow(enum tr_dtype t, const float *from, int64_t n, void *to);

/* The address of element `first`. */
static inline void *tr_cpu_at(const struct tr_tensor *t, int64_t first)
{
    return (unsigned char *)t->data + first * (t->dtype == TR_F32 ? 4 : 2);
}

/* Elements first .. first + n - 1 as floats: where they lie, or in scratch[n]. */
static inline const float *tr_cpu_in(const struct tr_tensor *t, int64_t first, int64_t n,
                                     float *scratch)
{
    if (t->dtype == TR_F32)
        return tr_f32(t) + first;
    tr_cpu_widen(t->dtype, tr_cpu_at(t, first), n, scratch);
    return scratch;
}

/* Where to compute elements first and on, before tr_cpu_put(): where they belong, or in scratch. */
static inline float *tr_cpu_out(const struct tr_tensor *t, int64_t first, float *scratch)
{
    return t->dtype == TR_F32 ? tr_f32(t) + first : scratch;
}

/* Elements first .. first + n - 1 become x, which tr_cpu_out() or tr_cpu_in() gave. */
static inline void tr_cpu_put(const struct tr_tensor *t, int64_t first, int64_t n, const float *x)
{
    if (t->dtype != TR_F32)
        tr_cpu_narrow(t->dtype, x, n, tr_cpu_at(t, first));
}

#endif
