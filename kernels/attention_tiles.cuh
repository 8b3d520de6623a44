/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_ATTENTION_TILES_CUH
#define TR_KERNELS_ATTENTION_TILES_CUH

#include "attention.cuh"

/*
 * What the kernels of attention without tensor cores share: attention_plain.cu and relative.cu.
 *
 * A block has 64 queries, or 64 keys, and meets 64 of the other kind at a time.  Everything is made
 * of two products.  The first has the scores of 64 by 64 pairs, 4 by 4 in the registers of each
 * thread; the second sums rows with the weights that were made of them and left in shared memory.
 * Rows come through shared memory as floats; what is beyond the last token or the width of a head
 * is zero there.
 */
enum {
    SIDE = 16, /* threads along a side of the block */
    EACH = 4,
    TILE = SIDE * EACH,
    THREADS = SIDE * SIDE,
    DEPTH = 32,         /* columns of two operands that are staged at once, */
    STRIDE = DEPTH + 4, /*   so far apart that 8 rows lie in different banks */
    WEIGHTS = TILE + 4
};

/* Tokens token .. token + 63 of one operand. */
template <class X> struct rows {
    X x;
    int64_t first, stride, token, t;
    int d;

    TR_INLINE float get(int row, int column) const
    {
        return token + row < t && column < d ? x.get(first + (token + row) * stride + column)
                                             : 0.0f;
    }
};

struct place_of_thread {
    int x, y; /* columns 4 x .. and rows 4 y .. of a tile are this thread's */
};

TR_INLINE place_of_thread place()
{
    return place_of_thread{(int)threadIdx.x % SIDE, (int)threadIdx.x / SIDE};
}

/*
 * s = a b^T: rows 4 y .. of a by rows 4 x .. of b.  `room` holds 2 * TILE * STRIDE floats.  Row r
 * of b is staged as row r % 4 * 16 + r / 4, so that the threads of a warp read adjacent ones.
 */
template <class X>
TR_INLINE void scores(float (&s)[EACH][EACH], const rows<X> &a, const rows<X> &b, float *room)
{
    const place_of_thread me = place();
    float *const room_b = room + TILE * STRIDE;

    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            s[i][j] = 0.0f;
    for (int d = 0; d < a.d; d += DEPTH) {
        __syncthreads();
        for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += THREADS) {
            const int row = e / DEPTH, column = e % DEPTH;

            room[row * STRIDE + column] = a.get(row, d + column);
            room_b[(row % EACH * SIDE + row / EACH) * STRIDE + column] = b.get(row, d + column);
        }
        __syncthreads();
        TR_UNROLL_BY(2)
        for (int k = 0; k < DEPTH; k += 4) {
            pack<float, 4> u[EACH], v[EACH];

            for (int i = 0; i < EACH; i++) {
                u[i] = load<4>(room + (me.y * EACH + i) * STRIDE + k);
                v[i] = load<4>(room_b + (i * SIDE + me.x) * STRIDE + k);
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    for (int n = 0; n < 4; n++)
                        s[i][j] += u[i].x[n] * v[j].x[n];
        }
    }
}

/* What a thread has of 64 rows of CHUNKS * 64 columns: rows 4 y + i, columns 64 c + 16 j + x. */
template <int CHUNKS> struct sums {
    float at[CHUNKS][EACH][EACH];

    TR_INLINE void clear()
    {
        TR_UNROLL
        for (int c = 0; c < CHUNKS; c++)
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    at[c][i][j] = 0.0f;
    }

    TR_INLINE void scale_row(int i, float factor)
    {
        TR_UNROLL
        for (int c = 0; c < CHUNKS; c++)
            for (int j = 0; j < EACH; j++)
                at[c][i][j] *= factor;
    }
};

/* to += weights[64,64] b, b being 64 rows.  The caller's threads have just written their part of
   the weights, and write no others before the next barrier that follows. */
template <int CHUNKS, class X>
TR_INLINE void gather(sums<CHUNKS> &to, const float *weights, const rows<X> &b, float *room)
{
    const place_of_thread me = place();

    TR_UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        __syncthreads();
        for (int e = (int)threadIdx.x; e < TILE * TILE; e += THREADS)
            room[e] = b.get(e / TILE, c * TILE + e % TILE);
        __syncthreads();
        TR_UNROLL_BY(2)
        for (int k = 0; k < TILE; k += 4) {
            pack<float, 4> u[EACH];

            for (int i = 0; i < EACH; i++)
                u[i] = load<4>(weights + (me.y * EACH + i) * WEIGHTS + k);
            for (int n = 0; n < 4; n++)
                for (int j = 0; j < EACH; j++) {
                    const float v = room[(k + n) * TILE + j * SIDE + me.x];

                    for (int i = 0; i < EACH; i++)
                        to.at[c][i][j] += u[i].x[n] * v;
                }
        }
    }
}

/* Row 4 y + i of the weights gets this thread's columns. */
TR_INLINE void put_weights(float *weights, int i, const float (&w)[EACH])
{
    const place_of_thread me = place();
    pack<float, 4> four;

    for (int j = 0; j < EACH; j++)
        four.x[j] = w[j];
    store(weights + (me.y * EACH + i) * WEIGHTS + me.x * EACH, four);
}

template <int CHUNKS, class X>
TR_INLINE void put_row(const rows<X> &to, const sums<CHUNKS> &from, int i, float factor)
{
    const place_of_thread me = place();
    const int64_t token = to.token + me.y * EACH + i;

    if (token >= to.t)
        return;
    TR_UNROLL
    for (int c = 0; c < CHUNKS; c++)
        for (int j = 0; j < EACH; j++) {
            const int column = c * TILE + j * SIDE + me.x;

            if (column < to.d)
                to.x.set(to.first + token * to.stride + column, from.at[c][i][j] * factor);
        }
}

/* Over the 16 threads that share rows. */
template <class Op> TR_INLINE float over_row(float x, Op op)
{
    for (int other = SIDE / 2; other > 0; other /= 2)
        x = op(x, __shfl_xor_sync(ALL_LANES, x, other));
    return x;
}

/* Of queries query .. query + 3 and keys key .. key + 3, bit 4 i + j for query i and key j. */
struct marks {
    unsigned seen; /* the query sees the key, */
    unsigned kept; /*   and its probability is not dropped */

    TR_INLINE bool sees(int i, int j) const { return seen >> (EACH * i + j) & 1; }
    TR_INLINE bool keeps(int i, int j) const { return kept >> (EACH * i + j) & 1; }
};

/* Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018): of one query, with
   what this thread has of its 64 new scores. */
struct running {
    float max, total; /* the latter of this thread's keys only */

    /* The scores become exp(score - max); what was summed before is to be multiplied by the result.
       */
    TR_INLINE float take(float (&s)[EACH])
    {
        float most = max, shrink, base;

        for (int j = 0; j < EACH; j++)
            most = take_larger()(most, s[j]);
        most = over_row(most, take_larger());
        /* A query may not have seen any key yet. */
        base = most == -INFINITY ? 0.0f : most;
        shrink = exp_quick(max - base);
        total *= shrink;
        for (int j = 0; j < EACH; j++) {
            s[j] = exp_quick(s[j] - base);
            total += s[j];
        }
        max = most;
        return shrink;
    }
};

/* f(number): the kernels' CHUNKS as number.value. */
template <int N> struct constant {
    static const int value = N;
};

#endif
