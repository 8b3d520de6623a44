/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_ATTENTION_CUH
#define TR_KERNELS_ATTENTION_CUH

#include "random.cuh"

extern "C" {
#include "device/cuda/cuda_attention.h"
}

/*
 * What the kernels of attention share: where the numbers of one head of one sample lie, which keys
 * a query sees and which probabilities stay.
 *
 * A pair is one head of one sample, number b * heads + h.  A launch covers pairs first .. first + n
 * - 1 and for each of them some tiles of queries or keys, block by block: block i has pair first +
 * i % n, so that all heads begin with their longest tiles and end with the shortest.  Tiles of keys are those
 * of a group, so first and n are multiples of the heads that share it, and a block takes these one after the other.
 *
 * PLAIN in the kernels stands for as many groups as heads, no window and no slopes: a choice when they are
 * compiled, so that what others need takes no register.
 */
struct attention_shape {
    int64_t t, heads, d;
    int64_t pairs, first, n;
    int first_head;
    float scale;
    const int32_t *from; /* [B*T] or NULL */
    dropping drop;
};

/* And what kernels that are not PLAIN ask, alone: a longer parameter costs the others registers. */
struct attention_more : attention_shape {
    int64_t row;         /* numbers in a row of qkv */
    int sharing;         /* heads that share a key */
    int window;          /* 0: none */
    const float *slopes; /* [heads] or NULL */
};

template <bool PLAIN> struct attention_asked {
    typedef attention_more type;
};

template <> struct attention_asked<true> {
    typedef attention_shape type;
};

template <bool PLAIN> using attention_of = typename attention_asked<PLAIN>::type;

/* The operands of the gradient as the host has them; delta[n,T] is scratch: per query the sum of
   dctx * ctx. */
struct attention_gradients {
    const struct tr_tensor *dqkv, *dctx, *ctx, *qkv;
    const float *lse;
    float *delta;
};

/* In attention_plain.cu and attention_mma.cu.  The latter return false, and have done nothing,
   where operands or the GPU are not for them. */
void attention_plain(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                     const struct tr_tensor *qkv, const attention_more &a);
void attention_plain_bwd(struct tr_queue *q, const attention_gradients &g, const attention_more &a);
bool attention_mma(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                   const struct tr_tensor *qkv, const attention_more &a);
bool attention_mma_bwd(struct tr_queue *q, const attention_gradients &g, const attention_more &a);

static inline bool is_plain(const attention_more &a)
{
    return a.sharing == 1 && a.window == 0 && !a.slopes;
}

/* Inside a kernel: one pair.  Its q begins at element `q` of qkv, its k d elements behind `kv` and v another d, all
   `row` apart per token; its part of ctx at element `ctx`, `width` apart. */
struct one_head {
    int64_t pair, q, kv, row, ctx, width;
    int64_t sample;
    uint64_t draws; /* draw of (query 0, key 0) */
    const int32_t *from;
    float slope; /* what is added to a score per token of distance is minus this */
};

/* Of a kernel that is not PLAIN. */
TR_INLINE const attention_more &more_of(const attention_shape &a)
{
    return static_cast<const attention_more &>(a);
}

template <bool PLAIN> TR_INLINE int sharing_of(const attention_shape &a)
{
    return PLAIN ? 1 : more_of(a).sharing;
}

template <bool PLAIN> TR_INLINE int window_of(const attention_shape &a)
{
    return PLAIN ? 0 : more_of(a).window;
}

template <bool PLAIN> TR_INLINE float slope_of(const attention_shape &a, int64_t head)
{
    return PLAIN || !more_of(a).slopes ? 0.0f : more_of(a).slopes[head];
}

