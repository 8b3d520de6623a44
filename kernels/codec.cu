/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

extern "C" {
#include "device/codec_bits.h"
}

/*
 * Numbers in a few bits.  Scales: buckets that are columns belong to blocks of 32 columns, whose rows the
 * threads of a column share; buckets that are whole rows to a block, or where they are long to several,
 * and by squares to a warp, whose lanes are the partial sums of the contract.  Codes: a thread makes eight
 * of them, which are as many bytes as a code has bits.
 */
namespace
{

enum { THREADS = 256, COLUMNS = 32, PARTS = 256, PER_PART = 8192, EIGHT = 8 };

/* ---- where a bucket lies ---- */

/* Group g has rows of d2 elements: all of one bucket, or one bucket for each column. */
struct blocks {
    int64_t groups, inner; /* groups that differ in the second dimension alone */
    int64_t d1, d2, rows, rows1;
    bool together; /* the rows of a group lie one behind the other */
};

blocks blocks_of(const tr_fix_sizes &s, unsigned over)
{
    blocks b;

    b.inner = over & 2 ? 1 : s.d[1];
    b.groups = (over & 1 ? 1 : s.d[0]) * b.inner;
    b.d1 = s.d[1];
    b.d2 = s.d[2];
    b.rows1 = over & 2 ? s.d[1] : 1;
    b.rows = (over & 1 ? s.d[0] : 1) * b.rows1;
    b.together = b.rows1 == b.d1 || b.rows == b.rows1;
    return b;
}

/* The first element of a row of a group. */
TR_INLINE int64_t row_at(const blocks &b, int64_t group, int64_t row)
{
    const int64_t first = (group / b.inner * b.d1 + group % b.inner) * b.d2;

    if (b.together)
        return first + row * b.d2;
    return first + (row / b.rows1 * b.d1 + row % b.rows1) * b.d2;
}

/* Element j of a group that is one bucket. */
TR_INLINE int64_t element_at(const blocks &b, int64_t group, int64_t j)
{
    return b.together ? row_at(b, group, 0) + j : row_at(b, group, j / b.d2) + j % b.d2;
}

/* ---- scales ---- */

TR_INLINE uint32_t without_sign(float x)
{
    return float_to_bits(x) & 0x7fffffffU;
}

TR_INLINE f16 scale_of_largest(uint32_t bits)
{
    if (bits >= 0x7f800000U)
        return f16{TR_FIX_BROKEN};
    return narrow<f16>(fminf(bits_to_float(bits), (float)TR_FIX_MOST));
}

TR_INLINE f16 scale_of_squares(double sum, double count, double factor)
{
    /* A sum of squares of floats that are finite is finite, and no other. */
    if (!(sum <= 1e300))
        return f16{TR_FIX_BROKEN};
    return narrow<f16>((float)fmin(factor * sqrt(sum / count), TR_FIX_MOST));
}

/* What a scale is made of, for elements that come one after another. */
struct by_largest {
    typedef uint32_t T;
    TR_INLINE static T with(T a, float x) { return max(a, without_sign(x)); }
    TR_INLINE static T both(T a, T b) { return max(a, b); }
    TR_INLINE f16 scale(T a, int64_t) const { return scale_of_largest(a); }
};

struct by_squares {
    typedef double T;
    double factor;
    TR_INLINE static T with(T a, float x) { return a + (double)x * (double)x; }
    TR_INLINE static T both(T a, T b) { return a + b; }
    TR_INLINE f16 scale(T a, int64_t count) const
    {
        return scale_of_squares(a, (double)count, factor);
    }
};

/* Thread (c, y): rows y, y + blockDim.y, ... of column c.  There are 32 of them, or as many as there
   are rows, up to a power of two: the partial sums of the contract, of which the others are 0. */
template <class X, class How>
__global__ void column_kernel(f16 *scale, X x, blocks b, int64_t strips, How how)
{
    typedef typename How::T T;
    const int64_t group = blockIdx.x / strips;
    const int64_t c = blockIdx.x % strips * COLUMNS + threadIdx.x;
    const int y = (int)threadIdx.y;
    TR_SHARED(T, part, [TR_FIX_SUMS][COLUMNS]);
    T mine = T();

    if (c < b.d2)
        for (int64_t row = y; row < b.rows; row += blockDim.y)
            mine = How::with(mine, x.get(row_at(b, group, row) + c));
    part[y][threadIdx.x] = mine;
    for (int half = (int)blockDim.y / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half)
            part[y][threadIdx.x] = How::both(part[y][threadIdx.x], part[y + half][threadIdx.x]);
    }
    if (y == 0 && c < b.d2)
        scale[group * b.d2 + c] = how.scale(part[0][threadIdx.x], b.rows);
}

