/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "dp/dp.h"
#include "plan/profiles.h"
#include "sim/collective.h"
#include "sim/engine.h"

static void assert_near(double x, double expected)
{
    if (fabs(x / expected - 1.0) >= 1e-9)
        print_message("# %.12g where %.12g is expected\n", x, expected);
    assert_true(fabs(x / expected - 1.0) < 1e-9);
}

/* n ranks on N nodes: 200 GB/s and 3 us inside, adapters of 25 GB/s and 7 us. */
static struct tr_sim_place place(int ranks, int nodes)
{
    const int each = ranks / nodes;

    return (struct tr_sim_place){.ranks = ranks,
                                 .spread = {nodes, each, each},
                                 .inside = {200e9, 3e-6},
                                 .adapter = {25e9, 7e-6},
                                 .rate = nodes == 1 ? 200e9 : fmin(200e9, 25e9 * each)};
}

static double seconds(enum tr_sim_algorithm a, int ranks, int nodes,
                      enum tr_work_collective_kind kind, double bytes)
{
    const struct tr_sim_place p = place(ranks, nodes);
    const struct tr_sim_collective c = tr_sim_collective_of(a, &p, kind, bytes);

    return tr_sim_collective_seconds(&c);
}

/* The textbook times: 2 (n - 1) steps of n parts around a ring, 2 log2(n) steps of two trees. */
static void flat(void **state)
{
    (void)state;
    for (int n = 4; n <= 4096; n *= 4) {
        for (double bytes = 1e3; bytes < 1e10; bytes *= 1e3) {
            const double all = 2.0 * (n - 1) / n * bytes / 25e9 + 2.0 * (n - 1) * 7e-6;

            assert_near(seconds(TR_SIM_RING, n, n, TR_WORK_ALL_REDUCE, bytes), all);
            assert_near(seconds(TR_SIM_RING, n, n, TR_WORK_ALL_GATHER, bytes), all / 2.0);
            assert_near(seconds(TR_SIM_RING, n, n, TR_WORK_REDUCE_SCATTER, bytes), all / 2.0);
            assert_near(seconds(TR_SIM_TREE, n, n, TR_WORK_ALL_REDUCE, bytes),
                        2.0 * bytes / 25e9 + 2.0 * log2(n) * 7e-6);
            /* What there is not is a ring. */
            assert_near(seconds(TR_SIM_TREE, n, n, TR_WORK_ALL_GATHER, bytes), all / 2.0);
            assert_near(seconds(TR_SIM_HIERARCHICAL, n, n, TR_WORK_ALL_REDUCE, bytes), all);
        }
    }
    assert_near(seconds(TR_SIM_RING, 8, 1, TR_WORK_ALL_REDUCE, 1e9),
                14.0 / 8.0 * 1e9 / 200e9 + 14.0 * 3e-6);
}

/* 32 nodes of 4 ranks, with adapters of half the rate that ranks have inside. */
static void levels(void **state)
{
    const double inside = 0.75 * 1e9 / 200e9 + 3.0 * 3e-6;
    const double across = 2.0 * 31.0 / 32.0 * 0.25e9 / 25e9 + 62.0 * 7e-6;

    (void)state;
    assert_near(seconds(TR_SIM_HIERARCHICAL, 128, 32, TR_WORK_ALL_REDUCE, 1e9),
                2.0 * inside + across);
    assert_near(seconds(TR_SIM_HIERARCHICAL, 128, 32, TR_WORK_ALL_GATHER, 1e9),
                inside + across / 2.0);
    assert_near(seconds(TR_SIM_HIERARCHICAL, 128, 32, TR_WORK_REDUCE_SCATTER, 1e9),
                inside + across / 2.0);
    assert_near(seconds(TR_SIM_RING, 128, 32, TR_WORK_ALL_REDUCE, 1e9),
                254.0 / 128.0 * 1e9 / 100e9 + 2.0 * (96.0 * 3e-6 + 31.0 * 7e-6));
    /* A node passes on 2 B; its 4 adapters have 100 GB/s, and 3 hops of a chain, twice, of each of 2 trees in 4 lanes
       are no more than 200. */
    assert_near(seconds(TR_SIM_TREE, 128, 32, TR_WORK_ALL_REDUCE, 1e9),
                2.0 * 1e9 / 100e9 + 2.0 * (3.0 * 3e-6 + 5.0 * 7e-6));
}

