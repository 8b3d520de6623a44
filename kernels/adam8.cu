/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

/*
 * Adam with moments in blocks of 8 bits (device/block_code.h).  A row of threads has a block of states: moments become
 * floats in shared memory, and codes again when the row knows their largest.  A row is a warp where blocks are short,
 * and all threads where they are long.  Each operation is rounded by itself, which the compiler may not change, so
 * bits are those of the other backends.
 */
namespace
{

enum { THREADS = 256, GRID = 1024, SHORT = 256, SIGNED = TR_BOOK_ZERO + 2 };
static_assert((int)TR_BOOK_CODES == (int)THREADS, "a thread has a code of each book");
static_assert(THREADS / WARP * SHORT <= TR_BLOCK_MOST, "blocks of all rows are in shared memory");

/* ---- the books ---- */

/* The magnitudes of both, ascending. */
struct magnitudes {
    float with_sign[SIGNED], without[TR_BOOK_CODES];
};

/* As struct tr_code_book; nothing exceeds a limit that there is not. */
struct look_up {
    float value[TR_BOOK_CODES], limit[TR_BOOK_CODES];
};

magnitudes known_magnitudes()
{
    magnitudes known;

    for (int k = 0; k < SIGNED; k++)
        known.with_sign[k] = tr_code_book(TR_BOOK_SIGNED)->value[TR_BOOK_ZERO + k];
    for (int k = 0; k < TR_BOOK_CODES; k++)
        known.without[k] = tr_code_book(TR_BOOK_UNSIGNED)->value[k];
    return known;
}

/* The limit above magnitude k, of n. */
TR_INLINE float limit_above(const float *magnitude, int n, int k)
{
    return k < n - 1 ? __fadd_rn(magnitude[k], magnitude[k + 1]) / 2.0f : INFINITY;
}

TR_INLINE void fill_books(look_up *book, const magnitudes &known)
{
    const int c = (int)(threadIdx.y * blockDim.x + threadIdx.x);

    book[TR_BOOK_SIGNED].value[c] =
        c < TR_BOOK_ZERO ? -known.with_sign[TR_BOOK_ZERO - c] : known.with_sign[c - TR_BOOK_ZERO];
    book[TR_BOOK_SIGNED].limit[c] = limit_above(known.with_sign, SIGNED, c);
    book[TR_BOOK_UNSIGNED].value[c] = known.without[c];
    book[TR_BOOK_UNSIGNED].limit[c] = limit_above(known.without, TR_BOOK_CODES, c);
    __syncthreads();
}

/* The nearest magnitude to r: how many limits it exceeds. */
TR_INLINE int nearest(const look_up &book, float r)
{
    int k = 0;

    TR_UNROLL
    for (int more = TR_BOOK_CODES / 2; more > 0; more /= 2)
        if (r > book.limit[k + more - 1])
            k += more;
    return k;
}

/* ---- a block of states ---- */

/* Block 0 has `lead` of n elements, the others `size`; so do their bytes. */
struct layout {
    int64_t n, lead, size, lead_bytes, size_bytes, blocks;
};

layout layout_of(struct tr_code_blocks b, int64_t n)
{
    const struct tr_code_blocks whole = {b.size, b.size};

    return layout{n,
                  b.lead,
                  b.size,
                  tr_code_bytes(b, b.lead),
                  tr_code_bytes(whole, b.size),
                  1 + (n - 1 + b.size - b.lead) / b.size};
}

/* Element i of a block is first + i of all, and its codes begin at `byte`. */
struct place {
    int64_t first, byte;
    int count;
};

TR_INLINE place place_of(const layout &l, int64_t block)
{
    const int64_t first = block == 0 ? 0 : l.lead + (block - 1) * l.size;
    const int64_t byte = block == 0 ? 0 : l.lead_bytes + (block - 1) * l.size_bytes;

    return place{first, byte, (int)min(block == 0 ? l.lead : l.size, l.n - first)};
}

struct moments {
    float m, v;
};

TR_INLINE float scale_at(const uint8_t *block)
{
    return *reinterpret_cast<const float *>(block);
}

/* The larger, and of a number and NaN the number. */
struct larger_number {
    TR_INLINE float operator()(float a, float b) const { return fmaxf(a, b); }
};

/* The scale of a block, of which this thread's elements are not above `most`. */
TR_INLINE float scale_of(float most, float *room)
{
    most = over_row(most, larger_number(), room);
    return most < TR_BOOK_TINY ? 0.0f : most;
}

TR_INLINE float inverse_of(float scale)
{
    return scale > 0.0f ? __fdiv_rn(1.0f, scale) : 0.0f;
}

TR_INLINE uint8_t signed_code(const look_up &book, float x, float inverse)
{
    const int k = nearest(book, __fmul_rn(fabsf(x), inverse)), zero = TR_BOOK_ZERO;

    return (uint8_t)(x < 0.0f && inverse > 0.0f ? zero - min(max(k, 1), zero) : zero + k);
}

TR_INLINE uint8_t unsigned_code(const look_up &book, float x, float inverse)
{
    return (uint8_t)nearest(book, __fmul_rn(x, inverse));
}

/* ---- a step ---- */

/* Of one element; p stays where the gradient is of no use. */
TR_INLINE void step(const tr_adam8 &a, float grad, float &p, moments &x)
{
    const float g = __fmul_rn(grad, a.factor);
    const float m = __fadd_rn(__fmul_rn(a.beta1, x.m), __fmul_rn(a.to_m, g));
    const float v = __fadd_rn(__fmul_rn(a.beta2, x.v), __fmul_rn(__fmul_rn(a.to_v, g), g));
    const float root = __fadd_rn(__fsqrt_rn(v), a.eps);
    const float change = __fmul_rn(a.rate, __fdiv_rn(m, root));
    const bool fine = fabsf(g) <= TR_ADAM8_MOST;

    x = fine ? moments{m, v} : moments{0.0f, 0.0f};
    p = fine ? __fmul_rn(__fadd_rn(p, -change), a.shrink) : p;
}

template <class G> struct operands {
    mixed half;
    float *p;
    uint8_t *m, *v;
    G g;
};

/* Of a block: its new moments, and the largest magnitudes of those of this thread. */
template <class G>
TR_INLINE moments step_block(const operands<G> &o, const place &at, const look_up *book,
                             const tr_adam8 &how, moments *kept)
{
    const uint8_t *m = o.m + at.byte, *v = o.v + at.byte;
    const float scale_m = scale_at(m), scale_v = scale_at(v);
    moments most = {0.0f, 0.0f};

    for (int i = (int)threadIdx.x; i < at.count; i += (int)blockDim.x) {
        float p = o.p[at.first + i];
        moments x = {book[TR_BOOK_SIGNED].value[m[TR_BOOK_SCALE_BYTES + i]] * scale_m,
                     book[TR_BOOK_UNSIGNED].value[v[TR_BOOK_SCALE_BYTES + i]] * scale_v};

        step(how, o.g.get(at.first + i), p, x);
        o.p[at.first + i] = p;
        if (o.half.here())
            o.half.set(at.first + i, p);
        kept[i] = x;
        most = moments{fmaxf(most.m, fabsf(x.m)), fmaxf(most.v, x.v)};
    }
    return most;
}

/* Moments of a block to codes, each by the thread that made them. */
TR_INLINE void encode_block(uint8_t *m, uint8_t *v, int count, const look_up *book,
                            const moments *kept, moments scale)
{
    const moments inverse = {inverse_of(scale.m), inverse_of(scale.v)};

    if (threadIdx.x == 0) {
        *reinterpret_cast<float *>(m) = scale.m;
        *reinterpret_cast<float *>(v) = scale.v;
    }
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        m[TR_BOOK_SCALE_BYTES + i] = signed_code(book[TR_BOOK_SIGNED], kept[i].m, inverse.m);
        v[TR_BOOK_SCALE_BYTES + i] = unsigned_code(book[TR_BOOK_UNSIGNED], kept[i].v, inverse.v);
    }
}

