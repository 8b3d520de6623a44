/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lists.h"

#include <limits.h>
#include <math.h>

/* zb-h1 and zb-v: the order, the length, the memory, and what the checker says of lists that are wrong. */

static struct want want(int p, int m)
{
    return (struct want){.kind = TR_SCHED_ZB_H1, .p = p, .k = 1, .m = m};
}

/* What is computed, as the golden files have it: "F0 B0 W0", and under zb-v in PyTorch's words, "3F0 3I0 3W0" of stage 3. */
static void order_of(const struct tr_sched *s, char *text, size_t bytes)
{
    const char *const letters = s->vee ? "FIW" : "FBW";
    FILE *f = fmemopen(text, bytes, "w");
    const char *between = "";

    assert_non_null(f);
    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];

        if (!tr_instr_computes(in))
            continue;
        fputs(between, f);
        if (s->vee)
            fprintf(f, "%d", in->at[0].chunk ? 2 * s->ranks - 1 - s->rank : s->rank);
        fprintf(f, "%c%d",
                letters[in->kind == TR_FWD   ? 0
                        : in->kind == TR_BWD ? 1
                                             : 2],
                in->at[0].micro);
        between = " ";
    }
    fputc('\n', f);
    fclose(f);
}

/* A golden file, behind its first line. */
static FILE *open_golden(const char *name, char *line, size_t bytes)
{
    const char *srcdir = getenv("srcdir");
    char path[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/%s", srcdir ? srcdir : ".", name);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, (int)bytes, f));
    return f;
}

static void assert_orders(const struct tr_sched *all, FILE *f)
{
    char line[2048], text[2048];

    for (int r = 0; r < all->ranks; r++) {
        assert_non_null(fgets(line, sizeof line, f));
        order_of(&all[r], text, sizeof text);
        assert_string_equal(text, line);
    }
}

/* tests/golden/make_zero_bubble.py runs the rules of the paper on a clock and has no formula of this order. */
static void golden_orders(void **state)
{
    char line[2048];
    FILE *f = open_golden("zero_bubble.txt", line, sizeof line);
    int p, m, ticks, cases = 0;

    (void)state;
    while (fgets(line, sizeof line, f)) {
        struct tr_sched all[MAX_P];
        struct tr_sched_cost cost;

        assert_int_equal(sscanf(line, "%d %d %d", &p, &m, &ticks), 3);
        build_all(all, want(p, m));
        assert_good(all, &cost);
        assert_int_equal(cost.ticks, ticks);
        assert_orders(all, f);
        release_all(all);
        cases++;
    }
    fclose(f);
    assert_int_equal(cases, 39);
}

static struct want want_v(int p, int m)
{
    return (struct want){.kind = TR_SCHED_ZB_V, .p = p, .k = 2, .m = m};
}

static double seconds_of(const struct tr_sched *all, const double time[3])
{
    double each[3][2 * MAX_P];

    for (int i = 0; i < 3 * 2 * MAX_P; i++)
        each[i / (2 * MAX_P)][i % (2 * MAX_P)] = time[i / (2 * MAX_P)];
    return tr_sched_seconds(all, each[0], each[1], each[2]);
}

/* Equal to the lists that PyTorch's ScheduleZBVZeroBubble made, computation by computation, for every size of the file;
   and lengths of those lists without messages.  Ours wait for messages in no size of these: nothing is added to the lengths
   but the digits that were not printed. */
static void golden_orders_v(void **state)
{
    static const double times[][3] = {{1, 1, 1}, {1, 1.3, 0.8}, {1, 1.5, 0.5}};
    char line[2048];
    FILE *f = open_golden("zero_bubble_v.txt", line, sizeof line);
    double length[3];
    int p, m, cases = 0;

    (void)state;
    while (fgets(line, sizeof line, f)) {
        struct tr_sched all[MAX_P];
        struct tr_sched_cost cost;

        assert_int_equal(
            sscanf(line, "%d %d %lf %lf %lf", &p, &m, &length[0], &length[1], &length[2]), 5);
        build_all(all, want_v(p, m));
        assert_good(all, &cost);
        assert_int_equal(cost.ticks, (int)length[0]);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(seconds_of(all, times[i]) - length[i]) < 1e-5 * length[i]);
        assert_orders(all, f);
        release_all(all);
        cases++;
    }
    fclose(f);
    assert_int_equal(cases, 25);
}

