/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_COMMON_CUH
#define TR_KERNELS_COMMON_CUH

/*
 * What all kernels share.  A file of this folder is compiled by nvcc, and by any C++17 compiler over
 * kernels/emulate.h, which is how the tests run kernels without a GPU; __CUDACC__ tells the two
 * apart, and only this file and mma.cuh ask.
 *
 * A file defines operations of device/ops.def as C functions tr_cuda_NAME: they check sizes with
 * device/sizes.h and launch kernels on the stream of the queue.  Kernels are templates over element
 * types; every float type is one of float, f16 and bf16, and arithmetic is float or double.
 *
 * Conventions.  Results have the same bits on every GPU and in every run: atomic additions are of whole
 * numbers alone, and orders of summation depend on sizes only.  Pointers may lie on any multiple of an element; what
 * lies on 16 bytes is moved 16 bytes at a time (struct pack).
 */
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>
#else
#include "emulate.h"
#endif

extern "C" {
#include "device/cuda/cuda_kernel.h"
#include "device/sizes.h"
#include "util/half.h"
}

/*
 * TR_LAUNCH(q, (kernel<T>), grid, block, shared_bytes, arguments...): on the stream of q; a failed
 * launch ends the job.
 * TR_SHARED(T, name, [32][33]): an array in the block's shared memory.
 * TR_DYNAMIC_SHARED(T, name): a pointer to what the launch asked for.
 * TR_NEVER(condition): inside a kernel; a bug of the caller, which ends the job.
 * TR_ALIGNED(p, bytes): a GPU faults where p lies on no multiple of bytes; so does the emulation.
 * TR_READS(p, bytes), TR_WRITES(p, bytes): one access, for the watch over shared memory, of a function
 *   that is TR_UNWATCHED: the compiler may make several of it.
 * TR_UNROLL, before a loop: its arrays are to become registers.  TR_UNROLL_BY(n): n turns at once.
 */
#ifdef __CUDACC__
#define TR_LAUNCH(q, kernel, grid, block, shared_bytes, ...)                                       \
    do {                                                                                           \
        kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)tr_cuda_stream(q)>>>(__VA_ARGS__); \
        tr_cuda_launched((q), #kernel, (int)cudaGetLastError());                                   \
    } while (0)
#define TR_SHARED(T, name, extent) __shared__ T name extent
#define TR_DYNAMIC_SHARED(T, name)                              \
    extern __shared__ __align__(16) unsigned char name##_raw[]; \
    T *name = reinterpret_cast<T *>(name##_raw)
#define TR_INLINE __device__ __forceinline__
#define TR_UNWATCHED
#define TR_UNROLL _Pragma("unroll")
#define TR_ALIGNED(p, bytes) (void)0
#define TR_READS(p, bytes) (void)0
#define TR_WRITES(p, bytes) (void)0
#define TR_NEVER(condition) ((condition) ? __trap() : (void)0)
#define TR_PRAGMA(x) _Pragma(#x)
#define TR_UNROLL_BY(n) TR_PRAGMA(unroll n)
#else
#define TR_LAUNCH(q, kernel, grid, block, shared_bytes, ...)                                \
    emulate::launch(                                                                        \
        tr_cuda_stream(q), emulate::kernel_of<(kernel)>(), (grid), (block), (shared_bytes), \
        [](auto... arguments) { kernel(arguments...); }, __VA_ARGS__)
#define TR_SHARED(T, name, extent) \
    static T name extent;          \
    static emulate::shared_note name##_note(name, sizeof name)
#define TR_DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(emulate::dynamic_shared())
#define TR_INLINE inline
#define TR_ALIGNED(p, bytes) emulate::must_be_aligned((p), (bytes))
#define TR_READS(p, bytes) emulate::reads((p), (bytes))
#define TR_WRITES(p, bytes) emulate::writes((p), (bytes))
#define TR_UNROLL
#define TR_NEVER(condition) TR_ASSERT(!(condition))
#define TR_UNROLL_BY(n)
#endif

/* __CUDA_ARCH__, which a test may set otherwise: tests/cuda/t_resources.sh compiles what sm_70 runs with
   a compiler that no longer knows it. */
#if defined(__CUDA_ARCH__) && !defined(TR_ARCH)
#define TR_ARCH __CUDA_ARCH__
#endif

enum { WARP = 32 };
static const unsigned ALL_LANES = 0xffffffffU;

/* ---- element types ---- */

struct f16 {
    uint16_t bits;
};

struct bf16 {
    uint16_t bits;
};

TR_INLINE float bits_to_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

TR_INLINE uint32_t float_to_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

TR_INLINE float widen(float x)
{
    return x;
}

TR_INLINE float widen(bf16 x)
{
    return bits_to_float((uint32_t)x.bits << 16);
}

TR_INLINE float widen(f16 x)
{
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(x.bits));
#else
    return tr_f16_to_float(x.bits);
#endif
}

