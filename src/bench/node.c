/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* What is measured on every rank: larger is faster. */
enum { PRODUCT, COPY, MESSAGE, MEASURES };
static const struct {
    const char *name, *unit;
} measures[MEASURES] = {{"product", "tflops"}, {"copy", "gbs"}, {"message", "gbs"}};

enum { MESSAGE_BYTES = 1 << 20, FEW_NODES = 4 };

struct work {
    struct tr_bench_probe probe; /* first: its bodies are given the work */
    int peer;                    /* -1: nobody */
    struct tr_tensor out, in;
};

static void message(void *ctx)
{
    const struct work *w = ctx;
    struct tr_bench *b = w->probe.b;

    if (w->peer >= 0)
        tr_bench_swap(b, b->run->transport, w->peer, w->peer, w->out.data, w->in.data,
                      MESSAGE_BYTES);
}

/* Half the world size away, so that it is on another node where there are two. */
static int peer_of(const struct tr_comm *world)
{
    const int half = world->size / 2;

    if (world->rank >= 2 * half)
        return -1;
    return world->rank < half ? world->rank + half : world->rank - half;
}

static enum tr_status reserve(struct work *w, struct tr_bench *b)
{
    struct tr_bench_probe *p = &w->probe;
    struct tr_tensor *all[] = {&p->a, &p->c, &p->y, &p->from, &p->to, &w->out, &w->in};

    tr_bench_probe_init(p, b);
    w->out = w->in = tr_tensor_1(NULL, TR_F32, MESSAGE_BYTES / 4);
    return tr_bench_reserve(b, all, sizeof all / sizeof all[0]);
}

/* What this rank reaches in each measure; NAN where it has none. */
static enum tr_status measure(struct tr_bench *b, double out[MEASURES])
{
    void (*const body[MEASURES])(void *) = {tr_bench_probe_product, tr_bench_probe_copy, message};
    struct work w = {.peer = peer_of(b->run->world)};
    double work[MEASURES], seconds;

    TR_TRY(reserve(&w, b));
    TR_TRY(tr_bench_probe_set_type(&w.probe, tr_run_dtype(&b->run->shape.precision)));
    work[PRODUCT] = tr_bench_probe_tflop(&w.probe);
    work[COPY] = tr_bench_probe_gb(&w.probe);
    work[MESSAGE] = w.peer < 0 ? NAN : 1e-9 * MESSAGE_BYTES;
    for (int i = 0; i < MEASURES; i++) {
        (void)tr_bench_time(b, body[i], &w, &seconds);
        out[i] = work[i] / seconds;
    }
    return TR_OK;
}

/* ---- nodes ---- */

struct node {
    const char *host;
    int ranks;
    double rate[MEASURES]; /* medians of its ranks */
};

/* The median of measure `m` of the ranks on that host; NAN if none has it. */
static double median_of(const struct tr_bench *b, const double (*all)[MEASURES], const char *host,
                        int m, double *room)
{
    int n = 0;

    for (int r = 0; r < b->run->world->size; r++)
        if (!isnan(all[r][m]) && strcmp(b->host[r], host) == 0)
            room[n++] = all[r][m];
    return n > 0 ? tr_bench_times_of(room, n).median : NAN;
}

static int list_nodes(const struct tr_bench *b, const double (*all)[MEASURES], struct node *out,
                      double *room)
{
    int nodes = 0;

    for (int r = 0; r < b->run->world->size; r++) {
        int at = 0;

        while (at < nodes && strcmp(out[at].host, b->host[r]) != 0)
            at++;
        if (at == nodes) {
            out[nodes++] = (struct node){.host = b->host[r]};
            for (int m = 0; m < MEASURES; m++)
                out[at].rate[m] = median_of(b, all, b->host[r], m, room);
        }
        out[at].ranks++;
    }
    return nodes;
}

static struct tr_bench_times of_nodes(const struct node *n, int nodes, int m, double *room)
{
    int count = 0;

    for (int i = 0; i < nodes; i++)
        if (!isnan(n[i].rate[m]))
            room[count++] = n[i].rate[m];
    return count > 0 ? tr_bench_times_of(room, count)
                     : (struct tr_bench_times){.median = NAN, .min = NAN, .max = NAN};
}