/* The quickest: trees of many nodes for few bytes, rings for many; reduce-scatter knows no tree. */
static void quickest(void **state)
{
    const struct tr_sim_place p = place(256, 256), q = place(128, 16);

    (void)state;
    assert_int_equal(tr_sim_algorithm_for(TR_SIM_AUTO, &p, TR_WORK_ALL_REDUCE, 1e4), TR_SIM_TREE);
    assert_int_equal(tr_sim_algorithm_for(TR_SIM_AUTO, &p, TR_WORK_ALL_REDUCE, 1e11), TR_SIM_RING);
    assert_int_equal(tr_sim_algorithm_for(TR_SIM_AUTO, &p, TR_WORK_REDUCE_SCATTER, 1e4),
                     TR_SIM_RING);
    assert_int_equal(tr_sim_algorithm_for(TR_SIM_AUTO, &q, TR_WORK_REDUCE_SCATTER, 1e4),
                     TR_SIM_HIERARCHICAL);
    for (double bytes = 1.0; bytes < 1e12; bytes *= 3.0)
        for (int a = TR_SIM_RING; a < TR_SIM_AUTO; a++)
            assert_true(seconds(TR_SIM_AUTO, 128, 16, TR_WORK_ALL_REDUCE, bytes) <=
                        seconds((enum tr_sim_algorithm)a, 128, 16, TR_WORK_ALL_REDUCE, bytes));
}

/* Two trees of any number of nodes: each reaches one root from everywhere in the steps that it says, and no node has more
   than four links; of an even number, none has children in both. */
static void trees(void **state)
{
    (void)state;
    for (int n = 2; n < 140; n++) {
        bool inner[2][140] = {{false}};
        int links[140] = {0}, most = 0;

        for (int tree = 0; tree < 2; tree++) {
            int roots = 0, deepest = 0;

            for (int i = 0; i < n; i++) {
                const int up = tr_sim_tree_parent(tree, i, n);
                int steps = 0;

                for (int at = i; (at = tr_sim_tree_parent(tree, at, n)) >= 0; steps++)
                    assert_true(steps < n);
                deepest = steps > deepest ? steps : deepest;
                roots += up < 0;
                if (up >= 0) {
                    inner[tree][up] = true;
                    links[up]++;
                    links[i]++;
                }
            }
            assert_int_equal(roots, 1);
            assert_int_equal(deepest, tr_sim_tree_depth(n));
        }
        assert_int_equal(tr_sim_tree_depth(n), (int)ceil(log2(n)));
        for (int i = 0; i < n; i++) {
            most = links[i] > most ? links[i] : most;
            assert_true(n % 2 != 0 || !inner[0][i] || !inner[1][i]);
        }
        assert_true(most <= 4);
        assert_int_equal(most, tr_sim_tree_load(n));
    }
}

/* ---- in an iteration ---- */

#define GPT                                                                          \
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 " \
    "--max-position-embeddings 1024 --fp16 --vocab-size 50257 --micro-batch-size 1 "

struct made {
    struct tr_config c;
    struct tr_plan p;
    struct tr_sim_world whole, few;
    struct tr_sim_result all, alike;
    double bytes, buckets; /* gradients of the first stage */
};

static void machine(struct tr_machine *m)
{
    assert_ok(tr_machine_find("selene-a100", m));
    m->node_us = 2.0;
    m->net_us = 9.0;
}

static void make(const struct tr_machine *m, const struct tr_sim_like *like, const char *options,
                 struct made *b)
{
    struct tr_cost x;
    double params;