/*
 * Qi et al., section 6: where F, B and W of a chunk take one tick each no rank waits between its first and its last
 * computation, so a step takes 6 M ticks, and P - 1 until the last rank begins; and memory is that of 1F1B, P
 * micro-batches of two chunks.
 */
static void every_size_v(void **state)
{
    (void)state;
    for (int p = 2; p <= MAX_P; p++)
        for (int m = 1; m <= MAX_M; m++) {
            struct tr_sched all[MAX_P];
            struct tr_sched_cost cost;

            build_all(all, want_v(p, m));
            assert_good(all, &cost);
            assert_true(cost.live <= min(2 * m, 2 * p));
            if (m >= 2 * p - 1) {
                assert_int_equal(cost.ticks, 6 * m + p - 1);
                assert_int_equal(cost.idle, p * (p - 1));
            }
            for (int r = 0; r < p; r++) {
                int kind[2] = {0}, slots[2] = {0}, pool[2] = {0};

                tr_sched_room(&all[r], kind, slots, pool);
                assert_true(pool[0] <= min(2 * m, 2 * p));
            }
            release_all(all);
        }
}

/* Forwards on the same route: a micro-batch every two ticks, and 2 P - 2 until the first one is through. */
static void evaluations_v(void **state)
{
    (void)state;
    for (int p = 2; p <= MAX_P; p++)
        for (int m = 1; m <= MAX_M; m++) {
            struct tr_sched all[MAX_P];
            struct tr_sched_cost cost;

            for (int r = 0; r < p; r++) {
                all[r] = (struct tr_sched){.kind = TR_SCHED_EVAL,
                                           .ranks = p,
                                           .rank = r,
                                           .chunks = 2,
                                           .micros = m,
                                           .vee = true};
                assert_ok(tr_sched_build(&all[r]));
            }
            assert_good(all, &cost);
            assert_int_equal(cost.ticks, 2 * m + 2 * p - 2);
            assert_int_equal(cost.live, 1);
            release_all(all);
        }
}

/* Qi et al., ICLR 2024, table 2: of ticks of one length a rank waits P - 1, a third of what it waits in 1f1b, and no
   rank holds more than the first one of 1f1b: min(P, M), of which min(P - r, M) wait for their backward. */
static void every_size(void **state)
{
    (void)state;
    for (int p = 1; p <= MAX_P; p++)
        for (int m = 1; m <= MAX_M; m++) {
            struct tr_sched all[MAX_P];
            struct tr_sched_cost cost;

            build_all(all, want(p, m));
            assert_good(all, &cost);
            assert_int_equal(cost.live, min(p, m));
            if (m >= p) {
                assert_int_equal(cost.ticks, 3 * m + p - 1);
                assert_int_equal(cost.idle, p * (p - 1));
            }
            for (int r = 0; r < p; r++) {
                int kind = 0, slots = 0, pool = 0;

                tr_sched_room(&all[r], &kind, &slots, &pool);
                assert_int_equal(slots, min(p - r, m));
                assert_int_equal(pool, min(p, m));
            }
            release_all(all);
        }
}

/* The same table: M (T_F + T_B + T_W) + (P - 1) (T_F + T_B - T_W), as long as a W fits between two backwards. */
static void unequal_times(void **state)
{
    static const double times[][3] = {
        {1, 1, 1}, {1, 1.3, 0.8}, {1, 1.5, 0.5}, {2, 2.5, 2}, {1, 1, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        for (int p = 1; p <= MAX_P; p++)
            for (int m = 2 * p; m <= MAX_M; m++) {
                const double f = times[i][0], b = times[i][1], w = times[i][2];
                const double closed = m * (f + b + w) + (p - 1) * (f + b - w);
                double forward[MAX_P], backward[MAX_P], weights[MAX_P];
                struct tr_sched all[MAX_P];

                for (int r = 0; r < p; r++) {
                    forward[r] = f;
                    backward[r] = b;
                    weights[r] = w;
                }
                build_all(all, want(p, m));
                assert_true(fabs(tr_sched_seconds(all, forward, backward, weights) - closed) <
                            1e-9 * closed);
                release_all(all);
            }
}

/* A step of which whole groups are left out has the same buffers, slots and ends. */
static void shorter(void **state)
{
    (void)state;
    for (int p = 1; p <= MAX_P; p++)
        for (int r = 0; r < p; r++) {
            struct tr_sched s, cut;
            int kind = 0, room[2][2] = {{0}};

            assert_ok(build(&s, want(p, 7 * p + 1), r));
            assert_ok(build(&cut, want(p, tr_sched_short(&s)), r));
            assert_true(cut.micros < s.micros);
            tr_sched_room(&s, &kind, &room[0][0], &room[0][1]);
            tr_sched_room(&cut, &kind, &room[1][0], &room[1][1]);
            assert_memory_equal(room[0], room[1], sizeof room[0]);
            tr_sched_release(&cut);
            tr_sched_release(&s);
        }
}

/* ---- the checker ---- */

static int find(const struct tr_sched *s, enum tr_instr_kind kind, int micro)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].kind == kind && s->list[i].at[0].micro == micro)
            return i;
    fail();
    return -1;
}

