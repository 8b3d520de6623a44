/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "weights/turn.h"

/*
 * Transposing in squares gives what one element after the other gives, to the bit, whatever the numbers of rows and
 * columns, with strides longer than a row, and nothing beside it is written.
 */
enum { MOST = 200, BESIDE = 5 };
static float from[MOST * (MOST + BESIDE)], to[2][MOST * (MOST + BESIDE)];

/* Every pattern of bits may come, those of numbers that are none as well. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        memcpy(x + i, &seed, sizeof seed);
    }
}

static void shapes(void **state)
{
    static const int sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129, MOST};
    enum { SIZES = sizeof sizes / sizeof *sizes };

    (void)state;
    for (int i = 0; i < SIZES * SIZES; i++) {
        const int rows = sizes[i / SIZES], cols = sizes[i % SIZES];
        const int from_step = cols + i % BESIDE, to_step = rows + i % (BESIDE - 1);

        fill(from, sizeof from / sizeof *from, (uint32_t)i);
        memset(to, 0x5a, sizeof to);
        tr_turn_plain(from, from_step, rows, cols, to[0], to_step);
        tr_turn(from, from_step, rows, cols, to[1], to_step);
        assert_memory_equal(to[0], to[1], sizeof *to);
        assert_memory_equal(to[1] + (cols - 1) * to_step, from + cols - 1, sizeof *from);
    }
}

/* What the plain one does, on a matrix that one can read. */
static void by_hand(void **state)
{
    static const float matrix[2][3] = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
    static const float turned[3][2] = {{1.0f, 4.0f}, {2.0f, 5.0f}, {3.0f, 6.0f}};
    float out[3][2];

    (void)state;
    tr_turn_plain(matrix[0], 3, 2, 3, out[0], 2);
    assert_memory_equal(out, turned, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(shapes)};

    return run_tap(tests);
}
