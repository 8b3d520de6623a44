/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_BF16_H
#define TR_DEVICE_CPU_CPU_BF16_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/*
 * Products of small blocks of bf16 numbers, summed in float, by the instructions that processors
 * have for them: tiles of AMX (tdpbf16ps) and dot products of AVX512_BF16 (vdpbf16ps).  Both take
 * two rows of b at a time, side by side:
 *
 *     packed[l / 2][j][l % 2] = b[l][j]
 *
 * Sizes are multiples of those below; zeros fill up what is smaller.  Terms are added in the order
 * of l, so the result follows from the sizes and from the instructions.  Both kinds take subnormal
 * numbers for zeros.
 */
enum { TR_BF16_ROWS = 16, TR_BF16_COLUMNS = 16, TR_BF16_DEPTH = 32 };

/* c[rows,columns] = (or, with `add`, +=) a[rows,depth] b[depth,columns]; strides count elements. */
struct tr_bf16_block {
    int64_t rows, columns, depth;
    const uint16_t *a, *packed;
    float *c;
    int64_t a_stride, c_stride;
    bool add;
};

/* One way to compute it.  Each thread calls begin() before its products and end() behind them. */
struct tr_bf16 {
    const char *name;
    void (*begin)(void);
    void (*multiply)(const struct tr_bf16_block *x);
    void (*end)(void);
};

/* The ways that this processor has, the fastest first, then NULL.  The last one is plain loops. */
const struct tr_bf16 *const *tr_bf16_ways(void);

/* The way to take, or NULL where blocks in float are as fast or `by` asks for them: `own`.  The
   kind of processor decides, never a measurement. */
const struct tr_bf16 *tr_bf16_choose(enum tr_gemm_by by);

/* to[rows,columns] = n rows of `width` numbers, `stride` elements apart, and zeros. */
void tr_bf16_copy(const uint16_t *from, int64_t stride, int64_t n, int64_t width, int64_t rows,
                  int64_t columns, uint16_t *to);

/* packed[rows / 2][columns][2] of b[rows,columns], whose rows are `stride` elements apart. */
void tr_bf16_pack(const uint16_t *b, int64_t stride, int64_t rows, int64_t columns,
                  uint16_t *packed);

/* packed[columns / 2][rows][2] of the transpose of x[rows,columns]; both multiples of 32.  The
   stride is even. */
void tr_bf16_pack_turned(const uint16_t *x, int64_t stride, int64_t rows, int64_t columns,
                         uint16_t *packed);

/* to[columns,rows] = the transpose of x[rows,columns], multiples of 32, by way of scratch[rows *
   columns]. */
void tr_bf16_turn(const uint16_t *x, int64_t rows, int64_t columns, uint16_t *scratch,
                  uint16_t *to);

#endif
