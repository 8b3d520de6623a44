/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

extern "C" {
#include "device/codec_bits.h"
}

/* Some elements of many, differences, and fingerprints.  A thread has one element: what is apart in memory
   cannot be moved together. */
namespace
{

enum { THREADS = 256, PARTS = 1024 };

/* struct tr_select on the device. */
struct places {
    const int32_t *index;
    int64_t first, step, all;

    /* Below 0 where the element is absent. */
    TR_INLINE int64_t at(int64_t i) const
    {
        const int64_t place = index ? index[i] : first + i * step;

        TR_NEVER(place >= all);
        return place;
    }
};

places places_of(const struct tr_select &s, const struct tr_tensor *a)
{
    places p = {s.index ? elements<const int32_t>(s.index) : nullptr, s.first, s.step,
                tr_tensor_elems(a)};

    return p;
}

TR_INLINE int64_t my_element()
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

__global__ void take_kernel(mixed y, mixed a, mixed b, places s, int64_t n)
{
    const int64_t i = my_element();

    if (i >= n)
        return;
    const int64_t at = s.at(i);
    const float x = at < 0 ? 0.0f : a.get(at);

    y.set(i, at >= 0 && b.here() ? x - b.get(at) : x);
}

__global__ void put_kernel(mixed a, mixed y, places s, int64_t n)
{
    const int64_t i = my_element();

    if (i < n && s.at(i) >= 0)
        a.set(s.at(i), y.get(i));
}

__global__ void add_kernel(mixed a, mixed y, places s, int64_t n, float factor)
{
    const int64_t i = my_element();

    if (i < n && s.at(i) >= 0)
        a.set(s.at(i), a.get(s.at(i)) + factor * y.get(i));
}

__global__ void subtract_kernel(mixed y, mixed a, mixed b, int64_t n)
{
    const int64_t i = my_element();

    if (i < n)
        y.set(i, a.get(i) - b.get(i));
}

unsigned blocks_of(int64_t n)
{
    return blocks_for(n, THREADS, INT32_MAX);
}

} // namespace

extern "C" void tr_cuda_select_take(struct tr_queue *q, const struct tr_tensor *y,
                                    const struct tr_tensor *a, const struct tr_tensor *b,
                                    struct tr_select s)
{
    const int64_t n = tr_sizes_select(y, a, b, &s);

    TR_LAUNCH(q, take_kernel, blocks_of(n), THREADS, 0, mixed_of(y), mixed_of(a), mixed_of(b),
              places_of(s, a), n);
}

extern "C" void tr_cuda_select_put(struct tr_queue *q, const struct tr_tensor *a,
                                   const struct tr_tensor *y, struct tr_select s)
{
    const int64_t n = tr_sizes_select(y, a, NULL, &s);

    TR_LAUNCH(q, put_kernel, blocks_of(n), THREADS, 0, mixed_of(a), mixed_of(y), places_of(s, a),
              n);
}

extern "C" void tr_cuda_select_add(struct tr_queue *q, const struct tr_tensor *a,
                                   const struct tr_tensor *y, struct tr_select s, float factor)
{
    const int64_t n = tr_sizes_select(y, a, NULL, &s);

    TR_LAUNCH(q, add_kernel, blocks_of(n), THREADS, 0, mixed_of(a), mixed_of(y), places_of(s, a), n,
              factor);
}

extern "C" void tr_cuda_subtract(struct tr_queue *q, const struct tr_tensor *y,
                                 const struct tr_tensor *a, const struct tr_tensor *b)
{
    const int64_t n = tr_sizes_flat(y, a, b, b);

    TR_LAUNCH(q, subtract_kernel, blocks_of(n), THREADS, 0, mixed_of(y), mixed_of(a), mixed_of(b),
              n);
}

namespace
{

/* ---- fingerprint ---- */

/* tr_mix() of device/codec_bits.h. */
TR_INLINE uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Eight bytes of which `count` are there; they may lie anywhere. */
TR_INLINE uint64_t word_at(const unsigned char *from, int64_t count, bool aligned)
{
    uint64_t word = 0;

    if (aligned && count >= 8)
        return *reinterpret_cast<const uint64_t *>(from);
    for (int k = 0; k < 8 && k < count; k++)
        word |= (uint64_t)from[k] << 8 * k;
    return word;
}

__global__ void words_kernel(const unsigned char *x, int64_t bytes, bool aligned, uint64_t *partial)
{
    const int64_t words = (bytes + 7) / 8, stride = (int64_t)gridDim.x * THREADS;
    TR_SHARED(uint64_t, room, [WARP]);
    uint64_t sum = 0;

    for (int64_t i = my_element(); i < words; i += stride)
        sum += mix(word_at(x + 8 * i, bytes - 8 * i, aligned) + (uint64_t)(i + 1) * TR_MIX_STEP);
    sum = over_row(sum, add_up(), room);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void fingerprint_kernel(uint64_t *out, const uint64_t *partial, int parts,
                                   uint64_t bytes)
{
    TR_SHARED(uint64_t, room, [WARP]);
    uint64_t sum = 0;

    for (int i = (int)threadIdx.x; i < parts; i += THREADS)
        sum += partial[i];
    sum = over_row(sum, add_up(), room);
    if (threadIdx.x == 0)
        *out = mix(*out + bytes + sum);
}

} // namespace

extern "C" void tr_cuda_fingerprint(struct tr_queue *q, const struct tr_tensor *out,
                                    const struct tr_tensor *x)
{
    const int64_t bytes = tr_sizes_fingerprint(out, x);
    const unsigned parts = blocks_for(bytes, 8 * THREADS * 4, PARTS);
    uint64_t *partial = static_cast<uint64_t *>(tr_cuda_scratch(q, PARTS * sizeof *partial));

    TR_LAUNCH(q, words_kernel, parts, THREADS, 0, elements<const unsigned char>(x), bytes,
              (uintptr_t)x->data % 8 == 0, partial);
    TR_LAUNCH(q, fingerprint_kernel, 1, THREADS, 0, elements<uint64_t>(out), partial, (int)parts,
              (uint64_t)bytes);
}