/* Each warp a bucket; lane l has elements l, l + 32, ... */
template <class X> __global__ void squares_kernel(f16 *scale, X x, blocks b, by_squares how)
{
    const int64_t group = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    const int lane = (int)threadIdx.x % WARP;
    const int64_t count = b.rows * b.d2;
    double sum = 0.0;

    if (group >= b.groups) /* the whole warp */
        return;
    for (int64_t j = lane; j < count; j += WARP)
        sum = by_squares::with(sum, x.get(element_at(b, group, j)));
    for (int half = WARP / 2; half > 0; half /= 2) {
        const double other = from_lane(sum, half);

        sum = lane < half ? sum + other : sum;
    }
    if (lane == 0)
        scale[group] = how.scale(sum, count);
}

struct take_more {
    TR_INLINE uint32_t operator()(uint32_t a, uint32_t b) const { return max(a, b); }
};

/* Each block a part of a bucket; with one part it is the bucket. */
template <class X>
__global__ void largest_kernel(f16 *scale, uint32_t *partial, X x, blocks b, int parts)
{
    const int64_t group = blockIdx.x / parts, part = blockIdx.x % parts, count = b.rows * b.d2;
    TR_SHARED(uint32_t, room, [WARP]);
    uint32_t most = 0;

    for (int64_t j = part * THREADS + threadIdx.x; j < count; j += (int64_t)parts * THREADS)
        most = max(most, without_sign(x.get(element_at(b, group, j))));
    most = over_row(most, take_more(), room);
    if (threadIdx.x != 0)
        return;
    if (parts == 1)
        scale[group] = scale_of_largest(most);
    else
        partial[blockIdx.x] = most;
}

__global__ void largest_of_parts_kernel(f16 *scale, const uint32_t *partial, int parts)
{
    TR_SHARED(uint32_t, room, [WARP]);
    uint32_t most = 0;

    for (int i = (int)threadIdx.x; i < parts; i += THREADS)
        most = max(most, partial[(int64_t)blockIdx.x * parts + i]);
    most = over_row(most, take_more(), room);
    if (threadIdx.x == 0)
        scale[blockIdx.x] = scale_of_largest(most);
}

template <class X> void scales_of_rows(struct tr_queue *q, f16 *scale, X x, const blocks &b)
{
    const unsigned parts = b.groups >= PARTS ? 1 : blocks_for(b.rows * b.d2, PER_PART, PARTS);
    uint32_t *partial = nullptr;

    TR_ASSERT(b.groups * parts <= INT32_MAX);
    if (parts > 1)
        partial =
            static_cast<uint32_t *>(tr_cuda_scratch(q, (size_t)b.groups * parts * sizeof *partial));
    TR_LAUNCH(q, (largest_kernel<X>), (unsigned)b.groups * parts, THREADS, 0, scale, partial, x, b,
              (int)parts);
    if (parts > 1)
        TR_LAUNCH(q, largest_of_parts_kernel, (unsigned)b.groups, THREADS, 0, scale, partial,
                  (int)parts);
}

template <class X, class How>
void scales_of_columns(struct tr_queue *q, f16 *scale, X x, const blocks &b, How how)
{
    const int64_t strips = (b.d2 + COLUMNS - 1) / COLUMNS;
    unsigned rows = 1;

    while (rows < TR_FIX_SUMS && rows < b.rows)
        rows *= 2;
    TR_ASSERT(b.groups * strips <= INT32_MAX);
    TR_LAUNCH(q, (column_kernel<X, How>), (unsigned)(b.groups * strips), dim3(COLUMNS, rows), 0,
              scale, x, b, strips, how);
}

} // namespace

extern "C" void tr_cuda_fix_scale(struct tr_queue *q, const struct tr_tensor *scale,
                                  const struct tr_tensor *x, struct tr_fix how)
{
    const tr_fix_sizes s = tr_sizes_fix(x, scale, NULL, how);
    const blocks b = blocks_of(s, how.over);
    const by_squares squares = {how.bits > 1 ? 2.0 : 1.0};
    const bool largest = how.scale == TR_SCALE_MAX && how.bits > 1;
    f16 *to = elements<f16>(scale);

    with_float(x->dtype, [&](auto type) {
        const auto from = typed_of<decltype(type)>(x);

        if (how.over & 4 && largest)
            scales_of_rows(q, to, from, b);
        else if (how.over & 4)
            TR_LAUNCH(q, (squares_kernel<typed<decltype(type)>>),
                      blocks_for(b.groups, THREADS / WARP, INT32_MAX), THREADS, 0, to, from, b,
                      squares);
        else if (largest)
            scales_of_columns(q, to, from, b, by_largest());
        else
            scales_of_columns(q, to, from, b, squares);
    });
}

namespace
{

/* ---- codes ---- */

/* The scales of up to eight elements from i on. */
struct scale_list {
    const f16 *scale;
    int64_t d1, d2, stride[3];