    tr_config_init(&b->c);
    assert_ok(tr_config_parse_text(&b->c, GPT));
    assert_ok(tr_config_parse_text(&b->c, options));
    assert_ok(tr_plan_itself(&b->c, m, &b->p));
    assert_ok(tr_sim_world_check(&b->p, like));
    tr_sim_world_open(&b->p, like, &b->whole);
    tr_sim_classes(&b->whole, &b->few);
    tr_sim_run(&b->whole, &(struct tr_sim_how){0}, &b->all);
    tr_sim_run(&b->few, &(struct tr_sim_how){0}, &b->alike);
    assert_memory_equal(&b->all.seconds, &b->alike.seconds, sizeof b->all.seconds);
    for (int i = 0; i < b->whole.units; i++)
        assert_memory_equal(b->all.spent[i], b->alike.spent[b->few.class_of[i]],
                            sizeof b->all.spent[i]);
    tr_cost_init(&x, &b->p.shape, &b->p.machine);
    params = (double)b->p.stage[0].params;
    b->bytes = params * x.grad;
    b->buckets = fmax(1.0, params / (double)tr_dp_bucket(&b->p.config, true));
}

static void drop(struct made *b)
{
    tr_sim_result_release(&b->all);
    tr_sim_result_release(&b->alike);
    tr_sim_world_release(&b->few);
    tr_sim_world_release(&b->whole);
    tr_plan_release(&b->p);
    tr_config_release(&b->c);
}

/* The most bytes that went over a link of that kind. */
static double busiest(const struct made *b, enum tr_net_kind kind)
{
    double most = 0.0;

    for (int i = 0; i < b->whole.net.links; i++)
        if (b->whole.net.link[i].kind == kind)
            most = fmax(most, b->whole.net.link[i].bytes);
    return most;
}

/* 64 replicas on 8 nodes of 8, whose ring has 160 GB/s, and ranks 230 inside; gradients after the passes. */
static void reductions(void **state)
{
    static const char options[] = "--world-size 64 --global-batch-size 64 --no-overlap-grad-reduce";
    struct tr_sim_like like = {.fabric = {.rail = 20.0}, .algorithm = TR_SIM_RING};
    struct tr_machine m;
    struct made b;
    double n;

    (void)state;
    machine(&m);
    make(&m, &like, options, &b);
    n = b.buckets;
    assert_true(n > 3.0);
    assert_near(b.all.spent[9][TR_SIM_REDUCE],
                126.0 / 64.0 * b.bytes / 160e9 + n * 2.0 * (56.0 * 2e-6 + 7.0 * 9e-6));
    assert_near(busiest(&b, TR_NET_NODE), 126.0 / 64.0 * b.bytes);
    assert_near(busiest(&b, TR_NET_RAIL), 126.0 / 64.0 * b.bytes / 8.0);
    assert_near(busiest(&b, TR_NET_GPU), 7.0 / 8.0 * 126.0 / 64.0 * b.bytes);
    drop(&b);

    /* Chains have 4 * 7 hops of half of an eighth over each GPU's link, 1.75 B at 230 GB/s, while 2 B leave a node at
       160: these take longer. */
    like.algorithm = TR_SIM_TREE;
    make(&m, &like, options, &b);
    assert_near(b.all.spent[9][TR_SIM_REDUCE],
                2.0 * b.bytes / 160e9 + n * 2.0 * (7.0 * 2e-6 + 3.0 * 9e-6));
    assert_near(busiest(&b, TR_NET_NODE), 2.0 * b.bytes);
    assert_near(busiest(&b, TR_NET_GPU), 1.75 * b.bytes);
    drop(&b);

    like.algorithm = TR_SIM_HIERARCHICAL;
    make(&m, &like, options, &b);
    assert_near(b.all.spent[9][TR_SIM_REDUCE],
                2.0 * (7.0 / 8.0 * b.bytes / 230e9 + n * 7.0 * 2e-6) +
                    14.0 / 8.0 * b.bytes / 160e9 + n * 14.0 * 9e-6);
    assert_near(busiest(&b, TR_NET_NODE), 14.0 / 8.0 * b.bytes);
    assert_near(busiest(&b, TR_NET_RAIL), 14.0 / 64.0 * b.bytes);
    assert_near(busiest(&b, TR_NET_GPU), 14.0 / 8.0 * b.bytes);
    drop(&b);
}

