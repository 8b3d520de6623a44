/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.cuh"

/*
 * The k largest, and what a mask says of a tensor.  A number without its sign compares as the whole number
 * that its bits are; the smallest of the k largest is found digit by digit, the highest first, by counting
 * how often each value of a digit occurs.  Whatever follows the order of elements is done in chunks: a
 * block counts in its chunk, one block sums up what comes before each, and a block writes its chunk; a
 * thread has the eight elements of one byte of the mask.
 */
namespace
{

enum { THREADS = 256, EIGHT = 8, CHUNK = THREADS * EIGHT, DIGIT = 11, VALUES = 1 << DIGIT };
enum { COUNTING = 1024 }; /* most blocks that count digits */

/* What is known of the number that is looked for, and how many of those that begin like it are among the
   k largest. */
struct found {
    unsigned number;
    int64_t left;
};

/* Of scratch. */
struct room {
    found *state;
    unsigned long long *count; /* of each value of a digit */
    unsigned *before;          /* of each chunk: of what it has, or what comes before it */
};

int64_t chunks_of(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

room room_for(struct tr_queue *q, int64_t n)
{
    const size_t head = 256 + VALUES * sizeof(unsigned long long);
    unsigned char *all = static_cast<unsigned char *>(
        tr_cuda_scratch(q, head + (size_t)chunks_of(n) * sizeof(unsigned)));
    room r;

    /* Places in a mask are counted in 32 bits. */
    TR_ASSERT(n <= UINT32_MAX);
    r.state = reinterpret_cast<found *>(all);
    r.count = reinterpret_cast<unsigned long long *>(all + 256);
    r.before = reinterpret_cast<unsigned *>(all + head);
    return r;
}

/* ---- sums over a block ---- */

/* What the threads before this one in its block have, together; `total` is what all have. */
TR_INLINE unsigned before_me(unsigned mine, unsigned *total, unsigned *of_warp)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    unsigned sum = mine, before = 0, all = 0;

    for (unsigned step = 1; step < WARP; step *= 2) {
        const unsigned other = __shfl_up_sync(ALL_LANES, sum, step);

        sum += lane >= (int)step ? other : 0;
    }
    if (lane == WARP - 1)
        of_warp[warp] = sum;
    __syncthreads();
    for (int w = 0; w < THREADS / WARP; w++) {
        before += w < warp ? of_warp[w] : 0;
        all += of_warp[w];
    }
    *total = all;
    return before + sum - mine;
}

/* before[i] = the sum of those before it; together they are `want`, unless that is below 0. */
__global__ void scan_kernel(unsigned *before, int64_t chunks, int64_t want)
{
    /* Two, so that one turn may begin while the one before it is read. */
    TR_SHARED(unsigned, of_warp, [2][WARP]);
    unsigned carry = 0;

    for (int64_t first = 0; first < chunks; first += THREADS) {
        const int64_t i = first + threadIdx.x;
        unsigned total;
        const unsigned mine = i < chunks ? before[i] : 0;
        const unsigned sum = before_me(mine, &total, of_warp[first / THREADS % 2]);

        if (i < chunks)
            before[i] = carry + sum;
        carry += total;
    }
    TR_NEVER(want >= 0 && carry != want);
}

/* ---- digits ---- */

TR_INLINE unsigned key_of(uint32_t bits)
{
    return bits & 0x7fffffffU;
}

TR_INLINE unsigned key_of(uint16_t bits)
{
    return bits & 0x7fffU;
}

__global__ void begin_kernel(room r, int64_t k)
{
    for (int i = (int)threadIdx.x; i < VALUES; i += THREADS)
        r.count[i] = 0;
    if (threadIdx.x == 0)
        *r.state = found{0, k};
}

/* The digit of `bits` bits above `shift` of what begins like the number that is known. */
template <class U> __global__ void count_kernel(room r, const U *x, int64_t n, int shift, int bits)
{
    const int known = shift + bits;
    const unsigned want = r.state->number >> known, values = 1U << bits;
    TR_SHARED(unsigned, count, [VALUES]);

    for (unsigned i = threadIdx.x; i < values; i += THREADS)
        count[i] = 0;
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const unsigned key = key_of(x[i]);

        if (key >> known == want)
            atomicAdd(&count[key >> shift & (values - 1)], 1U);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < values; i += THREADS)
        if (count[i] > 0)
            atomicAdd(&r.count[i], (unsigned long long)count[i]);
}

