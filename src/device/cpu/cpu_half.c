/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_half.h"

#include "util/status.h"

/* The processor's own instructions, LANES at a time.  Both do what util/half.h does, NaN
   included. */
#if defined(__AVX512F__)
#define OWN_F16 1
static inline void widen_f16(const uint16_t *from, float *to)
{
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

static inline void narrow_f16(const float *from, uint16_t *to)
{
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

/* The instruction of AVX512_BF16 would not do: it takes subnormal numbers for zeros. */
#define OWN_BF16 1
static inline void narrow_bf16(const float *from, uint16_t *to)
{
    __m512 x = _mm512_loadu_ps(from);
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i near = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
    __m512i half = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), near, quiet);

    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(half, 16)));
}
#elif defined(__AVX__) && defined(__F16C__)
#define OWN_F16 1
static inline void widen_f16(const uint16_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

static inline void narrow_f16(const float *from, uint16_t *to)
{
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#endif

void tr_cpu_widen(enum tr_dtype t, const void *from, int64_t n, float *to)
{
    const uint16_t *h = from;
    int64_t i = 0;

    switch (t) {
    case TR_F32:
        memcpy(to, from, (size_t)n * sizeof *to);
        break;
    case TR_F16:
#ifdef OWN_F16
        for (; i + LANES <= n; i += LANES)
            widen_f16(h + i, to + i);
#endif
#pragma omp simd
        for (int64_t k = i; k < n; k++)
            to[k] = tr_f16_to_float(h[k]);
        break;
    default:
        TR_ASSERT(t == TR_BF16);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            to[k] = tr_bf16_to_float(h[k]);
    }
}

void tr_cpu_narrow(enum tr_dtype t, const float *from, int64_t n, void *to)
{
    uint16_t *h = to;
    int64_t i = 0;

    switch (t) {
    case TR_F32:
        memcpy(to, from, (size_t)n * sizeof *from);
        break;
    case TR_F16:
#ifdef OWN_F16
        for (; i + LANES <= n; i += LANES)
            narrow_f16(from + i, h + i);
#endif
#pragma omp simd
        for (int64_t k = i; k < n; k++)
            h[k] = tr_f16_from_float(from[k]);
        break;
    default:
        TR_ASSERT(t == TR_BF16);
#ifdef OWN_BF16
        for (; i + LANES <= n; i += LANES)
            narrow_bf16(from + i, h + i);
#endif
#pragma omp simd
        for (int64_t k = i; k < n; k++)
            h[k] = tr_bf16_from_float(from[k]);
    }
}

float *tr_cpu_in(const struct tr_tensor *t, int64_t first, int64_t n, float *scratch)
{
    if (t->dtype == TR_F32)
        return tr_f32(t) + first;
    tr_cpu_widen(t->dtype, tr_cpu_at(t, first), n, scratch);
    return scratch;
}

float *tr_cpu_out(const struct tr_tensor *t, int64_t first, float *scratch)
{
    return t->dtype == TR_F32 ? tr_f32(t) + first : scratch;
}

void tr_cpu_put(const struct tr_tensor *t, int64_t first, int64_t n, const float *x)
{
    if (t->dtype != TR_F32)
        tr_cpu_narrow(t->dtype, x, n, tr_cpu_at(t, first));
}

void tr_cpu_convert(const struct tr_tensor *y, int64_t y_first, const struct tr_tensor *x,
                    int64_t x_first, int64_t n)
{
    enum { CHUNK = 512 };
    float buffer[CHUNK];

    if (y->dtype == x->dtype) {
        memcpy(tr_cpu_at(y, y_first), tr_cpu_at(x, x_first),
               (size_t)(n * tr_dtype_bytes(x->dtype)));
        return;
    }
    if (y->dtype == TR_F32) {
        tr_cpu_widen(x->dtype, tr_cpu_at(x, x_first), n, tr_f32(y) + y_first);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t count = n - i < CHUNK ? n - i : CHUNK;

        tr_cpu_put(y, y_first + i, count, tr_cpu_in(x, x_first + i, count, buffer));
    }
}
