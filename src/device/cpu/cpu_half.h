/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_HALF_H
#define TR_DEVICE_CPU_CPU_HALF_H

#include "device/cpu/cpu_simd.h"
#include "tensor/tensor.h"
#include "util/half.h"

/*
 * Operands whose elements are TR_F32, TR_F16 or TR_BF16, for kernels that know floats only.  An
 * operand in floats is used where it lies; of one in fp16 or bf16, a row or a block at a time is
 * converted into scratch and back.  Conversions are those of util/half.h, whatever instructions do
 * them.
 */

/* n elements of type `t` as floats. */
void tr_cpu_widen(enum tr_dtype t, const void *from, int64_t n, float *to);

/* n floats, rounded to type `t`. */
void tr_cpu_narrow(enum tr_dtype t, const float *from, int64_t n, void *to);

/* Elements x_first .. x_first + n - 1 of x become those of y from y_first on; any float types. */
void tr_cpu_convert(const struct tr_tensor *y, int64_t y_first, const struct tr_tensor *x,
                    int64_t x_first, int64_t n);

/* The address of element `first`. */
static inline void *tr_cpu_at(const struct tr_tensor *t, int64_t first)
{
    return (unsigned char *)t->data + first * (t->dtype == TR_F32 ? 4 : 2);
}

/* Elements first .. first + n - 1 as floats: where they lie, or in scratch[n].  What is changed
   there belongs to the operand after tr_cpu_put().  (Not inline: a compiler that sees both ways
   makes two copies of the loop that follows, and may forget that one of them is to be of
   vectors.) */
float *tr_cpu_in(const struct tr_tensor *t, int64_t first, int64_t n, float *scratch);

/* The same for elements that are not read. */
float *tr_cpu_out(const struct tr_tensor *t, int64_t first, float *scratch);

/* Elements first .. first + n - 1 become x, which tr_cpu_out() or tr_cpu_in() gave. */
void tr_cpu_put(const struct tr_tensor *t, int64_t first, int64_t n, const float *x);

#endif
