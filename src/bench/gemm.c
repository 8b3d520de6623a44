/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "config/work.h"
#include "util/text.h"

/* A linear operation y[rows,out] = x[rows,in] w[out,in]^T of the model, and how often a rank of a middle stage,
   or of the first or last one for the ends of the model, computes it in a micro-batch. */
struct linear {
    const char *name;
    int64_t rows, in, out, times;
};
enum { LINEARS = (TR_WORK_HEAD + 1) * TR_WORK_GEMMS, WAYS = 3, SAMPLES = 64 };

static const char *const ways[WAYS] = {"forward", "dgrad", "wgrad"};

struct work {
    struct tr_bench *b;
    int way;
    struct tr_tensor x, w, y; /* the operands, and */
    struct tr_tensor dw;      /*   a gradient of w in the type of gradients */
};

static int add(const struct tr_work_how *how, enum tr_work_part part, int64_t times,
               struct linear *out)
{
    struct tr_work work;

    tr_work_of(how, part, &work);
    for (int i = 0; i < work.gemms; i++) {
        const struct tr_work_gemm *g = &work.gemm[i];

        out[i] = (struct linear){g->name, (int64_t)g->rows, (int64_t)g->inner, (int64_t)g->columns,
                                 times};
    }
    return work.gemms;
}

static int list(const struct tr_shape *s, struct linear out[LINEARS])
{
    const struct tr_work_how how = tr_work_how_of(s);
    int n = add(&how, TR_WORK_EMBED, 1, out);

    n += add(&how, TR_WORK_LAYER,
             tr_layout_stage_layers(&s->layout, tr_layout_longest_stage(&s->layout)), out + n);
    return n + add(&how, TR_WORK_HEAD, 1, out + n);
}

static void body(void *ctx)
{
    const struct work *w = ctx;
    struct tr_queue *q = &w->b->run->queue;

    if (w->way == 0)
        q->on->linear(q, &w->y, NULL, &w->x, &w->w, NULL, TR_ACT_NONE);
    else if (w->way == 1)
        q->on->linear_dgrad(q, &w->x, &w->y, &w->w, NULL, TR_ACT_NONE);
    else
        q->on->linear_wgrad(q, &w->dw, NULL, &w->y, &w->x, false);
}

/* ---- is it right? ---- */

/* Element (i, j) of a GEMM from the formulas of its operands: a[i,k] b[k,j] summed over k. */
static double expected(const struct work *w, int64_t i, int64_t j)
{
    const int64_t n = w->x.dim[0], in = w->x.dim[1], out = w->y.dim[1];
    double sum = 0.0;

    if (w->way == 0)
        for (int64_t k = 0; k < in; k++)
            sum += tr_bench_value(i * in + k, 0, 0) * tr_bench_value(j * in + k, 1, 0);
    else if (w->way == 1)
        for (int64_t k = 0; k < out; k++)
            sum += tr_bench_value(i * out + k, 2, 0) * tr_bench_value(k * in + j, 1, 0);
    else
        for (int64_t k = 0; k < n; k++)
            sum += tr_bench_value(k * out + i, 2, 0) * tr_bench_value(k * in + j, 0, 0);
    return sum;
}

/* Sums of integers are exact in fp32; in fp16 and bf16 they are rounded once. */
static bool is_right(double got, double want, enum tr_dtype type)
{
    double u = type == TR_F32 ? 0.0 : type == TR_F16 ? ldexp(1.0, -11) : ldexp(1.0, -8);

    return fabs(got - want) <= u * fabs(want);
}

static enum tr_status compare(struct work *w, const struct tr_tensor *result, int64_t *wrong)
{
    struct tr_run *r = w->b->run;
    const int64_t rows = result->dim[0], columns = result->dim[1];
    void *host = calloc((size_t)tr_tensor_elems(result), (size_t)tr_dtype_bytes(result->dtype));
    enum tr_status s =
        host ? TR_OK : TR_FAIL(TR_ERESOURCE, "no memory left for results on the host");
    int64_t bad = 0;

    TR_TRY(tr_comm_agree(r->world, s));
    r->queue.on->download(&r->queue, host, result);
    for (int64_t k = 0; k < SAMPLES; k++) {
        int64_t i = k * 7919 % rows, j = k * 104729 % columns;

        bad += !is_right(tr_bench_element(host, result->dtype, i * columns + j), expected(w, i, j),
                         result->dtype);
    }
    free(host);
    *wrong = tr_bench_count(w->b, SAMPLES, bad);
    return TR_OK;
}

/* A GEMM on fresh operands. */
static enum tr_status check(struct work *w, int64_t *wrong)
{
    const struct tr_tensor *result[WAYS] = {&w->y, &w->x, &w->dw};

    TR_TRY(tr_bench_fill(w->b, &w->x, 0, 0));
    TR_TRY(tr_bench_fill(w->b, &w->w, 1, 0));
    TR_TRY(tr_bench_fill(w->b, &w->y, 2, 0));
    body(w);
    return compare(w, result[w->way], wrong);
}

/* ---- the table ---- */

/* Of all ranks' medians: the middle, the best, and the worst with its place. */
struct spread {
    double median, best, worst;
    int at;
};

