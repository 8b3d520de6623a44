/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_PRODUCT_H
#define TR_DEVICE_CPU_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cpu/cpu_half.h"

/*
 * GEMMs, products of matrices, after Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication" (ACM TOMS 34, 2008): a block of b is laid out in panels that the caches hold, and
 * tiles of c that fit the registers run over it.
 *
 * An element of c is the sum over l in order, whoever computes it: results do not depend on threads.
 *
 * Elements of a, b and c have any float type, each its own.  fp16 and bf16 become floats on their
 * way into blocks and tiles; sums are floats from the first l to the last, and c in fp16 or bf16 is
 * rounded once.
 */
enum {
    TILE_COLUMNS = 2 * LANES,
    TILE_ROWS = REGISTERS == 32 ? 14 : 6,
    DEPTH = 256,         /* most l in one block: a panel of b fits the L1 cache */
    BLOCK_COLUMNS = 768, /* most columns in one block: it fits the L2 cache */
    TILE_FLOATS = TILE_ROWS * (DEPTH + 16),
    STRIP_TILES = 4,
    STRIP_ROWS = STRIP_TILES * TILE_ROWS,
    SUM_ROWS = 6 * STRIP_ROWS, /* rows of c in fp16 or bf16 in one task: its sums stay in the L2
                                  cache */
    SCRATCH_FLOATS = BLOCK_COLUMNS * DEPTH + STRIP_TILES * TILE_FLOATS + SUM_ROWS * BLOCK_COLUMNS
};

/* A matrix as it lies in memory.  Its element (i, j) is p[i * stride + j], or, when `turned`,
   p[j * stride + i]. */
struct tr_view {
    const void *p;
    int64_t stride;
    bool turned;
    enum tr_dtype type;
};

/* Part of c: `rows` and `columns` from (i, j) on, and their sums, sum[r * stride + c]. */
struct tr_part {
    int64_t i, j, rows, columns;
    float *sum;
    int64_t stride;
};

/*
 * c[m,n] = a[m,k] b[k,n], or c += with `add`; c is contiguous.
 *
 * finish(with, part), if not NULL, is called once for each part of c when its sums are complete and
 * still in the cache; what it makes of the sums becomes that part of c.  Where c is NULL it is the only
 * one who sees them.
 */
struct tr_product {
    int64_t m, n, k;
    struct tr_view a, b;
    const struct tr_tensor *c;
    bool add;
    void (*finish)(const void *with, const struct tr_part *part);
    const void *with;
    struct tr_dnnl *library; /* computes when a and b are TR_BF16; may be NULL */
};

/* Compute with `threads` threads; scratch[threads * SCRATCH_FLOATS] on a 64-byte boundary. */
void tr_cpu_product(const struct tr_product *p, int threads, float *scratch);

/*
 * The pieces, for operations that keep a block of b.
 *
 * Rows l .. l + depth - 1 and columns j .. j + columns - 1 of b, in panels of TILE_COLUMNS that zeros
 * fill up: columns rounded up to that, times depth, floats.  out is on a 64-byte boundary.
 */
void tr_cpu_pack(const struct tr_view *b, int64_t l, int64_t depth, int64_t j, int64_t columns,
                 float *out);

/*
 * Memory that will be wanted soon: `rows` stretches of `lines` cache lines, `stride` bytes apart.
 * It is prefetched into the L2 cache while something else is computed, a line at a time.
 */
struct tr_ahead {
    const char *row;
    int64_t stride, rows, lines;
    int64_t line; /* next of this row */
};

/* c[rows,columns] (+)= rows i .. and columns l .. of a, times a packed block. */
struct tr_strip {
    const struct tr_view *a;
    int64_t i;
    int rows;         /* at most STRIP_ROWS */
    int64_t l, depth; /* at most DEPTH */
    const float *packed;
    int64_t columns;
    float *c;
    int64_t c_stride;
    bool add;
    float *tiles;           /* scratch, STRIP_TILES * TILE_FLOATS on a 64-byte boundary */
    struct tr_ahead *ahead; /* what to fetch meanwhile; NULL: nothing */
};

void tr_cpu_strip(const struct tr_strip *s);

#endif
