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
#include <string>

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
 * meet at different instructions, when a mask names a lane that has left, and when a block asks for more
 * shared memory than the GPU has (trk_emulate_gpu()) or than the kernel was allowed.
 *
 * Kernels compiled with -fsanitize=thread -DTR_WATCHED and linked with tests/cuda/watch.cc instead of the
 * compiler's library are watched: two accesses to shared memory of which one writes, with no barrier
 * between them that both threads pass, end the process, whatever order the threads ran in.
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

/* End the process: a sentence with the kernel, the block and its threads. */
[[noreturn]] void stop(const char *what);

/* What a GPU has, from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability":
   KiB of shared memory, which of_system is taken from for each block, and of a multiprocessor the most
   warps and blocks.  Each multiprocessor has 65,536 registers, dealt out to warps by 256. */
struct gpu {
    int arch;
    int of_block, of_multiprocessor, of_system;
    int warps, blocks;
};

/* The one of that architecture, or the newest before it. */
const gpu &gpu_of(int arch);

/* A kernel as a launch names it: its name as the compiler writes it, inside other text. */
struct kernel {
    const char *name;
    const void *at;
};

template <auto KERNEL> kernel kernel_of()
{
    return kernel{__PRETTY_FUNCTION__, reinterpret_cast<const void *>(KERNEL)};
}

/* The name alone: "forward_kernel<...>". */
std::string name_of(const kernel &k);

/* Called for each launch, if it is not NULL, when the host launches. */
extern void (*on_launch)(const kernel &k, dim3 block, size_t dynamic_shared);

/* cudaFuncAttributeMaxDynamicSharedMemorySize. */
void allow(const void *kernel, size_t bytes);

/* Barriers passed by all threads so far: a test that emulates something has a number above 0. */
uint64_t barriers();

/* Run `thread` for each thread of each block, now; shared_bytes of dynamic shared memory. */
void run(const kernel &k, dim3 grid, dim3 block, size_t shared_bytes,
         const std::function<void()> &thread);

/* Before it is queued: whether a GPU would take it; ends the process if not. */
void check_launch(const kernel &k, dim3 grid, dim3 block, size_t shared_bytes);

/* Of the running thread. */
extern dim3 thread_index, block_index, block_size, grid_size;
void *dynamic_shared();
/* Name a static shared array: it is filled with the pattern now and before each block. */
struct shared_note {
    shared_note(void *at, size_t bytes);
};

/*
 * For tests/cuda/watch.cc.  Where p lies in the shared memory of the running block, in one numbering for
 * the arrays of all kernels; -1 for other memory.  The running thread, or -1
 * outside of kernels; the number of barriers of the block that all threads have passed, which never falls;
 * and of a thread, what it knows of its warp: by lane, how many barriers of the warp, __syncwarp() alone, that lane
 * had passed when this one last heard of it.
 */
long shared_offset(const void *p);
int running_thread();
extern uint32_t epoch;
extern uint32_t known[1024][LANES];
std::string running_kernel();

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

/* emulate::seed() and emulate::code for tests in C and for the fake of CUDA's runtime; the GPU whose limits
   hold, at first 90; and what a block of a GPU may have, in bytes. */
extern "C" void trk_emulate_seed(uint64_t seed);
extern "C" void trk_emulate_code(int arch);
extern "C" void trk_emulate_gpu(int arch);
extern "C" size_t trk_emulated_shared(int arch);

/* emulate::allow(), for the fake of CUDA's runtime. */
extern "C" void trk_emulate_allow(const void *kernel, size_t bytes);

/* What a launch ends in: `work` is to run in the order of `stream`.  A fake of CUDA's runtime defines
   it; without one, work runs at once. */
void trk_emulated_launch(void *stream, std::function<void()> work);

namespace emulate
{

/* As on a GPU, arguments are what they are when the kernel is launched, however late it runs. */
template <class Thread, class... T>
void launch(void *stream, kernel k, dim3 grid, dim3 block, size_t shared_bytes, Thread thread,
            T... arguments)
{
    check_launch(k, grid, block, shared_bytes);
    trk_emulated_launch(stream,
                        [=] { run(k, grid, block, shared_bytes, [=] { thread(arguments...); }); });
}

#ifdef TR_WATCHED
/* What the compiler does not see of accesses to shared memory: of copies that go on meanwhile, until they
   are waited for; of instructions that read for other lanes; and of atomic operations. */
void copy_begins(void *to, size_t bytes);
void copy_ends(void *to, size_t bytes);
void reads(const void *from, size_t bytes);
void writes(const void *to, size_t bytes);
void atomic(const void *at, size_t bytes);
#define TR_UNWATCHED __attribute__((no_sanitize("thread")))
#else
static inline void copy_begins(void *, size_t) {}
static inline void copy_ends(void *, size_t) {}
static inline void reads(const void *, size_t) {}
static inline void writes(const void *, size_t) {}
static inline void atomic(const void *, size_t) {}
#define TR_UNWATCHED
#endif

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

/* Operations that are not fused with others: a call is none that a compiler could fuse. */
static inline __attribute__((noinline)) float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

/* Threads run one at a time, so nothing comes in between. */
template <class T> TR_UNWATCHED T atomicAdd(T *to, T x)
{
    const T before = *to;

    emulate::atomic(to, sizeof *to);
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