/* Rounded to nearest even. */
template <class T> TR_INLINE T narrow(float x);

template <> TR_INLINE float narrow<float>(float x)
{
    return x;
}

template <> TR_INLINE f16 narrow<f16>(float x)
{
#ifdef __CUDACC__
    return f16{__half_as_ushort(__float2half_rn(x))};
#else
    return f16{tr_f16_from_float(x)};
#endif
}

template <> TR_INLINE bf16 narrow<bf16>(float x)
{
#ifdef __CUDACC__
    return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    return bf16{tr_bf16_from_float(x)};
#endif
}

/* N elements that lie on a boundary of their size, moved at once. */
template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T x[N];
};

template <int N, class T> TR_UNWATCHED TR_INLINE pack<T, N> load(const T *from)
{
    TR_ALIGNED(from, sizeof(pack<T, N>));
    TR_READS(from, sizeof(pack<T, N>));
    return *reinterpret_cast<const pack<T, N> *>(from);
}

template <int N, class T> TR_UNWATCHED TR_INLINE void store(T *to, const pack<T, N> &x)
{
    TR_ALIGNED(to, sizeof x);
    TR_WRITES(to, sizeof x);
    *reinterpret_cast<pack<T, N> *>(to) = x;
}

/* Elements that make 16 bytes. */
template <class T> struct wide {
    static const int N = 16 / (int)sizeof(T);
};