/* When a unit begins to wait for its gradients. */
static double reduction_begins(struct made *b, int unit)
{
    bool watch[64] = {false};
    struct tr_sim_result r;
    double begin = -1.0;

    watch[unit] = true;
    tr_sim_run(&b->whole, &(struct tr_sim_how){.watch = watch}, &r);
    for (int i = 0; i < r.spans && begin < 0.0; i++)
        if (r.span[i].cause == TR_SIM_REDUCE)
            begin = r.span[i].begin;
    tr_sim_result_release(&r);
    return begin;
}

/* Two stages on each node, the rings of both over the same leaf switches, which have half of what both want: each has half
   its rate while both are there.  The last stage begins first, with no more bytes than the other, and has its full rate
   until that comes. */
static void two_at_once(void **state)
{
    static const char options[] =
        "--world-size 64 --global-batch-size 64 --no-overlap-grad-reduce "
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping "
        "--untie-embeddings-and-output-weights";
    struct tr_sim_like like = {.algorithm = TR_SIM_RING};
    struct tr_machine m;
    double ahead, first, last;
    struct made alone, both;

    (void)state;
    machine(&m);
    m.net_us = 0.0;
    make(&m, &like, options, &alone);
    like.fabric = (struct tr_sim_fabric){.leaf_nodes = 1, .leaf_over = 2.0};
    make(&m, &like, options, &both);
    assert_near(alone.all.spent[0][TR_SIM_REDUCE], 14.0 / 8.0 * alone.bytes / 20e9);
    ahead = reduction_begins(&both, 0) - reduction_begins(&both, 8);
    first = alone.all.spent[0][TR_SIM_REDUCE];
    last = alone.all.spent[8][TR_SIM_REDUCE];
    assert_true(ahead > 0.0 && ahead < 0.5 * last && last < 1.01 * first);
    for (int i = 0; i < 8; i++) {
        assert_near(both.all.spent[8 + i][TR_SIM_REDUCE], ahead + 2.0 * (last - ahead));
        assert_near(both.all.spent[i][TR_SIM_REDUCE], first + (last - ahead));
    }
    drop(&alone);
    drop(&both);
}

/* Tensor ranks on two nodes, whose leaf switches pass on half of what their rings want. */
static void tensor_ranks_apart(void **state)
{
    static const char options[] =
        "--world-size 16 --global-batch-size 4 --tensor-model-parallel-size 16";

    (void)state;
    for (int a = TR_SIM_PLANNED; a < TR_SIM_ALGORITHMS; a++) {
        struct tr_sim_like like = {.algorithm = (enum tr_sim_algorithm)a};
        struct tr_machine m;
        struct made alone, narrow;

        machine(&m);
        m.node_us = m.net_us = 0.0;
        make(&m, &like, options, &alone);
        like.fabric = (struct tr_sim_fabric){.leaf_nodes = 1, .leaf_over = 2.0};
        make(&m, &like, options, &narrow);
        /* Phases of the same links count as others. */
        assert_true(a == TR_SIM_HIERARCHICAL || a == TR_SIM_AUTO || !alone.whole.unit[0].shares);
        assert_true(narrow.whole.unit[0].shares);
        if (a == TR_SIM_PLANNED)
            assert_near(alone.all.seconds, alone.p.time.total);
        if (a == TR_SIM_PLANNED || a == TR_SIM_RING)
            assert_near(narrow.all.spent[0][TR_SIM_TENSOR],
                        2.0 * alone.all.spent[0][TR_SIM_TENSOR]);
        if (a == TR_SIM_HIERARCHICAL) {
            /* B / 230 * 7 / 8 twice, and B / 160, of which only this is twice as long. */
            const double slow = 1.0 / 160.0, quick = 14.0 / 8.0 / 230.0;

            assert_near(narrow.all.spent[0][TR_SIM_TENSOR],
                        (quick + 2.0 * slow) / (quick + slow) * alone.all.spent[0][TR_SIM_TENSOR]);
        }
        drop(&alone);
        drop(&narrow);
    }
}

/*
 * Replicas beside tensor ranks on one node.  Gradients have a GPU's link to themselves while the last backward pass
 * computes, and share it with its sums, of T seconds, which then take 2 T and leave T to the gradients.  These end T later
 * than by the plan, which has both at once.
 */
