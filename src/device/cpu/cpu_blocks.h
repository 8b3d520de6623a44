/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_BLOCKS_H
#define TR_DEVICE_CPU_CPU_BLOCKS_H

#include "device/cpu/cpu_product.h"

/* Products of small blocks, for attention: a packed block of b and a strip of c at a time (cpu_product.h). */

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline struct tr_view turned(struct tr_view x)
{
    x.turned = true;
    return x;
}

/* Floats of a row of a packed block. */
static inline int64_t packed_row(int64_t columns)
{
    return (columns + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

/* All columns of b, which is deeper than a block of a product with wide heads: then one after another. */
static inline void pack(const struct tr_view *b, int64_t depth, int64_t columns, float *out)
{
    for (int64_t l = 0; l < depth; l += DEPTH)
        tr_cpu_pack(b, l, smaller(depth - l, DEPTH), 0, columns, out + l * packed_row(columns));
}

/* c[rows,columns] (+)= rows i .. of a, times what pack() made. */
static inline void multiply(struct tr_view a, int64_t i, int64_t rows, int64_t depth,
                            const float *packed, int64_t columns, float *c, int64_t c_stride,
                            bool add, float *tiles)
{
    for (int64_t r = 0; r < rows; r += STRIP_ROWS)
        for (int64_t l = 0; l < depth; l += DEPTH)
            tr_cpu_strip(&(struct tr_strip){.a = &a,
                                            .i = i + r,
                                            .rows = (int)smaller(rows - r, STRIP_ROWS),
                                            .l = l,
                                            .depth = smaller(depth - l, DEPTH),
                                            .packed = packed + l * packed_row(columns),
                                            .columns = columns,
                                            .c = c + r * c_stride,
                                            .c_stride = c_stride,
                                            .add = add || l > 0,
                                            .tiles = tiles});
}

#endif
