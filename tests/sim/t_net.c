/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "check.h"
#include "sim/net.h"

static void set(void *at, int flow, double rate)
{
    ((struct tr_net *)at)->flow[flow].rate = rate;
}

/* Rates of all flows, of which those that are not active have none. */
static void share(struct tr_net *n)
{
    int all[16];

    for (int i = 0; i < n->flows; i++)
        all[i] = i;
    tr_net_share(n, all, n->flows, set, n);
}

static void start_all(struct tr_net *n)
{
    tr_net_index(n);
    for (int i = 0; i < n->flows; i++)
        n->flow[i].active = true;
    share(n);
}

static void assert_rate(const struct tr_net *n, int flow, double rate)
{
    assert_true(fabs(n->flow[flow].rate / rate - 1.0) < 1e-12);
}

/* Four flows have a quarter each; when one ends, a third. */
static void equal(void **state)
{
    struct tr_net n = {0};
    const int link = tr_net_add_link(&n, TR_NET_NODE, 10.0), ended = 2;

    (void)state;
    for (int i = 0; i < 4; i++)
        tr_net_add_use(&n, link, tr_net_add_flow(&n, 8.0), 1.0);
    start_all(&n);
    for (int i = 0; i < 4; i++)
        assert_rate(&n, i, 2.5);
    n.flow[ended].active = false;
    tr_net_share(&n, &ended, 1, set, &n);
    assert_rate(&n, 0, 10.0 / 3.0);
    assert_rate(&n, 3, 10.0 / 3.0);
    tr_net_release(&n);
}

/* A line of two links of 1 and 2: the flow over both has half of the first, and leaves 1.5 of the second.  A flow with a
   limit leaves the rest, and one of weight 3 takes three parts. */
static void unequal(void **state)
{
    struct tr_net n = {0};
    const int a = tr_net_add_link(&n, TR_NET_LEAF, 1.0), b = tr_net_add_link(&n, TR_NET_LEAF, 2.0);
    const int c = tr_net_add_link(&n, TR_NET_LEAF, 10.0), d = tr_net_add_link(&n, TR_NET_LEAF, 8.0);

    (void)state;
    for (int i = 0; i < 8; i++)
        (void)tr_net_add_flow(&n, i == 3 ? 1.0 : 100.0);
    tr_net_add_use(&n, a, 0, 1.0);
    tr_net_add_use(&n, b, 0, 1.0);
    tr_net_add_use(&n, a, 1, 1.0);
    tr_net_add_use(&n, b, 2, 1.0);
    for (int i = 3; i < 6; i++)
        tr_net_add_use(&n, c, i, 1.0);
    tr_net_add_use(&n, d, 6, 3.0);
    tr_net_add_use(&n, d, 7, 1.0);
    start_all(&n);
    assert_rate(&n, 0, 0.5);
    assert_rate(&n, 1, 0.5);
    assert_rate(&n, 2, 1.5);
    assert_rate(&n, 3, 1.0);
    assert_rate(&n, 4, 4.5);
    assert_rate(&n, 5, 4.5);
    assert_rate(&n, 6, 2.0);
    assert_rate(&n, 7, 2.0);
    tr_net_count(&n, 6, 5.0);
    assert_true(fabs(n.link[d].bytes - 15.0) < 1e-12);
    tr_net_release(&n);
}

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static double load(const struct tr_net *n, int link)
{
    double sum = 0.0;

    for (int u = 0; u < n->uses; u++)
        if (n->use[u].link == link && n->flow[n->use[u].flow].active)
            sum += n->use[u].weight * n->flow[n->use[u].flow].rate;
    return sum;
}

/* Whether that flow goes over a full link on which no flow has more, or has all that it may. */
static bool has_bottleneck(const struct tr_net *n, int flow)
{
    if (n->flow[flow].rate >= n->flow[flow].limit * (1.0 - 1e-9))
        return true;
    for (int u = 0; u < n->uses; u++) {
        const int link = n->use[u].link;
        bool largest =
            n->use[u].flow == flow && load(n, link) >= n->link[link].capacity * (1 - 1e-9);

        for (int v = 0; v < n->uses && largest; v++)
            largest = n->use[v].link != link || !n->flow[n->use[v].flow].active ||
                      n->flow[n->use[v].flow].rate <= n->flow[flow].rate * (1.0 + 1e-9);
        if (largest)
            return true;
    }
    return false;
}

/* Max-min fair is where every flow has a bottleneck (Bertsekas and Gallager, section 6.5.2), in 300 random networks, also
   after a flow has ended and only its neighbours were shared anew. */
static void random_ones(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct tr_net n = {0};
        int ended;

        for (int i = 0; i < 6; i++)
            (void)tr_net_add_link(&n, TR_NET_LEAF, 1.0 + next(&seed) % 20);
        for (int i = 0; i < 10; i++) {
            const int flow = tr_net_add_flow(&n, 1.0 + next(&seed) % 10);

            for (int j = 0; j < 2; j++)
                tr_net_add_use(&n, (int)(next(&seed) % 6), flow, 1.0 + next(&seed) % 3);
        }
        start_all(&n);
        for (int twice = 0; twice < 2; twice++) {
            for (int i = 0; i < n.links; i++)
                assert_true(load(&n, i) <= n.link[i].capacity * (1.0 + 1e-9));
            for (int i = 0; i < n.flows; i++)
                assert_true(!n.flow[i].active || has_bottleneck(&n, i));
            ended = (int)(next(&seed) % 10);
            n.flow[ended].active = false;
            n.flow[ended].rate = 0.0;
            tr_net_share(&n, &ended, 1, set, &n);
        }
        tr_net_release(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal),
        cmocka_unit_test(unequal),
        cmocka_unit_test(random_ones),
    };

    return run_tap(tests);
}
