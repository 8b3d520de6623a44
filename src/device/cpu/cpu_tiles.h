/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block product on tiles of 16 rows of 64 bytes.  Who includes this file says what a tile is:
 *
 *     TILES                     what stands before the functions.
 *     TILE_ZERO(t)              Tile t of floats is 0.
 *     TILE_LOAD(t, p, bytes)    Tile t, from rows that are that many bytes apart.
 *     TILE_STORE(t, p, bytes)   The same to them.
 *     TILE_DOT(c, a, b)         c[i][j] += the sum over l < 32 of a[i][l] b[l][j], with b packed.
 *
 * Tiles 0 to 3 are of c, two by two; 4 and 5 are rows of a; 6 and 7 columns of b.
 * tests/device/t_bf16.c includes it with tiles in memory, so that the walk over a block is tried on
 * any processor.
 */

/* Rows r and columns j of c, as many tiles of each as `down` and `right` say: 1 or 2. */
#define EACH_TILE(DO)              \
    do {                           \
        DO(0, 0, 0);               \
        if (right > 1)             \
            DO(1, 0, 1);           \
        if (down > 1)              \
            DO(2, 1, 0);           \
        if (down > 1 && right > 1) \
            DO(3, 1, 1);           \
    } while (0)

#define OF_C(i, j) (c + (i)*TR_BF16_ROWS * x->c_stride + (j)*TR_BF16_COLUMNS)
#define LOAD_C(t, i, j) TILE_LOAD(t, OF_C(i, j), c_bytes)
#define ZERO_C(t, i, j) TILE_ZERO(t)
#define STORE_C(t, i, j) TILE_STORE(t, OF_C(i, j), c_bytes)

TILES static void tiles_at(const struct tr_bf16_block *x, int64_t r, int64_t j, int down, int right)
{
    const int64_t a_bytes = 2 * x->a_stride, b_bytes = 4 * x->columns, c_bytes = 4 * x->c_stride;
    const uint16_t *a = x->a + r * x->a_stride, *b = x->packed + 2 * j;
    float *c = x->c + r * x->c_stride + j;

    if (x->add)
        EACH_TILE(LOAD_C);
    else
        EACH_TILE(ZERO_C);
    for (int64_t l = 0; l < x->depth; l += TR_BF16_DEPTH) {
        TILE_LOAD(4, a + l, a_bytes);
        TILE_LOAD(6, b + l * x->columns, b_bytes);
        TILE_DOT(0, 4, 6);
        if (right > 1) {
            TILE_LOAD(7, b + l * x->columns + 2 * TR_BF16_COLUMNS, b_bytes);
            TILE_DOT(1, 4, 7);
        }
        if (down > 1) {
            TILE_LOAD(5, a + TR_BF16_ROWS * x->a_stride + l, a_bytes);
            TILE_DOT(2, 5, 6);
        }
        if (down > 1 && right > 1)
            TILE_DOT(3, 5, 7);
    }
    EACH_TILE(STORE_C);
}

TILES static void by_tiles(const struct tr_bf16_block *x)
{
    for (int64_t r = 0; r < x->rows; r += 2 * TR_BF16_ROWS)
        for (int64_t j = 0; j < x->columns; j += 2 * TR_BF16_COLUMNS)
            tiles_at(x, r, j, x->rows - r > TR_BF16_ROWS ? 2 : 1,
                     x->columns - j > TR_BF16_COLUMNS ? 2 : 1);
}