static inline bool on_16_bytes(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* ---- from a tensor to a type ---- */

/* f(x) with an x of the type: with_float(t->dtype, [&](auto x) { using T = decltype(x); ... }). */
template <class F> void with_float(enum tr_dtype type, F f)
{
    switch (type) {
    case TR_F16:
        f(f16());
        break;
    case TR_BF16:
        f(bf16());
        break;
    default:
        TR_ASSERT(type == TR_F32);
        f(float());
    }
}

template <class T> T *elements(const struct tr_tensor *t)
{
    return t ? static_cast<T *>(t->data) : nullptr;
}

/* ---- operands inside a kernel ---- */

/*
 * Operands as accessors, so that a kernel template is written once: element i, or the N elements from i on,
 * as floats.  N elements of typed<T> lie on a boundary of their size, or of 16 bytes where they are more,
 * and are moved 16 bytes at a time.  mixed has its type at run time and any boundary: for mixtures of
 * types that no model has and for what is not aligned.  absent is no operand.
 */
template <class T> struct typed {
    T *data;

    TR_INLINE float get(int64_t i) const { return widen(data[i]); }
    TR_INLINE void set(int64_t i, float x) const { data[i] = narrow<T>(x); }
    /* What set() followed by get() makes of x. */
    TR_INLINE float rounded(float x) const { return widen(narrow<T>(x)); }
    TR_INLINE bool here() const { return data != nullptr; }

    template <int N> TR_INLINE void get(int64_t i, float (&x)[N]) const
    {
        const int P = N < wide<T>::N ? N : wide<T>::N;

        TR_UNROLL
        for (int j = 0; j < N; j += P) {
            const pack<T, P> p = load<P>(data + i + j);

            TR_UNROLL
            for (int k = 0; k < P; k++)
                x[j + k] = widen(p.x[k]);
        }
    }
    template <int N> TR_INLINE void set(int64_t i, const float (&x)[N]) const
    {
        const int P = N < wide<T>::N ? N : wide<T>::N;

        TR_UNROLL
        for (int j = 0; j < N; j += P) {
            pack<T, P> p;

            TR_UNROLL
            for (int k = 0; k < P; k++)
                p.x[k] = narrow<T>(x[j + k]);
            store<P>(data + i + j, p);
        }
    }
};

struct mixed {
    void *data;
    int type;

    TR_INLINE float get(int64_t i) const
    {
        return type == TR_F32   ? static_cast<const float *>(data)[i]
               : type == TR_F16 ? widen(static_cast<const f16 *>(data)[i])
                                : widen(static_cast<const bf16 *>(data)[i]);
    }
    TR_INLINE void set(int64_t i, float x) const
    {
        if (type == TR_F32)
            static_cast<float *>(data)[i] = x;
        else if (type == TR_F16)
            static_cast<f16 *>(data)[i] = narrow<f16>(x);
        else
            static_cast<bf16 *>(data)[i] = narrow<bf16>(x);
    }
    TR_INLINE float rounded(float x) const
    {
        return type == TR_F32 ? x : type == TR_F16 ? widen(narrow<f16>(x)) : widen(narrow<bf16>(x));
    }
    TR_INLINE bool here() const { return data != nullptr; }

    template <int N> TR_INLINE void get(int64_t i, float (&x)[N]) const
    {
        for (int k = 0; k < N; k++)
            x[k] = get(i + k);
    }
    template <int N> TR_INLINE void set(int64_t i, const float (&x)[N]) const
    {
        for (int k = 0; k < N; k++)
            set(i + k, x[k]);
    }
};

struct absent {
    TR_INLINE float get(int64_t) const { return 0.0f; }
    TR_INLINE void set(int64_t, float) const {}
    TR_INLINE bool here() const { return false; }
    template <int N> TR_INLINE void get(int64_t, float (&x)[N]) const
    {
        for (int k = 0; k < N; k++)
            x[k] = 0.0f;
    }
    template <int N> TR_INLINE void set(int64_t, const float (&)[N]) const {}
};

static inline mixed mixed_of(const struct tr_tensor *t)
{
    return t ? mixed{t->data, (int)t->dtype} : mixed{nullptr, 0};
}

template <class T> typed<T> typed_of(const struct tr_tensor *t)
{
    return typed<T>{elements<T>(t)};
}

/* Elements of A and B that are moved at once: 16 bytes of the wider. */
template <class A, class B> struct both {
    static const int N = wide<A>::N < wide<B>::N ? wide<A>::N : wide<B>::N;
};

static inline bool same_type(const struct tr_tensor *a, const struct tr_tensor *b)
{
    return a->dtype == b->dtype;
}

/* Whether all rows of h elements begin on 16 bytes, in each of the operands that are there, and consist of
   groups of 8: what typed<T> needs. */
template <class... T> bool lie_well(int64_t h, const T *...operands)
{
    return h % 8 == 0 && ((!operands || on_16_bytes(operands->data)) && ...);
}

/*
 * f(r, a), where r and a are zeros of the types, if a model has such a pair: a residual stream beside
 * activations or, which is the same, a sum of gradients beside them.  False otherwise.
 */
template <class F> bool with_pair(enum tr_dtype residual, enum tr_dtype activation, F f)
{
    if (residual == activation)
        with_float(residual, [&](auto r) { f(r, r); });
    else if (residual == TR_F32)
        with_float(activation, [&](auto a) { f(float(), a); });
    else
        return false;
    return true;
}

/* ---- functions ---- */

/* e^x within 2 units in the last place of 2^(x / log 2) near 0, a few more for large x: the special
   function unit on a GPU. */
TR_INLINE float exp_quick(float x)
{
#ifdef __CUDACC__
    return __expf(x);
#else
    return expf(x);
#endif
}

/* ---- sums and maxima ---- */

struct add_up {
    template <class T> TR_INLINE T operator()(T a, T b) const { return a + b; }
};

/* NaN wins, as it does in a comparison that asks for "not smaller". */
struct take_larger {
    TR_INLINE float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/* The x of the lane whose number differs in the bits of `other`. */
template <class T> TR_INLINE T from_lane(T x, int other)
{
    return __shfl_xor_sync(ALL_LANES, x, other);
}

/* Of the 32 lanes, the same on all of them.  A struct T comes with a from_lane() of its own. */
template <class T, class Op> TR_INLINE T over_warp(T x, Op op)
{
    for (int other = WARP / 2; other > 0; other /= 2)
        x = op(x, from_lane(x, other));
    return x;
}

/*
 * Of the blockDim.x threads, whole warps, that share a threadIdx.y: of the whole block where that is all.
 * With one warp there is no barrier of the block.  `room` is shared memory for WARP numbers per
 * threadIdx.y, not used again before the next barrier after this.
 */
template <class T, class Op> TR_INLINE T over_row(T x, Op op, T *room)
{
    const int warps = (int)blockDim.x / WARP, first = (int)threadIdx.y * WARP;

    x = over_warp(x, op);
    if (warps == 1)
        return x;
    if (threadIdx.x % WARP == 0)
        room[first + (int)threadIdx.x / WARP] = x;
    __syncthreads();
    x = room[first];
    for (int i = 1; i < warps; i++)
        x = op(x, room[first + i]);
    return x;
}

/* Blocks of `per_block` that cover n, at most `most`; kernels go on with strides of the grid. */
static inline unsigned blocks_for(int64_t n, int64_t per_block, int64_t most)
{
    int64_t blocks = (n + per_block - 1) / per_block;

    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

#endif
