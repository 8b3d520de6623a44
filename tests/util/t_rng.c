/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "util/rng.h"

/* Known answers of philox4x32-10 from the Random123 distribution (kat_vectors). */
static void known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        struct tr_rng r = {{kat[i].key[0], kat[i].key[1]}, {kat[i].counter[2], kat[i].counter[3]}};
        uint32_t out[4];

        tr_rng_block(r, (uint64_t)kat[i].counter[1] << 32 | kat[i].counter[0], out);
        assert_memory_equal(out, kat[i].out, sizeof out);
    }
}

/* A draw is a function of its index: any piece equals the same piece of the whole. */
static void pieces(void **state)
{
    enum { N = 1000 };
    struct tr_rng r = tr_rng_key(1234, TR_STREAM_INIT, 0, 7);
    float whole[N], piece[N];

    (void)state;
    tr_rng_normal(r, 0, N, whole);
    for (int first = 0; first < 9; first++) {
        tr_rng_normal(r, (uint64_t)first, 101, piece);
        assert_memory_equal(piece, whole + first, 101 * sizeof(float));
    }
}

/* Mean 0 and variance 1 within five standard errors, and no two keys alike. */
static void moments(void **state)
{
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x);
    double sum = 0.0, squares = 0.0;

    (void)state;
    tr_rng_normal(tr_rng_key(1, TR_STREAM_INIT, 0, 0), 0, N, x);
    for (int i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / N) < 5.0 / sqrt(N));
    assert_true(fabs(squares / N - 1.0) < 5.0 * sqrt(2.0 / N));
    free(x);

    struct tr_rng base = tr_rng_key(1, TR_STREAM_EMBED_DROPOUT, 2, 3);
    uint32_t draw = tr_rng_u32(base, 0);
    assert_true(draw != tr_rng_u32(tr_rng_key(2, TR_STREAM_EMBED_DROPOUT, 2, 3), 0));
    assert_true(draw != tr_rng_u32(tr_rng_key(1, TR_STREAM_ATTN_DROPOUT, 2, 3), 0));
    assert_true(draw != tr_rng_u32(tr_rng_key(1, TR_STREAM_EMBED_DROPOUT, 1, 3), 0));
    assert_true(draw != tr_rng_u32(tr_rng_key(1, TR_STREAM_EMBED_DROPOUT, 2, 4), 0));
    assert_true(draw != tr_rng_u32(base, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces),
        cmocka_unit_test(moments),
    };
    return run_tap(tests);
}