static void swap(struct tr_sched *s, int i, int j)
{
    const struct tr_instr in = s->list[i];

    s->list[i] = s->list[j];
    s->list[j] = in;
}

static void assert_fault(const struct tr_sched *all, const char *text)
{
    const char *fault = tr_sched_check(all, NULL);

    if (!fault || !strstr(fault, text))
        fail_msg("\"%s\" is not in: %s", text, fault ? fault : "(no fault)");
}

static void faults(void **state)
{
    struct tr_sched all[3];
    int at;

    (void)state;
    build_all(all, want(3, 6));
    swap(&all[0], find(&all[0], TR_WGT, 0), find(&all[0], TR_BWD, 0));
    assert_fault(all, "weights 0 come before their backward");
    release_all(all);

    build_all(all, want(3, 6));
    swap(&all[1], find(&all[1], TR_WGT, 3), find(&all[1], TR_WGT, 4));
    assert_fault(all, "weights 4 come where 3 are due");
    release_all(all);

    build_all(all, want(3, 6));
    at = find(&all[2], TR_WGT, 5);
    memmove(&all[2].list[at], &all[2].list[at + 1],
            (size_t)(all[2].n - at - 1) * sizeof *all[2].list);
    all[2].n--;
    assert_fault(all, "the list ends with micro-batches left to do");
    release_all(all);

    build_all(all, want(3, 6));
    all[1].split = false;
    assert_fault(all, "the list belongs to another schedule");
    all[0].split = all[2].split = false;
    assert_fault(all, "the backward pass is not split");
    release_all(all);
}

static int find_v(const struct tr_sched *s, enum tr_instr_kind kind, int chunk, int micro)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].kind == kind && s->list[i].at[0].chunk == chunk &&
            s->list[i].at[0].micro == micro)
            return i;
    fail();
    return -1;
}

/* What goes from chunk to chunk on the last rank without a message. */
static void faults_v(void **state)
{
    struct tr_sched all[3];

    (void)state;
    build_all(all, want_v(3, 6));
    swap(&all[2], find_v(&all[2], TR_FWD, 0, 0), find_v(&all[2], TR_FWD, 1, 0));
    assert_fault(all, "forward 0 runs before its input has come");
    release_all(all);

    build_all(all, want_v(3, 6));
    swap(&all[2], find_v(&all[2], TR_BWD, 0, 2), find_v(&all[2], TR_BWD, 1, 2));
    assert_fault(all, "backward 2 runs before its gradient has come");
    release_all(all);

    build_all(all, want_v(3, 6));
    all[1].vee = false;
    assert_fault(all, "the list belongs to another schedule");
    release_all(all);
}

static void refused(void **state)
{
    struct tr_sched s;

    (void)state;
    assert_fails(TR_ECONFIG, "one chunk of layers per rank, not 2",
                 build(&s, (struct want){.kind = TR_SCHED_ZB_H1, .p = 2, .k = 2, .m = 4}, 0));
    tr_sched_release(&s);
    assert_fails(TR_ECONFIG, "each rank has 2 chunks of layers, not 3",
                 build(&s, (struct want){.kind = TR_SCHED_ZB_V, .p = 2, .k = 3, .m = 4}, 0));
    tr_sched_release(&s);
    assert_fails(TR_ECONFIG, "at least 2 pipeline ranks", build(&s, want_v(1, 4), 0));
    tr_sched_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_orders),   cmocka_unit_test(every_size),
        cmocka_unit_test(unequal_times),   cmocka_unit_test(shorter),
        cmocka_unit_test(faults),          cmocka_unit_test(refused),
        cmocka_unit_test(golden_orders_v), cmocka_unit_test(every_size_v),
        cmocka_unit_test(evaluations_v),   cmocka_unit_test(faults_v),
    };

    return run_tap(tests);
}
