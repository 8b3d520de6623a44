/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_tiles.cuh"

/* Attention without tensor cores: operands of any types, heads of any width, arithmetic in fp32. */

template <class X>
TR_INLINE rows<X> rows_of(X x, int64_t first, int64_t stride, int64_t token,
                          const attention_shape &a)
{
    return rows<X>{x, first, stride, token, a.t, (int)a.d};
}

template <bool PLAIN>
TR_INLINE marks marks_of(const attention_shape &a, const one_head &h, int64_t query, int64_t key)
{
    marks m = {0, 0};

    TR_UNROLL_BY(1)
    for (int i = 0; i < EACH && query + i < a.t; i++) {
        const int64_t from = first_key<PLAIN>(a, h, query + i) - key, to = query + i - key;
        unsigned row = 0;

        for (int j = 0; j < EACH; j++)
            row |= (unsigned)(j >= from && j <= to) << j;
        m.seen |= row << EACH * i;
        if (a.drop.threshold && row)
            row &= kept_of_four(a.drop, h.sample, h.draws + (uint64_t)((query + i) * a.t + key));
        m.kept |= row << EACH * i;
    }
    return m;
}

/* A score as softmax takes it, of tokens `distance` before the query. */
template <bool PLAIN>
TR_INLINE float score_of(const attention_shape &a, const one_head &h, float s, int64_t distance)
{
    return PLAIN ? s * a.scale : s * a.scale - h.slope * (float)distance;
}

/* ---- forward ---- */

template <int CHUNKS, class X, bool PLAIN>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(X ctx, float *lse, X qkv, attention_of<PLAIN> a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const one_head h = head_of<PLAIN>(a, a.first + blockIdx.x % a.n);
    const int64_t query0 = ((a.t - 1) / TILE - blockIdx.x / a.n) * TILE;
    const float kept = a.drop.threshold ? a.drop.kept : 1.0f;
    sums<CHUNKS> sum;
    running of[EACH];

    sum.clear();
    TR_UNROLL
    for (int i = 0; i < EACH; i++)
        of[i] = running{-INFINITY, 0.0f};
    for (int64_t key0 = least_first_key<PLAIN>(a, h, a.t, query0, TILE) / TILE * TILE;
         key0 <= query0; key0 += TILE) {
        float s[EACH][EACH];

        scores(s, rows_of(qkv, h.q, h.row, query0, a), rows_of(qkv, h.kv + a.d, h.row, key0, a),
               room);
        const marks m = marks_of<PLAIN>(a, h, query0 + me.y * EACH, key0 + me.x * EACH);
        TR_UNROLL
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++)
                s[i][j] = m.sees(i, j)
                              ? score_of<PLAIN>(a, h, s[i][j],
                                                query0 - key0 + (me.y - me.x) * EACH + i - j)
                              : -INFINITY;
            sum.scale_row(i, of[i].take(s[i]));
            for (int j = 0; j < EACH; j++)
                s[i][j] = m.keeps(i, j) ? s[i][j] : 0.0f;
            put_weights(weights, i, s[i]);
        }
        gather(sum, weights, rows_of(qkv, h.kv + 2 * a.d, h.row, key0, a), room);
    }
    TR_UNROLL
    for (int i = 0; i < EACH; i++) {
        const int64_t query = query0 + me.y * EACH + i;
        const float total = over_row(of[i].total, add_up());

        put_row(rows_of(ctx, h.ctx, h.width, query0, a), sum, i, kept / total);
        if (me.x == 0 && query < a.t)
            lse[h.pair * a.t + query] = of[i].max + logf(total);
    }
}

/* ---- backward ---- */

/*
 * With p the probability and m what dropout multiplies it by: ds = p (m dctx_i . v_j - delta_i);
 * then dq_i = scale sum_j ds k_j, dk_j = scale sum_i ds q_i and dv_j = sum_i p m dctx_i.  This
 * kernel has dq, and delta for the other one.
 */
