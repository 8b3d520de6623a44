/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "util/text.h"

/* What a call is called in nccl-tests, and the factor of its bus bandwidth in a group of n. */
static const struct call {
    const char *name;
    bool sums, rooted;
    double ends, rest; /* (ends n + rest) / n */
} calls[TR_BENCH_CALLS] = {
    [TR_BENCH_ALLREDUCE] = {"all-reduce", true, false, 2.0, -2.0},
    [TR_BENCH_REDUCE_SCATTER] = {"reduce-scatter", true, false, 1.0, -1.0},
    [TR_BENCH_ALLGATHER] = {"all-gather", false, false, 1.0, -1.0},
    [TR_BENCH_BROADCAST] = {"broadcast", false, true, 1.0, 0.0},
    [TR_BENCH_SENDRECV] = {"sendrecv", false, false, 1.0, 0.0},
};

/* One row of the table: the collective of the body. */
struct work {
    struct tr_bench *b;
    struct tr_comm *c;
    enum tr_bench_call call;
    struct tr_tensor data, other; /* `other` is where a message arrives */
};

static struct tr_comm *group_of(struct tr_run *r, enum tr_bench_group g)
{
    struct tr_comm *of[] = {
        [TR_BENCH_WORLD] = r->transport,
        [TR_BENCH_TP] = &r->grid.tp,
        [TR_BENCH_DP] = &r->grid.dp,
        [TR_BENCH_PP] = &r->grid.pp,
    };

    return of[g];
}

static struct tr_tensor slice(const struct work *w)
{
    int64_t n = tr_tensor_elems(&w->data) / w->c->size;

    return tr_tensor_span(&w->data, w->c->rank * n, n);
}

static void body(void *ctx)
{
    const struct work *w = ctx;
    struct tr_queue *q = &w->b->run->queue;
    struct tr_tensor mine = slice(w);

    switch (w->call) {
    case TR_BENCH_ALLREDUCE:
        w->c->via->allreduce(w->c, q, &w->data, TR_SUM);
        break;
    case TR_BENCH_REDUCE_SCATTER:
        w->c->via->reduce_scatter(w->c, q, &mine, &w->data, TR_SUM);
        break;
    case TR_BENCH_ALLGATHER:
        w->c->via->allgather(w->c, q, &w->data);
        break;
    case TR_BENCH_BROADCAST:
        w->c->via->broadcast(w->c, q, &w->data, 0);
        break;
    default:
        /* To the next rank, from the one before. */
        tr_bench_swap(w->b, w->c, (w->c->rank + 1) % w->c->size,
                      (w->c->rank + w->c->size - 1) % w->c->size, w->data.data, w->other.data,
                      tr_tensor_bytes(&w->data));
    }
}

/* ---- is it right? ---- */

/* Element i of the result on rank `me` of n; integers, so that the order of a sum does not
   matter. */
static float expected(enum tr_bench_call call, int64_t i, int64_t slice_elems, int me, int n)
{
    float sum = 0.0f;

    if (call == TR_BENCH_ALLGATHER)
        return tr_bench_value(i, 0, (int)(i / slice_elems));
    if (call == TR_BENCH_BROADCAST)
        return tr_bench_value(i, 0, 0);
    if (call == TR_BENCH_SENDRECV)
        return tr_bench_value(i, 0, (me + n - 1) % n);
    for (int r = 0; r < n; r++)
        sum += tr_bench_value(i, 0, r);
    return sum;
}

/* Check elements from `lo` on; of long results a sample, since each costs a sum over the ranks. */
static int64_t compare(const struct work *w, const void *host, int64_t lo, int64_t n,
                       int64_t *compared)
{
    enum { MOST = 65536 };
    const int64_t whole = tr_tensor_elems(&w->data), step = n > MOST ? n / MOST : 1;
    int64_t wrong = 0;

    for (int64_t i = 0; i < n; i += step) {
        float want = expected(w->call, lo + i, whole / w->c->size, w->c->rank, w->c->size);

        wrong += tr_bench_element(host, w->data.dtype, i) != want;
        ++*compared;
    }
    return wrong;
}

/* One call on fresh operands; how many of all ranks' results are wrong. */
static enum tr_status check(struct work *w, int64_t *wrong)
{
    struct tr_run *r = w->b->run;
    const bool part = w->call == TR_BENCH_REDUCE_SCATTER;
    struct tr_tensor out = part ? slice(w) : w->call == TR_BENCH_SENDRECV ? w->other : w->data;
    int64_t n = tr_tensor_elems(&out), compared = 0, mine;
    void *host = calloc((size_t)n, (size_t)tr_dtype_bytes(out.dtype));
    enum tr_status s =
        host ? TR_OK : TR_FAIL(TR_ERESOURCE, "no memory left for results on the host");

    TR_TRY(tr_comm_agree(r->world, s));
    s = tr_bench_fill(w->b, &w->data, 0, w->c->rank);
    if (s == TR_OK) {
        body(w);
        r->queue.on->download(&r->queue, host, &out);
        mine = compare(w, host, part ? w->c->rank * n : 0, n, &compared);
        *wrong = tr_bench_count(w->b, compared, mine);
    }
    free(host);
    return s;
}

