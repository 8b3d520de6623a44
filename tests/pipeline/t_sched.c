/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lists.h"

#include <math.h>

/* The most of all micro-batches of those chunks that have come and are not done, one by one. */
static int most_alive(const struct tr_sched *s, const int *kind, int wanted)
{
    const enum tr_instr_kind last = s->kind == TR_SCHED_EVAL ? TR_FWD : TR_BWD;
    bool alive[64][MAX_M] = {{false}};
    int most = 1;

    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];
        int count = 0;

        if (in->kind == TR_FWD && s->rank == 0 && in->at[0].chunk == 0)
            alive[0][in->at[0].micro] = true;
        if ((in->kind == TR_XFER || in->kind == TR_START) && in->legs & TR_RECV_FWD)
            alive[in->at[1].chunk][in->at[1].micro] = true;
        for (int c = 0; c < s->chunks; c++)
            for (int m = 0; m < s->micros; m++)
                count += kind[c] == wanted && alive[c][m];
        most = count > most ? count : most;
        if (in->kind == last)
            alive[in->at[0].chunk][in->at[0].micro] = false;
    }
    return most;
}

/* Pools hold what is alive at once, and no more: one pool, and one of the first chunk and one of the rest. */
static void assert_pools_hold(const struct tr_sched *s)
{
    for (int apart = 0; apart <= 1; apart++) {
        int kind[64] = {0}, slots[64] = {0}, pool[64] = {0};

        for (int c = 1; c < s->chunks; c++)
            kind[c] = apart;
        tr_sched_room(s, kind, slots, pool);
        for (int c = 0; c < s->chunks; c++)
            assert_int_equal(slots[c], tr_sched_slots(s, c));
        for (int i = 0; i <= kind[s->chunks - 1]; i++)
            assert_int_equal(pool[i], most_alive(s, kind, i));
    }
}

/* Where the place of a micro-batch is slot i % slots, nobody is in it when its input comes. */
static void assert_slots_hold(const struct tr_sched *s, int chunk)
{
    const int slots = tr_sched_slots(s, chunk);
    const bool first = s->rank == 0 && chunk == 0;
    bool taken[MAX_M] = {false};
    int most = 0, alive = 0;

    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];
        int micro = -1;

        if (first && in->kind == TR_FWD && in->at[0].chunk == 0)
            micro = in->at[0].micro;
        if (!first && (in->kind == TR_XFER || in->kind == TR_START) && in->legs & TR_RECV_FWD &&
            in->at[1].chunk == chunk)
            micro = in->at[1].micro;
        if (micro >= 0) {
            assert_false(taken[micro % slots]);
            taken[micro % slots] = true;
            most = ++alive > most ? alive : most;
        }
        if (in->kind == (s->kind == TR_SCHED_EVAL ? TR_FWD : TR_BWD) && in->at[0].chunk == chunk) {
            assert_true(taken[in->at[0].micro % slots]);
            taken[in->at[0].micro % slots] = false;
            alive--;
        }
    }
    assert_int_equal(most, slots);
}

/* Closed forms, Narayanan et al. (SC 2021) section 2.2: every rank waits 2 (P - 1) chunk-ticks, and
   holds at most M micro-batches under gpipe, P under 1f1b, K P + P - 1 chunks of
   them interleaved, and one more where the next is received during a backward. */
static void check_training(struct want w)
{
    struct tr_sched all[MAX_P];
    struct tr_sched_cost cost;

    build_all(all, w);
    assert_good(all, &cost);
    assert_int_equal(cost.ticks, 2 * w.k * w.m + 2 * (w.p - 1));
    assert_int_equal(cost.idle, w.p * 2 * (w.p - 1));
    assert_int_equal(cost.live, w.kind == TR_SCHED_GPIPE ? w.m
                                : w.kind == TR_SCHED_1F1B
                                    ? min(w.p, w.m)
                                    : min(w.k * w.m, w.k * w.p + w.p - 1 + w.overlap));
    for (int r = 0; r < w.p; r++)
        assert_pools_hold(&all[r]);
    for (int r = 0; r < w.p; r++)
        for (int c = 0; c < w.k; c++) {
            assert_slots_hold(&all[r], c);
            if (w.kind == TR_SCHED_GPIPE)
                assert_int_equal(tr_sched_slots(&all[r], c), w.m);
            if (w.kind == TR_SCHED_1F1B)
                assert_int_equal(tr_sched_slots(&all[r], c), min(w.p - r, w.m));
        }
    release_all(all);
}