static void tensor_beside_replicas(void **state)
{
    struct tr_sim_like like = {.algorithm = TR_SIM_PLANNED};
    struct tr_cost_chunk c;
    struct tr_machine m;
    struct tr_cost x;
    struct made b;

    (void)state;
    machine(&m);
    m.node_link = 10.0;
    make(&m, &like, "--world-size 8 --global-batch-size 16 --tensor-model-parallel-size 2", &b);
    tr_cost_init(&x, &b.p.shape, &b.p.machine);
    c = tr_cost_chunk(&x, 0, 0);
    assert_true(b.whole.unit[0].shares);
    assert_true(c.tensor_backward > 1e-3);
    assert_true(fabs(b.all.seconds - b.p.time.total - c.tensor_backward) < 1e-9);
    drop(&b);
}

/* ---- measured times ---- */

#define HEAD \
    "# coll: 1 group \"%s\" of 8 ranks by nccl; times of the slowest rank\n#  size  count\n"
#define ROW(bytes, us, call) bytes " 1 float sum -1 " us " 1.0 1.0 0 1.0 1.0  " call "\n"

static enum tr_status read_curve(const char *group, const char *rows, struct tr_sim_curve *out)
{
    char text[1024];
    const int n = snprintf(text, sizeof text, HEAD, group);

    snprintf(text + n, sizeof text - (size_t)n, "%s", rows);
    return tr_sim_curve_read("table", text, out);
}

/* 100 us to 10 KB, then with the square root of the size to 1 ms at 1 MB, with the bandwidth of that behind it. */
static void curve(void **state)
{
    static const char *const wrong[] = {
        "",
        ROW("1000", "5", "sendrecv"),
        ROW("1000", "0", "all-reduce"),
        ROW("1000", "5", "all-reduce") ROW("1000", "6", "all-reduce"),
        ROW("1000", "5", "all-reduce") "2000 1 float\n",
        "busbw 7\n",
    };
    struct tr_sim_curve c;

    (void)state;
    assert_ok(read_curve("dp",
                         ROW("10000", "100", "all-reduce") ROW("1000000", "1000", "all-reduce")
                             ROW("10", "7", "broadcast") ROW("10", "3", "all-gather") "# end\n",
                         &c));
    assert_int_equal(c.ranks, 8);
    assert_false(c.tensor);
    assert_near(tr_sim_curve_seconds(&c, TR_WORK_ALL_REDUCE, 5.0), 1e-4);
    assert_near(tr_sim_curve_seconds(&c, TR_WORK_ALL_REDUCE, 1e4), 1e-4);
    for (double bytes = 1.5e4; bytes < 1e6; bytes *= 1.5)
        assert_near(tr_sim_curve_seconds(&c, TR_WORK_ALL_REDUCE, bytes), 1e-6 * sqrt(bytes));
    assert_near(tr_sim_curve_seconds(&c, TR_WORK_ALL_REDUCE, 3e6), 3e-3);
    assert_near(tr_sim_curve_seconds(&c, TR_WORK_ALL_GATHER, 20.0), 6e-6);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_curve("dp", wrong[i], &c), TR_ECONFIG);
    assert_int_equal(read_curve("pp", ROW("10", "7", "all-reduce"), &c), TR_ECONFIG);
    assert_int_equal(tr_sim_curve_read("x", "10 7\n", &c), TR_ECONFIG);
}

/* Replicas on a curve with a bandwidth of 1 GB/s; tensor ranks on one on which each sum takes 1 ms: those of the list of
   work, as often as there are layers. */
