/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_EMULATE_H
#define TR_KERNELS_EMULATE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>

/*
 * The part of CUDA that kernels use, on a host, so that the tests run the very sources that nvcc
 * compiles.  common.cuh includes this where the compiler is not nvcc.
 *
 * Every thread of a block is a fiber: it runs until it comes to a barrier of its block or its warp,
 * and goes on when all that the barrier waits for are there.  Blocks run one after another.  Shared
 * memory is filled with a pattern that is NaN in all float types before each block, so nothing can be
 * read that this block has not written.
 *
 * Without a seed threads run in order.  With one the order of blocks, warps and lanes is drawn from
 * it, and a warp that was chosen tends to run on, through barriers of the block if these let it:
 * where a barrier is missing one thread reads what another has not written yet or has overwritten
 * already, for most seeds.
 *
 * It ends the process with a sentence when threads wait for one another for ever, when lanes of a warp
 * meet at different instructions, and when a mask names a lane that has left.
 *
 * Not emulated: memory ordering, caches, limits of registers, asynchronous copies, time.
 */

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace emulate
{

/* Largest operand of an exchange between the lanes of a warp. */
enum { LANES = 32, SLOT_BYTES = 64 };

/* Seed of the launches to come; 0: in order. */
void seed(uint64_t value);

/* What the code that runs was compiled for: 70, 75, ...; 0 has the kernels of all architectures. */
extern int code;

/* End the process: a sentence with the block and the kernel's threads. */
[[noreturn]] void stop(const char *what);

/* Barriers passed by all threads so far: a test that emulates something has a number above 0. */
uint64_t barriers();

/* Run `thread` for each thread of each block, now; shared_bytes of dynamic shared memory. */
void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread);

/* Of the running thread. */
extern dim3 thread_index, block_index, block_size, grid_size;
void *dynamic_shared();
/* Name a static shared array: it is filled with the pattern now and before each block. */
struct shared_note {
    shared_note(void *at, size_t bytes);
};

void must_be_aligned(const void *p, size_t bytes);
void block_barrier();
/* All lanes of `mask` meet; `op` is what they do there: the same text for all.  Returns what each
   gave, lane by lane, SLOT_BYTES apart, readable until the caller's next barrier. */
const unsigned char *exchange(unsigned mask, const void *mine, size_t bytes, const char *op);
int lane();

template <class T> T from_lane(unsigned mask, T mine, int source, const char *op)
{
    T value;

    memcpy(&value, exchange(mask, &mine, sizeof mine, op) + (source & 31) * SLOT_BYTES,
           sizeof value);
    return value;
}

} // namespace emulate

/* emulate::seed() and emulate::code for tests in C and for the fake of CUDA's runtime. */
extern "C" void trk_emulate_seed(uint64_t seed);
extern "C" void trk_emulate_code(int arch);

/* What a launch ends in: `work` is to run in the order of `stream`.  A fake of CUDA's runtime defines
   it; without one, work runs at once. */
void trk_emulated_launch(void *stream, std::function<void()> work);

namespace emulate
{

/* As on a GPU, arguments are what they are when the kernel is launched, however late it runs. */
template <class Thread, class... T>
void launch(void *stream, dim3 grid, dim3 block, size_t shared_bytes, Thread thread, T... arguments)
{
    trk_emulated_launch(stream,
                        [=] { run(grid, block, shared_bytes, [=] { thread(arguments...); }); });
}

} // namespace emulate

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define threadIdx emulate::thread_index
#define blockIdx emulate::block_index
#define blockDim emulate::block_size
#define gridDim emulate::grid_size

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline void __syncthreads()
{
    emulate::block_barrier();
}

static inline void __syncwarp(unsigned mask = 0xffffffffU)
{
    char none = 0;

    emulate::exchange(mask, &none, 1, "__syncwarp");
}

template <class T> T __shfl_sync(unsigned mask, T x, int source)
{
    return emulate::from_lane(mask, x, source, "__shfl_sync");
}

template <class T> T __shfl_xor_sync(unsigned mask, T x, int other)
{
    return emulate::from_lane(mask, x, emulate::lane() ^ other, "__shfl_xor_sync");
}

template <class T> T __shfl_up_sync(unsigned mask, T x, unsigned delta)
{
    int source = emulate::lane() - (int)delta;

    return emulate::from_lane(mask, x, source >= 0 ? source : emulate::lane(), "__shfl_up_sync");
}

unsigned __ballot_sync(unsigned mask, int predicate);

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Threads run one at a time, so nothing comes in between. */
template <class T> T atomicAdd(T *to, T x)
{
    const T before = *to;

    *to += x;
    return before;
}

template <class T> T min(T a, T b)
{
    return b < a ? b : a;
}

template <class T> T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