static void check_eval(struct want w)
{
    struct tr_sched all[MAX_P];
    struct tr_sched_cost cost;

    w.kind = TR_SCHED_EVAL;
    build_all(all, w);
    assert_good(all, &cost);
    assert_int_equal(cost.ticks, w.k * w.m + w.p - 1);
    assert_int_equal(cost.idle, w.p * (w.p - 1));
    assert_int_equal(cost.live, 1);
    for (int r = 0; r < w.p; r++)
        for (int c = 0; c < w.k; c++)
            assert_int_equal(tr_sched_slots(&all[r], c), 1);
    release_all(all);
}

static void every_schedule(void **state)
{
    int built = 0;

    (void)state;
    for (int p = 1; p <= MAX_P; p++)
        for (int m = 1; m <= MAX_M; m++) {
            check_training((struct want){TR_SCHED_GPIPE, p, 1, m, 0, false});
            check_training((struct want){TR_SCHED_1F1B, p, 1, m, 0, true});
            check_eval((struct want){TR_SCHED_EVAL, p, 1, m, 0, true});
            for (int k = 2; k <= MAX_K && p > 1 && m % p == 0; k++)
                for (int overlap = 0; overlap <= 1; overlap++) {
                    check_training((struct want){TR_SCHED_INTERLEAVED, p, k, m, 0, overlap});
                    check_eval((struct want){TR_SCHED_EVAL, p, k, m, 0, overlap});
                    built++;
                }
        }
    assert_int_equal(built, 2 * 159);
}

/* Inputs wait for their turn; the slots of training are enough for them. */
static void check_group_eval(struct want w, const struct tr_sched *training)
{
    struct tr_sched all[MAX_P];
    struct tr_sched_cost cost;

    w.kind = TR_SCHED_EVAL;
    build_all(all, w);
    assert_good(all, &cost);
    assert_int_equal(cost.ticks, w.k * w.m + w.p - 1);
    for (int r = 0; r < w.p; r++)
        for (int c = 0; c < w.k; c++) {
            assert_slots_hold(&all[r], c);
            assert_true(tr_sched_slots(&all[r], c) <= tr_sched_slots(&training[r], c));
        }
    for (int r = 0; r < w.p; r++)
        assert_pools_hold(&all[r]);
    release_all(all);
}

/* With a backward that takes longer than a forward the closed form holds as well: (M + (P - 1) / K)
   (t_f + t_b) for stages of K chunks. */
static void lengths(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p *= 2)
        for (int m = p; m <= 4 * p; m += p)
            for (int k = 1; k <= 3; k++)
                for (int overlap = 0; overlap <= (k > 1); overlap++) {
                    const enum tr_sched_kind kind = k > 1 ? TR_SCHED_INTERLEAVED : TR_SCHED_1F1B;
                    double forward[MAX_P * MAX_K], backward[MAX_P * MAX_K], seconds;
                    struct tr_sched all[MAX_P];

                    for (int i = 0; i < p * k; i++) {
                        forward[i] = 1.0;
                        backward[i] = 2.5;
                    }
                    build_all(all, (struct want){kind, p, k, m, 0, overlap});
                    seconds = tr_sched_seconds(all, forward, backward, NULL);
                    assert_true(fabs(seconds - (m * k + p - 1) * 3.5) < 1e-9);
                    release_all(all);
                }
}

/* Two unequal stages, by hand.  Rank 0: F0 0-2, F1 2-4, B0 8-11, B1 14-17; rank 1: F0 2-3, B0 3-8, F1
   8-9, B1 9-14. */
static void unequal(void **state)
{
    const double forward[2] = {2.0, 1.0}, backward[2] = {3.0, 5.0};
    struct tr_sched all[2];

    (void)state;
    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 1, 0, false});
    assert_true(fabs(tr_sched_seconds(all, forward, backward, NULL) - 11.0) < 1e-12);
    release_all(all);
    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 2, 0, false});
    assert_true(fabs(tr_sched_seconds(all, forward, backward, NULL) - 17.0) < 1e-12);
    release_all(all);
}

/* With groups of N >= P micro-batches the length and the waiting are the same, and N takes the place
   of P in what is held, where so many come together. */
