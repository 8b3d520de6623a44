/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_FINISH_CUH
#define TR_KERNELS_FINISH_CUH

#include "common.cuh"

extern "C" {
#include "device/cuda/cuda_dense.h"
}

/* What becomes of the sums of a product, struct tr_cuda_finish, as kernels take it. */
struct finish {
    mixed c, bias, pre, slope_of; /* data NULL: not given */
    enum tr_act act;
    bool add;
};

static inline struct finish finish_of(const struct tr_cuda_finish *f)
{
    TR_ASSERT((unsigned)f->act < TR_ACTS);
    return {mixed_of(f->c), mixed_of(f->bias), mixed_of(f->pre), mixed_of(f->slope_of), f->act,
            f->add};
}

/* ---- a function and its derivative for each row of family/acts.def ---- */

TR_INLINE float act_NONE(float x)
{
    return x;
}

TR_INLINE float slope_NONE(float)
{
    return 1.0f;
}

/*
 * GELU is x s(x): 0.5 (1 + tanh(u)) is s = 1 / (1 + exp(-2u)), which loses nothing where x is far below
 * zero.  u = sqrt(2/pi) (x + 0.044715 x^3).
 */
TR_INLINE float gelu_share(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);

    return 1.0f / (1.0f + exp_quick(-2.0f * u));
}

TR_INLINE float act_GELU_TANH(float x)
{
    return x * gelu_share(x);
}

/* s + x s', where s' = 2 s (1 - s) u'; beyond the tails u' may overflow, where s' is 0. */
TR_INLINE float slope_GELU_TANH(float x)
{
    float s = gelu_share(x), tail = s * (1.0f - s);
    float inner = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);

    return tail > 0.0f ? s + 2.0f * x * tail * inner : s;
}

TR_INLINE float act_GELU(float x)
{
    return 0.5f * x * erfcf(-0.7071067812f * x);
}

TR_INLINE float slope_GELU(float x)
{
    return 0.5f * erfcf(-0.7071067812f * x) + 0.3989422804f * x * exp_quick(-0.5f * x * x);
}

/* What is not a number stays that. */
TR_INLINE float act_RELU(float x)
{
    return x < 0.0f ? 0.0f : x;
}

TR_INLINE float slope_RELU(float x)
{
    return x > 0.0f ? 1.0f : 0.0f;
}

TR_INLINE float act_RELU2(float x)
{
    return x < 0.0f ? 0.0f : x * x;
}

TR_INLINE float slope_RELU2(float x)
{
    return x > 0.0f ? 2.0f * x : 0.0f;
}

TR_INLINE float act_SILU(float x)
{
    return x / (1.0f + exp_quick(-x));
}

/* s + x s (1 - s); far below zero the product is one of 0 and infinity. */
TR_INLINE float slope_SILU(float x)
{
    float s = 1.0f / (1.0f + exp_quick(-x)), tail = s * (1.0f - s);

    return tail > 0.0f ? s + x * tail : s;
}

/* z, and the value of pre there, to the element of c; `at` is z or what lies in slope_of. */
TR_INLINE float finished(const struct finish &f, float z, float at)
{
    switch (f.act) {
#define ACT(symbol, name) \
    case TR_ACT_##symbol: \
        return f.slope_of.data ? z * slope_##symbol(at) : act_##symbol(z);
#include "family/acts.def"
    default:
        break;
    }
    return z;
}

/* y of a gated activation. */
TR_INLINE float opened(enum tr_act act, float gate, float other)
{
    switch (act) {
#define GATED(symbol, name, of) \
    case TR_ACT_##symbol:       \
        return act_##of(gate) * other;
#include "family/acts.def"
    default:
        break;
    }
    return 0.0f;
}

/* What comes back through it: the gradient of y becomes those of gate and other. */
TR_INLINE void close_gate(enum tr_act act, float dy, float &gate, float &other)
{
    switch (act) {
#define GATED(symbol, name, of)                              \
    case TR_ACT_##symbol: {                                  \
        const float by_gate = dy * slope_##of(gate) * other; \
                                                             \
        other = dy * act_##of(gate);                         \
        gate = by_gate;                                      \
        break;                                               \
    }
#include "family/acts.def"
    default:
        break;
    }
}

/* Sums i and i + 1, in columns j and j + 1, j even: gate and other, and element i / 2 of c. */
TR_INLINE void finish_gated(const struct finish &f, int64_t i, int64_t j, float gate, float other)
{
    if (f.bias.data) {
        gate += f.bias.get(j);
        other += f.bias.get(j + 1);
    }
    if (f.pre.data) {
        f.pre.set(i, gate);
        f.pre.set(i + 1, other);
    }
    f.c.set(i / 2, opened(f.act, gate, other));
}

/* Element i of the sums becomes elements 2 i and 2 i + 1 of c. */
TR_INLINE void finish_gated_bwd(const struct finish &f, int64_t i, float sum)
{
    float gate = f.slope_of.get(2 * i), other = f.slope_of.get(2 * i + 1);

    close_gate(f.act, sum, gate, other);
    f.c.set(2 * i, gate);
    f.c.set(2 * i + 1, other);
}

/* Element i of c, which is in column j. */
TR_INLINE void finish_one(const struct finish &f, int64_t i, int64_t j, float sum)
{
    float z = sum;

    if (f.add)
        z += f.c.get(i);
    if (f.bias.data)
        z += f.bias.get(j);
    if (f.pre.data)
        f.pre.set(i, z);
    f.c.set(i, finished(f, z, f.slope_of.data ? f.slope_of.get(i) : 0.0f));
}

#endif
