/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "data/epochs.h"

/* The numbers that tr_shape_of() derives, of `blocks` samples, D replicas, B and M. */
static struct tr_epoch_plan plan_of(int64_t blocks, int d, int64_t batch, int micros, int64_t seed)
{
    const int64_t iters = blocks / d / (batch * micros);

    return (struct tr_epoch_plan){.count = 3,
                                  .blocks = blocks,
                                  .samples = iters * batch * micros * d,
                                  .iters = iters,
                                  .replicas = d,
                                  .seed = seed};
}

/* Computed in Python from the description in the header, with a Philox of its own. */
static void golden(void **state)
{
    static const int64_t expected[] = {5, 7, 22, 18, 6, 9,  14, 20, 8, 0, 17, 19, 11, 4, 12, 21,
                                       3, 1, 16, 18, 9, 10, 13, 12, 5, 4, 14, 20, 8,  0, 15, 21};
    const struct tr_epoch_plan s = plan_of(23, 2, 2, 2, 1234);
    struct tr_epochs x;

    (void)state;
    assert_int_equal(s.samples, 16);
    tr_epochs_open(&x, &s, 2);
    for (int64_t k = 0; k < 32; k++)
        assert_int_equal(tr_epochs_at(&x, k), expected[k]);
    tr_epochs_close(&x);
}

/* The parts of replicas cover the samples and are disjoint, and their sizes differ by one at
   most. */
static void shares(void **state)
{
    (void)state;
    for (int64_t blocks = 1; blocks < 40; blocks++) {
        for (int d = 1; d <= 7; d++) {
            struct tr_epoch_plan s = {.replicas = d, .blocks = blocks};
            int64_t next = 0, first, count;

            for (int r = 0; r < d; r++) {
                tr_epoch_share(&s, r, &first, &count);
                assert_int_equal(first, next);
                assert_in_range(count, blocks / d, blocks / d + 1);
                next += count;
            }
            assert_int_equal(next, blocks);
        }
    }
}

/* Each epoch takes each sample of a replica once at most, only those of its part, and as many as
   make whole iterations; what is left out is another part each time. */
static void once(void **state)
{
    static const struct {
        int64_t blocks, batch;
        int d, micros;
    } cases[] = {{23, 2, 2, 2}, {64, 4, 4, 2}, {1000, 3, 3, 5}, {7, 1, 1, 1}, {9, 1, 5, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tr_epoch_plan s =
            plan_of(cases[i].blocks, cases[i].d, cases[i].batch, cases[i].micros, 42);
        const int64_t batch = cases[i].batch, unit = batch * s.replicas;
        int *seen = calloc((size_t)s.blocks, sizeof *seen), *ever;
        struct tr_epochs x;

        ever = calloc((size_t)s.blocks, sizeof *ever);
        assert_true(seen && ever);
        assert_in_range(s.blocks - s.samples, 0, unit * cases[i].micros + s.replicas - 1);
        tr_epochs_open(&x, &s, batch);
        for (int64_t e = 0; e < 30; e++) {
            memset(seen, 0, (size_t)s.blocks * sizeof *seen);
            for (int64_t k = 0; k < s.samples; k++) {
                int64_t id = tr_epochs_at(&x, e * s.samples + k), first, count;

                tr_epoch_share(&s, (int)(k % unit / batch), &first, &count);
                assert_in_range(id, first, first + count - 1);
                assert_int_equal(seen[id]++, 0);
                ever[id]++;
            }
        }
        for (int64_t id = 0; id < s.blocks; id++)
            assert_true(ever[id] > 0 && ever[id] <= 30);
        tr_epochs_close(&x);
        free(seen);
        free(ever);
    }
}

/* What a replica sees depends on neither B nor M, as long as an epoch is as long. */
static void other_batches(void **state)
{
    enum { EACH = 16, EPOCHS = 2, REPLICAS = 2 };
    static const struct {
        int64_t batch;
        int micros;
    } cuts[] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}, {16, 1}};
    int64_t of[5][REPLICAS][EPOCHS * EACH];

    (void)state;
    for (int i = 0; i < 5; i++) {
        const struct tr_epoch_plan s = plan_of(37, REPLICAS, cuts[i].batch, cuts[i].micros, 5);
        int64_t count[REPLICAS] = {0};
        struct tr_epochs x;

        assert_int_equal(s.samples, REPLICAS * EACH);
        tr_epochs_open(&x, &s, cuts[i].batch);
        for (int64_t k = 0; k < EPOCHS * s.samples; k++) {
            int64_t r = k % (cuts[i].batch * s.replicas) / cuts[i].batch;

            of[i][r][count[r]++] = tr_epochs_at(&x, k);
        }
        tr_epochs_close(&x);
        assert_memory_equal(of[i], of[0], sizeof of[0]);
    }
}