template <int CHUNKS, class X, bool PLAIN>
__global__ void __launch_bounds__(THREADS)
    queries_kernel(X dqkv, float *deltas, X dctx, X ctx, const float *lse, X qkv,
                   attention_of<PLAIN> a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const one_head h = head_of<PLAIN>(a, a.first + blockIdx.x % a.n);
    const int64_t query0 = ((a.t - 1) / TILE - blockIdx.x / a.n) * TILE;
    const rows<X> d_rows = rows_of(dctx, h.ctx, h.width, query0, a);
    const rows<X> c_rows = rows_of(ctx, h.ctx, h.width, query0, a);
    const float kept = a.drop.threshold ? a.drop.kept : 1.0f;
    sums<CHUNKS> dq;
    float delta[EACH], logs[EACH];

    TR_UNROLL
    for (int i = 0; i < EACH; i++) {
        const int row = me.y * EACH + i;

        delta[i] = 0.0f;
        for (int d = me.x; d < (int)a.d; d += SIDE)
            delta[i] += d_rows.get(row, d) * c_rows.get(row, d);
        delta[i] = over_row(delta[i], add_up());
        logs[i] = query0 + row < a.t ? lse[h.pair * a.t + query0 + row] : 0.0f;
        if (me.x == 0 && query0 + row < a.t)
            deltas[(h.pair - a.first) * a.t + query0 + row] = delta[i];
    }
    dq.clear();
    for (int64_t key0 = least_first_key<PLAIN>(a, h, a.t, query0, TILE) / TILE * TILE;
         key0 <= query0; key0 += TILE) {
        const rows<X> k_rows = rows_of(qkv, h.kv + a.d, h.row, key0, a);
        float s[EACH][EACH], dp[EACH][EACH];

        scores(s, rows_of(qkv, h.q, h.row, query0, a), k_rows, room);
        scores(dp, d_rows, rows_of(qkv, h.kv + 2 * a.d, h.row, key0, a), room);
        const marks m = marks_of<PLAIN>(a, h, query0 + me.y * EACH, key0 + me.x * EACH);
        TR_UNROLL
        for (int i = 0; i < EACH; i++) {
            for (int j = 0; j < EACH; j++) {
                const float p = exp_quick(
                    score_of<PLAIN>(a, h, s[i][j], query0 - key0 + (me.y - me.x) * EACH + i - j) -
                    logs[i]);

                dp[i][j] = m.keeps(i, j) ? dp[i][j] * kept : 0.0f;
                s[i][j] = m.sees(i, j) ? p * (dp[i][j] - delta[i]) : 0.0f;
            }
            put_weights(weights, i, s[i]);
        }
        gather(dq, weights, k_rows, room);
    }
    TR_UNROLL
    for (int i = 0; i < EACH; i++)
        put_row(rows_of(dqkv, h.q, h.row, query0, a), dq, i, a.scale);
}

/* dk and dv of 64 keys: rows of a tile are keys, columns are queries, head by head of those that share the keys. */
template <int CHUNKS, class X, bool PLAIN>
__global__ void __launch_bounds__(THREADS)
    keys_kernel(X dqkv, const float *deltas, X dctx, const float *lse, X qkv, attention_of<PLAIN> a)
{
    TR_SHARED(float, room, [2 * TILE * STRIDE]);
    TR_SHARED(float, weights, [TILE * WEIGHTS]);
    const place_of_thread me = place();
    const one_head first = head_of_keys<PLAIN>(a, blockIdx.x);
    const int64_t key0 = (int64_t)(blockIdx.x / (PLAIN ? a.n : a.n / sharing_of<PLAIN>(a))) * TILE;
    const int64_t end = end_of_queries<PLAIN>(a, key0 + TILE);
    const float kept = a.drop.threshold ? a.drop.kept : 1.0f;
    sums<CHUNKS> dk, dv;

    dk.clear();
    dv.clear();
    TR_UNROLL_BY(1)
    for (int of = 0; of < (PLAIN ? 1 : sharing_of<PLAIN>(a)); of++)
        for (int64_t query0 = key0; query0 < end; query0 += TILE) {
            const one_head h = head_of_group<PLAIN>(a, first, of);
            const rows<X> q_rows = rows_of(qkv, h.q, h.row, query0, a);
            const rows<X> d_rows = rows_of(dctx, h.ctx, h.width, query0, a);
            float p[EACH][EACH], ds[EACH][EACH];

            if (least_first_key<PLAIN>(a, h, a.t, query0, TILE) >= key0 + TILE)
                continue;
            scores(p, rows_of(qkv, h.kv + a.d, h.row, key0, a), q_rows, room);
            scores(ds, rows_of(qkv, h.kv + 2 * a.d, h.row, key0, a), d_rows, room);
            const marks m = marks_of<PLAIN>(a, h, query0 + me.x * EACH, key0 + me.y * EACH);
            for (int j = 0; j < EACH; j++) {
                const int64_t query = min(query0 + me.x * EACH + j, a.t - 1);
                const float log = lse[h.pair * a.t + query];
                const float delta = deltas[(h.pair - a.first) * a.t + query];

                TR_UNROLL
                for (int i = 0; i < EACH; i++) {
                    const float x =
                        exp_quick(score_of<PLAIN>(a, h, p[i][j],
                                                  query0 - key0 + (me.x - me.y) * EACH + j - i) -
                                  log);

                    p[i][j] = m.keeps(j, i) ? x * kept : 0.0f;
                    ds[i][j] = m.keeps(j, i) ? ds[i][j] * kept : 0.0f;
                    ds[i][j] = m.sees(j, i) ? x * (ds[i][j] - delta) : 0.0f;
                }
            }
            TR_UNROLL
            for (int i = 0; i < EACH; i++)
                put_weights(weights, i, p[i]);
            gather(dv, weights, d_rows, room);
            __syncthreads();
            TR_UNROLL
            for (int i = 0; i < EACH; i++)
                put_weights(weights, i, ds[i]);
            gather(dk, weights, q_rows, room);
        }
    TR_UNROLL
    for (int i = 0; i < EACH; i++) {
        put_row(rows_of(dqkv, first.kv + a.d, first.row, key0, a), dk, i, a.scale);
        put_row(rows_of(dqkv, first.kv + 2 * a.d, first.row, key0, a), dv, i, 1.0f);
    }
}

