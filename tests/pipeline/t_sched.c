/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/sched.h"
#include "util/rng.h"

enum { MAX_P = 8, MAX_M = 32, MAX_K = 4 };

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* What a test asks for; group 0 is P. */
struct want {
    enum tr_sched_kind kind;
    int p, k, m, group;
    bool overlap;
};

static enum tr_status build(struct tr_sched *s, struct want w, int rank)
{
    *s = (struct tr_sched){
        .kind = w.kind,
        .ranks = w.p,
        .rank = rank,
        .chunks = w.k,
        .micros = w.m,
        .group = w.group,
        .overlap = w.overlap,
    };
    return tr_sched_build(s);
}

/* The lists of all ranks, each in memory of its own that holds twice its length, for damage(). */
static void build_all(struct tr_sched *all, struct want w)
{
    for (int r = 0; r < w.p; r++) {
        struct tr_instr *room;

        assert_ok(build(&all[r], w, r));
        room = malloc(2 * (size_t)all[r].n * sizeof *room);
        assert_non_null(room);
        memcpy(room, all[r].list, (size_t)all[r].n * sizeof *room);
        free(all[r].list);
        all[r].list = room;
    }
}

static void release_all(struct tr_sched *all)
{
    for (int r = all->ranks - 1; r >= 0; r--)
        tr_sched_release(&all[r]);
}

static void assert_good(const struct tr_sched *all, struct tr_sched_cost *cost)
{
    const char *fault = tr_sched_check(all, cost);

    if (fault)
        fail_msg("kind %d, P %d, K %d, M %d, N %d, overlap %d: %s", (int)all->kind, all->ranks,
                 all->chunks, all->micros, all->group, all->overlap, fault);
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

/* ---- what the checker catches ---- */

struct dice {
    struct tr_rng rng;
    uint64_t thrown;
};

static int throw_dice(struct dice *d, int sides)
{
    return (int)(tr_rng_u32(d->rng, d->thrown++) % (uint32_t)sides);
}

static void drop(struct tr_sched *s, int i)
{
    memmove(&s->list[i], &s->list[i + 1], (size_t)(s->n - i - 1) * sizeof *s->list);
    s->n--;
}

static void insert(struct tr_sched *s, int i, struct tr_instr in)
{
    memmove(&s->list[i + 1], &s->list[i], (size_t)(s->n - i) * sizeof *s->list);
    s->list[i] = in;
    s->n++;
}

static bool computes(const struct tr_instr *in)
{
    return in->kind == TR_FWD || in->kind == TR_BWD;
}

/* One of the legs of a transfer, or at[0] of a computation. */
static int some_leg(struct dice *d, const struct tr_instr *in)
{
    int k = 0;

    if (computes(in))
        return 0;
    do
        k = throw_dice(d, TR_LEGS);
    while (!(in->legs >> k & 1));
    return k;
}

/* Another number below `sides` than `not`. */
static int other(struct dice *d, int sides, int not )
{
    return (not +1 + throw_dice(d, sides - 1)) % sides;
}

/* Damage a list in one place; false if this damage does not apply to what is there. */
static bool damage(struct dice *d, struct tr_sched *s, int how)
{
    int i = throw_dice(d, s->n);
    struct tr_instr *in = &s->list[i];
    int leg = some_leg(d, in);

    switch (how) {
    case 0:
        drop(s, i);
        return true;
    case 1:
        insert(s, throw_dice(d, s->n + 1), *in);
        return true;
    case 2:
        if (s->micros == 1)
            return false;
        in->at[leg].micro = other(d, s->micros, in->at[leg].micro);
        return true;
    case 3:
        if (s->chunks == 1)
            return false;
        in->at[leg].chunk = other(d, s->chunks, in->at[leg].chunk);
        return true;
    case 4:
        if (computes(in))
            return false;
        in->legs &= ~(1U << leg);
        if (in->legs == 0)
            drop(s, i);
        return true;
    case 5:
        if (!computes(in))
            return false;
        in->kind = in->kind == TR_FWD ? TR_BWD : TR_FWD;
        return true;
    case 6:
        if (in->kind != TR_START && in->kind != TR_WAIT)
            return false;
        in->kind = in->kind == TR_START ? TR_WAIT : TR_START;
        return true;
    default:
        if (computes(in))
            return false;
        leg = other(d, TR_LEGS, leg);
        in->at[leg] = in->at[some_leg(d, in)];
        in->legs ^= 1U << leg;
        return in->legs != 0;
    }
}

enum { DAMAGES = 8 };
static const char *const damages[DAMAGES] = {
    "deletion",    "duplication",   "wrong micro-batch", "wrong chunk",
    "dropped leg", "wrong compute", "wrong end",         "leg added or dropped"};

/* Each damage in one place of one list is seen, always. */
static void damaged(void **state)
{
    struct dice d = {tr_rng_key(42, TR_STREAM_INIT, 0, 0), 0};
    int done[DAMAGES] = {0};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        enum tr_sched_kind kind = (enum tr_sched_kind)throw_dice(&d, 4);
        int p = 1 + throw_dice(&d, 6), k = 1, how = throw_dice(&d, DAMAGES);
        int m = 1 + throw_dice(&d, 8), group = 0, overlap = throw_dice(&d, 2);
        struct tr_sched all[MAX_P], *hit;

        if (kind == TR_SCHED_INTERLEAVED || (kind == TR_SCHED_EVAL && throw_dice(&d, 2))) {
            p = 2 + throw_dice(&d, 3);
            k = 2 + throw_dice(&d, 2);
            m = p * (1 + throw_dice(&d, 3));
            group = throw_dice(&d, 2) ? m : 0;
        }
        build_all(all, (struct want){kind, p, k, m, group, overlap});
        hit = &all[throw_dice(&d, p)];
        if (damage(&d, hit, how)) {
            done[how]++;
            if (!tr_sched_check(all, NULL))
                fail_msg("a %s was not seen: kind %d, P %d, K %d, M %d, N %d, overlap %d, rank %d",
                         damages[how], (int)kind, p, k, m, group, overlap, hit->rank);
        }
        release_all(all);
    }
    for (int how = 0; how < DAMAGES; how++)
        assert_true(done[how] > 300);
}

