/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TENSOR_TENSOR_H
#define TR_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A tensor is a view: an element type, a shape and the address of its first element.  It owns
 * nothing and is passed by pointer or copied freely; the memory belongs to the arena (util/arena.h)
 * that it was taken from.  Elements are contiguous and row-major: dim[ndim - 1] varies fastest.
 *
 * Letters used for sizes in every header of this program:
 *   B  samples in a micro-batch      T  tokens in a sample       N  B * T, rows
 *   H  width of the residual stream  A  attention heads          D  H / A
 *   F  width inside the MLP          V  vocabulary, padded to a multiple of W
 *   L  layers of the whole model     W  ranks of a tensor-parallel group
 *   P  pipeline ranks   K  model chunks per pipeline rank   M  micro-batches
 * A shape like [N,3H/W] is what one rank holds.  Row n is token n % T of sample n / T.
 */

enum { TR_MAX_DIMS = 4 };

/* fp16 and bf16 are stored, never computed in, on the CPU: util/half.h. */
/* TR_U8 is for packed codes and for masks of bits. */
enum tr_dtype { TR_F32, TR_F64, TR_I32, TR_F16, TR_BF16, TR_I64, TR_U8, TR_DTYPES };

struct tr_tensor {
    void *data; /* on the device that owns the arena; NULL in a dry arena */
    enum tr_dtype dtype;
    int ndim;
    int64_t dim[TR_MAX_DIMS]; /* elements, all > 0 */
};

/* Bytes of one element. */
int tr_dtype_bytes(enum tr_dtype t);

/* "fp32", "fp64", "int32", "fp16", "bf16", "int64" or "uint8". */
const char *tr_dtype_name(enum tr_dtype t);

/* Whether its elements are activations, weights or gradients: TR_F32, TR_F16 or TR_BF16. */
bool tr_dtype_is_float(enum tr_dtype t);

/* Views of `data` with one, two or three dimensions. */
struct tr_tensor tr_tensor_1(void *data, enum tr_dtype t, int64_t d0);
struct tr_tensor tr_tensor_2(void *data, enum tr_dtype t, int64_t d0, int64_t d1);
struct tr_tensor tr_tensor_3(void *data, enum tr_dtype t, int64_t d0, int64_t d1, int64_t d2);

/* The same for one type each. */
struct tr_tensor tr_f32_1(float *data, int64_t d0);
struct tr_tensor tr_f32_2(float *data, int64_t d0, int64_t d1);
struct tr_tensor tr_f32_3(float *data, int64_t d0, int64_t d1, int64_t d2);
struct tr_tensor tr_f64_1(double *data, int64_t d0);
struct tr_tensor tr_i32_1(int32_t *data, int64_t d0);
struct tr_tensor tr_i64_1(int64_t *data, int64_t d0);
struct tr_tensor tr_u8_1(uint8_t *data, int64_t d0);

/* Elements in `t`, and the bytes they take. */
int64_t tr_tensor_elems(const struct tr_tensor *t);
int64_t tr_tensor_bytes(const struct tr_tensor *t);

/* Elements first .. first + count - 1 of `t` as a vector. */
struct tr_tensor tr_tensor_span(const struct tr_tensor *t, int64_t first, int64_t count);

/* The address, typed; ops assert the element type. */
static inline float *tr_f32(const struct tr_tensor *t)
{
    return (float *)t->data;
}
static inline double *tr_f64(const struct tr_tensor *t)
{
    return (double *)t->data;
}
static inline int32_t *tr_i32(const struct tr_tensor *t)
{
    return (int32_t *)t->data;
}
static inline int64_t *tr_i64(const struct tr_tensor *t)
{
    return (int64_t *)t->data;
}
static inline uint16_t *tr_half(const struct tr_tensor *t)
{
    return (uint16_t *)t->data;
}
static inline uint8_t *tr_u8(const struct tr_tensor *t)
{
    return (uint8_t *)t->data;
}

#endif
