/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "check.h"
#include "pipeline/sched.h"

/*
 * A shortened list has the buffers and slots of the whole one, and takes the time of the whole one when the
 * groups that it leaves out are each counted as long as one of its own.
 */
enum { MOST_RANKS = 6, MOST_CHUNKS = 3 };

static const struct {
    enum tr_sched_kind kind;
    int ranks, chunks, group;
} cases[] = {
    {TR_SCHED_GPIPE, 3, 1, 0},       {TR_SCHED_1F1B, 1, 1, 0},
    {TR_SCHED_1F1B, 2, 1, 0},        {TR_SCHED_1F1B, 5, 1, 0},
    {TR_SCHED_INTERLEAVED, 2, 2, 0}, {TR_SCHED_INTERLEAVED, 3, 3, 0},
    {TR_SCHED_INTERLEAVED, 3, 2, 5}, {TR_SCHED_EVAL, 4, 1, 0},
    {TR_SCHED_EVAL, 3, 2, 4},
};

enum { CASES = sizeof cases / sizeof *cases };

/* Lists of all ranks; false if the schedule does not take that many. */
static bool build(struct tr_sched *list, int c, int micros, bool overlap)
{
    bool fine = true;

    for (int r = 0; r < cases[c].ranks; r++) {
        list[r] = (struct tr_sched){.kind = cases[c].kind,
                                    .ranks = cases[c].ranks,
                                    .rank = r,
                                    .chunks = cases[c].chunks,
                                    .micros = micros,
                                    .group = cases[c].group,
                                    .overlap = overlap};
        fine = tr_sched_build(&list[r]) == TR_OK && fine;
    }
    return fine;
}

static void drop(struct tr_sched *list, int ranks)
{
    for (int r = 0; r < ranks; r++)
        tr_sched_release(&list[r]);
}

static void same_room(const struct tr_sched *a, const struct tr_sched *b)
{
    assert_int_equal(a->outputs, b->outputs);
    assert_int_equal(a->dinputs, b->dinputs);
    assert_int_equal(a->doutputs, b->doutputs);
    for (int k = 0; k < a->chunks; k++)
        assert_int_equal(tr_sched_slots(a, k), tr_sched_slots(b, k));
}

/* Stages of which the second takes longest, and the last forward is long too. */
static double seconds(const struct tr_sched *list)
{
    double forward[MOST_RANKS * MOST_CHUNKS], backward[MOST_RANKS * MOST_CHUNKS];

    for (int i = 0; i < list->ranks * list->chunks; i++) {
        forward[i] = 1.0 + 0.25 * (i / list->chunks == 1) + 0.125 * (i % 3);
        backward[i] = 2.0 + 0.5 * (i / list->chunks == 1);
    }
    return tr_sched_seconds(list, forward, backward, NULL);
}

static void rooms(void **state)
{
    int shorter = 0;

    (void)state;
    for (int c = 0; c < CASES; c++) {
        for (int micros = 1; micros < 70; micros++) {
            struct tr_sched whole[MOST_RANKS], part[MOST_RANKS];

            if (build(whole, c, micros, c % 2)) {
                const int few = tr_sched_short(&whole[0]);

                assert_true(few <= micros);
                shorter += few < micros;
                assert_true(build(part, c, few, c % 2));
                for (int r = 0; r < cases[c].ranks; r++)
                    same_room(&whole[r], &part[r]);
                drop(part, cases[c].ranks);
            }
            drop(whole, cases[c].ranks);
        }
    }
    assert_true(shorter > 200);
}

static void times(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        for (int micros = 30; micros < 70; micros++) {
            struct tr_sched whole[MOST_RANKS], part[MOST_RANKS], less[MOST_RANKS];

            if (build(whole, c, micros, false) && cases[c].kind != TR_SCHED_GPIPE) {
                const int few = tr_sched_short(&whole[0]), group = tr_sched_repeats(&whole[0]);
                double told;

                assert_true(build(part, c, few, false) && build(less, c, few - group, false));
                told = seconds(part) +
                       (micros - few) / (double)group * (seconds(part) - seconds(less));
                assert_true(fabs(told / seconds(whole) - 1.0) < 1e-9);
                drop(part, cases[c].ranks);
                drop(less, cases[c].ranks);
            }
            drop(whole, cases[c].ranks);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms),
        cmocka_unit_test(times),
    };

    return run_tap(tests);
}
