/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_MATH_H
#define TR_DEVICE_CPU_CPU_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/cpu_simd.h"

/*
 * Functions without branches or calls, so that a loop over them becomes vector instructions.
 * tests/device/t_math.c holds the errors that are stated here against libm.
 */

/*
 * e^x with a relative error of at most 1e-7 for -87.3 <= x <= 88.3; 0 below, infinity above, NaN for
 * NaN.  x = n log 2 + r, |r| <= log(2) / 2, where Taylor's polynomial of degree 7 is off by less
 * than r^8 / 8! = 5.2e-9; adding 1.5 * 2^23 rounds x / log 2 to the integer n.
 */
static inline float exp_fast(float x)
{
    const float rounder = 12582912.0f, log2_high = 0.693115234f, log2_low = 3.19461833e-5f;
    float shifted = mul_add(x, 1.44269504f, rounder), n = shifted - rounder;
    float r = mul_add(-n, log2_low, mul_add(-n, log2_high, x));
    float p = mul_add(r, 1.0f / 5040.0f, 1.0f / 720.0f), power;
    uint32_t bits;

    p = mul_add(r, p, 1.0f / 120.0f);
    p = mul_add(r, p, 1.0f / 24.0f);
    p = mul_add(r, p, 1.0f / 6.0f);
    p = mul_add(r, p, 0.5f);
    p = mul_add(r, p, 1.0f);
    p = mul_add(r, p, 1.0f);
    /* The low bits of `shifted` are n: moved up and biased they are the float 2^n. */
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    p *= power;
    p = x < -87.3f ? 0.0f : p;
    return x > 88.3f ? INFINITY : p;
}

/* ---- a function and its derivative for each row of family/acts.def ---- */

static inline float act_NONE(float x)
{
    return x;
}

static inline float slope_NONE(float x)
{
    (void)x;
    return 1.0f;
}

/* What GELU's tanh form becomes: 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u), here e^-2u.  It is kept below
   e^80, so that its product with its own reciprocal is 1. */
static inline float gelu_power(float x)
{
    float minus_2u = -x * mul_add(x * x, 0.0713548163f, 1.59576912f);

    return exp_fast(minus_2u > 80.0f ? 80.0f : minus_2u);
}

/* Off by at most 2e-7 |x|. */
static inline float act_GELU_TANH(float x)
{
    return x / (1.0f + gelu_power(x));
}

/* Off by at most 3e-7.  With s = 1 / (1 + e): s + x s (1 - s) 2u', and 1 - s = e s without
   cancellation. */
static inline float slope_GELU_TANH(float x)
{
    float e = gelu_power(x), s = 1.0f / (1.0f + e);

    return mul_add(x * mul_add(x * x, 0.214064449f, 1.59576912f), e * s * s, s);
}

/*
 * The normal distribution's integral P(x) = 0.5 (1 + erf(x / sqrt(2))), which is 1 - P(-x): P(-|x|) is
 * e^(-x^2/2) p(u) with u = |x| / (4 + |x|), much as Hastings has it ("Approximations for Digital Computers",
 * 1955, sheets 43 to 45).  p, of degree 9 with p(0) = 0.5, is fitted by Remez' algorithm: its largest relative
 * error for |x| <= 14, 1.5e-8, is the smallest there is.  `power` is e^(-x^2/2).
 */
static inline float normal_integral(float x, float power)
{
    float u = fabsf(x) / (4.0f + fabsf(x)), p = mul_add(u, -0.0341819337f, 0.110289343f);

    p = mul_add(u, p, -0.0492838348f);
    p = mul_add(u, p, -0.208365933f);
    p = mul_add(u, p, 0.109065231f);
    p = mul_add(u, p, 0.870244446f);
    p = mul_add(u, p, -2.10622544f);
    p = mul_add(u, p, 2.40420451f);
    p = mul_add(u, p, -1.59576836f);
    p = mul_add(u, p, 0.5f);
    p *= power;
    return x < 0.0f ? p : 1.0f - p;
}

/* Off by at most 2e-7 |x|. */
static inline float act_GELU(float x)
{
    return x * normal_integral(x, exp_fast(-0.5f * x * x));
}

/* P(x) + x P'(x), off by at most 3e-7. */
static inline float slope_GELU(float x)
{
    float power = exp_fast(-0.5f * x * x);

    return mul_add(x * 0.398942280f, power, normal_integral(x, power));
}

/* What is not a number stays that. */
static inline float act_RELU(float x)
{
    return x < 0.0f ? 0.0f : x;
}

static inline float slope_RELU(float x)
{
    return x > 0.0f ? 1.0f : 0.0f;
}

static inline float act_RELU2(float x)
{
    return x < 0.0f ? 0.0f : x * x;
}

static inline float slope_RELU2(float x)
{
    return x > 0.0f ? 2.0f * x : 0.0f;
}

/* e^-x, below e^80 as in gelu_power(). */
static inline float silu_power(float x)
{
    return exp_fast(x < -80.0f ? 80.0f : -x);
}

/* Off by at most 2e-7 |x|. */
static inline float act_SILU(float x)
{
    return x / (1.0f + silu_power(x));
}

/* Off by at most 3e-7. */
static inline float slope_SILU(float x)
{
    float e = silu_power(x), s = 1.0f / (1.0f + e);

    return mul_add(x, e * s * s, s);
}

#endif