/* A row has read the scales of a block when it knows the new ones. */
template <class G>
__global__ void adam8_kernel(operands<G> o, layout l, tr_adam8 how, magnitudes known)
{
    TR_SHARED(look_up, book, [2]);
    TR_SHARED(moments, all, [TR_BLOCK_MOST]);
    TR_SHARED(float, room_m, [WARP]);
    TR_SHARED(float, room_v, [WARP]);
    moments *kept = all + threadIdx.y * SHORT;

    fill_books(book, known);
    for (int64_t b = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; b < l.blocks;
         b += (int64_t)gridDim.x * blockDim.y) {
        const place at = place_of(l, b);
        const moments most = step_block(o, at, book, how, kept);
        const moments scale = {scale_of(most.m, room_m), scale_of(most.v, room_v)};

        encode_block(o.m + at.byte, o.v + at.byte, at.count, book, kept, scale);
    }
}

bool on_scales(const struct tr_tensor *blocks)
{
    return (uintptr_t)blocks->data % TR_BOOK_SCALE_BYTES == 0;
}

} // namespace

extern "C" void tr_cuda_adam8(struct tr_queue *q, const struct tr_tensor *half,
                              const struct tr_tensor *p, const struct tr_tensor *m,
                              const struct tr_tensor *v, const struct tr_tensor *g,
                              struct tr_adamw how, struct tr_code_blocks blocks)
{
    const layout l = layout_of(blocks, tr_sizes_adam8(half, p, m, v, g, blocks));
    const unsigned row = blocks.size <= SHORT ? (unsigned)WARP : (unsigned)THREADS;
    const unsigned rows = THREADS / row;

    TR_ASSERT(on_scales(m) && on_scales(v));
    with_float(g->dtype, [&](auto type) {
        using G = typed<decltype(type)>;
        const operands<G> o = {mixed_of(half), elements<float>(p), elements<uint8_t>(m),
                               elements<uint8_t>(v), typed_of<decltype(type)>(g)};

        TR_LAUNCH(q, (adam8_kernel<G>), blocks_for(l.blocks, rows, GRID), dim3(row, rows), 0, o, l,
                  tr_adam8_of(&how), known_magnitudes());
    });
}
