/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "golden/golden.h"
#include "model/attention_mask.h"

enum { E = 9 };

/* The example of Megatron's rule for itself: a token that ends a document belongs to it; what is only
   a label says nothing. */
static void by_hand(void **state)
{
    static const int32_t text[2 * 9] = {1, 2, E, 3, E, E, 4, 5, E, /* the second sample: */
                                        1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const int32_t positions[16] = {0, 1, 2, 0, 1, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t froms[16] = {0, 0, 0, 3, 3, 5, 6, 6, 0, 0, 0, 0, 0, 0, 0, 0};
    static const int ends[16] = {0, 0, 1, 0, 1, 1};
    int32_t position[16], from[16];
    float weight[16];

    (void)state;
    tr_mask_of(text, 2, 8, E, position, from, weight);
    assert_memory_equal(position, positions, sizeof position);
    assert_memory_equal(from, froms, sizeof from);
    for (int n = 0; n < 16; n++)
        assert_true(weight[n] == (ends[n] ? 0.0F : 1.0F / 13.0F));
    memset(from, -1, sizeof from);
    tr_mask_of(text, 2, 8, E, NULL, from, NULL);
    assert_memory_equal(from, froms, sizeof from);
}

static void nothing_counts(void **state)
{
    static const int32_t text[5] = {E, E, E, E, 1};
    float weight[4];

    (void)state;
    tr_mask_of(text, 1, 4, E, NULL, NULL, weight);
    for (int n = 0; n < 4; n++)
        assert_true(weight[n] == 0.0F);
}

/* Against masks made by blanking rectangles of a matrix and lowering positions. */
static void golden(void **state)
{
    enum { N = 4 * GOLDEN_S };
    struct tr_golden *g = tr_golden_open("masks");
    const float *tokens = tr_golden_get(g, "tokens", 4 * (GOLDEN_S + 1));
    const float *counts = tr_golden_get(g, "counts", N);
    const float *positions = tr_golden_get(g, "positions", N);
    const float *froms = tr_golden_get(g, "from", N);
    int32_t text[4 * (GOLDEN_S + 1)], position[N], from[N];
    float weight[N];
    double count = 0.0;

    (void)state;
    for (int i = 0; i < 4 * (GOLDEN_S + 1); i++)
        text[i] = (int32_t)tokens[i];
    for (int n = 0; n < N; n++)
        count += (double)counts[n];
    tr_mask_of(text, 4, GOLDEN_S, 60, position, from, weight);
    for (int n = 0; n < N; n++) {
        assert_int_equal(position[n], (int)positions[n]);
        assert_int_equal(from[n], (int)froms[n]);
        assert_true(weight[n] == (float)((double)counts[n] / count));
    }
    tr_golden_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(nothing_counts),
        cmocka_unit_test(golden),
    };
    return run_tap(tests);
}
