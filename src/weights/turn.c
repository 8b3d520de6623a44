/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/turn.h"

#include "device/cpu/cpu_simd.h"

/* Rows and columns of a square: a cache line has as many floats, and no line of `to` is written in parts, or twice. */
enum { SQUARE = 16 };

/* Columns that are turned before the next ones: of as many rows of `to` a few hundred elements are in the second cache. */
enum { STRIP = 64 };

void tr_turn_plain(const float *from, int64_t from_step, int64_t rows, int64_t cols, float *to,
                   int64_t to_step)
{
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + c * to_step + r, from + r * from_step + c, sizeof *to);
}

/* Of LANES rows and columns. */
static void turn_lanes(const float *from, int64_t from_step, float *to, int64_t to_step)
{
    vec v[LANES];

    for (int i = 0; i < LANES; i++)
        v[i] = vec_load(from + i * from_step);
    vec_transpose(v);
    for (int i = 0; i < LANES; i++)
        vec_store(to + i * to_step, v[i]);
}

static void turn_square(const float *from, int64_t from_step, float *to, int64_t to_step)
{
    for (int c = 0; c < SQUARE; c += LANES)
        for (int r = 0; r < SQUARE; r += LANES)
            turn_lanes(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
}

void tr_turn(const float *from, int64_t from_step, int64_t rows, int64_t cols, float *to,
             int64_t to_step)
{
    const int64_t whole_rows = rows - rows % SQUARE, whole_cols = cols - cols % SQUARE;

    for (int64_t strip = 0; strip < whole_cols; strip += STRIP)
        for (int64_t r = 0; r < whole_rows; r += SQUARE)
            for (int64_t c = strip; c < whole_cols && c < strip + STRIP; c += SQUARE)
                turn_square(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    tr_turn_plain(from + whole_cols, from_step, whole_rows, cols - whole_cols,
                  to + whole_cols * to_step, to_step);
    tr_turn_plain(from + whole_rows * from_step, from_step, rows - whole_rows, cols,
                  to + whole_rows, to_step);
}
