/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_REF_REF_ELEMENT_H
#define TR_DEVICE_REF_REF_ELEMENT_H

#include "tensor/tensor.h"
#include "util/half.h"

/* Element i of an operand of any type but integers. */
static inline double get(const struct tr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TR_F16:
        return (double)tr_f16_to_float(tr_half(t)[i]);
    case TR_BF16:
        return (double)tr_bf16_to_float(tr_half(t)[i]);
    case TR_F64:
        return tr_f64(t)[i];
    default:
        return (double)tr_f32(t)[i];
    }
}

/* Element i becomes x, in one rounding. */
static inline void set(const struct tr_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case TR_F16:
        tr_half(t)[i] = tr_f16_from_float(tr_float_to_odd(x));
        break;
    case TR_BF16:
        tr_half(t)[i] = tr_bf16_from_float(tr_float_to_odd(x));
        break;
    case TR_F64:
        tr_f64(t)[i] = x;
        break;
    default:
        tr_f32(t)[i] = (float)x;
    }
}

#endif
