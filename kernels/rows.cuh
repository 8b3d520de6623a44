/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_KERNELS_ROWS_CUH
#define TR_KERNELS_ROWS_CUH

#include "common.cuh"
#include "random.cuh"

/*
 * What the operations on rows of activations share: [n,h], of which threads take groups of N
 * neighbouring elements.  N is 1 or a multiple of 4, and h one of N.
 */

/* A block of at most `threads`: x along a row, y rows. */
static inline dim3 block_of_rows(int64_t groups, int threads)
{
    const unsigned x = groups < threads ? (unsigned)groups : (unsigned)threads;

    return dim3(x, (unsigned)threads / x);
}

/* ---- dropout ---- */

/* The dropout of an operand with n rows. */
static inline dropping dropping_rows(const struct tr_dropout *d, int64_t n)
{
    TR_ASSERT(d->p == 0.0 || (d->first_row + n <= UINT32_MAX && d->tokens <= UINT32_MAX));
    return dropping_of(d);
}

/* What elements h0 .. h0 + N - 1 of a row are multiplied by; 1 without dropout. */
template <int N>
TR_INLINE void keep_of(const dropping &d, int64_t row, int64_t h0, int64_t h, float (&keep)[N])
{
    const uint32_t r = (uint32_t)(d.first_row + row), tokens = (uint32_t)d.tokens;
    uint32_t word[4];

    if (d.threshold == 0) {
        TR_UNROLL
        for (int k = 0; k < N; k++)
            keep[k] = 1.0f;
        return;
    }
    const int64_t item = d.sample[r / tokens];
    const uint64_t index = (uint64_t)(r % tokens) * (uint64_t)h + (uint64_t)h0;

    if constexpr (N == 1) {
        draw_block(d, item, index / 4, word);
        /* No index that is not known before: the words are to stay in registers. */
        const uint32_t low = index % 2 ? word[1] : word[0], high = index % 2 ? word[3] : word[2];

        keep[0] = factor_of(d, index % 4 < 2 ? low : high);
    } else {
        TR_UNROLL
        for (int j = 0; j < N; j += 4) {
            draw_block(d, item, index / 4 + (uint64_t)j / 4, word);
            TR_UNROLL
            for (int k = 0; k < 4; k++)
                keep[j + k] = factor_of(d, word[k]);
        }
    }
}

/* The end of a sublayer, for one element.  One function, so that whoever calls it gets the same
   bits. */
TR_INLINE float residual_of(float x, float a, float bias, float keep)
{
    return fmaf(a + bias, keep, x);
}

/* ---- sums over rows ---- */

/*
 * Sums of columns are taken in two stages: blocks sum up slabs of rows, trk_fold() sums up the
 * slabs.  How many slabs there are follows from the shape: as many as keep a large GPU busy, if
 * they have `slab_rows` rows, and no more than `bytes` hold `per_slab` floats for.
 */
struct slabs {
    int64_t rows; /* of each but the last */
    unsigned count;
};

static inline slabs slabs_of(int64_t n, int64_t slab_rows, int64_t per_slab, size_t bytes)
{
    const int64_t fit = (int64_t)bytes / (per_slab * (int64_t)sizeof(float));
    const int64_t most = fit < 1 ? 1 : fit < 512 ? fit : 512, rows = (n + most - 1) / most;
    slabs s;

    s.rows = rows > slab_rows ? rows : slab_rows;
    s.count = (unsigned)((n + s.rows - 1) / s.rows);
    return s;
}

/* to[h] += sums of the rows of part[count][stride], whose first h columns they are. */
void trk_fold(struct tr_queue *q, const struct tr_tensor *to, const float *part, unsigned count,
              int64_t stride);

#endif
