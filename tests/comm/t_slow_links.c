/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "comm/slow.h"

/* Files of --slow-links, and what each link then makes of a transfer: numbers, without a clock. */

static const char three[] = "# three regions\n"
                            "group oregon 0-1\n"
                            "group ohio 2,4\n"
                            "group tokyo 3\n"
                            "rate 10 0.8 0.3   # from oregon\n"
                            "  0.8 20 0.2\n"
                            "  0.5 0.25 40\n"
                            "latency\n"
                            "0.1 25 48\n"
                            "26 0.2 80\n"
                            "49 81 0.3\n";

static void regions(void **state)
{
    struct tr_slow_links l;

    (void)state;
    assert_ok(tr_slow_links_read("f", three, &l));
    assert_int_equal(l.groups, 3);
    assert_int_equal(l.ranks, 5);
    assert_true(tr_slow_links_rate(&l, 0, 1) == 10e9);
    assert_true(tr_slow_links_rate(&l, 1, 4) == 0.8e9);
    assert_true(tr_slow_links_rate(&l, 3, 0) == 0.5e9);
    assert_true(tr_slow_links_rate(&l, 4, 3) == 0.2e9);
    assert_true(tr_slow_links_latency(&l, 2, 0) == 26 * 1e-3);
    assert_true(tr_slow_links_latency(&l, 0, 3) == 48 * 1e-3);
    assert_true(tr_slow_links_latency(&l, 3, 3) == 0.3 * 1e-3);
    tr_slow_links_release(&l);
}

/* Without groups a row is a rank, and without latencies there are none. */
static void ranks(void **state)
{
    struct tr_slow_links l;

    (void)state;
    assert_ok(tr_slow_links_read("f", "rate 1 2 3 4", &l));
    assert_int_equal(l.ranks, 2);
    assert_true(tr_slow_links_rate(&l, 1, 0) == 3e9);
    assert_true(tr_slow_links_latency(&l, 1, 0) == 0.0);
    tr_slow_links_release(&l);
}

static enum tr_status read_text(const char *text)
{
    struct tr_slow_links l;
    enum tr_status s = tr_slow_links_read("f", text, &l);

    tr_slow_links_release(&l);
    return s;
}

static void wrong(void **state)
{
    (void)state;
    assert_fails(TR_ECONFIG, "no matrix `rate`", read_text(""));
    assert_fails(TR_ECONFIG, "no matrix `rate`", read_text("latency 0 1 1 0"));
    assert_fails(TR_ECONFIG, "f, line 2: a matrix of 2 groups has 4 numbers, and here are 3",
                 read_text("group a 0\ngroup b 1 rate 1 2 3"));
    assert_fails(TR_ECONFIG, "has 4 numbers, and here are 5", read_text("rate 1 2 3 4 5"));
    assert_fails(TR_ECONFIG, "above 0", read_text("rate 1 0 1 1"));
    assert_fails(TR_ECONFIG, "above 0", read_text("rate 1 -1 1 1"));
    assert_fails(TR_ECONFIG, "above 0, and not 1Gbit", read_text("rate 1 1Gbit 1 1"));
    assert_fails(TR_ECONFIG, "at least 0", read_text("rate 1 latency -1"));
    assert_fails(TR_ECONFIG, "given once", read_text("rate 1 rate 1"));
    assert_fails(TR_ECONFIG, "a rank is in one group",
                 read_text("group a 0-2 group b 2 rate 1 1 1 1"));
    assert_fails(TR_ECONFIG, "rank 1 is in no group",
                 read_text("group a 0 group b 2 rate 1 1 1 1"));
    assert_fails(TR_ECONFIG, "ranks are as in", read_text("group a 3-1 rate 1"));
    assert_fails(TR_ECONFIG, "ranks are as in", read_text("group a x rate 1"));
    assert_fails(TR_ECONFIG, "ranks are as in", read_text("group a 0-99999999 rate 1"));
    assert_fails(TR_ECONFIG, "a name and ranks", read_text("group"));
    assert_fails(TR_ECONFIG, "there are `group` lines, then", read_text("rate 1 group a 0"));
    assert_fails(TR_ECONFIG, "and not link", read_text("link 1"));
}

/* One network for all: as it was without links. */
static void alike(void **state)
{
    const struct tr_slow_how how = {.rate = 8e6, .latency = 0.5};
    const struct tr_slow_leg leg = tr_slow_leg(&how, NULL, 4, 1, 2, 6, 1000);

    (void)state;
    assert_int_equal(leg.link, 0);
    assert_true(leg.sending == 1e-3);
    assert_true(leg.arriving == 3.0);
}

/* A group of ranks 4, 3 and 0 of the three regions: ohio, tokyo, oregon. */
static void legs(void **state)
{
    static const int member[] = {4, 3, 0};
    struct tr_slow_links l;
    struct tr_slow_how how = {.links = &l};
    struct tr_slow_leg leg;

    (void)state;
    assert_ok(tr_slow_links_read("f", three, &l));
    /* A message from oregon to ohio is on the link to ohio, which is group 1. */
    leg = tr_slow_leg(&how, member, 3, 2, 0, 1, 100000000);
    assert_int_equal(leg.link, 1);
    assert_true(fabs(leg.sending - (1.0)) < 1e-12);
    assert_true(fabs(leg.arriving - (0.025)) < 1e-12);
    /* An all-reduce goes twice around the ring but for two hops: from ohio to tokyo, oregon, ohio, tokyo. */
    leg = tr_slow_leg(&how, member, 3, 0, 1, 4, 100000000);
    assert_int_equal(leg.link, 2);
    assert_true(fabs(leg.sending - (4.0)) < 1e-12);
    assert_true(fabs(leg.arriving - (0.080 + 0.049 + 0.025 + 0.080)) < 1e-12);
    /* The same from oregon: the ring is slow for each, and its own link is another one. */
    leg = tr_slow_leg(&how, member, 3, 2, 0, 4, 100000000);
    assert_int_equal(leg.link, 1);
    assert_true(fabs(leg.sending - (1.0)) < 1e-12);
    assert_true(fabs(leg.arriving - (0.025 + 0.080 + 0.049 + 0.025)) < 1e-12);
    tr_slow_links_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions), cmocka_unit_test(ranks), cmocka_unit_test(wrong),
        cmocka_unit_test(alike),   cmocka_unit_test(legs),
    };
    return run_tap(tests);
}