static void groups(void **state)
{
    int built = 0;

    (void)state;
    for (int p = 2; p <= MAX_P; p++)
        for (int m = p; m <= MAX_M; m++)
            for (int n = p; n <= m; n++)
                for (int variant = 0; variant < 4 && (m % n == 0 || m % n >= p); variant++) {
                    struct want w = {TR_SCHED_INTERLEAVED, p, 2 + variant % 2, m, n, variant / 2};
                    struct tr_sched all[MAX_P];
                    struct tr_sched_cost cost;

                    build_all(all, w);
                    assert_good(all, &cost);
                    assert_int_equal(cost.ticks, 2 * w.k * m + 2 * (p - 1));
                    assert_int_equal(cost.idle, p * 2 * (p - 1));
                    assert_true(cost.live <= min(w.k * m, w.k * n + p - 1 + w.overlap));
                    for (int r = 0; r < p; r++)
                        for (int c = 0; c < w.k; c++)
                            assert_slots_hold(&all[r], c);
                    check_group_eval(w, all);
                    release_all(all);
                    built++;
                }
    assert_int_equal(built, 6712);
}

/* The cases of Megatron-LM's own test of its schedules: on each rank every backward comes after its
   forward, and there are as many. */
static void assert_pairs(struct want w, int rank)
{
    bool forward[8][32] = {{false}}, backward[8][32] = {{false}};
    int forwards = 0, backwards = 0;
    struct tr_sched s;

    assert_ok(build(&s, w, rank));
    for (int i = 0; i < s.n; i++) {
        const struct tr_slot at = s.list[i].at[0];

        if (s.list[i].kind == TR_FWD) {
            assert_false(forward[at.chunk][at.micro]);
            forward[at.chunk][at.micro] = true;
            forwards++;
        }
        if (s.list[i].kind == TR_BWD) {
            assert_true(forward[at.chunk][at.micro] && !backward[at.chunk][at.micro]);
            backward[at.chunk][at.micro] = true;
            backwards++;
        }
    }
    assert_int_equal(forwards, w.k * w.m);
    assert_int_equal(backwards, w.k * w.m);
    tr_sched_release(&s);
}

static void megatron_cases(void **state)
{
    static const int ranks[] = {1, 2, 4, 8}, micros[] = {8, 32}, chunks[] = {1, 2, 4, 8};
    int cases = 0;

    (void)state;
    for (int i = 0; i < 4 * 2 * 4; i++) {
        struct want w = {TR_SCHED_1F1B, ranks[i / 8], chunks[i % 4], micros[i / 4 % 2], 0, true};

        if (w.k > 1 && w.p == 1)
            continue;
        if (w.k > 1)
            w.kind = TR_SCHED_INTERLEAVED;
        for (int r = 0; r < w.p; r++)
            assert_pairs(w, r);
        cases++;
    }
    assert_int_equal(cases, 26);
}

/* ---- golden prints ---- */

static void assert_prints(struct want w, int r, const char *want)
{
    struct tr_sched s;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_ok(build(&s, w, r));
    tr_sched_print(&s, f);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
    tr_sched_release(&s);
}