static void assert_fault(const struct tr_sched *all, const char *text)
{
    const char *fault = tr_sched_check(all, NULL);

    if (!fault || !strstr(fault, text))
        fail_msg("\"%s\" is not in: %s", text, fault ? fault : "(no fault)");
}

static void swap(struct tr_sched *s, int i)
{
    struct tr_instr in = s->list[i];

    s->list[i] = s->list[i + 1];
    s->list[i + 1] = in;
}

/* Buffers: the list of rank 0 is F0 {sf0} F1 {sf1 rb0} B0 {rb1} B1 and that of rank 1
   {rf0} F0 B0 {rf1 sb0} F1 B1 {sb1}. */
static void overwritten(void **state)
{
    struct tr_sched all[2];
    struct tr_instr sb0 = {TR_XFER, TR_SEND_BWD, {[2] = {0, 0}}};

    (void)state;
    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 2, 0, false});
    swap(&all[0], 1);
    assert_fault(all, "rank 0, instruction 1: forward 1 overwrites output 0");
    release_all(all);

    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 2, 0, false});
    swap(&all[0], 4);
    assert_fault(all, "rank 0, instruction 4: gradient 1 overwrites 0");
    release_all(all);

    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 2, 0, false});
    all[1].list[3].legs = TR_RECV_FWD;
    insert(&all[1], 6, sb0);
    assert_fault(all, "rank 1, instruction 5: backward 1 overwrites gradient 0");
    release_all(all);

    build_all(all, (struct want){TR_SCHED_1F1B, 2, 1, 2, 0, false});
    swap(&all[1], 0);
    assert_fault(all, "rank 1, instruction 0: forward 0 runs before its input");
    release_all(all);
}

/* Two ranks that each send before they receive, and wait for it, wait for ever. */
static void deadlock(void **state)
{
    struct tr_sched all[2];

    (void)state;
    build_all(all, (struct want){TR_SCHED_INTERLEAVED, 2, 2, 2, 0, false});
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < all[r].n; i++) {
            struct tr_instr in = all[r].list[i];
            const unsigned both = TR_SEND_FWD | TR_RECV_FWD;

            if (in.kind != TR_XFER || (in.legs & both) != both)
                continue;
            all[r].list[i].legs = TR_SEND_FWD;
            in.legs &= ~(unsigned)TR_SEND_FWD;
            insert(&all[r], i + 1, in);
        }
    assert_fault(all, "the ranks wait for one another for ever");
    release_all(all);
}

/* With two ranks, forward and backward messages go to the same peer and are told apart by their
   order alone: rank 0 sends {sf2.0 sb0.1}, rank 1 must not take the gradient first. */
static void order_of_two(void **state)
{
    struct tr_sched all[2];
    int split = 0;

    (void)state;
    build_all(all, (struct want){TR_SCHED_INTERLEAVED, 2, 2, 4, 0, false});
    for (int i = 0; i < all[1].n && !split; i++) {
        struct tr_instr in = all[1].list[i];
        const unsigned both = TR_RECV_FWD | TR_RECV_BWD;

        if (in.kind != TR_XFER || (in.legs & both) != both)
            continue;
        all[1].list[i].legs = in.legs & ~(unsigned)TR_RECV_FWD;
        in.legs = TR_RECV_FWD;
        insert(&all[1], i + 1, in);
        split = 1;
    }
    assert_int_equal(split, 1);
    assert_fault(all, "the message that comes from rank 0 is another");
    release_all(all);
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
    assert_fails(TR_ECONFIG, "more than a schedule counts",
                 build(&s, (struct want){TR_SCHED_INTERLEAVED, 2, 1 << 20, 1 << 20, 0, false}, 0));
    tr_sched_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule),  cmocka_unit_test(prints),
        cmocka_unit_test(megatron_orders), cmocka_unit_test(damaged),
        cmocka_unit_test(overwritten),     cmocka_unit_test(deadlock),
        cmocka_unit_test(order_of_two),    cmocka_unit_test(refused),
    };
    return run_tap(tests);
}
