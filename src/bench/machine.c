/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "launch/node.h"
#include "util/text.h"

/* Bytes of an all-reduce, of the least message, and of an optimizer step for each parameter: what its norm reads, and
   what AdamW reads and writes. */
enum { SUM_BYTES = 16 << 20, LEAST_BYTES = 8, STEP_BYTES = 4 + 28 };
static const double MIB = 1 << 20;

/* What is compared with a profile, each where larger is better or where smaller is. */
static const struct row {
    const char *key, *unit;
    size_t offset;
    bool less;
} rows[] = {
#define ROW(field, key, unit, less)                         \
    {                                                       \
        key, unit, offsetof(struct tr_machine, field), less \
    }
    ROW(peak_fp16, "peak-fp16-tflops", "TFLOP/s", false),
    ROW(peak_bf16, "peak-bf16-tflops", "TFLOP/s", false),
    ROW(peak_fp32, "peak-fp32-tflops", "TFLOP/s", false),
    ROW(stream, "memory-gbs", "GB/s", false),
    ROW(optimizer_bytes, "optimizer-bytes", "B", true),
    ROW(attention_passes, "attention-passes", "", true),
    ROW(node_link, "intra-node-gbs", "GB/s", false),
    ROW(node_us, "intra-node-us", "us", true),
    ROW(net_link, "inter-node-gbs", "GB/s", false),
    ROW(net_us, "inter-node-us", "us", true),
    ROW(overlap, "overlap-efficiency", "", false),
    ROW(disk, "disk-write-gbs", "GB/s", false),
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* What is timed: three GEMMs, a copy, an optimizer step, attention, and in each of two kinds of groups two messages, and
   GEMMs alone and beside an all-reduce. */
enum { PARTS = 14, LINK_PARTS = 4 };

/* Beside an all-reduce: so many GEMMs at most, of so many rows at least. */
enum { MOST_PRODUCTS = 16, LEAST_ROWS = 64 };

/* Of attention, of one sample: heads and their width. */
enum { HEADS = 16, HEAD = 64, HOST_TOKENS = 256, GPU_TOKENS = 2048 };

struct work {
    struct tr_bench_probe probe; /* first: its bodies are given the work */
    struct tr_comm *group;
    struct tr_tensor sum;
    struct tr_bench_probe beside; /* what is computed while the sum is under way, so many times */
    int products;
    struct tr_tensor norm,
        moment[2]; /* of an optimizer, whose weights and gradients the probe copies */
    struct tr_tensor qkv, dqkv, ctx, dctx, lse;
    struct tr_meter meter;
    char title[80]; /* of it */
    int part;       /* the latest */
};

/* ---- progress ---- */

/* Rank 0 shows it. */
static void start_meter(struct work *w)
{
    struct tr_bench *b = w->probe.b;

    w->part = 0;
    tr_meter_start_count(&w->meter, w->title, "rounds", (int64_t)PARTS * tr_bench_rounds(b));
    b->meter = b->run->world->rank == 0 ? &w->meter : NULL;
}

static void next_part(struct work *w, const char *what)
{
    w->part++;
    snprintf(w->title, sizeof w->title, "bench machine, part %d of %d (%s):", w->part, PARTS, what);
}

static void skip_parts(struct work *w, int parts)
{
    w->part += parts;
    w->meter.total -= (int64_t)parts * tr_bench_rounds(w->probe.b);
}

static void end_meter(struct work *w)
{
    (void)tr_meter_end(&w->meter);
    w->probe.b->meter = NULL;
}

/* ---- what a rank does ---- */

static void sum_up(void *ctx)
{
    const struct work *w = ctx;

    w->group->via->allreduce(w->group, &w->probe.b->run->queue, &w->sum, TR_SUM);
}

/* As training does it: the norm of the gradients, and AdamW. */
static void step(void *ctx)
{
    const struct work *w = ctx;
    struct tr_queue *q = &w->probe.b->run->queue;

    q->on->sumsq(q, &w->norm, &w->probe.from);
    q->on->adamw(q, NULL, &w->probe.to, &w->moment[0], &w->moment[1], &w->probe.from,
                 tr_bench_adamw);
}

/* Forward and backward. */
static void attend(void *ctx)
{
    const struct work *w = ctx;
    struct tr_queue *q = &w->probe.b->run->queue;
    const struct tr_attention_how how = {.scale = 0.125F};
    const struct tr_dropout none = {0};

    q->on->attention(q, &w->ctx, &w->lse, &w->qkv, NULL, how, none);
    q->on->attention_bwd(q, &w->dqkv, &w->dctx, &w->ctx, &w->lse, &w->qkv, NULL, how, none);
}

/* As training computes while an all-reduce is under way. */
static void products(void *ctx)
{
    struct work *w = ctx;

    for (int i = 0; i < w->products; i++)
        tr_bench_probe_product(&w->beside);
}

static void products_beside_sum(void *ctx)
{
    struct work *w = ctx;
    struct tr_queue *q = &w->probe.b->run->queue;
    struct tr_pending under_way;

    w->group->via->allreduce_start(w->group, q, &w->sum, TR_SUM, &under_way);
    products(w);
    w->group->via->finish(w->group, q, &under_way);
}

/* In a ring, so that all are busy. */
static void least_message(void *ctx)
{
    const struct work *w = ctx;
    struct tr_comm *g = w->group;

    tr_bench_swap(w->probe.b, g, (g->rank + 1) % g->size, (g->rank + g->size - 1) % g->size,
                  w->probe.from.data, w->probe.to.data, LEAST_BYTES);
}

/* ---- what is measured ---- */

static enum tr_status reserve(struct work *w, struct tr_bench *b)
{
    struct tr_bench_probe *p = &w->probe;
    struct tr_tensor *all[] = {&p->a,    &p->c,    &p->y,         &p->from,      &p->to,
                               &w->sum,  &w->norm, &w->moment[0], &w->moment[1], &w->qkv,
                               &w->dqkv, &w->ctx,  &w->dctx,      &w->lse};
    const bool gpu = b->run->queue.on->apart;
    const int64_t tokens = gpu ? GPU_TOKENS : HOST_TOKENS, wide = HEADS * HEAD;
    const enum tr_dtype type = gpu ? TR_F16 : TR_F32;

    tr_bench_probe_init(p, b);
    w->sum = tr_tensor_1(NULL, TR_F32, SUM_BYTES / 4);
    w->norm = tr_tensor_1(NULL, TR_F64, 1);
    w->moment[0] = w->moment[1] = p->from;
    w->qkv = w->dqkv = tr_tensor_2(NULL, type, tokens, 3 * wide);
    w->ctx = w->dctx = tr_tensor_2(NULL, type, tokens, wide);
    w->lse = tr_tensor_3(NULL, TR_F32, 1, HEADS, tokens);
    return tr_bench_reserve(b, all, sizeof all / sizeof all[0]);
}

/* A GEMM less the passes of its operands through memory, which a plan adds (plan/cost.h). */
static enum tr_status peak(struct work *w, double stream, enum tr_dtype type, const char *what,
                           double *out)
{
    struct tr_bench_probe *p = &w->probe;
    double seconds, memory;

    next_part(w, what);
    TR_TRY(tr_bench_probe_set_type(p, type));
    seconds = tr_bench_time(p->b, tr_bench_probe_product, p, NULL).median;
    memory = 3e-9 * (double)tr_tensor_bytes(&p->a) / stream;
    *out = tr_bench_probe_tflop(p) / (seconds - fmin(memory, 0.5 * seconds));
    return TR_OK;
}

/* What kernels reach, the better of two: a copy waits for what it overwrites where caches fetch that first.  And an optimizer
   step in bytes for each parameter at that rate, so that what caches save or kernels cost is in it. */
static void measure_memory(struct work *w, struct tr_machine *m)
{
    struct tr_bench *b = w->probe.b;
    const double params = (double)tr_tensor_elems(&w->probe.from);
    double seconds;

    next_part(w, "memory copy");
    m->stream =
        tr_bench_probe_gb(&w->probe) / tr_bench_time(b, tr_bench_probe_copy, w, NULL).median;
    next_part(w, "optimizer");
    seconds = tr_bench_time(b, step, w, NULL).median;
    m->stream = fmax(m->stream, 1e-9 * STEP_BYTES * params / seconds);
    m->optimizer_bytes = 1e9 * m->stream * seconds / params;
}

/* What attention takes beyond its products, as passes of the scores through memory: a plan has four times the forward pass for
   both (plan/cost.h). */
static void measure_attention(struct work *w, struct tr_machine *m)
{
    const double tokens = (double)w->qkv.dim[0], scores = tokens * tokens * HEADS;
    const bool half = w->qkv.dtype == TR_F16;
    double seconds;

    next_part(w, "attention");
    seconds = tr_bench_time(w->probe.b, attend, w, NULL).median / 4.0 -
              4e-12 * scores * HEAD / (half ? m->peak_fp16 : m->peak_fp32);
    m->attention_passes = fmax(0.0, 1e9 * m->stream * seconds / (scores * (half ? 2.0 : 4.0)));
}

double tr_bench_overlap(double computing, double messages, double both)
{
    return fmax(0.0, fmin((computing + messages - both) / fmin(computing, messages), 1.0));
}

/* GEMMs that take about `seconds` all together, by the peak of the probe's type. */
static void choose_products(struct work *w, const struct tr_machine *m, double seconds)
{
    const double peak = w->probe.a.dtype == TR_F16 ? m->peak_fp16 : m->peak_fp32;
    const double wholes = seconds * peak / tr_bench_probe_tflop(&w->probe);
    const double height = fmin(wholes, 1.0) * (double)w->probe.a.dim[0];

    w->products = (int)fmin(ceil(wholes), MOST_PRODUCTS);
    w->beside = w->probe;
    w->beside.a.dim[0] = w->beside.y.dim[0] = (int64_t)fmax(height, LEAST_ROWS);
}

/* Of an all-reduce of `sum` seconds and GEMMs that take about as long. */
static double measure_overlap(struct work *w, const struct tr_machine *m, double sum)
{
    struct tr_bench *b = w->probe.b;
    double alone, both;

    choose_products(w, m, sum);
    next_part(w, "GEMMs alone");
    alone = tr_bench_time(b, products, w, NULL).median;
    next_part(w, "GEMMs beside an all-reduce");
    both = tr_bench_time(b, products_beside_sum, w, NULL).median;
    return tr_bench_overlap(alone, sum, both);
}

/* Bus bandwidth of an all-reduce, the time of a very short message, and what computing beside it saves, in the groups of
   `color`; nothing where these have one rank. */
static enum tr_status link_of(struct work *w, int color, const char *name, struct tr_machine *m,
                              double *gbs, double *us)
{
    struct tr_bench *b = w->probe.b;
    struct tr_comm *transport = b->run->transport, group;
    struct tr_queue *q = &b->run->queue;
    double n, sum;

    TR_TRY(transport->via->split(transport, color, transport->rank, name, &group));
    n = group.size;
    /* All ranks measure or none does: groups may be of different sizes. */
    if (tr_comm_max(b->run->world, group.size < 2) == 0) {
        w->group = &group;
        q->on->fill(q, &w->sum, 0.0f);
        next_part(w, "all-reduce");
        sum = tr_bench_time(b, sum_up, w, NULL).median;
        *gbs = 2e-9 * (n - 1.0) / n * SUM_BYTES / sum;
        next_part(w, "least message");
        *us = 1e6 * tr_bench_time(b, least_message, w, NULL).median;
        /* The less of both kinds; fmin() passes over NAN. */
        m->overlap = fmin(m->overlap, measure_overlap(w, m, sum));
    } else {
        skip_parts(w, LINK_PARTS);
    }
    transport->via->release(&group);
    return TR_OK;
}

/* Bytes of a rank's own memory: a GPU, or its part of a host. */
static double memory_of(const struct tr_run *r)
{
    struct tr_gpus gpus;
    struct tr_node_facts node;

    tr_gpus_list(&gpus);
    if (r->queue.on->apart && gpus.count > 0)
        return (double)gpus.bytes;
    tr_node_read(false, 0, &node);
    return (double)node.memory / r->launch.local_size;
}

/* Which node this rank is on, counted in the order of their first ranks. */
static int node_of(const struct tr_bench *b)
{
    int first = 0;

    while (strcmp(b->host[first], b->host[b->run->world->rank]) != 0)
        first++;
    return first;
}

static enum tr_status measure_parts(struct work *w, struct tr_machine *m)
{
    const struct tr_bench *b = w->probe.b;

    measure_memory(w, m);
    TR_TRY(peak(w, m->stream, TR_F16, "fp16 GEMM", &m->peak_fp16));
    TR_TRY(peak(w, m->stream, TR_BF16, "bf16 GEMM", &m->peak_bf16));
    TR_TRY(peak(w, m->stream, TR_F32, "fp32 GEMM", &m->peak_fp32));
    measure_attention(w, m);
    TR_TRY(tr_bench_probe_set_type(&w->probe, w->qkv.dtype));
    TR_TRY(link_of(w, node_of(b), "node", m, &m->node_link, &m->node_us));
    return link_of(w, b->run->launch.local_rank, "nodes", m, &m->net_link, &m->net_us);
}

static enum tr_status measure(struct tr_bench *b, struct tr_machine *m)
{
    struct work w;
    enum tr_status s;

    TR_TRY(reserve(&w, b));
    start_meter(&w);
    s = measure_parts(&w, m);
    end_meter(&w);
    return s;
}

/* ---- whether it can be measured ---- */

static enum tr_status check_room(const struct tr_bench *b)
{
    const struct tr_run *r = b->run;
    const char *host = b->host[r->world->rank];
    const int threads = r->queue.on->apart ? 0 : r->queue.on->threads(r->device);
    const int ranks = r->launch.local_size;
    int room;
    double has;

    if (threads == 0 || !tr_launch_is_crowded(&r->launch, threads, &room, &has))
        return TR_OK;
    if (room > 0)
        return TR_FAIL(
            TR_ERESOURCE,
            "%d rank%s with %d thread%s each on %s take turns on %g processor%s, so no time "
            "of one is its own; no profile can be measured: start %d (mpiexec -n %d, "
            "srun --ntasks-per-node=%d) or ask for more processors; for runs of as many "
            "ranks as now, fit that profile to one of them (trireme plan --fit)",
            ranks, tr_plural(ranks), threads, tr_plural(threads), host, has, has > 1.0 ? "s" : "",
            room, room, room);
    if (has < 1.0)
        return TR_FAIL(
            TR_ERESOURCE,
            "%s gives a rank %g of a processor, which takes turns with others, so no profile "
            "can be measured: ask for a whole one",
            host, has);
    return TR_FAIL(
        TR_ERESOURCE,
        "the %d threads of a rank on %s take turns on %g processor%s, so no profile can be "
        "measured: use --threads %d",
        threads, host, has, has > 1.0 ? "s" : "", (int)has);
}

enum tr_status tr_bench_machine_check(const struct tr_bench *b)
{
    return tr_comm_agree(b->run->world, check_room(b));
}

/* ---- output ---- */

/* A profile needs both links; the one that is missing here is not used by any layout that fits
   here.  What was not measured and may be unknown is 0. */
static void fill_in(struct tr_bench *b, struct tr_machine *m, const char *date)
{
    const struct tr_run *r = b->run;
    const int others = r->launch.nodes - 1, ranks = r->launch.local_size;

    if (others > 0)
        snprintf(m->title, sizeof m->title,
                 "%s and %d more node%s, %d rank%s on each, measured by trireme bench", b->host[0],
                 others, tr_plural(others), ranks, tr_plural(ranks));
    else
        snprintf(m->title, sizeof m->title, "%s, %d rank%s, measured by trireme bench", b->host[0],
                 ranks, tr_plural(ranks));
    snprintf(m->date, sizeof m->date, "%.10s", date);
    m->processor = tr_processor_of_backend(r->queue.on->name);
    m->gpus_per_node = r->launch.local_size;
    m->memory = floor(memory_of(r) / MIB);
    m->gemm = 1.0;
    if (isnan(m->net_link) && isnan(m->node_link)) {
        m->node_link = m->stream;
        m->node_us = 0.0;
        m->overlap = 1.0;
    }
    if (isnan(m->node_link)) {
        m->node_link = m->net_link;
        m->node_us = m->net_us;
    }
    if (isnan(m->net_link)) {
        m->net_link = m->node_link;
        m->net_us = m->node_us;
    }
    if (isnan(m->disk))
        m->disk = 0.0;
}

static double value_of(const struct tr_machine *m, const struct row *r)
{
    return *(const double *)((const char *)m + r->offset);
}

/* One line; is it below `floor` of the profile's number? */
static bool tell(struct tr_bench *b, const struct row *x, const struct tr_machine *m,
                 const struct tr_machine *profile, double floor_)
{
    const double got = value_of(m, x), want = profile ? value_of(profile, x) : 0.0;
    const double ratio = want <= 0.0 || got <= 0.0 ? NAN : x->less ? want / got : got / want;
    const bool low = ratio < floor_;

    /* There is one node, or the disk was not requested. */
    if (isnan(got))
        return false;
    if (isnan(ratio))
        tr_bench_print(b, "%-20s %12.4g %-8s\n", x->key, got, x->unit);
    else
        tr_bench_print(b, "%-20s %12.4g %-8s %12.4g %8.3f  %s\n", x->key, got, x->unit, want, ratio,
                       low ? "low" : "ok");
    tr_bench_row(b, json_pack("{s:s, s:s, s:s, s:f, s:o, s:o, s:b}", "bench", "machine", "key",
                              x->key, "unit", x->unit, "value", got, "profile",
                              isnan(ratio) ? json_null() : json_real(want), "ratio",
                              isnan(ratio) ? json_null() : json_real(ratio), "low", low));
    return low;
}

enum tr_status tr_bench_machine(struct tr_bench *b, const char *date,
                                const struct tr_machine *profile, double floor_, int *low,
                                struct tr_machine *out)
{
    struct tr_bench_probe size;

    tr_bench_probe_init(&size, b);
    *out = (struct tr_machine){.disk = b->write_gbs > 0.0 ? b->write_gbs : NAN,
                               .node_link = NAN,
                               .node_us = NAN,
                               .net_link = NAN,
                               .net_us = NAN,
                               .overlap = NAN};
    tr_bench_print(
        b,
        "# machine: GEMMs of width %d, a copy of memory, AdamW, attention; all-reduces of %d MiB "
        "inside nodes and between them; messages of %d bytes; GEMMs beside such all-reduces; "
        "medians of %d\n"
        "# %-18s %12s %-8s %12s %8s\n",
        (int)size.a.dim[0], SUM_BYTES >> 20, LEAST_BYTES, b->repeats, "key", "measured", "",
        profile ? profile->name : "", profile ? "ratio" : "");
    TR_TRY(measure(b, out));
    for (int i = 0; i < ROWS; i++)
        *low += tell(b, &rows[i], out, profile, floor_);
    fill_in(b, out, date);
    return TR_OK;
}
