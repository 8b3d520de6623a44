/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of small blocks of bf16 numbers: every way that this processor has, and the walk over
 * tiles with tiles in memory, against sums in double.
 */
#include "check.h"

#include <math.h>
#include <string.h>

#include "device/cpu/cpu_bf16.h"
#include "util/half.h"

enum { ROWS = 80, COLUMNS = 112, DEPTH = 128, C_STRIDE = COLUMNS + 16, A_STRIDE = DEPTH + 32 };

/* ---- tiles in memory ---- */

static float tile[8][16][16]; /* of floats, or of pairs of bf16 numbers */

static void load_tile(int t, const void *p, int64_t bytes)
{
    for (int i = 0; i < 16; i++)
        memcpy(tile[t][i], (const char *)p + i * bytes, 64);
}

static void store_tile(int t, void *p, int64_t bytes)
{
    for (int i = 0; i < 16; i++)
        memcpy((char *)p + i * bytes, tile[t][i], 64);
}

static float half_of(int t, int row, int64_t i)
{
    uint16_t bits[32];

    memcpy(bits, tile[t][row], sizeof bits);
    return tr_bf16_to_float(bits[i]);
}

static void dot_tiles(int c, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            for (int l = 0; l < 32; l++)
                tile[c][i][j] += half_of(a, i, l) * half_of(b, l / 2, 2 * j + l % 2);
}

#define TILES
#define TILE_ZERO(t) memset(tile[t], 0, sizeof tile[t])
#define TILE_LOAD(t, p, bytes) load_tile(t, p, bytes)
#define TILE_STORE(t, p, bytes) store_tile(t, p, bytes)
#define TILE_DOT(c, a, b) dot_tiles(c, a, b)
#include "device/cpu/cpu_tiles.h"

static void nothing(void) {}

static const struct tr_bf16 in_memory = {"tiles in memory", nothing, by_tiles, nothing};

/* ---- against sums in double ---- */

static uint16_t a[ROWS * A_STRIDE], b[DEPTH * COLUMNS], packed[DEPTH * COLUMNS];
static float c[(ROWS + 1) * C_STRIDE], before[(ROWS + 1) * C_STRIDE];

/* Numbers of different sizes and signs; other ones for another `step`. */
static void fill(uint16_t *x, int64_t n, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = tr_bf16_from_float((float)(i * step % 2003 - 1001) / 256.0f);
}

static void one_size(const struct tr_bf16 *by, int64_t rows, int64_t columns, int64_t depth,
                     bool add)
{
    const struct tr_bf16_block x = {.rows = rows,
                                    .columns = columns,
                                    .depth = depth,
                                    .a = a,
                                    .packed = packed,
                                    .c = c,
                                    .a_stride = A_STRIDE,
                                    .c_stride = C_STRIDE,
                                    .add = add};

    for (int64_t i = 0; i < (ROWS + 1) * C_STRIDE; i++)
        before[i] = c[i] = (float)(i % 13) - 6.0f;
    tr_bf16_pack(b, columns, depth, columns, packed);
    by->begin();
    by->multiply(&x);
    by->end();
    for (int64_t i = 0; i < ROWS + 1; i++) {
        for (int64_t j = 0; j < C_STRIDE; j++) {
            double sum = add || i >= rows || j >= columns ? before[i * C_STRIDE + j] : 0.0,
                   size = 1.0;

            for (int64_t l = 0; i < rows && j < columns && l < depth; l++) {
                double term = (double)tr_bf16_to_float(a[i * A_STRIDE + l]) *
                              (double)tr_bf16_to_float(b[l * columns + j]);

                sum += term;
                size += fabs(term);
            }
            /* Each of the sums is rounded to float. */
            if (fabs(sum - (double)c[i * C_STRIDE + j]) >
                (i < rows && j < columns ? 1e-6 * size : 0.0))
                fail_msg("%s: element %d,%d of %d x %d x %d is %g, not %g", by->name, (int)i,
                         (int)j, (int)rows, (int)columns, (int)depth, (double)c[i * C_STRIDE + j],
                         sum);
        }
    }
}

static void every_size(const struct tr_bf16 *by)
{
    for (int64_t rows = 16; rows <= ROWS; rows += 16)
        for (int64_t columns = 16; columns <= COLUMNS; columns += 16)
            for (int64_t depth = 32; depth <= DEPTH; depth += 96)
                one_size(by, rows, columns, depth, (rows + columns) / 16 % 2 == 0);
}

static void products(void **state)
{
    (void)state;
    fill(a, ROWS * A_STRIDE, 769);
    fill(b, DEPTH * COLUMNS, 1013);
    every_size(&in_memory);
    for (const struct tr_bf16 *const *way = tr_bf16_ways(); *way; way++) {
        print_message("# %s\n", (*way)->name);
        every_size(*way);
    }
}

/* ---- layouts ---- */

static void layouts(void **state)
{
    enum { N = 64, W = 96, APART = W + 32 };
    static uint16_t x[N * W], wide[N * APART], to[N * W], scratch[N * W];

    (void)state;
    for (int i = 0; i < N * W; i++)
        x[i] = (uint16_t)(i * 40503); /* all kinds of bits, NaN included */
    for (int i = 0; i < N; i++)
        memcpy(wide + i * APART, x + i * W, W * sizeof *x);
    tr_bf16_pack(wide, APART, N, W, to);
    for (int l = 0; l < N; l++)
        for (int j = 0; j < W; j++)
            assert_int_equal(to[l / 2 * 2 * W + 2 * j + l % 2], x[l * W + j]);
    tr_bf16_pack_turned(wide, APART, N, W, to);
    for (int l = 0; l < W; l++)
        for (int j = 0; j < N; j++)
            assert_int_equal(to[l / 2 * 2 * N + 2 * j + l % 2], x[j * W + l]);
    tr_bf16_turn(x, N, W, scratch, to);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < W; j++)
            assert_int_equal(to[j * N + i], x[i * W + j]);
    memset(to, 0xff, sizeof to);
    tr_bf16_copy(x, W, 5, 40, 16, 64, to);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 64; j++)
            assert_int_equal(to[i * 64 + j], i < 5 && j < 40 ? x[i * W + j] : 0);
    assert_int_equal(to[16 * 64], 0xffff);
}

/* `own` takes blocks in float; the last way is there on any processor. */
static void choices(void **state)
{
    const struct tr_bf16 *const *way = tr_bf16_ways(), *asked = tr_bf16_choose(TR_GEMM_ONEDNN);

    (void)state;
    assert_null(tr_bf16_choose(TR_GEMM_OWN));
    assert_true(!asked ? way[1] == NULL : asked == way[0] && way[1] != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(layouts),
        cmocka_unit_test(choices),
    };

    return run_tap(tests);
}