static void prints(void **state)
{
    (void)state;
    /* The last of four ranks: forward-recv, backward-send-forward-recv and backward-send, the
       timers of such a rank in Megatron's logs. */
    assert_prints((struct want){TR_SCHED_1F1B, 4, 1, 4, 0, false}, 3,
                  "rank 3: {rf0} F0 B0 {rf1 sb0} F1 B1 {rf2 sb1} F2 B2 {rf3 sb2} F3 B3 {sb3}\n");
    assert_prints((struct want){TR_SCHED_1F1B, 4, 1, 3, 0, false}, 2,
                  "rank 2: {rf0} F0 {sf0} {rf1} F1 {sf1 rb0} B0 {rf2 sb0} F2 {sf2 rb1} B1 {sb1} "
                  "{rb2} B2 {sb2}\n");
    assert_prints((struct want){TR_SCHED_1F1B, 4, 1, 2, 0, false}, 0,
                  "rank 0: F0 {sf0} F1 {sf1 rb0} B0 {rb1} B1\n");
    assert_prints((struct want){TR_SCHED_1F1B, 1, 1, 3, 0, false}, 0,
                  "rank 0: F0 B0 F1 B1 F2 B2\n");
    assert_prints((struct want){TR_SCHED_GPIPE, 1, 1, 2, 0, false}, 0, "rank 0: F0 F1 B0 B1\n");
    assert_prints((struct want){TR_SCHED_GPIPE, 3, 1, 2, 0, false}, 1,
                  "rank 1: {rf0} F0 {sf0} {rf1} F1 {sf1 rb0} B0 {sb0} {rb1} B1 {sb1}\n");
    assert_prints((struct want){TR_SCHED_EVAL, 3, 1, 2, 0, false}, 1,
                  "rank 1: {rf0} F0 {sf0} {rf1} F1 {sf1}\n");
    assert_prints((struct want){TR_SCHED_EVAL, 2, 2, 2, 0, false}, 0,
                  "rank 0: F0.0 {sf0.0} F1.0 {sf1.0 rf0.1} F0.1 {sf0.1 rf1.1} F1.1 {sf1.1}\n");
    assert_prints((struct want){TR_SCHED_INTERLEAVED, 2, 2, 2, 0, false}, 1,
                  "rank 1: {rf0.0} F0.0 {sf0.0 rf1.0} F1.0 {sf1.0 rf0.1} F0.1 B0.1 "
                  "{rf1.1 sb0.1} F1.1 B1.1 {sb1.1 rb0.0} B0.0 {sb0.0 rb1.0} B1.0 {sb1.0}\n");
}

/* As above, but what rank 1 receives for its next forward travels during its backward, and what it
   sends during the forward after that. */
static void overlapped_prints(void **state)
{
    (void)state;
    assert_prints((struct want){TR_SCHED_INTERLEAVED, 2, 2, 2, 0, true}, 0,
                  "rank 0: F0.0 +{sf0.0} F1.0 +{sf1.0 rf0.1} -{sf0.0 rf0.1} F0.1 +{sf0.1 rf1.1} "
                  "-{sf1.0 rf1.1} F1.1 +{sf1.1} +{rb0.1} -{rb0.1} B0.1 +{sb0.1 rb1.1} -{rb1.1} "
                  "B1.1 +{sb1.1 rb0.0} -{sb0.1 rb0.0} B0.0 +{rb1.0} -{rb1.0} B1.0 -{sf0.1 sb1.1} "
                  "-{sf1.1}\n");
    assert_prints((struct want){TR_SCHED_INTERLEAVED, 2, 2, 2, 0, true}, 1,
                  "rank 1: +{rf0.0} -{rf0.0} F0.0 +{sf0.0 rf1.0} -{rf1.0} F1.0 +{sf1.0 rf0.1} "
                  "-{sf0.0 rf0.1} F0.1 +{rf1.1} B0.1 +{sb0.1} -{rf1.1} F1.1 B1.1 +{sb1.1 rb0.0} "
                  "-{sb0.1 rb0.0} B0.0 +{sb0.0 rb1.0} -{sb1.1 rb1.0} B1.0 +{sb1.0} "
                  "-{sf1.0 sb0.0} -{sb1.0}\n");
    /* Three micro-batches in one group: the second chunk starts a tick after its input came. */
    assert_prints((struct want){TR_SCHED_INTERLEAVED, 2, 2, 3, 3, false}, 0,
                  "rank 0: F0.0 {sf0.0} F1.0 {sf1.0 rf0.1} F2.0 {sf2.0 rf1.1} F0.1 {sf0.1 rf2.1} "
                  "F1.1 {sf1.1 rb0.1} F2.1 B0.1 {sf2.1 sb0.1 rb1.1} B1.1 {sb1.1 rb2.1} B2.1 "
                  "{sb2.1 rb0.0} B0.0 {rb1.0} B1.0 {rb2.0} B2.0\n");
}

/* ---- the order of computations, from Megatron-LM's own description ---- */

struct order {
    int n;
    struct tr_instr list[2 * MAX_K * MAX_M];
};

static void compute(struct order *o, enum tr_instr_kind kind, int chunk, int micro)
{
    o->list[o->n++] = (struct tr_instr){.kind = kind, .at = {{chunk, micro}}};
}

static void assert_order(const struct tr_sched *s, const struct order *want)
{
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];

        if (in->kind != TR_FWD && in->kind != TR_BWD)
            continue;
        assert_true(n < want->n);
        assert_int_equal(in->kind, want->list[n].kind);
        assert_int_equal(in->at[0].chunk, want->list[n].at[0].chunk);
        assert_int_equal(in->at[0].micro, want->list[n].at[0].micro);
        n++;
    }
    assert_int_equal(n, want->n);
}