/* Positions in any order, across replicas and epochs, give what one after the other gives. */
static void any_order(void **state)
{
    const struct tr_epoch_plan s = plan_of(100, 3, 2, 3, 9);
    int64_t all = 5 * s.samples;
    int64_t *in_turn = malloc((size_t)all * sizeof *in_turn);
    struct tr_epochs x;

    (void)state;
    assert_non_null(in_turn);
    tr_epochs_open(&x, &s, 2);
    for (int64_t k = 0; k < all; k++)
        in_turn[k] = tr_epochs_at(&x, k);
    for (int64_t i = 0; i < 4 * all; i++) {
        int64_t k = i * 7919 % all;

        assert_int_equal(tr_epochs_at(&x, k), in_turn[k]);
    }
    tr_epochs_close(&x);
    free(in_turn);
}

/* Another seed, epoch or replica is another order; of three samples all six orders come equally often. */
static void fair(void **state)
{
    enum { EPOCHS = 6000 };
    const struct tr_epoch_plan s = plan_of(3, 1, 1, 3, 1);
    int times[27] = {0}, kinds = 0;
    struct tr_epochs x;

    (void)state;
    tr_epochs_open(&x, &s, 1);
    for (int64_t e = 0; e < EPOCHS; e++)
        times[tr_epochs_at(&x, 3 * e) * 9 + tr_epochs_at(&x, 3 * e + 1) * 3 +
              tr_epochs_at(&x, 3 * e + 2)]++;
    tr_epochs_close(&x);
    /* Five standard deviations of a binomial of 1/6. */
    for (int i = 0; i < 27; i++) {
        kinds += times[i] > 0;
        if (times[i] > 0)
            assert_in_range(times[i], EPOCHS / 6 - 145, EPOCHS / 6 + 145);
    }
    assert_int_equal(kinds, 6);
}

static void other_seeds(void **state)
{
    const struct tr_epoch_plan s = plan_of(1000, 2, 4, 5, 1);
    const struct tr_epoch_plan other = plan_of(1000, 2, 4, 5, 2);
    struct tr_epochs a, b;
    int same = 0, again = 0, alike = 0;

    (void)state;
    tr_epochs_open(&a, &s, 4);
    tr_epochs_open(&b, &other, 4);
    for (int64_t k = 0; k < s.samples; k++) {
        const int64_t own = tr_epochs_at(&a, k);

        same += own == tr_epochs_at(&b, k);
        again += own == tr_epochs_at(&a, k + s.samples);
        alike += k % 8 < 4 && own + 500 == tr_epochs_at(&a, k + 4);
    }
    /* About two, two and one are expected. */
    assert_in_range(same, 0, 12);
    assert_in_range(again, 0, 12);
    assert_in_range(alike, 0, 12);
    tr_epochs_close(&a);
    tr_epochs_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),        cmocka_unit_test(shares),    cmocka_unit_test(once),
        cmocka_unit_test(other_batches), cmocka_unit_test(any_order), cmocka_unit_test(fair),
        cmocka_unit_test(other_seeds),
    };
    return run_tap(tests);
}