static struct spread spread_of(struct tr_bench *b, double mine)
{
    struct tr_comm *world = b->run->world;
    double *all = calloc((size_t)world->size, sizeof *all);
    struct tr_bench_times t;
    struct spread s = {.at = 0};

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    world->via->gather_all(world, &mine, sizeof mine, all);
    for (int r = 0; r < world->size; r++)
        s.at = all[r] > all[s.at] ? r : s.at;
    t = tr_bench_times_of(all, world->size);
    s.median = t.median;
    s.best = t.min;
    s.worst = t.max;
    free(all);
    return s;
}

static enum tr_status measure(struct work *w, const struct linear *l, double *flop, double *seconds)
{
    const double f = 2.0 * (double)w->x.dim[0] * (double)l->in * (double)l->out;
    const char *types = tr_dtype_name(w->x.dtype);
    struct spread s;
    double own;
    int64_t wrong;

    TR_TRY(check(w, &wrong));
    (void)tr_bench_time(w->b, body, w, &own);
    s = spread_of(w->b, own);
    *flop += f * (double)l->times;
    *seconds += s.median * (double)l->times;
    tr_bench_print(w->b, "%11s %8s %8lld %8lld %8lld %5s %10.3f %10.3f %10.3f %9.3f %6lld  %d %s\n",
                   l->name, ways[w->way], (long long)w->x.dim[0], (long long)l->in,
                   (long long)l->out, types, 1e3 * s.median, 1e3 * s.best, 1e3 * s.worst,
                   1e-12 * f / s.median, (long long)wrong, s.at, w->b->host[s.at]);
    tr_bench_row(
        w->b, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:i, s:s, s:I}",
                        "bench", "gemm", "product", l->name, "way", ways[w->way], "rows",
                        (json_int_t)w->x.dim[0], "in", (json_int_t)l->in, "out", (json_int_t)l->out,
                        "type", types, "ms", 1e3 * s.median, "ms_min", 1e3 * s.best, "ms_max",
                        1e3 * s.worst, "tflops", 1e-12 * f / s.median, "slowest_rank", s.at,
                        "slowest_host", w->b->host[s.at], "wrong", (json_int_t)wrong));
    return TR_OK;
}

/* Room for the largest of each operand. */
static enum tr_status reserve(struct work *w, const struct linear *l, int count, enum tr_dtype type,
                              enum tr_dtype grads)
{
    int64_t in = 0, out = 0, weights = 0;
    struct tr_tensor *all[] = {&w->x, &w->w, &w->y, &w->dw};

    for (int i = 0; i < count; i++) {
        in = l[i].rows * l[i].in > in ? l[i].rows * l[i].in : in;
        out = l[i].rows * l[i].out > out ? l[i].rows * l[i].out : out;
        weights = l[i].in * l[i].out > weights ? l[i].in * l[i].out : weights;
    }
    w->x = tr_tensor_1(NULL, type, in);
    w->y = tr_tensor_1(NULL, type, out);
    w->w = tr_tensor_1(NULL, type, weights);
    w->dw = tr_tensor_1(NULL, grads, weights);
    return tr_bench_reserve(w->b, all, 4);
}

enum tr_status tr_bench_gemm(struct tr_bench *b)
{
    const struct tr_shape *s = &b->run->shape;
    const enum tr_dtype type = tr_run_dtype(&s->precision);
    const enum tr_dtype grads = s->precision.grads_fp32 ? TR_F32 : type;
    const int64_t rows = s->batches.micro_batch * s->dims.seq;
    struct linear l[LINEARS];
    const int count = list(s, l);
    struct work w = {.b = b};
    double flop = 0.0, seconds = 0.0;

    TR_TRY(reserve(&w, l, count, type, grads));
    tr_bench_print(
        b,
        "# gemm: GEMMs of a layer and of the ends of the model, %lld tokens, tensor parallel %d, "
        "by %s; medians of %d on each of %d rank%s, all at once\n"
        "#   product      way     rows       in      out  type    ms (median of ranks, min, max)   "
        "TFLOP/s #wrong  slowest rank\n",
        (long long)rows, s->layout.w, b->run->queue.on->name, b->repeats, b->run->world->size,
        tr_plural(b->run->world->size));
    for (int i = 0; i < count; i++)
        for (w.way = 0; w.way < WAYS; w.way++) {
            w.x = tr_tensor_2(w.x.data, type, l[i].rows, l[i].in);
            w.w = tr_tensor_2(w.w.data, type, l[i].out, l[i].in);
            w.y = tr_tensor_2(w.y.data, type, l[i].rows, l[i].out);
            w.dw = tr_tensor_2(w.dw.data, grads, l[i].out, l[i].in);
            TR_TRY(measure(&w, &l[i], &flop, &seconds));
        }
    tr_bench_print(
        b, "# GEMMs of a micro-batch on a stage with the head: %.3f ms, %.3f TFLOP/s a rank\n",
        1e3 * seconds, 1e-12 * flop / seconds);
    tr_bench_row(b, json_pack("{s:s, s:s, s:f, s:f}", "bench", "gemm", "product", "all", "ms",
                              1e3 * seconds, "tflops", 1e-12 * flop / seconds));
    return TR_OK;
}
