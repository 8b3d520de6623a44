/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_SIMD_H
#define TR_DEVICE_CPU_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * Vectors of the widest kind that this build may use.  GEMMs and maxima are written with these; all
 * else is plain loops that the compiler vectorises.
 *
 * LANES floats in a vector; REGISTERS vectors that the machine can hold.
 */
#if defined(__AVX512F__)
enum { LANES = 16, REGISTERS = 32 };
#define EVENS(x, y) \
    __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ODDS(x, y) \
    __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX__)
enum { LANES = 8, REGISTERS = 16 };
#define EVENS(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define ODDS(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#if defined(__aarch64__)
enum { LANES = 4, REGISTERS = 32 };
#else
enum { LANES = 4, REGISTERS = 16 };
#endif
#define EVENS(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define ODDS(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), may_alias));

static inline vec vec_load(const float *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

/* A store to a multiple of the vector's size that goes past the caches, for memory that is not read
   again soon; vec_flush() orders such stores before what follows. */
static inline void vec_stream(float *p, vec v)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
    _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE__)
    _mm_stream_ps(p, (__m128)v);
#else
    vec_store(p, v);
#endif
}

static inline void vec_flush(void)
{
#if defined(__SSE__)
    _mm_sfence();
#endif
}

static inline vec vec_all(float x)
{
    /* x - 0 is x even for a negative zero, so that no instruction is left of it. */
    return x - (vec){0.0f};
}

/* a * b + c, in one rounding where the machine can. */
static inline vec vec_mul_add(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* In each lane, the larger; b where one of the two is not a number. */
static inline vec vec_max(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    for (int i = 0; i < LANES; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
    return b;
#endif
}

/* The largest of the lanes, all of them numbers. */
static inline float vec_largest(vec v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float half[LANES];

    vec_store(half, v);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            half[i] = half[i] > half[i + n] ? half[i] : half[i + n];
    return half[0];
#endif
}

/* The largest of x[n] that is a number, and of `start`. */
static inline float largest_of(const float *x, int64_t n, float start)
{
    vec max = vec_all(start);
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        max = vec_max(vec_load(x + i), max);
    start = vec_largest(max);
    for (; i < n; i++)
        start = x[i] > start ? x[i] : start;
    return start;
}

/* a * b + c for one number, like vec_mul_add(). */
static inline float mul_add(float a, float b, float c)
{
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* v[i][j] becomes v[j][i]: log2(LANES) perfect shuffles of the rows. */
static inline __attribute__((always_inline)) void vec_transpose(vec v[LANES])
{
    for (int step = 1; step < LANES; step *= 2) {
        vec next[LANES];

        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = EVENS(v[i], v[i + LANES / 2]);
            next[2 * i + 1] = ODDS(v[i], v[i + LANES / 2]);
        }
        memcpy(v, next, sizeof next);
    }
}

#endif
