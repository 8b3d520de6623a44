/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/grid.h"
#include "comm/hang.h"

/* ---- groups ---- */

/* Every group of every grid of up to 24 ranks has exactly its own members. */
static void check_group(int ranks, const bool *in)
{
    int rank[32], n = 0;
    struct tr_members m;

    for (int r = ranks - 1; r >= 0; r--)
        if (in[r])
            rank[n++] = r;
    m = tr_members_of(rank, n);
    assert_int_equal(m.size, n);
    for (int r = 0; r < ranks + 3; r++)
        assert_int_equal(tr_members_have(&m, r), r < ranks && in[r]);
}

static void check_grid(int w, int p, int d, bool order)
{
    const struct tr_layout l = {.w = w, .p = p, .d = d, .tp_pp_dp = order};

    for (int me = 0; me < w * p * d; me++) {
        struct tr_place at = tr_grid_place(&l, me);
        bool in[5][32] = {{false}};

        for (int r = 0; r < w * p * d; r++) {
            struct tr_place x = tr_grid_place(&l, r);

            in[0][r] = x.dp == at.dp && x.pp == at.pp;
            in[1][r] = x.tp == at.tp && x.pp == at.pp;
            in[2][r] = x.tp == at.tp && x.dp == at.dp;
            in[3][r] = x.dp == at.dp;
            in[4][r] = in[2][r] && (x.pp == 0 || x.pp == p - 1);
        }
        for (int group = 0; group < (at.pp == 0 || at.pp == p - 1 ? 5 : 4); group++)
            check_group(w * p * d, in[group]);
    }
}

static void groups_of_grids(void **state)
{
    (void)state;
    for (int w = 1; w <= 24; w++)
        for (int p = 1; p <= 24 / w; p++)
            for (int d = 1; d <= 24 / (w * p); d++)
                for (int order = 0; order < 2; order++)
                    check_grid(w, p, d, order);
}

static void another_group(void **state)
{
    int rank[] = {7, 0, 1, 3};
    struct tr_members m = tr_members_of(rank, 4);

    (void)state;
    assert_int_equal(m.size, 0);
    for (int r = 0; r < 9; r++)
        assert_false(tr_members_have(&m, r));
}

/* ---- sentences ---- */

enum { RANKS = 6, LIMIT = 600 };
static const char host[RANKS][TR_HOST_BYTES] = {"n0", "n0", "n0", "n1", "n1", "n1"};
static struct tr_post post[RANKS];
static char text[800];

/* `stride` apart in its group, as in a world of RANKS. */
static void waits(int rank, const char *call, const char *group, int stride, double seconds)
{
    struct tr_post *p = &post[rank];

    *p = (struct tr_post){.state = TR_WAITS, .seq = 812, .seconds = seconds, .rank = rank};
    p->members = stride == 1 ? (struct tr_members){0, RANKS, RANKS, RANKS}
                             : (struct tr_members){rank % stride, 1, stride, RANKS / stride};
    snprintf(p->call, sizeof p->call, "%s", call);
    snprintf(p->group, sizeof p->group, "%s", group);
}

static void all_wait(void)
{
    memset(post, 0, sizeof post);
    for (int r = 0; r < RANKS; r++)
        waits(r, "all-reduce", "dp", 2, LIMIT + 0.1);
}

static void expect(const char *want)
{
    tr_hang_sentence(post, host, RANKS, LIMIT, text, sizeof text);
    assert_string_equal(text, want);
}

static void one_is_silent(void **state)
{
    (void)state;
    all_wait();
    post[3] = (struct tr_post){.rank = 3};
    expect("after 10 minutes: rank 3 on n1 did not enter the all-reduce in group \"dp\" (call "
           "812), in "
           "which ranks 1, 5 waited for it, and does not answer");
}

static void missing(const char *want)
{
    char list[512];

    tr_hang_missing(post, RANKS, LIMIT, list, sizeof list);
    assert_string_equal(list, want);
}

/* As Horovod lists them, where somebody says what it waits for. */
static void tensors_are_missing(void **state)
{
    (void)state;
    all_wait();
    missing("");
    post[3] = (struct tr_post){.rank = 3};
    missing("");
    strcpy(post[1].about, "head.weight, norm.bias");
    strcpy(post[5].about, "norm.bias");
    missing("Missing ranks:\n3: [head.weight, norm.bias]");
    post[5].seconds += 100;
    missing("Missing ranks:\n3: [norm.bias]");
    post[1].about[0] = post[5].about[0] = '\0';
    missing("");
}

static void suspect(const char *want)
{
    char hosts[4 * TR_HOST_BYTES];

    tr_hang_suspects(post, host, RANKS, LIMIT, hosts, sizeof hosts);
    assert_string_equal(hosts, want);
}