/* The order of one direction: for each group of N micro-batches (the last may be smaller), all of
   them through the first chunk, then through the second, and so on. */
static void group_order(struct tr_slot *order, int k, int m, int group)
{
    for (int first = 0; first < m; first += group)
        for (int chunk = 0; chunk < k; chunk++)
            for (int micro = first; micro < min(first + group, m); micro++)
                *order++ = (struct tr_slot){chunk, micro};
}

static void interleaved_order(struct want w, int r)
{
    const int all = w.m * w.k, group = w.group ? w.group : w.p;
    const int warm = min(2 * (w.p - r - 1) + (w.k - 1) * group, all);
    struct tr_slot order[MAX_K * MAX_M];
    struct order want = {.n = 0};
    struct tr_sched s;

    group_order(order, w.k, w.m, group);
    for (int i = 0; i < all + warm; i++) {
        if (i < all)
            compute(&want, TR_FWD, order[i].chunk, order[i].micro);
        if (i >= warm)
            compute(&want, TR_BWD, w.k - 1 - order[i - warm].chunk, order[i - warm].micro);
    }
    assert_ok(build(&s, w, r));
    assert_order(&s, &want);
    tr_sched_release(&s);
}

static void plain_order(int p, int r, int m)
{
    const int warm = min(p - r - 1, m);
    struct order want = {.n = 0};
    struct tr_sched s;
    int b = 0;

    for (int f = 0; f < warm; f++)
        compute(&want, TR_FWD, 0, f);
    for (int f = warm; f < m; f++) {
        compute(&want, TR_FWD, 0, f);
        compute(&want, TR_BWD, 0, b++);
    }
    while (b < m)
        compute(&want, TR_BWD, 0, b++);
    assert_ok(build(&s, (struct want){TR_SCHED_1F1B, p, 1, m, 0, false}, r));
    assert_order(&s, &want);
    tr_sched_release(&s);
}

static void megatron_orders(void **state)
{
    /* micro-batch.chunk of rank 0 for P = 2, K = 2, M = 4, as its source gives it. */
    static const char *const kinds = "FFFFFBFBFBFBBBBB";
    static const int micro[] = {0, 1, 0, 1, 2, 0, 3, 1, 2, 0, 3, 1, 2, 3, 2, 3};
    static const int chunk[] = {0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0};
    struct order want = {.n = 0};
    struct tr_sched s;

    (void)state;
    for (int i = 0; i < 16; i++)
        compute(&want, kinds[i] == 'F' ? TR_FWD : TR_BWD, chunk[i], micro[i]);
    assert_ok(build(&s, (struct want){TR_SCHED_INTERLEAVED, 2, 2, 4, 0, false}, 0));
    assert_order(&s, &want);
    tr_sched_release(&s);

    for (int p = 1; p <= MAX_P; p++)
        for (int r = 0; r < p; r++)
            for (int m = 1; m <= MAX_M; m++) {
                plain_order(p, r, m);
                for (int k = 2; k <= MAX_K && p > 1 && m > p; k++)
                    for (int n = p; n <= m; n++)
                        if (m % n == 0 || m % n >= p)
                            interleaved_order(
                                (struct want){TR_SCHED_INTERLEAVED, p, k, m, n, k == 3}, r);
            }
}