/* ---- host ---- */

/* With tiles for each of `heads` heads. */
static unsigned blocks_of(const attention_more &a, int64_t heads)
{
    const int64_t blocks = (a.t + TILE - 1) / TILE * heads;

    TR_ASSERT(blocks <= INT32_MAX);
    return (unsigned)blocks;
}

template <class F> static void with_chunks(int64_t d, F f)
{
    if (d <= TILE)
        f(constant<1>());
    else if (d <= 2 * TILE)
        f(constant<2>());
    else if (d <= 4 * TILE)
        f(constant<4>());
    else
        f(constant<(TR_MAX_HEAD_DIM + TILE - 1) / TILE>());
}

/* f(accessor_of, plain): models compute in fp32 here; all other mixtures share kernels. */
template <class F> static void with_accessors(bool floats, const attention_more &a, F f)
{
    const auto of_floats = [](const struct tr_tensor *x) {
        return typed<float>{elements<float>(x)};
    };
    const auto of_any = [](const struct tr_tensor *x) { return mixed_of(x); };

    if (floats && is_plain(a))
        f(of_floats, constant<1>());
    else if (floats)
        f(of_floats, constant<0>());
    else
        f(of_any, constant<0>());
}

void attention_plain(struct tr_queue *q, const struct tr_tensor *ctx, float *lse,
                     const struct tr_tensor *qkv, const attention_more &a)
{
    with_accessors(ctx->dtype == TR_F32 && qkv->dtype == TR_F32, a, [&](auto of, auto plain) {
        with_chunks(a.d, [&](auto chunks) {
            using X = decltype(of(ctx));

            TR_LAUNCH(q, (forward_kernel<decltype(chunks)::value, X, decltype(plain)::value == 1>),
                      blocks_of(a, a.n), THREADS, 0, of(ctx), lse, of(qkv), a);
        });
    });
}

void attention_plain_bwd(struct tr_queue *q, const attention_gradients &g, const attention_more &a)
{
    const bool floats = g.dqkv->dtype == TR_F32 && g.dctx->dtype == TR_F32 &&
                        g.ctx->dtype == TR_F32 && g.qkv->dtype == TR_F32;

    with_accessors(floats, a, [&](auto of, auto plain) {
        with_chunks(a.d, [&](auto chunks) {
            using X = decltype(of(g.qkv));

            TR_LAUNCH(q, (queries_kernel<decltype(chunks)::value, X, decltype(plain)::value == 1>),
                      blocks_of(a, a.n), THREADS, 0, of(g.dqkv), g.delta, of(g.dctx), of(g.ctx),
                      g.lse, of(g.qkv), a);
            TR_LAUNCH(q, (keys_kernel<decltype(chunks)::value, X, decltype(plain)::value == 1>),
                      blocks_of(a, a.n / a.sharing), THREADS, 0, of(g.dqkv), g.delta, of(g.dctx),
                      g.lse, of(g.qkv), a);
        });
    });
}
