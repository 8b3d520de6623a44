/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/tensor.h"

#include "util/status.h"

int tr_dtype_bytes(enum tr_dtype t)
{
    static const int bytes[TR_DTYPES] = {[TR_F32] = 4, [TR_F64] = 8, [TR_I32] = 4};

    return bytes[t];
}

struct tr_tensor tr_f32_1(float *data, int64_t d0)
{
    return (struct tr_tensor){.data = data, .dtype = TR_F32, .ndim = 1, .dim = {d0}};
}

struct tr_tensor tr_f32_2(float *data, int64_t d0, int64_t d1)
{
    return (struct tr_tensor){.data = data, .dtype = TR_F32, .ndim = 2, .dim = {d0, d1}};
}

struct tr_tensor tr_f32_3(float *data, int64_t d0, int64_t d1, int64_t d2)
{
    return (struct tr_tensor){.data = data, .dtype = TR_F32, .ndim = 3, .dim = {d0, d1, d2}};
}

struct tr_tensor tr_f64_1(double *data, int64_t d0)
{
    return (struct tr_tensor){.data = data, .dtype = TR_F64, .ndim = 1, .dim = {d0}};
}

struct tr_tensor tr_i32_1(int32_t *data, int64_t d0)
{
    return (struct tr_tensor){.data = data, .dtype = TR_I32, .ndim = 1, .dim = {d0}};
}

int64_t tr_tensor_elems(const struct tr_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->ndim; i++)
        n *= t->dim[i];
    return n;
}

int64_t tr_tensor_bytes(const struct tr_tensor *t)
{
    return tr_tensor_elems(t) * tr_dtype_bytes(t->dtype);
}

struct tr_tensor tr_tensor_span(const struct tr_tensor *t, int64_t first, int64_t count)
{
    struct tr_tensor span = {.dtype = t->dtype, .ndim = 1, .dim = {count}};

    TR_ASSERT(first >= 0 && count > 0 && first + count <= tr_tensor_elems(t));
    if (t->data)
        span.data = (unsigned char *)t->data + first * tr_dtype_bytes(t->dtype);
    return span;
}
