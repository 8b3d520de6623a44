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
 * i % n, so that all heads begin with their longest tiles and end with the shortest.
 */
struct attention_shape {
    int64_t t, heads, d;
    int64_t pairs, first, n;
    int first_head;
    float scale;
    const int32_t *from; /* [B*T] or NULL */
    dropping drop;
};

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
                     const struct tr_tensor *qkv, const attention_shape &a);
void attention_plain_bwd(struct tr_queue *q, const attention_gradients &g,
                         const attention_shape &a);
bool attention_mma(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                   const struct tr_tensor *qkv, const attention_shape &a);
bool attention_mma_bwd(struct tr_queue *q, const attention_gradients &g, const attention_shape &a);

/* Inside a kernel: one pair.  Its q, k and v begin at element `qkv` and lie 3 * width apart per
   token, its part of ctx at element `ctx`, `width` apart. */
struct one_head {
    int64_t pair, qkv, ctx, width;
    int64_t sample;
    uint64_t draws; /* draw of (query 0, key 0) */
    const int32_t *from;
};

TR_INLINE one_head head_of(const attention_shape &a, int64_t pair)
{
    const int64_t b = pair / a.heads, h = pair % a.heads;
    one_head x;

    x.pair = pair;
    x.width = a.heads * a.d;
    x.qkv = b * a.t * 3 * x.width + h * 3 * a.d;
    x.ctx = b * a.t * x.width + h * a.d;
    x.sample = a.drop.threshold ? a.drop.sample[b] : 0;
    x.draws = (uint64_t)(a.first_head + h) * (uint64_t)a.t * (uint64_t)a.t;
    x.from = a.from ? a.from + b * a.t : nullptr;
    return x;
}

TR_INLINE int64_t first_key(const one_head &x, int64_t query)
{
    return x.from ? (int64_t)x.from[query] : 0;
}

/*
 * The least first key of queries query .. query + count - 1, as far as there are any; all lanes of
 * the warp take part and all get it.
 */
TR_INLINE int64_t least_first_key(const one_head &x, int64_t t, int64_t query, int count)
{
    int least = 0x7fffffff;

    if (!x.from)
        return 0;
    for (int64_t i = query + (int)threadIdx.x % WARP; i < query + count && i < t; i += WARP)
        least = min(least, (int)x.from[i]);
    for (int other = WARP / 2; other > 0; other /= 2)
        least = min(least, __shfl_xor_sync(ALL_LANES, least, other));
    return least;
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
