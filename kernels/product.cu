/* SPDX-License-Identifier: BSD-3-Clause */
#include "finish.cuh"

/*
 * The product that serves everything: a block makes a tile of c, a thread a square of it, and pieces of
 * the factors go through shared memory as floats.  No tensor cores: it is for sizes, types and addresses
 * that cuBLASLt has no algorithm for.
 */
enum {
    TILE = 64,  /* rows and columns of c in one block */
    SLICE = 16, /* of k at a time */
    SQUARE = 4, /* rows and columns of c in one thread */
    PRODUCT_THREADS = (TILE / SQUARE) * (TILE / SQUARE)
};

/* Element (i, l), l along k, is data[i * row + l * along]. */
struct side {
    mixed data;
    int64_t row, along, rows;
};

/* Rows first .. of the side, SLICE of k from l0 on, to room[l][row]; zeros beyond the ends. */
TR_INLINE void fetch(const struct side &s, int64_t first, int64_t l0, int64_t k,
                     float (*room)[TILE + SQUARE])
{
    /* Neighbours in the block are neighbours in memory. */
    const bool rows_lie_together = s.row == 1;
    const int t = (int)threadIdx.x;

    for (int e = t; e < TILE * SLICE; e += PRODUCT_THREADS) {
        int i = rows_lie_together ? e % TILE : e / SLICE;
        int l = rows_lie_together ? e / TILE : e % SLICE;
        bool inside = first + i < s.rows && l0 + l < k;

        room[l][i] = inside ? s.data.get((first + i) * s.row + (l0 + l) * s.along) : 0.0f;
    }
}

/* Element i of the sums, in column j, and where it lies in a row of a tile, which begins with an even column. */
TR_INLINE void finish_in_tile(const struct finish &f, int64_t i, int64_t j, const float *sum)
{
    if (f.act < TR_ACT_FIRST_GATED)
        finish_one(f, i, j, *sum);
    else if (f.slope_of.data)
        finish_gated_bwd(f, i, *sum);
    else if (j % 2 == 0)
        finish_gated(f, i, j, sum[0], sum[1]);
}

__global__ void __launch_bounds__(PRODUCT_THREADS)
    product_kernel(struct side a, struct side b, int64_t k, struct finish f)
{
    TR_SHARED(float, a_room, [SLICE][TILE + SQUARE]);
    TR_SHARED(float, b_room, [SLICE][TILE + SQUARE]);
    TR_SHARED(float, sums, [TILE][TILE + SQUARE]); /* so that neighbours finish neighbours */
    const int64_t across = (b.rows + TILE - 1) / TILE;
    const int64_t i0 = blockIdx.x / across * TILE, j0 = blockIdx.x % across * TILE;
    const int row = (int)threadIdx.x / (TILE / SQUARE) * SQUARE;
    const int column = (int)threadIdx.x % (TILE / SQUARE) * SQUARE;
    float sum[SQUARE][SQUARE] = {};

    for (int64_t l0 = 0; l0 < k; l0 += SLICE) {
        fetch(a, i0, l0, k, a_room);
        fetch(b, j0, l0, k, b_room);
        __syncthreads();
        for (int l = 0; l < SLICE; l++)
            TR_UNROLL
        for (int i = 0; i < SQUARE; i++)
            TR_UNROLL
        for (int j = 0; j < SQUARE; j++)
            sum[i][j] += a_room[l][row + i] * b_room[l][column + j];
        __syncthreads();
    }
    TR_UNROLL
    for (int i = 0; i < SQUARE; i++)
        TR_UNROLL
    for (int j = 0; j < SQUARE; j++)
        sums[row + i][column + j] = sum[i][j];
    __syncthreads();
    for (int e = (int)threadIdx.x; e < TILE * TILE; e += PRODUCT_THREADS) {
        int64_t i = i0 + e / TILE, j = j0 + e % TILE;

        if (i < a.rows && j < b.rows)
            finish_in_tile(f, i * b.rows + j, j, &sums[e / TILE][e % TILE]);
    }
}

/* `turned`: rows of the side lie along rows in memory. */
static struct side side_of(const struct tr_cuda_factor *f, bool turned, int64_t rows)
{
    mixed data = {const_cast<void *>(f->p), (int)f->type};

    return turned ? side{data, 1, f->stride, rows} : side{data, f->stride, 1, rows};
}

extern "C" void tr_cuda_plain_product(struct tr_queue *q, const struct tr_cuda_dense *d)
{
    struct side a = side_of(&d->a, d->a.turned, d->m), b = side_of(&d->b, !d->b.turned, d->n);
    int64_t tiles = (d->m + TILE - 1) / TILE * ((d->n + TILE - 1) / TILE);

    TR_ASSERT(tiles <= INT32_MAX);
    TR_LAUNCH(q, product_kernel, (unsigned)tiles, PRODUCT_THREADS, 0, a, b, d->k,
              finish_of(&d->finish));
}