/* Which hosts the next start may do without: never for one that was merely late. */
static void whose_host(void **state)
{
    static const char each[RANKS][TR_HOST_BYTES] = {"n0", "n1", "n2", "n3", "n4", "n5"};
    char hosts[4 * TR_HOST_BYTES];

    (void)state;
    all_wait();
    suspect("");
    waits(1, "all-reduce", "dp", 2, 1);
    suspect("");
    post[1].state = TR_BUSY;
    post[1].seconds = LIMIT + 60;
    suspect("n0");
    for (int r = 3; r < RANKS; r++)
        post[r] = (struct tr_post){.rank = r};
    suspect("n1");
    post[1] = (struct tr_post){.rank = 1};
    suspect("n0,n1");
    tr_hang_suspects(post, each, RANKS, LIMIT, hosts, sizeof hosts);
    assert_string_equal(hosts, "");
    waits(5, "all-reduce", "dp", 2, LIMIT + 0.1);
    tr_hang_suspects(post, each, RANKS, LIMIT, hosts, sizeof hosts);
    assert_string_equal(hosts, "n1,n3,n4");
}

/* Who waits for a message waits for its sender, and not for the rest of the group. */
static void a_message_is_missing(void **state)
{
    (void)state;
    all_wait();
    post[2] = (struct tr_post){.rank = 2};
    waits(4, "exchange", "pp", 1, LIMIT + 5);
    post[4].peers = 1;
    post[4].peer[0] = 2;
    waits(0, "exchange", "pp", 1, LIMIT + 7);
    post[0].peers = 1;
    post[0].peer[0] = 1;
    expect("after 10 minutes: rank 2 on n0 did not enter the exchange in group \"pp\", in which "
           "rank 4 "
           "waited for it, and does not answer");
}

/* One that answers but is in no call is named only if nobody is silent or it has long been there. */
static void one_computes(void **state)
{
    (void)state;
    all_wait();
    post[4].state = TR_BUSY;
    post[4].seq = 811;
    post[4].seconds = 660;
    expect(
        "after 10 minutes: rank 4 on n1 did not enter the all-reduce in group \"dp\" (call 812), "
        "in "
        "which ranks 0, 2 waited for it, but computes or waits for a file since 11 minutes; it was "
        "last in the all-reduce in group \"dp\" (call 811)");
    post[4].seconds = 1;
    post[1] = (struct tr_post){.rank = 1};
    expect("after 10 minutes: rank 1 on n0 did not enter the all-reduce in group \"dp\" (call "
           "812), in "
           "which ranks 3, 5 waited for it, and does not answer");
}

static void one_came_late(void **state)
{
    (void)state;
    all_wait();
    post[0].seconds = 1.5;
    expect("after 10 minutes: rank 0 on n0 did not enter the all-reduce in group \"dp\" (call "
           "812), in "
           "which ranks 2, 4 waited for it in time, but came 1.5 seconds ago to the all-reduce in "
           "group "
           "\"dp\" (call 812)");
}

static void a_node_is_lost(void **state)
{
    (void)state;
    all_wait();
    for (int r = 2; r < RANKS; r++)
        post[r] = (struct tr_post){.rank = r};
    waits(0, "barrier", "world", 1, LIMIT);
    waits(1, "barrier", "world", 1, LIMIT);
    tr_hang_sentence(post, host, RANKS, LIMIT, text, sizeof text);
    assert_non_null(
        strstr(text, "rank 2 on n0 did not enter the barrier in group \"world\" (call 812)"));
    assert_non_null(strstr(text, "; rank 3 on n1 did not enter"));
    assert_non_null(strstr(text, "; and 1 more ranks like them"));
    assert_null(strstr(text, "rank 5"));
}

static void all_wait_for_one_another(void **state)
{
    (void)state;
    all_wait();
    waits(5, "barrier", "world", 1, LIMIT);
    expect("after 10 minutes: all ranks answer and wait for one another: ranks 0, 1, 2, 3 and 1 "
           "more in "
           "the all-reduce in group \"dp\" (call 812); rank 5 in the barrier in group \"world\" "
           "(call 812); a link of the network is broken, or this is a bug");
}

/* However little room there is. */
static void cut_off(void **state)
{
    char whole[800];

    (void)state;
    all_wait();
    post[3] = (struct tr_post){.rank = 3};
    tr_hang_sentence(post, host, RANKS, LIMIT, whole, sizeof whole);
    for (size_t n = 1; n <= strlen(whole); n++) {
        memset(text, 'x', sizeof text);
        tr_hang_sentence(post, host, RANKS, LIMIT, text, n);
        assert_int_equal(strlen(text), n - 1);
        assert_memory_equal(text, whole, n - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_grids),
        cmocka_unit_test(another_group),
        cmocka_unit_test(whose_host),
        cmocka_unit_test(one_is_silent),
        cmocka_unit_test(a_message_is_missing),
        cmocka_unit_test(tensors_are_missing),
        cmocka_unit_test(one_computes),
        cmocka_unit_test(one_came_late),
        cmocka_unit_test(a_node_is_lost),
        cmocka_unit_test(all_wait_for_one_another),
        cmocka_unit_test(cut_off),
    };
    return run_tap(tests);
}
