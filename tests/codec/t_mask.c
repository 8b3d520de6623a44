/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "codec/mask.h"

static struct tr_mask_how how_of(enum tr_mask_method method, double ratio, int64_t multiple)
{
    return (struct tr_mask_how){method, ratio, multiple, 1234};
}

/* Counts by hand. */
static void counts(void **state)
{
    static const struct {
        enum tr_mask_method method;
        double ratio;
        int64_t multiple, n, count;
    } known[] = {
        {TR_MASK_ROLLING, 1.0, 128, 1000, 1000},  {TR_MASK_ROLLING, 0.1, 1, 1000, 100},
        {TR_MASK_ROLLING, 0.1, 64, 1000, 64},     {TR_MASK_ROLLING, 0.1, 128, 1000, 1000},
        {TR_MASK_ROLLING, 0.4, 1, 1001, 500},     {TR_MASK_ROLLING, 0.7, 1, 1001, 1001},
        {TR_MASK_ROLLING, 0.3, 10, 100, 30},      {TR_MASK_REPLACED, 0.3, 1, 100, 24},
        {TR_MASK_REPLACED, 0.4, 128, 1024, 384},  {TR_MASK_REPLACED, 0.1, 128, 1024, 1024},
        {TR_MASK_PERMUTED, 0.25, 3, 1000, 246},   {TR_MASK_PERMUTED, 0.001, 1, 1000, 1000},
        {TR_MASK_ROLLING, 1e-300, 1, 1000, 1000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tr_mask_how how = how_of(known[i].method, known[i].ratio, known[i].multiple);

        assert_int_equal(tr_mask_count(&how, known[i].n), known[i].count);
    }
}

/* Each element takes its turn: once in every s rounds, where none is left over. */
static void rolling(void **state)
{
    struct tr_mask_how how = how_of(TR_MASK_ROLLING, 0.3, 1);
    int32_t list[400];
    int turns[1000] = {0};
    struct tr_select s;

    (void)state;
    for (int64_t round = 9; round < 12; round++) {
        assert_true(tr_mask_regular(&how, 999, round, &s));
        assert_true(s.first == round % 3 && s.step == 3 && !s.index);
        tr_mask_list(&how, 999, round, 0, list, NULL);
        for (int i = 0; i < 333; i++) {
            assert_int_equal(list[i], s.first + i * s.step);
            turns[list[i]]++;
        }
    }
    for (int i = 0; i < 999; i++)
        assert_int_equal(turns[i], 1);
    /* Everything is a first element and a step, too. */
    how = how_of(TR_MASK_PERMUTED, 1.0, 1);
    assert_true(tr_mask_regular(&how, 17, 5, &s));
    assert_true(s.first == 0 && s.step == 1);
}

/* Also those at the end that a rounded count leaves over: in two times s rounds, of any length. */
static void rolling_reaches_all(void **state)
{
    enum { MOST = 2000, S = 10, MULTIPLE = 64 };
    const struct tr_mask_how how = how_of(TR_MASK_ROLLING, 0.1, MULTIPLE);
    int32_t list[MOST];

    (void)state;
    for (int64_t n = S * MULTIPLE; n < MOST; n += 7) {
        const int64_t count = tr_mask_count(&how, n);
        int turns[MOST] = {0};

        for (int64_t round = 0; round < (int64_t)2 * S; round++) {
            tr_mask_list(&how, n, round, 0, list, NULL);
            for (int64_t i = 0; i < count; i++) {
                assert_in_range(list[i], 0, n - 1);
                turns[list[i]]++;
            }
        }
        for (int64_t i = 0; i < n; i++)
            assert_in_range(turns[i], 1, 2);
    }
}

/* A permutation of every length, and none like the next. */
static void permutations(void **state)
{
    bool *met = calloc(5000, sizeof *met);
    int same = 0;

    (void)state;
    for (int64_t n = 1; n < 5000; n = n < 70 ? n + 1 : n * 3 / 2) {
        struct tr_rng r = tr_rng_key(7, TR_STREAM_MASK, 3, n);
        struct tr_rng other = tr_rng_key(7, TR_STREAM_MASK, 4, n);

        memset(met, 0, 5000 * sizeof *met);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = tr_mask_permuted(r, n, i);

            assert_true(at >= 0 && at < n && !met[at]);
            met[at] = true;
            same += n > 1000 && at == tr_mask_permuted(other, n, i);
        }
    }
    /* About one for each of the four lengths above 1000. */
    assert_in_range(same, 0, 30);
    free(met);
}

/* Successive rounds are slices of one permutation; the next begins when it is used up. */
static void without_replacement(void **state)
{
    enum { N = 1000, C = 240, SLICES = N / C };
    struct tr_mask_how how = how_of(TR_MASK_PERMUTED, 0.25, 1);
    int32_t list[C], first[C];

    (void)state;
    assert_int_equal(tr_mask_count(&how, N), 248);
    how.multiple = 80;
    assert_int_equal(tr_mask_count(&how, N), C);
    for (int64_t round = 0; round < 3 * SLICES; round++) {
        static int met[N];

        if (round % SLICES == 0)
            memset(met, 0, sizeof met);
        tr_mask_list(&how, N, round, 2, list, NULL);
        for (int i = 0; i < C; i++) {
            assert_true(list[i] >= 0 && list[i] < N);
            assert_int_equal(met[list[i]]++, 0);
            assert_int_equal(
                list[i], tr_mask_permuted(tr_rng_key(how.seed, TR_STREAM_MASK, 2, round / SLICES),
                                          N, round % SLICES * C + i));
        }
        if (round == 0)
            memcpy(first, list, sizeof first);
    }
    tr_mask_list(&how, N, SLICES, 2, list, NULL);
    assert_memory_not_equal(first, list, sizeof first);
    tr_mask_list(&how, N, 0, 3, list, NULL);
    assert_memory_not_equal(first, list, sizeof first);
}

/* Draws are those of the generator, of equal ones the last stays, and elements come equally often. */
static void with_replacement(void **state)
{
    enum { N = 500, C = 248, ROUNDS = 2000 };
    struct tr_mask_how how = how_of(TR_MASK_REPLACED, 0.5, 1);
    static int times[N];
    unsigned char seen[(N + 7) / 8];
    int32_t list[C];
    int absent = 0;

    (void)state;
    assert_int_equal(tr_mask_count(&how, N), C);
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_rng r = tr_rng_key(how.seed, TR_STREAM_MASK, 1, round);
        int32_t draw[C];

        memset(seen, round, sizeof seen);
        tr_mask_list(&how, N, round, 1, list, seen);
        for (int i = 0; i < C; i++)
            draw[i] = (int32_t)((uint64_t)tr_rng_u32(r, (uint64_t)i) * N >> 32);
        for (int i = 0; i < C; i++) {
            bool again = false;

            for (int j = i + 1; j < C; j++)
                again |= draw[j] == draw[i];
            assert_int_equal(list[i], again ? -1 : draw[i]);
            absent += again;
            if (!again)
                times[draw[i]]++;
        }
    }
    /* 248 draws of 500 meet 500 (1 - (1 - 1/500)^248) = 195.7 different ones. */
    assert_in_range(absent, 51 * ROUNDS, 54 * ROUNDS);
    for (int i = 0; i < N; i++)
        assert_in_range(times[i], 650, 920);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(rolling),
        cmocka_unit_test(rolling_reaches_all),
        cmocka_unit_test(permutations),
        cmocka_unit_test(without_replacement),
        cmocka_unit_test(with_replacement),
    };
    return run_tap(tests);
}