template <bool PLAIN> TR_INLINE one_head head_of(const attention_shape &a, int64_t pair)
{
    const int64_t b = pair / a.heads, h = pair % a.heads;
    one_head x;

    x.pair = pair;
    x.width = a.heads * a.d;
    if (PLAIN) {
        x.row = 3 * x.width;
        x.q = b * a.t * x.row + h * 3 * a.d;
        x.kv = x.q;
    } else {
        const int64_t group = h / sharing_of<PLAIN>(a);

        x.row = more_of(a).row;
        x.q = b * a.t * x.row + (h + 2 * group) * a.d;
        x.kv =
            b * a.t * x.row + (group * (sharing_of<PLAIN>(a) + 2) + sharing_of<PLAIN>(a) - 1) * a.d;
    }
    x.slope = slope_of<PLAIN>(a, h);
    x.ctx = b * a.t * x.width + h * a.d;
    x.sample = a.drop.threshold ? a.drop.sample[b] : 0;
    x.draws = (uint64_t)(a.first_head + h) * (uint64_t)a.t * (uint64_t)a.t;
    x.from = a.from ? a.from + b * a.t : nullptr;
    return x;
}

/* The first head of the group whose keys a block has, of blocks 0 .. n / sharing - 1. */
template <bool PLAIN> TR_INLINE one_head head_of_keys(const attention_shape &a, int64_t block)
{
    return head_of<PLAIN>(
        a, a.first +
               (PLAIN ? block % a.n : block % (a.n / sharing_of<PLAIN>(a)) * sharing_of<PLAIN>(a)));
}

/* Number `i` of the heads that share the keys of `first`. */
template <bool PLAIN>
TR_INLINE one_head head_of_group(const attention_shape &a, const one_head &first, int i)
{
    one_head x = first;

    if (PLAIN)
        return x;
    x.pair += i;
    x.q += i * a.d;
    x.ctx += i * a.d;
    x.draws += (uint64_t)i * (uint64_t)a.t * (uint64_t)a.t;
    x.slope = slope_of<PLAIN>(a, x.pair % a.heads);
    return x;
}

/* The first key that a query sees by a window, where there is one. */
template <bool PLAIN> TR_INLINE int64_t window_begin(const attention_shape &a, int64_t query)
{
    return PLAIN || window_of<PLAIN>(a) == 0 || query < window_of<PLAIN>(a)
               ? 0
               : query - window_of<PLAIN>(a) + 1;
}

template <bool PLAIN>
TR_INLINE int64_t first_key(const attention_shape &a, const one_head &x, int64_t query)
{
    const int64_t from = x.from ? (int64_t)x.from[query] : 0;

    return PLAIN ? from : max(from, window_begin<PLAIN>(a, query));
}

/*
 * The least first key of queries query .. query + count - 1, as far as there are any, or less; all lanes of
 * the warp take part and all get it.
 */
template <bool PLAIN>
TR_INLINE int64_t least_first_key(const attention_shape &a, const one_head &x, int64_t t,
                                  int64_t query, int count)
{
    int least = 0x7fffffff;

    if (!x.from)
        return window_begin<PLAIN>(a, query);
    for (int64_t i = query + (int)threadIdx.x % WARP; i < query + count && i < t; i += WARP)
        least = min(least, (int)x.from[i]);
    for (int other = WARP / 2; other > 0; other /= 2)
        least = min(least, __shfl_xor_sync(ALL_LANES, least, other));
    return PLAIN ? least : max((int64_t)least, window_begin<PLAIN>(a, query));
}

/* Behind the last query that sees a key before `end`. */
template <bool PLAIN> TR_INLINE int64_t end_of_queries(const attention_shape &a, int64_t end)
{
    return PLAIN || window_of<PLAIN>(a) == 0 ? a.t : min(a.t, end + window_of<PLAIN>(a) - 1);
}

/* Bit i: the probability with draw `first` + i stays; i < 4.  With dropout only. */
TR_INLINE unsigned kept_of_four(const dropping &d, int64_t sample, uint64_t first)
{
    const unsigned offset = (unsigned)first & 3;
    uint32_t words[4];
    unsigned kept = 0;

    draw_block(d, sample, first / 4, words);
    TR_UNROLL
    for (int i = 0; i < 4; i++)
        kept |= (unsigned)(words[i] >= d.threshold) << i;
    if (offset == 0)
        return kept;
    kept >>= offset;
    draw_block(d, sample, first / 4 + 1, words);
    TR_UNROLL
    for (int i = 0; i < 4; i++)
        kept |= (unsigned)(words[i] >= d.threshold) << i << (4 - offset);
    return kept & 15;
}

#endif
