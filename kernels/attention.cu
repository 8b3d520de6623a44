/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_mma.cuh"

/* The entry points: sizes, scratch, and which kernels. */

size_t tr_cuda_attention_scratch = TR_CUDA_SCRATCH_BYTES;

static attention_more shape_of(const struct tr_attention_sizes &s, const struct tr_tensor *from,
                               struct tr_attention_how how, const struct tr_dropout *drop)
{
    attention_more a = {};

    a.t = s.t;
    a.heads = s.heads;
    a.d = s.d;
    a.pairs = s.b * s.heads;
    a.n = a.pairs;
    a.row = (s.heads + 2 * s.groups) * s.d;
    a.sharing = (int)(s.heads / s.groups);
    a.window = how.window < s.t ? (int)how.window : 0;
    a.slopes = elements<float>(how.slopes);
    a.first_head = how.first_head;
    a.scale = how.scale;
    a.from = elements<int32_t>(from);
    a.drop = dropping_of(drop);
    return a;
}

extern "C" bool tr_cuda_attention_own(struct tr_queue *q, const struct tr_tensor *ctx,
                                      const struct tr_tensor *lse, const struct tr_tensor *qkv,
                                      const struct tr_tensor *from, struct tr_attention_how how,
                                      struct tr_dropout drop)
{
    const struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    const attention_more a = shape_of(s, from, how, &drop);

    if (attention_mma(q, ctx, tr_f32(lse), qkv, a))
        return true;
    attention_plain(q, ctx, tr_f32(lse), qkv, a);
    return false;
}

template <class T> static bool are_tiles_of(const attention_gradients &g)
{
    return is_tile_of<T>(g.dqkv) && is_tile_of<T>(g.dctx) && is_tile_of<T>(g.ctx) &&
           is_tile_of<T>(g.qkv);
}

bool attention_mma_bwd(struct tr_queue *q, const attention_gradients &g, const attention_more &a)
{
    const bool f16s = are_tiles_of<f16>(g), bf16s = are_tiles_of<bf16>(g);
    bool made = false;

    if (f16s || bf16s)
        with_plain_width<true>(a.d, [&](auto width) {
            made = attention_mma_bwd_of<decltype(width)::value>(q, g, a, bf16s);
        });
    return made;
}

/* As many groups at a time as have room for the deltas of their pairs. */
extern "C" bool tr_cuda_attention_own_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                          const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                                          const struct tr_tensor *lse, const struct tr_tensor *qkv,
                                          const struct tr_tensor *from, struct tr_attention_how how,
                                          struct tr_dropout drop)
{
    const struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    attention_more a = shape_of(s, from, how, &drop);
    const int64_t most =
        (int64_t)(tr_cuda_attention_scratch / sizeof(float)) / s.t / a.sharing * a.sharing;
    attention_gradients g = {dqkv, dctx, ctx, qkv, tr_f32(lse), nullptr};
    bool tiles = true;

    tr_sizes_attention(dctx, lse, dqkv, from, how, &drop);
    TR_ASSERT(most > 0);
    for (; a.first < a.pairs; a.first += a.n) {
        a.n = min(most, a.pairs - a.first);
        g.delta = static_cast<float *>(tr_cuda_scratch(q, (size_t)(a.n * s.t) * sizeof(float)));
        tiles = attention_mma_bwd(q, g, a);
        if (!tiles)
            attention_plain_bwd(q, g, a);
    }
    return tiles;
}