static void refused(void **state)
{
    struct tr_sched s;

    (void)state;
    assert_fails(TR_ECONFIG, "at least one of each",
                 build(&s, (struct want){TR_SCHED_1F1B, 2, 1, 0, 0, false}, 0));
    assert_fails(TR_ECONFIG, "at least one of each",
                 build(&s, (struct want){TR_SCHED_1F1B, 0, 1, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "at least one of each",
                 build(&s, (struct want){TR_SCHED_EVAL, 2, 0, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "no rank 2 in a pipeline of 2",
                 build(&s, (struct want){TR_SCHED_1F1B, 2, 1, 4, 0, false}, 2));
    assert_fails(TR_ECONFIG, "--pipeline-schedule interleaved",
                 build(&s, (struct want){TR_SCHED_1F1B, 2, 2, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "--pipeline-schedule interleaved",
                 build(&s, (struct want){TR_SCHED_GPIPE, 2, 2, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "--num-layers-per-virtual-pipeline-stage",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 2, 1, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "at least 2 pipeline ranks",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 1, 2, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "such as 6",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 3, 2, 4, 0, false}, 0));
    assert_fails(TR_ECONFIG, "such as 6",
                 build(&s, (struct want){TR_SCHED_EVAL, 3, 2, 5, 0, false}, 0));
    assert_fails(TR_ECONFIG, "at least the 3 pipeline ranks and at most the 6 micro-batches",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 3, 2, 6, 2, false}, 0));
    assert_fails(TR_ECONFIG, "at least the 3 pipeline ranks and at most the 6 micro-batches",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 3, 2, 6, 7, false}, 0));
    assert_fails(TR_ECONFIG, "the last 2 of 10 micro-batches are fewer than the 3 pipeline ranks",
                 build(&s, (struct want){TR_SCHED_EVAL, 3, 2, 10, 4, true}, 0));
    assert_fails(TR_ECONFIG, "more than a schedule counts",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 2, 1 << 20, 1 << 20, 0, false}, 0));
    tr_sched_release(&s);
}

/*
 * Before its first backward a rank has done min(2 (P - 1 - r) + (K - 1) N, K M) forwards and does one more
 * (Narayanan et al., SC 2021, section 2.2.2): so many are alive, and one input that has come ahead.
 * Slots of each chunk by itself would be a quarter more and up to half.
 */
static void pools_of_interleaved(void **state)
{
    enum { P = 8, M = 32 };

    (void)state;
    for (int k = 3; k <= 12; k++)
        for (int rank = 0; rank < P; rank++)
            for (int overlap = 0; overlap <= 1; overlap++) {
                const int done = 2 * (P - 1 - rank) + (k - 1) * P;
                int kind[12] = {0}, slots[12] = {0}, pool[12] = {0}, apart = 0;
                struct tr_sched s;

                assert_ok(
                    build(&s, (struct want){TR_SCHED_INTERLEAVED, P, k, M, 0, overlap != 0}, rank));
                tr_sched_room(&s, kind, slots, pool);
                for (int c = 0; c < k; c++)
                    apart += slots[c];
                assert_true(pool[0] >= done + 1 && pool[0] <= done + 2);
                if (rank == 0 && overlap)
                    print_message("# P 8, K %d: %d places, %d by chunk\n", k, pool[0], apart);
                assert_true(apart > pool[0]);
                tr_sched_release(&s);
            }
}

/* A run whose batch grows plans its memory for the largest number of micro-batches. */
static void slots_grow(void **state)
{
    static const enum tr_sched_kind kinds[] = {TR_SCHED_GPIPE, TR_SCHED_1F1B, TR_SCHED_INTERLEAVED,
                                               TR_SCHED_EVAL};

    (void)state;
    for (size_t kind = 0; kind < 4; kind++) {
        for (int p = 2; p <= 8; p += 2) {
            for (int k = kinds[kind] == TR_SCHED_INTERLEAVED ? 2 : 1; k <= 3; k++) {
                if (k > 1 && kinds[kind] != TR_SCHED_INTERLEAVED)
                    break;
                for (int rank = 0; rank < p; rank++) {
                    int before[3] = {0};

                    for (int m = p; m <= 6 * p; m += p) {
                        struct tr_sched s = {.kind = kinds[kind],
                                             .ranks = p,
                                             .rank = rank,
                                             .chunks = k,
                                             .micros = m,
                                             .overlap = p > 4};

                        assert_ok(tr_sched_build(&s));
                        for (int chunk = 0; chunk < k; chunk++) {
                            assert_true(tr_sched_slots(&s, chunk) >= before[chunk]);
                            before[chunk] = tr_sched_slots(&s, chunk);
                        }
                        tr_sched_release(&s);
                    }
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule),
        cmocka_unit_test(groups),
        cmocka_unit_test(lengths),
        cmocka_unit_test(unequal),
        cmocka_unit_test(megatron_cases),
        cmocka_unit_test(prints),
        cmocka_unit_test(overlapped_prints),
        cmocka_unit_test(megatron_orders),
        cmocka_unit_test(refused),
        cmocka_unit_test(slots_grow),
        cmocka_unit_test(pools_of_interleaved),
    };
    return run_tap(tests);
}