/* The least of its rates in parts of the median of all nodes. */
static double worst_of(const struct node *n, const struct tr_bench_times *all)
{
    double worst = INFINITY;

    for (int m = 0; m < MEASURES; m++)
        if (!isnan(n->rate[m]))
            worst = fmin(worst, n->rate[m] / all[m].median);
    return worst;
}

static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static void tell_node(struct tr_bench *b, const struct node *n, double worst, bool slow)
{
    json_t *row = json_pack("{s:s, s:s, s:i, s:f, s:b}", "bench", "node", "host", n->host, "ranks",
                            n->ranks, "worst", worst, "slow", slow);

    TR_ASSERT(row);
    for (int m = 0; m < MEASURES; m++) {
        char name[32];

        snprintf(name, sizeof name, "%s_%s", measures[m].name, measures[m].unit);
        json_object_set_new(row, name, number(n->rate[m]));
    }
    tr_bench_row(b, row);
    tr_bench_print(b, "%-24s %5d %12.3f %12.2f %12.3f %8.3f%s\n", n->host, n->ranks,
                   n->rate[PRODUCT], n->rate[COPY], n->rate[MESSAGE], worst, slow ? "  slow" : "");
}

static void tell_all(const struct tr_bench *b, const struct tr_bench_times *all, int nodes)
{
    tr_bench_print(b, "%-24s %5s %12.3f %12.2f %12.3f\n", "median of nodes", "",
                   all[PRODUCT].median, all[COPY].median, all[MESSAGE].median);
    tr_bench_print(b, "%-24s %5s %12.3f %12.2f %12.3f\n", "min", "", all[PRODUCT].min,
                   all[COPY].min, all[MESSAGE].min);
    tr_bench_print(b, "%-24s %5s %12.3f %12.2f %12.3f\n", "max", "", all[PRODUCT].max,
                   all[COPY].max, all[MESSAGE].max);
    if (nodes < FEW_NODES)
        tr_bench_print(b, "# fewer than %d nodes: their median says little of one of them\n",
                       FEW_NODES);
}

static int judge(struct tr_bench *b, const double (*all)[MEASURES], double floor, struct node *n,
                 double *room)
{
    const int nodes = list_nodes(b, all, n, room);
    struct tr_bench_times of[MEASURES];
    char exclude[512] = "";
    int slow = 0;

    for (int m = 0; m < MEASURES; m++)
        of[m] = of_nodes(n, nodes, m, room);
    for (int i = 0; i < nodes; i++) {
        const double worst = worst_of(&n[i], of);
        const size_t used = strlen(exclude);

        tell_node(b, &n[i], worst, worst < floor);
        if (worst >= floor)
            continue;
        snprintf(exclude + used, sizeof exclude - used, "%s%s", slow++ ? "," : "", n[i].host);
    }
    tell_all(b, of, nodes);
    if (slow > 0)
        tr_bench_print(b, "# below %g of the median: --exclude=%s\n", floor, exclude);
    return slow;
}

enum tr_status tr_bench_node(struct tr_bench *b, double floor, int *slow)
{
    struct tr_comm *world = b->run->world;
    const size_t ranks = (size_t)world->size;
    double mine[MEASURES], (*all)[MEASURES] = calloc(ranks, sizeof *all);
    struct node *n = calloc(ranks, sizeof *n);
    double *room = calloc(ranks, sizeof *room);
    enum tr_status s = measure(b, mine);

    if (!all || !n || !room)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    if (s == TR_OK) {
        struct tr_bench_probe size;

        tr_bench_probe_init(&size, b);
        world->via->gather_all(world, mine, sizeof mine, all);
        tr_bench_print(
            b,
            "# node: a GEMM of width %d, a copy of %lld MiB, messages of %d KiB with a rank half "
            "the world away; medians of %d\n"
            "# %-22s ranks  TFLOP/s rank  copy (GB/s)  msg (GB/s)    worst\n",
            (int)size.a.dim[0], (long long)(tr_tensor_bytes(&size.from) >> 20), MESSAGE_BYTES >> 10,
            b->repeats, "node");
        *slow = judge(b, (const double(*)[MEASURES])all, floor, n, room);
    }
    free(all);
    free(n);
    free(room);
    return s;
}
