/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_MMA_CUH
#define TR_KERNELS_MMA_CUH

#include "common.cuh"

#ifndef __CUDACC__
#include <vector>
#endif

/*
 * Products on tensor cores, and copies to shared memory that go on while a thread computes.
 *
 * Two classes have the same members, so that a kernel is a template over them:
 *   mma_turing<T>  mma.m16n8k16, for f16 and bf16 from sm_80 on; on sm_75 two mma.m16n8k8, f16 only
 *   mma_volta      mma.m8n8k4 of sm_70, f16: four groups of 8 threads, each with 8 rows by 8 columns
 *
 * A product is of a left operand of 16 x 16 (ROWS x 16) and a right one of 16 x 16, and is added to two
 * accumulators of 16 x 8: columns 0..7 and 8..15.  A thread has EACH numbers of an accumulator;
 * number i is in its row i / 2 % 2, which is row(i / 2 % 2) of the matrix, and in column(i); i and
 * i + 1 are neighbours where i is even.
 *
 * Which thread has which element is told by the PTX ISA, "Matrix fragments for mma.m16n8k16 with
 * floating point type", ".. mma.m8n8k4 with .f16 floating point type", and "ldmatrix".  Emulated,
 * lanes bring what these tables say that they hold, so a test shows that operands are where they
 * belong.
 */

TR_INLINE int lane_of_thread()
{
    return (int)threadIdx.x % WARP;
}

/* 2^x, within 2 units in the last place: the special function unit on a GPU. */
TR_INLINE float exp2_quick(float x)
{
#ifdef __CUDACC__
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

template <class T> struct is_bf16 {
    static const bool value = false;
};

template <> struct is_bf16<bf16> {
    static const bool value = true;
};

/* Two neighbours, the first in the lower half. */
template <class T> TR_INLINE uint32_t two_halves(float first, float second)
{
    return (uint32_t)narrow<T>(first).bits | (uint32_t)narrow<T>(second).bits << 16;
}

#ifdef __CUDACC__
template <> TR_INLINE uint32_t two_halves<f16>(float first, float second)
{
    const __half2 x = __floats2half2_rn(first, second);
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <> TR_INLINE uint32_t two_halves<bf16>(float first, float second)
{
    const __nv_bfloat162 x = __floats2bfloat162_rn(first, second);
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}
#endif

/* ---- shared memory ---- */

/* A launch of `kernel` may ask for this much dynamic shared memory; more than 48 KiB must be
   allowed beforehand. */
template <class K> static void allow_shared(struct tr_queue *q, K *kernel, size_t bytes)
{
    tr_cuda_allow_shared(q, reinterpret_cast<const void *>(kernel), bytes);
}

#ifdef __CUDACC__
TR_INLINE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
#else
/* What threads have asked for and not yet waited for.  Half of all copies are made at once, the
   others when they are waited for: who reads too early, or overwrites too early, gets it wrong; where
   kernels are watched, he is stopped. */
namespace emulate
{

struct pending_copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;
    unsigned batch;
    bool made;
};

struct thread_copies {
    std::vector<pending_copy> pending;
    unsigned batches = 0;
};

inline thread_copies copies[1024];

TR_UNWATCHED inline void make_copy(const pending_copy &c)
{
    if (c.from)
        memcpy(c.to, c.from, c.bytes);
    else
        memset(c.to, 0, c.bytes);
}

inline bool is_quick()
{
    static uint32_t state = 1;

    state = state * 1664525U + 1013904223U;
    return state >> 31;
}

} // namespace emulate
#endif

/*
 * Begin to copy BYTES, which are 4 or 16 and aligned to that, from global memory to shared memory,
 * or put zeros there.  end_batch() ends a batch of copies, wait_for_batches<N>() waits until at
 * most the N latest batches of this thread are under way; a barrier makes them visible to others.
 */
template <int BYTES> TR_INLINE void copy_async(void *to, const void *from, bool zeros)
{
#if !defined(__CUDACC__)
    emulate::thread_copies &mine = emulate::copies[threadIdx.x];
    const emulate::pending_copy c = {to, zeros ? nullptr : from, BYTES, mine.batches,
                                     emulate::is_quick()};

    if (c.made)
        make_copy(c);
    emulate::copy_begins(to, BYTES);
    mine.pending.push_back(c);
#elif TR_ARCH >= 800
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(zeros ? 0 : 16)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(zeros ? 0 : 4)
                     : "memory");
#else
    typedef pack<uint32_t, BYTES / 4> words;
    words x = {};

    if (!zeros)
        x = *static_cast<const words *>(from);
    *static_cast<words *>(to) = x;
#endif
}