static void measured(void **state)
{
    struct tr_sim_curve c;
    struct tr_sim_like like = {.curve = &c};
    struct tr_machine m;
    struct tr_cost x;
    struct made b;
    double sums = 0.0;

    (void)state;
    machine(&m);
    assert_ok(read_curve("dp", ROW("1000", "1", "all-reduce"), &c));
    make(&m, &like,
         "--world-size 64 --tensor-model-parallel-size 8 --global-batch-size 8 "
         "--no-overlap-grad-reduce",
         &b);
    assert_near(b.all.spent[3][TR_SIM_REDUCE], b.bytes / 1e9);
    tr_cost_init(&x, &b.p.shape, &b.p.machine);
    for (int part = TR_WORK_EMBED; part <= TR_WORK_HEAD; part++)
        sums += x.work[part].collectives * (part == TR_WORK_LAYER ? 24.0 : 1.0);
    drop(&b);
    assert_ok(read_curve("tp", ROW("1000000000", "1000", "all-reduce"), &c));
    make(&m, &like,
         "--world-size 8 --tensor-model-parallel-size 8 --global-batch-size 1 "
         "--no-async-tensor-model-parallel-allreduce",
         &b);
    assert_near(b.all.spent[0][TR_SIM_TENSOR], 1e-3 * sums);
    c.ranks = 4;
    assert_int_equal(tr_sim_world_check(&b.p, &like), TR_ECONFIG);
    c.ranks = 8;
    like.algorithm = TR_SIM_RING;
    assert_int_equal(tr_sim_world_check(&b.p, &like), TR_ECONFIG);
    drop(&b);
}

/* Classes and all ranks have the same bits (make()), also where replicas stand unevenly and some are slow. */
static void alike(void **state)
{
    static const char *const layouts[] = {
        "--world-size 128 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
        "--global-batch-size 128",
        "--world-size 128 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 "
        "--use-tp-pp-dp-mapping --global-batch-size 128",
        "--world-size 96 --tensor-model-parallel-size 16 --pipeline-model-parallel-size 2 "
        "--global-batch-size 96 --use-distributed-optimizer",
        "--world-size 36 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 "
        "--global-batch-size 96 --use-distributed-optimizer",
    };
    static struct tr_sim_speed slow[] = {{3, 3, 1.1}, {20, 35, 1.3}};
    struct tr_machine m;
    int fewer = 0;

    (void)state;
    machine(&m);
    for (int i = 0; i < 4; i++)
        for (int a = TR_SIM_RING; a < TR_SIM_ALGORITHMS; a++) {
            const struct tr_sim_like like = {
                .fabric = {.leaf_nodes = 2, .leaf_over = 4.0, .rail = 25.0},
                .algorithm = (enum tr_sim_algorithm)a,
                .speeds = 2,
                .speed = slow};
            struct made b;

            make(&m, &like, layouts[i], &b);
            print_message("# %s %s: %.4f s, %d of %d groups\n", layouts[i],
                          tr_sim_algorithm_name((enum tr_sim_algorithm)a), b.all.seconds,
                          b.few.units, b.whole.units);
            fewer += b.few.units < b.whole.units;
            drop(&b);
        }
    assert_true(fewer > 0);
}

/* Tensor ranks on three nodes of 4, leaf switches of 4 nodes: each third group is alone in its switch, and what it sums
   between nodes is not held up.  Groups are alike up to that phase. */
static void alike_behind(void **state)
{
    const struct tr_sim_like like = {.fabric = {.leaf_nodes = 4, .leaf_over = 8.0},
                                     .algorithm = TR_SIM_HIERARCHICAL};
    struct tr_machine m;
    struct made b;

    (void)state;
    machine(&m);
    m.gpus_per_node = 4;
    make(&m, &like,
         "--world-size 96 --num-attention-heads 12 --hidden-size 1536 --micro-batch-size 1 "
         "--global-batch-size 8 --tensor-model-parallel-size 12",
         &b);
    assert_true(b.few.units > 1 && b.few.units < 8);
    drop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat),
        cmocka_unit_test(levels),
        cmocka_unit_test(quickest),
        cmocka_unit_test(trees),
        cmocka_unit_test(reductions),
        cmocka_unit_test(two_at_once),
        cmocka_unit_test(tensor_ranks_apart),
        cmocka_unit_test(tensor_beside_replicas),
        cmocka_unit_test(curve),
        cmocka_unit_test(measured),
        cmocka_unit_test(alike),
        cmocka_unit_test(alike_behind),
    };

    profiles();
    return run_tap(tests);
}
