/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/tensor.h"

#include "util/status.h"

int tr_dtype_bytes(enum tr_dtype t)
{
    static const int bytes[TR_DTYPES] = {[TR_F32] = 4,  [TR_F64] = 8, [TR_I32] = 4, [TR_F16] = 2,
                                         [TR_BF16] = 2, [TR_I64] = 8, [TR_U8] = 1};

    return bytes[t];
}

const char *tr_dtype_name(enum tr_dtype t)
{
    static const char *const name[TR_DTYPES] = {
        [TR_F32] = "fp32",  [TR_F64] = "fp64",  [TR_I32] = "int32", [TR_F16] = "fp16",
        [TR_BF16] = "bf16", [TR_I64] = "int64", [TR_U8] = "uint8"};

    return name[t];
}

bool tr_dtype_is_float(enum tr_dtype t)
{
    return t == TR_F32 || t == TR_F16 || t == TR_BF16;
}

struct tr_tensor tr_tensor_1(void *data, enum tr_dtype t, int64_t d0)
{
    return (struct tr_tensor){.data = data, .dtype = t, .ndim = 1, .dim = {d0}};
}

struct tr_tensor tr_tensor_2(void *data, enum tr_dtype t, int64_t d0, int64_t d1)
{
    return (struct tr_tensor){.data = data, .dtype = t, .ndim = 2, .dim = {d0, d1}};
}

struct tr_tensor tr_tensor_3(void *data, enum tr_dtype t, int64_t d0, int64_t d1, int64_t d2)
{
    return (struct tr_tensor){.data = data, .dtype = t, .ndim = 3, .dim = {d0, d1, d2}};
}

struct tr_tensor tr_f32_1(float *data, int64_t d0)
{
    return tr_tensor_1(data, TR_F32, d0);
}

struct tr_tensor tr_f32_2(float *data, int64_t d0, int64_t d1)
{
    return tr_tensor_2(data, TR_F32, d0, d1);
}

struct tr_tensor tr_f32_3(float *data, int64_t d0, int64_t d1, int64_t d2)
{
    return tr_tensor_3(data, TR_F32, d0, d1, d2);
}

struct tr_tensor tr_f64_1(double *data, int64_t d0)
{
    return tr_tensor_1(data, TR_F64, d0);
}

struct tr_tensor tr_i32_1(int32_t *data, int64_t d0)
{
    return tr_tensor_1(data, TR_I32, d0);
}

struct tr_tensor tr_i64_1(int64_t *data, int64_t d0)
{
    return tr_tensor_1(data, TR_I64, d0);
}

struct tr_tensor tr_u8_1(uint8_t *data, int64_t d0)
{
    return tr_tensor_1(data, TR_U8, d0);
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