/* The digit that `left` of the numbers reach; the counters are cleared for the next. */
__global__ void choose_kernel(room r, int shift)
{
    enum { EACH = VALUES / THREADS };
    TR_SHARED(unsigned long long, sum, [THREADS]);
    const int first = (int)threadIdx.x * EACH;
    unsigned long long mine = 0;

    for (int i = first; i < first + EACH; i++)
        mine += r.count[i];
    sum[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned long long left = (unsigned long long)r.state->left;
        int t = THREADS - 1, digit;

        for (; sum[t] < left; t--)
            left -= sum[t];
        for (digit = t * EACH + EACH - 1; digit > t * EACH && r.count[digit] < left; digit--)
            left -= r.count[digit];
        r.state->number |= (unsigned)digit << shift;
        r.state->left = (int64_t)left;
    }
    __syncthreads();
    for (int i = first; i < first + EACH; i++)
        r.count[i] = 0;
}

/* ---- the mask ---- */

/* Of the eight elements from i on, those above the number and those equal to it; the first is bit 7. */
template <class U>
TR_INLINE void compare(const U *x, int64_t i, int64_t n, unsigned number, unsigned *above,
                       unsigned *equal)
{
    *above = *equal = 0;
    for (int u = 0; u < EIGHT && i + u < n; u++) {
        const unsigned key = key_of(x[i + u]);

        *above |= key > number ? 128U >> u : 0;
        *equal |= key == number ? 128U >> u : 0;
    }
}

template <class U> __global__ void count_equal_kernel(room r, const U *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * CHUNK + (int64_t)threadIdx.x * EIGHT;
    TR_SHARED(unsigned, of_warp, [WARP]);
    unsigned above, equal, sum;

    compare(x, i, n, r.state->number, &above, &equal);
    sum = over_row((unsigned)__popc(equal), add_up(), of_warp);
    if (threadIdx.x == 0)
        r.before[blockIdx.x] = sum;
}

template <class U> __global__ void mask_kernel(unsigned char *mask, room r, const U *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * CHUNK + (int64_t)threadIdx.x * EIGHT;
    TR_SHARED(unsigned, of_warp, [WARP]);
    unsigned above, equal, total;

    compare(x, i, n, r.state->number, &above, &equal);
    int64_t spare =
        r.state->left - r.before[blockIdx.x] - before_me((unsigned)__popc(equal), &total, of_warp);

    for (unsigned bit = 128; bit > 0; bit /= 2)
        if (equal & bit && spare-- > 0)
            above |= bit;
    if (i < n)
        mask[i / EIGHT] = (unsigned char)above;
}

template <class U>
void find(struct tr_queue *q, const room &r, unsigned char *mask, const U *x, int64_t n, int64_t k)
{
    const unsigned chunks = (unsigned)chunks_of(n), blocks = blocks_for(n, CHUNK, COUNTING);

    TR_LAUNCH(q, begin_kernel, 1, THREADS, 0, r, k);
    for (int shift = 8 * (int)sizeof(U) - 1; shift > 0;) {
        const int bits = shift < DIGIT ? shift : DIGIT;

        shift -= bits;
        TR_LAUNCH(q, (count_kernel<U>), blocks, THREADS, 0, r, x, n, shift, bits);
        TR_LAUNCH(q, choose_kernel, 1, THREADS, 0, r, shift);
    }
    TR_LAUNCH(q, (count_equal_kernel<U>), chunks, THREADS, 0, r, x, n);
    TR_LAUNCH(q, scan_kernel, 1, THREADS, 0, r.before, (int64_t)chunks, (int64_t)-1);
    TR_LAUNCH(q, (mask_kernel<U>), chunks, THREADS, 0, mask, r, x, n);
}

} // namespace