TR_INLINE void end_batch()
{
#if !defined(__CUDACC__)
    emulate::copies[threadIdx.x].batches++;
#elif TR_ARCH >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N> TR_INLINE void wait_for_batches()
{
#if !defined(__CUDACC__)
    emulate::thread_copies &mine = emulate::copies[threadIdx.x];
    std::vector<emulate::pending_copy> later;

    for (const emulate::pending_copy &c : mine.pending)
        if (c.batch + N < mine.batches) {
            if (!c.made)
                make_copy(c);
            emulate::copy_ends(c.to, c.bytes);
        } else {
            later.push_back(c);
        }
    mine.pending.swap(later);
#elif TR_ARCH >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* ---- ldmatrix ---- */

/*
 * Four matrices of 8 x 8 halves from shared memory: lane 8 m + r brings the address of row r of
 * matrix m, on 16 bytes.  Word m of lane 4 g + t becomes elements (g, 2 t) and (g, 2 t + 1) of
 * matrix m, or, turned, (2 t, g) and (2 t + 1, g).
 */
template <bool TURNED> TR_UNWATCHED TR_INLINE void load_matrices(uint32_t (&r)[4], const void *row)
{
#if !defined(__CUDACC__)
    const int g = emulate::lane() / 4, t = emulate::lane() % 4;
    const unsigned char *all =
        emulate::exchange(ALL_LANES, &row, sizeof row, TURNED ? "ldmatrix.trans" : "ldmatrix");

    emulate::reads(row, 16);
    for (int m = 0; m < 4; m++) {
        uint16_t two[2];

        for (int i = 0; i < 2; i++) {
            const int from_row = TURNED ? 2 * t + i : g, column = TURNED ? g : 2 * t + i;
            const uint16_t *p;

            memcpy(&p, all + (8 * m + from_row) * emulate::SLOT_BYTES, sizeof p);
            if ((uintptr_t)p % 16 != 0)
                abort();
            two[i] = p[column];
        }
        r[m] = (uint32_t)two[0] | (uint32_t)two[1] << 16;
    }
#elif TR_ARCH >= 750
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
#endif
}

/* ---- mma ---- */

#ifndef __CUDACC__
namespace emulate
{

/* What a lane brings to a product, as floats. */
struct factors {
    float a[8], b[8];
};

static_assert(sizeof(factors) <= SLOT_BYTES, "one exchange");

template <class T> TR_UNWATCHED void widen_words(float *to, const uint32_t *words, int n)
{
    for (int i = 0; i < 2 * n; i++)
        to[i] = widen(T{(uint16_t)(words[i / 2] >> 16 * (i % 2))});
}

TR_UNWATCHED inline const factors *exchange_factors(const factors &mine, const char *op)
{
    return reinterpret_cast<const factors *>(exchange(ALL_LANES, &mine, sizeof mine, op));
}

} // namespace emulate
#endif

/* c[16,8] += a[16,16] b[16,8] */
template <class T>
TR_UNWATCHED TR_INLINE void mma_16_8_16(float (&c)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2])
{
    static_assert(sizeof(T) == 2, "halves");
#if !defined(__CUDACC__)
    const int lane = emulate::lane();
    emulate::factors mine = {};
    const emulate::factors *all;

    emulate::widen_words<T>(mine.a, a, 4);
    emulate::widen_words<T>(mine.b, b, 2);
    all = emulate::exchange_factors(mine, "mma.m16n8k16");
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;

        for (int k = 0; k < 16; k++)
            c[i] += all[row % 8 * 4 + k % 8 / 2].a[row / 8 * 2 + k / 8 * 4 + k % 2] *
                    all[column * 4 + k % 8 / 2].b[k / 8 * 2 + k % 2];
    }
#elif TR_ARCH >= 800
    if constexpr (is_bf16<T>::value)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif TR_ARCH >= 750
    /* The first 8 columns of a are in its words 0 and 1, the first 8 rows of b in its word 0. */
    TR_UNROLL
    for (int half = 0; half < 2; half++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, "
                     "{%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

/*
 * Four products at once, one of each group of threads 4 q .. 4 q + 3 and 16 + 4 q .. 16 + 4 q + 3:
 * [8,8] += a[8,4] b[4,8], columns 0..3 into c0 and 4..7 into c1.  A lane brings a row of a, and a column
 * of b, or, turned, half a row of b.
 */
template <bool TURNED>
TR_UNWATCHED TR_INLINE void mma_8_8_4(float (&c0)[4], float (&c1)[4], uint32_t a0, uint32_t a1,
                                      uint32_t b0, uint32_t b1)
{
#if !defined(__CUDACC__)
    const int lane = emulate::lane(), group = lane % 16 / 4 * 4;
    const uint32_t a[2] = {a0, a1}, b[2] = {b0, b1};
    emulate::factors mine = {};
    const emulate::factors *all;

    emulate::widen_words<f16>(mine.a, a, 2);
    emulate::widen_words<f16>(mine.b, b, 2);
    all = emulate::exchange_factors(mine, TURNED ? "mma.m8n8k4.row.row" : "mma.m8n8k4.row.col");
    for (int i = 0; i < 8; i++) {
        const int row = lane % 2 + i / 2 % 2 * 2 + lane / 16 * 4;
        const int column = i % 2 + lane % 4 / 2 * 2 + i / 4 * 4;
        float *const c = i < 4 ? c0 : c1;

        for (int k = 0; k < 4; k++)
            c[i % 4] += all[group + row % 4 + row / 4 * 16].a[k] *
                        (TURNED ? all[group + k + column / 4 * 16].b[column % 4]
                                : all[group + column % 4 + column / 4 * 16].b[k]);
    }
#elif TR_ARCH < 750
    if (TURNED)
        asm volatile("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, "
                     "%7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                     : "+f"(c0[0]), "+f"(c0[1]), "+f"(c0[2]), "+f"(c0[3]), "+f"(c1[0]), "+f"(c1[1]),
                       "+f"(c1[2]), "+f"(c1[3])
                     : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, "
                     "%7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                     : "+f"(c0[0]), "+f"(c0[1]), "+f"(c0[2]), "+f"(c0[3]), "+f"(c1[0]), "+f"(c1[1]),
                       "+f"(c1[2]), "+f"(c1[3])
                     : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
#endif
}

/* ---- the two classes ---- */

/*
 * The body of a kernel over M is `if constexpr (is_here<M>()) { .. }` after must_be_here<M>(): code for
 * one architecture has the kernels of that alone, which are chosen by what the loaded code was compiled
 * for (tr_cuda_arch()), not by the GPU, which may be newer.  Who chooses wrongly is told, for an empty
 * kernel says nothing and leaves results as they were.
 */
template <class M> TR_INLINE constexpr bool is_here()
{
#ifdef __CUDA_ARCH__
    return M::runs_on(TR_ARCH / 10);
#else
    return true;
#endif
}

template <class M> TR_INLINE void must_be_here()
{
#ifdef __CUDACC__
    TR_NEVER(!is_here<M>());
#else
    if (emulate::code != 0 && !M::runs_on(emulate::code))
        emulate::stop("a kernel has no body in the code that was loaded");
#endif
}

/*
 * Members of both.
 *   runs_on(arch)                    whether code compiled for that architecture has it  Tiles are in shared memory, on 16 bytes, `stride` elements from row to row.
 *   left(x, tile, stride)            x = ROWS rows of 16
 *   left_of(x, c0, c1)               x = two accumulators, rounded; c1 has the right half
 *   right<TURNED>(x, tile, stride)   x[k][n] = element (n, k) of a tile of 16 x 16, or, turned, (k,
 *   n) multiply<TURNED>(c0, c1, l, r)   r was loaded with the same TURNED
 *   over_row(x, op)                  over the lanes that share rows
 *   bits_by_row(four), bits_by_column(four)
 *       Bit i of the result belongs to number i of an accumulator.  four(row, column) gives the
 *       bits of columns column .. column + 3 of a row, or of rows row .. row + 3 of a column, as
 *       dropout draws them; every lane asks for a few of them and all lanes share.
 */
template <class T> struct mma_turing {
    typedef T element;
    enum { ROWS = 16, EACH = 4 };

    __host__ __device__ static constexpr bool runs_on(int arch)
    {
        return arch >= (is_bf16<T>::value ? 80 : 75);
    }

    struct left_operand {
        uint32_t x[4];
    };
    struct right_operand {
        uint32_t x[4];
    };
    struct accumulator {
        float x[EACH];
    };

    TR_INLINE static int row(int which) { return lane_of_thread() / 4 + 8 * which; }
    TR_INLINE static int column(int i) { return lane_of_thread() % 4 * 2 + i % 2; }

    TR_INLINE static void left(left_operand &x, const T *tile, int stride)
    {
        const int m = lane_of_thread() / 8, r = lane_of_thread() % 8;

        load_matrices<false>(x.x, tile + (m % 2 * 8 + r) * stride + m / 2 * 8);
    }

    TR_INLINE static void left_of(left_operand &x, const accumulator &c0, const accumulator &c1)
    {
        x.x[0] = two_halves<T>(c0.x[0], c0.x[1]);
        x.x[1] = two_halves<T>(c0.x[2], c0.x[3]);
        x.x[2] = two_halves<T>(c1.x[0], c1.x[1]);
        x.x[3] = two_halves<T>(c1.x[2], c1.x[3]);
    }

    template <bool TURNED> TR_INLINE static void right(right_operand &x, const T *tile, int stride)
    {
        const int m = lane_of_thread() / 8, r = lane_of_thread() % 8;

        if (TURNED)
            load_matrices<true>(x.x, tile + (m % 2 * 8 + r) * stride + m / 2 * 8);
        else
            load_matrices<false>(x.x, tile + (m / 2 * 8 + r) * stride + m % 2 * 8);
    }

    template <bool TURNED>
    TR_INLINE static void multiply(accumulator &c0, accumulator &c1, const left_operand &l,
                                   const right_operand &r)
    {
        const uint32_t r0[2] = {r.x[0], r.x[1]}, r1[2] = {r.x[2], r.x[3]};

        mma_16_8_16<T>(c0.x, l.x, r0);
        mma_16_8_16<T>(c1.x, l.x, r1);
    }

    template <class Op> TR_INLINE static float over_row(float x, Op op)
    {
        x = op(x, __shfl_xor_sync(ALL_LANES, x, 1));
        return op(x, __shfl_xor_sync(ALL_LANES, x, 2));
    }

    template <class F> TR_INLINE static unsigned bits_by_row(F four)
    {
        const int lane = lane_of_thread(), first = lane / 4 + lane % 4 / 2 * 16;
        const unsigned mine = four(lane % 16, lane / 16 * 4);
        const unsigned upper = __shfl_sync(ALL_LANES, mine, first) >> lane % 2 * 2;
        const unsigned lower = __shfl_sync(ALL_LANES, mine, first + 8) >> lane % 2 * 2;

        return (upper & 3) | (lower & 3) << 2;
    }

    template <class F> TR_INLINE static unsigned bits_by_column(F four)
    {
        const int lane = lane_of_thread();
        const unsigned mine = four(lane / 8 * 4, lane % 8);
        unsigned bits = 0;

        TR_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int r = row(i / 2);

            bits |= (__shfl_sync(ALL_LANES, mine, r / 4 * 8 + column(i)) >> r % 4 & 1) << i;
        }
        return bits;
    }
};

/*
 * Group q of threads has rows 8 (q / 2) .. 8 (q / 2) + 7, of which its lanes from 16 on have the last 4,
 * and the columns 4 (q % 2) .. 4 (q % 2) + 3 of both accumulators: the instruction does not know what its
 * columns mean, so a thread has numbers of both, as many as with mma_turing.
 */
struct mma_volta {
    typedef f16 element;
    enum { ROWS = 16, EACH = 4 };

    __host__ __device__ static constexpr bool runs_on(int arch) { return arch >= 70 && arch < 75; }

    struct left_operand {
        pack<uint32_t, 4> x[2]; /* 16 columns of one row */
    };
    struct right_operand {
        uint32_t x[8]; /* 4 times two words for 4 rows */
    };
    struct accumulator {
        float x[EACH];
    };

    TR_INLINE static int half() { return lane_of_thread() / 16; }
    TR_INLINE static int first_row() { return lane_of_thread() % 16 / 8 * 8 + half() * 4; }
    TR_INLINE static int first_column() { return lane_of_thread() % 8 / 4 * 4; }
    TR_INLINE static int row(int which) { return first_row() + lane_of_thread() % 2 + 2 * which; }
    TR_INLINE static int column(int i)
    {
        return first_column() + lane_of_thread() % 4 / 2 * 2 + i % 2;
    }

    TR_INLINE static void left(left_operand &x, const f16 *tile, int stride)
    {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(
            tile + (first_row() + lane_of_thread() % 4) * stride);

        x.x[0] = load<4>(from);
        x.x[1] = load<4>(from + 4);
    }

    /* A lane has two neighbours of two rows, and two other lanes' neighbours make the rest of its row as
       a left operand.  The lane two places on has the same columns as this one's in the row that this one
       wants, and wants what this one has of the other row; the lane four places on has the other columns. */
    TR_INLINE static void left_of(left_operand &x, const accumulator &c0, const accumulator &c1)
    {
        const bool second = lane_of_thread() & 2, right_columns = first_column() != 0;

        TR_UNROLL
        for (int u = 0; u < 2; u++) {
            const float *c = u ? c1.x : c0.x;
            const uint32_t upper = two_halves<f16>(c[0], c[1]);
            const uint32_t lower = two_halves<f16>(c[2], c[3]);
            const uint32_t got = __shfl_xor_sync(ALL_LANES, second ? upper : lower, 2);
            const uint32_t mine[2] = {second ? got : upper, second ? lower : got};

            TR_UNROLL
            for (int i = 0; i < 2; i++) {
                const uint32_t other = __shfl_xor_sync(ALL_LANES, mine[i], 4);

                x.x[u].x[i] = right_columns ? other : mine[i];
                x.x[u].x[2 + i] = right_columns ? mine[i] : other;
            }
        }
    }

    template <int N> TR_INLINE static void take(uint32_t *to, const pack<uint32_t, N> &from)
    {
        TR_UNROLL
        for (int i = 0; i < N; i++)
            to[i] = from.x[i];
    }

    template <bool TURNED>
    TR_INLINE static void right(right_operand &x, const f16 *tile, int stride)
    {
        const int mine = lane_of_thread() % 4;

        if (TURNED) {
            const f16 *from = tile + mine * stride + first_column() + 8 * half();

            TR_UNROLL
            for (int k = 0; k < 4; k++)
                take(x.x + 2 * k,
                     load<2>(reinterpret_cast<const uint32_t *>(from + 4 * k * stride)));
        } else {
            const f16 *from = tile + (first_column() + mine + 8 * half()) * stride;

            take(x.x, load<4>(reinterpret_cast<const uint32_t *>(from)));
            take(x.x + 4, load<4>(reinterpret_cast<const uint32_t *>(from + 8)));
        }
    }

    template <bool TURNED>
    TR_INLINE static void multiply(accumulator &c0, accumulator &c1, const left_operand &l,
                                   const right_operand &r)
    {
        TR_UNROLL
        for (int k = 0; k < 4; k++) {
            const uint32_t *a = l.x[k / 2].x + k % 2 * 2;

            mma_8_8_4<TURNED>(c0.x, c1.x, a[0], a[1], r.x[2 * k], r.x[2 * k + 1]);
        }
    }

    template <class Op> TR_INLINE static float over_row(float x, Op op)
    {
        x = op(x, __shfl_xor_sync(ALL_LANES, x, 2));
        return op(x, __shfl_xor_sync(ALL_LANES, x, 4));
    }

    template <class F> TR_INLINE static unsigned bits_by_row(F four)
    {
        const int lane = lane_of_thread();
        const unsigned mine = four(first_row() + lane % 4, first_column());
        const unsigned upper = __shfl_sync(ALL_LANES, mine, lane & ~2) >> (lane & 2);
        const unsigned lower = __shfl_sync(ALL_LANES, mine, lane | 2) >> (lane & 2);

        return (upper & 3) | (lower & 3) << 2;
    }

    template <class F> TR_INLINE static unsigned bits_by_column(F four)
    {
        const int lane = lane_of_thread();
        const unsigned mine = four(first_row(), first_column() + lane % 4);
        const unsigned even = __shfl_sync(ALL_LANES, mine, (lane & ~3) | (lane & 2));
        const unsigned odd = __shfl_sync(ALL_LANES, mine, (lane & ~3) | (lane & 2) | 1);
        unsigned bits = 0;

        TR_UNROLL
        for (int i = 0; i < EACH; i++)
            bits |= ((i % 2 ? odd : even) >> (lane % 2 + i / 2 * 2) & 1) << i;
        return bits;
    }
};

#endif