    TR_INLINE void get(int64_t i, int n, float (&out)[EIGHT]) const
    {
        int64_t k = i % d2, row = i / d2, j = row % d1;
        int64_t base = row / d1 * stride[0];

        for (int u = 0; u < n; u++) {
            out[u] = widen(scale[base + j * stride[1] + k * stride[2]]);
            if (++k < d2)
                continue;
            k = 0;
            if (++j < d1)
                continue;
            j = 0;
            base += stride[0];
        }
    }
};

scale_list list_of(const tr_fix_sizes &s, const struct tr_tensor *scale)
{
    scale_list l = {elements<f16>(scale), s.d[1], s.d[2], {s.stride[0], s.stride[1], s.stride[2]}};

    return l;
}

TR_INLINE unsigned code_of(float x, float scale, int bits)
{
    const float h = (float)(1 << (bits - 1));
    float t;

    if (bits == 1)
        return x >= 0.0f;
    t = rintf(x / (scale + TR_FIX_TINY) * h);
    /* What is not a number is not larger either. */
    t = t > -h ? t : -h;
    t = t < h - 1.0f ? t : h - 1.0f;
    return (unsigned)((int)t + (1 << (bits - 1)));
}

TR_INLINE float value_of(unsigned code, float scale, int bits)
{
    const float half = bits == 1 ? 0.5f : (float)(1 << (bits - 1)), step = 1.0f / half;

    return ((float)(int)code - half) * step * scale;
}

/* Up to eight elements, at once where all are there and lie on their boundary. */
template <class X>
TR_INLINE void get_eight(X x, int64_t i, int n, bool aligned, float (&out)[EIGHT])
{
    if (aligned && n == EIGHT) {
        x.get(i, out);
        return;
    }
    for (int u = 0; u < n; u++)
        out[u] = x.get(i + u);
}

template <class X>
__global__ void encode_kernel(unsigned char *code, X x, scale_list scales, int64_t n, int bits,
                              bool aligned)
{
    const int64_t g = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = g * EIGHT;
    const int here = (int)min(n - i, (int64_t)EIGHT), bytes = (here * bits + 7) / 8;
    float value[EIGHT] = {0.0f}, scale[EIGHT] = {0.0f};
    uint64_t word = 0;

    if (i >= n)
        return;
    get_eight(x, i, here, aligned, value);
    scales.get(i, here, scale);
    for (int u = 0; u < here; u++)
        word = word << bits | code_of(value[u], scale[u], bits);
    word <<= 64 - here * bits;
    for (int u = 0; u < bytes; u++)
        code[g * bits + u] = (unsigned char)(word >> (56 - 8 * u));
}

template <class Y>
__global__ void decode_kernel(Y y, const unsigned char *code, scale_list scales, int64_t n,
                              int bits, bool add, bool aligned)
{
    const int64_t g = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = g * EIGHT;
    const int here = (int)min(n - i, (int64_t)EIGHT), bytes = (here * bits + 7) / 8;
    float value[EIGHT] = {0.0f}, scale[EIGHT] = {0.0f};
    uint64_t word = 0;

    if (i >= n)
        return;
    for (int u = 0; u < bytes; u++)
        word |= (uint64_t)code[g * bits + u] << (56 - 8 * u);
    scales.get(i, here, scale);
    if (add)
        get_eight(y, i, here, aligned, value);
    for (int u = 0; u < here; u++) {
        const float made = value_of((unsigned)(word >> (64 - bits)), scale[u], bits);

        word <<= bits;
        if (!add)
            value[u] = made;
        else if (scale[u] == scale[u])
            value[u] += made;
    }
    if (aligned && here == EIGHT)
        y.set(i, value);
    else
        for (int u = 0; u < here; u++)
            y.set(i + u, value[u]);
}

} // namespace

extern "C" void tr_cuda_fix_encode(struct tr_queue *q, const struct tr_tensor *code,
                                   const struct tr_tensor *x, const struct tr_tensor *scale,
                                   struct tr_fix how)
{
    const tr_fix_sizes s = tr_sizes_fix(x, scale, code, how);

    TR_ASSERT(!how.stochastic);
    with_float(x->dtype, [&](auto type) {
        TR_LAUNCH(q, (encode_kernel<typed<decltype(type)>>),
                  blocks_for(s.n, THREADS * EIGHT, INT32_MAX), THREADS, 0,
                  elements<unsigned char>(code), typed_of<decltype(type)>(x), list_of(s, scale),
                  s.n, how.bits, on_16_bytes(x->data));
    });
}

extern "C" void tr_cuda_fix_decode(struct tr_queue *q, const struct tr_tensor *y,
                                   const struct tr_tensor *code, const struct tr_tensor *scale,
                                   struct tr_fix how, bool add)
{
    const tr_fix_sizes s = tr_sizes_fix(y, scale, code, how);

    with_float(y->dtype, [&](auto type) {
        TR_LAUNCH(q, (decode_kernel<typed<decltype(type)>>),
                  blocks_for(s.n, THREADS * EIGHT, INT32_MAX), THREADS, 0,
                  typed_of<decltype(type)>(y), elements<const unsigned char>(code),
                  list_of(s, scale), s.n, how.bits, add, on_16_bytes(y->data));
    });
}