/* ---- the table ---- */

static void head(const struct tr_bench *b, const struct work *w)
{
    const struct tr_comm *world = b->run->world;

    tr_bench_print(
        b,
        "# coll: %d group%s \"%s\" of %d ranks%s by %s; times of the slowest rank, in place, "
        "median of %d, %d first not counted\n"
        "#       size         count      type   redop    root     time   algbw   busbw "
        "  #wrong     min     max\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s) "
        "            (us)    (us)\n",
        world->size / w->c->size, tr_plural(world->size / w->c->size), w->c->name, w->c->size,
        world->size == w->c->size ? "" : " at the same time", w->c->via->name, b->repeats,
        b->warm_up);
}

static enum tr_status measure(struct work *w, double *busbw)
{
    const struct call *x = &calls[w->call];
    const int64_t bytes = tr_tensor_bytes(&w->data), elems = tr_tensor_elems(&w->data);
    const int n = w->c->size;
    const char *type = tr_dtype_name(w->data.dtype);
    struct tr_queue *q = &w->b->run->queue;
    struct tr_bench_times t;
    int64_t wrong;
    double algbw;

    TR_TRY(check(w, &wrong));
    /* Sums in place grow; those of zeros do not. */
    q->on->fill(q, &w->data, 0.0f);
    t = tr_bench_time(w->b, body, w, NULL);
    algbw = 1e-9 * (double)bytes / t.median;
    *busbw = algbw * (x->ends * n + x->rest) / n;
    tr_bench_print(w->b, "%12lld %13lld %9s %7s %7d %8.2f %7.3f %7.3f %8lld %7.1f %7.1f  %s\n",
                   (long long)bytes, (long long)elems, type, x->sums ? "sum" : "none",
                   x->rooted ? 0 : -1, 1e6 * t.median, algbw, *busbw, (long long)wrong, 1e6 * t.min,
                   1e6 * t.max, x->name);
    tr_bench_row(w->b,
                 json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I}",
                           "bench", "coll", "call", x->name, "transport", w->c->via->name, "group",
                           w->c->name, "ranks", n, "type", type, "bytes", (json_int_t)bytes,
                           "elements", (json_int_t)elems, "us", 1e6 * t.median, "us_min",
                           1e6 * t.min, "us_max", 1e6 * t.max, "algbw_gbs", algbw, "busbw_gbs",
                           *busbw, "wrong", (json_int_t)wrong));
    return TR_OK;
}

/* Whole slices of at least one element. */
static int64_t elements(int64_t bytes, enum tr_dtype type, int ranks)
{
    int64_t n = bytes / tr_dtype_bytes(type) / ranks;

    return (n > 0 ? n : 1) * ranks;
}

/* From the least size by the factor, and the largest in any case. */
static enum tr_status sizes_of(struct work *w, const struct tr_bench_coll *how, double *sum,
                               int *rows)
{
    for (int64_t bytes = how->least, next; bytes <= how->most; bytes = next) {
        int64_t n = elements(bytes, how->dtype, w->c->size);
        double busbw;

        next = bytes > how->most / how->factor ? how->most : bytes * how->factor;
        next += bytes == how->most;
        w->data = tr_tensor_1(w->data.data, how->dtype, n);
        w->other = tr_tensor_1(w->other.data, how->dtype, n);
        TR_TRY(measure(w, &busbw));
        *sum += busbw;
        ++*rows;
    }
    return TR_OK;
}

enum tr_status tr_bench_coll(struct tr_bench *b, const struct tr_bench_coll *how)
{
    struct work w = {.b = b, .c = group_of(b->run, how->group)};
    struct tr_tensor *both[] = {&w.data, &w.other};
    const int64_t wrong = b->wrong, most = how->most > how->least ? how->most : how->least;
    double sum = 0.0;
    int rows = 0;

    if (w.c->size < 2)
        return TR_FAIL(
            TR_ECONFIG,
            "a group \"%s\" of %d rank has nothing to communicate: start more ranks, or choose "
            "another --group",
            w.c->name, w.c->size);
    w.data = w.other = tr_tensor_1(NULL, how->dtype, elements(most, how->dtype, w.c->size));
    TR_TRY(tr_bench_reserve(b, both, 2));
    head(b, &w);
    for (int call = 0; call < TR_BENCH_CALLS; call++) {
        if (how->call != TR_BENCH_CALLS && how->call != (enum tr_bench_call)call)
            continue;
        w.call = (enum tr_bench_call)call;
        TR_TRY(sizes_of(&w, how, &sum, &rows));
    }
    tr_bench_print(b, "# Out of bounds values : %lld %s\n# Avg bus bandwidth    : %g\n",
                   (long long)(b->wrong - wrong), b->wrong > wrong ? "FAILED" : "OK", sum / rows);
    return TR_OK;
}