extern "C" void tr_cuda_topk_mask(struct tr_queue *q, const struct tr_tensor *mask,
                                  const struct tr_tensor *x, int64_t k)
{
    const int64_t n = tr_sizes_mask(x, mask, NULL, &k);
    const room r = room_for(q, n);
    unsigned char *to = elements<unsigned char>(mask);

    if (x->dtype == TR_F32)
        find(q, r, to, elements<const uint32_t>(x), n, k);
    else
        find(q, r, to, elements<const uint16_t>(x), n, k);
}

namespace
{

/* ---- what a mask says ---- */

/* The byte of this thread, without bits beyond n. */
TR_INLINE unsigned byte_of(const unsigned char *mask, int64_t i, int64_t n)
{
    return i >= n ? 0 : n - i < EIGHT ? mask[i / EIGHT] & 0xff00U >> (n - i) : mask[i / EIGHT];
}

__global__ void count_bits_kernel(unsigned *before, const unsigned char *mask, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * CHUNK + (int64_t)threadIdx.x * EIGHT;
    TR_SHARED(unsigned, of_warp, [WARP]);
    unsigned sum = over_row((unsigned)__popc(byte_of(mask, i, n)), add_up(), of_warp);

    if (threadIdx.x == 0)
        before[blockIdx.x] = sum;
}

/* With ADD, of[element] += factor * list[place], else list[place] = of[element]. */
template <bool ADD>
__global__ void masked_kernel(mixed list, mixed of, const unsigned char *mask,
                              const unsigned *before, int64_t n, float factor)
{
    const int64_t i = (int64_t)blockIdx.x * CHUNK + (int64_t)threadIdx.x * EIGHT;
    TR_SHARED(unsigned, of_warp, [WARP]);
    const unsigned byte = byte_of(mask, i, n);
    unsigned total;
    int64_t place =
        (int64_t)before[blockIdx.x] + before_me((unsigned)__popc(byte), &total, of_warp);

    for (int u = 0; u < EIGHT; u++) {
        if (!(byte & 128U >> u))
            continue;
        if (ADD)
            of.set(i + u, of.get(i + u) + factor * list.get(place));
        else
            list.set(place, of.get(i + u));
        place++;
    }
}

template <bool ADD>
void masked(struct tr_queue *q, const struct tr_tensor *list, const struct tr_tensor *of,
            const struct tr_tensor *mask, float factor)
{
    int64_t k, n = tr_sizes_mask(of, mask, list, &k);
    const room r = room_for(q, n);
    const unsigned char *bits = elements<const unsigned char>(mask);
    const unsigned chunks = (unsigned)chunks_of(n);

    TR_LAUNCH(q, count_bits_kernel, chunks, THREADS, 0, r.before, bits, n);
    TR_LAUNCH(q, scan_kernel, 1, THREADS, 0, r.before, (int64_t)chunks, k);
    TR_LAUNCH(q, (masked_kernel<ADD>), chunks, THREADS, 0, mixed_of(list), mixed_of(of), bits,
              static_cast<const unsigned *>(r.before), n, factor);
}

} // namespace

extern "C" void tr_cuda_mask_take(struct tr_queue *q, const struct tr_tensor *y,
                                  const struct tr_tensor *x, const struct tr_tensor *mask)
{
    masked<false>(q, y, x, mask, 1.0f);
}

extern "C" void tr_cuda_mask_add(struct tr_queue *q, const struct tr_tensor *y,
                                 const struct tr_tensor *v, const struct tr_tensor *mask,
                                 float factor)
{
    masked<true>(q, v, y, mask, factor);
}
