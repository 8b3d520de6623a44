/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lists.h"

#include "util/rng.h"

/* What tr_sched_check() catches: lists that are damaged in one place. */

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
    return tr_instr_computes(in);
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
        enum tr_sched_kind kind = (enum tr_sched_kind)throw_dice(&d, TR_SCHED_EVAL + 1);
        int p = 1 + throw_dice(&d, 6), k = 1, how = throw_dice(&d, DAMAGES);
        int m = 1 + throw_dice(&d, 8), group = 0, overlap = throw_dice(&d, 2);
        struct tr_sched all[MAX_P], *hit;

        if (kind == TR_SCHED_INTERLEAVED || (kind == TR_SCHED_EVAL && throw_dice(&d, 2))) {
            p = 2 + throw_dice(&d, 3);
            k = 2 + throw_dice(&d, 2);
            m = p * (1 + throw_dice(&d, 3));
            group = throw_dice(&d, 2) ? m : 0;
        }
        if (kind == TR_SCHED_ZB_V) {
            p = 2 + throw_dice(&d, 3);
            k = 2;
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
    struct tr_instr sb0 = {.kind = TR_XFER, .legs = TR_SEND_BWD};

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

/* The list of rank 0 above: what is under way may not be touched, and must be waited for. */
static void under_way(void **state)
{
    struct want w = {TR_SCHED_INTERLEAVED, 2, 2, 2, 0, true};
    struct tr_sched all[2];

    (void)state;
    build_all(all, w);
    swap(&all[0], 4);
    assert_fault(all, "rank 0, instruction 4: forward 0 runs before its input has come");
    release_all(all);

    build_all(all, w);
    assert_int_equal(all[0].outputs, 2);
    all[0].outputs = 1;
    assert_fault(all, "rank 0, instruction 2: forward 1 overwrites output 0, which was not sent");
    release_all(all);

    build_all(all, w);
    assert_int_equal(all[0].dinputs, 2);
    all[0].dinputs = 1;
    assert_fault(all, "rank 0, instruction 15: backward 1 overwrites gradient 0");
    release_all(all);

    build_all(all, w);
    all[0].list[4].legs = TR_RECV_FWD;
    assert_fault(all, "rank 0, instruction 6: more than 2 messages of a leg are under way");
    release_all(all);

    build_all(all, w);
    all[0].n--;
    assert_fault(all, "rank 0, instruction 23: the list ends with a message that was not waited");
    release_all(all);

    build_all(all, w);
    swap(&all[0], 10);
    assert_fault(all, "rank 0, instruction 10: message 0 is not the oldest that is under way");
    release_all(all);

    /* On the last rank gradients come round the ring N - P ticks before their turn. */
    build_all(all, (struct want){TR_SCHED_INTERLEAVED, 2, 2, 4, 4, false});
    assert_int_equal(all[0].doutputs, 1);
    assert_int_equal(all[1].doutputs, 3);
    all[1].doutputs = 2;
    assert_fault(all, "gradient 2 overwrites 0, which was not used");
    release_all(all);
}

/* Where each rank waits for a message before it starts the one that the other waits for. */
static void deadlock_under_way(void **state)
{
    struct tr_sched all[2];

    (void)state;
    build_all(all, (struct want){TR_SCHED_INTERLEAVED, 2, 2, 2, 0, true});
    for (int r = 0; r < 2; r++) {
        struct tr_instr in = all[r].list[3], wait = all[r].list[4];

        assert_int_equal(in.kind, TR_START);
        assert_int_equal(in.legs, TR_SEND_FWD | TR_RECV_FWD);
        assert_int_equal(wait.kind, TR_WAIT);
        all[r].list[3].legs = TR_RECV_FWD;
        all[r].list[4].legs &= ~(unsigned)TR_RECV_FWD;
        in.legs = TR_SEND_FWD;
        wait.legs = TR_RECV_FWD;
        insert(&all[r], 4, in);
        insert(&all[r], 4, wait);
        if (all[r].list[6].legs == 0)
            drop(&all[r], 6);
    }
    assert_fault(all, "the ranks wait for one another for ever");
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

/* With two ranks, forward and backward messages go to the same peer and only their order
   distinguishes them: rank 0 sends {sf2.0 sb0.1}, rank 1 must not take the gradient first. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged),
        cmocka_unit_test(overwritten),
        cmocka_unit_test(under_way),
        cmocka_unit_test(deadlock),
        cmocka_unit_test(deadlock_under_way),
        cmocka_unit_test(order_of_two),
    };
    return run_tap(tests);
}
