/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/ref/ref.h"
#include "device/cuda/sdpa.h"
#include "util/rng.h"

/*
 * The graphs of device/cuda/sdpa.h mean attention and its gradient: they are computed here, one node after
 * the other in double, and held against ref.  What cuDNN makes of the same tables is
 * tests/cuda/t_sdpa_plan.c.
 */

/* A tensor while a graph is computed: where its elements are, and whether a node has written it. */
struct store {
    double *element; /* at stride distances */
    float *memory;   /* of an operand, which is float */
    bool owned, written;
};

struct machine {
    const struct tr_sdpa_graph *g;
    struct store store[TR_SDPA_MAX_TENSORS];
};

static int64_t place(const struct tr_sdpa_tensor *t, const int64_t i[4])
{
    int64_t at = 0;

    for (int k = 0; k < 4; k++) {
        assert_true(i[k] < t->dim[k] || t->dim[k] == 1);
        at += t->dim[k] == 1 ? 0 : i[k] * t->stride[k];
    }
    return at;
}

static double get(const struct machine *m, int tensor, const int64_t i[4])
{
    const struct tr_sdpa_tensor *t = &m->g->tensor[tensor];
    const struct store *s = &m->store[tensor];

    if (!s->written)
        fail_msg("tensor %d is read before it is written", tensor);
    return s->memory ? (double)s->memory[place(t, i)] : s->element[place(t, i)];
}

static void put(struct machine *m, int tensor, const int64_t i[4], double x)
{
    struct store *s = &m->store[tensor];

    if (s->memory)
        s->memory[place(&m->g->tensor[tensor], i)] = (float)x;
    else
        s->element[place(&m->g->tensor[tensor], i)] = x;
}

/* The next index of a tensor; false after the last. */
static bool next(const struct tr_sdpa_tensor *t, int64_t i[4])
{
    for (int k = 3; k >= 0; k--) {
        if (++i[k] < t->dim[k])
            return true;
        i[k] = 0;
    }
    return false;
}

static double product(const struct machine *m, const struct tr_sdpa_node *n, const int64_t i[4])
{
    double sum = 0.0;

    assert_int_equal(m->g->tensor[n->x].dim[3], m->g->tensor[n->b].dim[2]);
    for (int64_t k = 0; k < m->g->tensor[n->x].dim[3]; k++)
        sum += get(m, n->x, (int64_t[]){i[0], i[1], i[2], k}) *
               get(m, n->b, (int64_t[]){i[0], i[1], k, i[3]});
    return sum;
}

static double over_row(const struct machine *m, const struct tr_sdpa_node *n, const int64_t i[4])
{
    double result = n->op == TR_SDPA_ROW_MAX ? -INFINITY : 0.0;

    for (int64_t k = 0; k < m->g->tensor[n->x].dim[3]; k++) {
        double x = get(m, n->x, (int64_t[]){i[0], i[1], i[2], k});

        result = n->op == TR_SDPA_ROW_MAX ? fmax(result, x) : result + x;
    }
    return result;
}

static double pointwise(const struct machine *m, const struct tr_sdpa_node *n, const int64_t i[4])
{
    double x = get(m, n->x, i), b = n->b >= 0 ? get(m, n->b, i) : 0.0;

    switch (n->op) {
    case TR_SDPA_MUL:
        return x * b;
    case TR_SDPA_ADD:
        return x + b;
    case TR_SDPA_SUB:
        return x - b;
    case TR_SDPA_DIV:
        return x / b;
    case TR_SDPA_EXP:
        return exp(x);
    case TR_SDPA_LOG:
        return log(x);
    case TR_SDPA_COPY:
        return x;
    case TR_SDPA_ROW:
        return (double)i[2];
    case TR_SDPA_COLUMN:
        return (double)i[3];
    case TR_SDPA_NOT_LESS:
        return x >= b;
    case TR_SDPA_SELECT:
        return get(m, n->t, i) != 0.0 ? x : b;
    default:
        fail_msg("operation %d is unknown", (int)n->op);
        return 0.0;
    }
}

static void compute(struct machine *m, const struct tr_sdpa_node *n)
{
    const struct tr_sdpa_tensor *y = &m->g->tensor[n->y];
    struct store *s = &m->store[n->y];
    int64_t i[4] = {0}, elements = y->dim[0] * y->dim[1] * y->dim[2] * y->dim[3];

    if (s->written)
        fail_msg("tensor %d is written twice", n->y);
    if (n->op == TR_SDPA_TRANSPOSE) {
        *s = m->store[n->x];
        s->owned = false;
        return;
    }
    if (!s->memory) {
        assert_int_equal(y->place, TR_SDPA_VIRTUAL);
        s->element = calloc((size_t)elements, sizeof *s->element);
        s->owned = true;
    }
    do
        put(m, n->y, i,
            n->op == TR_SDPA_MATMUL                                ? product(m, n, i)
            : n->op == TR_SDPA_ROW_MAX || n->op == TR_SDPA_ROW_SUM ? over_row(m, n, i)
                                                                   : pointwise(m, n, i));
    while (next(y, i));
    s->written = true;
}

/* One call: operands as ops.def has them, and what the graphs need besides. */
struct call {
    struct tr_sdpa_sizes s;
    float scale;
    float *qkv, *ctx, *lse, *dctx, *dqkv, *rowsum, *dq_sum;
};

static float *memory_of(const struct call *c, enum tr_sdpa_name name)
{
    switch (name) {
    case TR_SDPA_CTX:
        return c->ctx;
    case TR_SDPA_DCTX:
        return c->dctx;
    case TR_SDPA_LSE:
        return c->lse;
    case TR_SDPA_ROWSUM:
        return c->rowsum;
    case TR_SDPA_DQ_SUM:
        return c->dq_sum;
    case TR_SDPA_DQ:
    case TR_SDPA_DK:
    case TR_SDPA_DV:
        return c->dqkv;
    default:
        return c->qkv;
    }
}

static void run_graph(const struct tr_sdpa_graph *g, const struct call *c, struct tr_sdpa_part part,
                      bool backward)
{
    struct machine m = {.g = g};
    double value[TR_SDPA_NAMES];

    for (int i = 0; i < TR_SDPA_NAMES; i++) {
        enum tr_sdpa_name n = (enum tr_sdpa_name)i;
        bool result = backward ? n == TR_SDPA_DQ || n == TR_SDPA_DK || n == TR_SDPA_DV ||
                                     n == TR_SDPA_ROWSUM || n == TR_SDPA_DQ_SUM
                               : n == TR_SDPA_CTX || n == TR_SDPA_LSE;

        if (g->tensor[i].place == TR_SDPA_MEMORY) {
            m.store[i].memory = memory_of(c, n) + tr_sdpa_offset(c->s, part, n);
            m.store[i].written = !result;
        } else if (g->tensor[i].place == TR_SDPA_VALUE) {
            value[i] = (double)tr_sdpa_value(n, c->scale);
            m.store[i] = (struct store){.element = &value[i], .written = true};
        }
    }
    for (int i = 0; i < g->nodes; i++)
        compute(&m, &g->node[i]);
    for (int i = 0; i < g->tensors; i++) {
        if (g->tensor[i].place != TR_SDPA_ABSENT && !m.store[i].written)
            fail_msg("tensor %d is written by no node", i);
        if (m.store[i].owned)
            free(m.store[i].element);
    }
}

static void by_graphs(const struct call *c, size_t room, bool backward)
{
    struct tr_sdpa_parts parts = tr_sdpa_share(c->s, room);

    assert_true(parts.count > 0);
    for (int64_t i = 0; i < parts.count; i++) {
        struct tr_sdpa_part part = tr_sdpa_part(parts, i);
        struct tr_sdpa_sizes s = c->s;
        struct tr_sdpa_graph g;

        s.b = part.b;
        s.heads = part.heads;
        assert_true(tr_sdpa_backward_bytes(s) <= room);
        (backward ? tr_sdpa_backward : tr_sdpa_forward)(s, &g);
        assert_int_equal(g.tensor[TR_SDPA_DQ_SUM].place,
                         backward && s.any_order ? TR_SDPA_MEMORY : TR_SDPA_ABSENT);
        run_graph(&g, c, part, backward);
    }
}

static float *numbers(uint64_t seed, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)tr_rng_u32(tr_rng_key(seed, TR_STREAM_INIT, 0, 0), (uint64_t)i) * 0x1p-31f -
               1.0f;
    return x;
}

static float *nans(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

/* As ops.def compares. */
static void assert_close(const char *what, const float *got, const float *want, int64_t n,
                         double tolerance)
{
    double error = 0.0, size = 0.0;

    for (int64_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    if (!(error <= tolerance * size))
        fail_msg("%s: squared error %.3g, of %.3g", what, error, size);
}

/* With backward as a product of a matrix and as a sum in memory. */
static void against_ref(int64_t b, int64_t heads, int64_t t, int64_t d, size_t room)
{
    struct tr_sdpa_sizes s = {.b = b, .heads = heads, .t = t, .d = d, .row_heads = heads};
    int64_t n = b * t * heads * d, queries = b * heads * t;
    struct call c = {.s = s, .scale = 0.7f, .qkv = numbers(1, 3 * n), .dctx = numbers(2, n)};
    struct call want = {.ctx = nans(n), .lse = nans(queries), .dqkv = nans(3 * n)};
    struct tr_tensor qkv = tr_f32_2(c.qkv, b * t, 3 * heads * d);
    struct tr_tensor dctx = tr_f32_2(c.dctx, b * t, heads * d);
    struct tr_tensor ctx = tr_f32_2(want.ctx, b * t, heads * d);
    struct tr_tensor lse = tr_f32_3(want.lse, b, heads, t);
    struct tr_tensor dqkv = tr_f32_2(want.dqkv, b * t, 3 * heads * d);
    struct tr_queue q = {.on = &tr_ref};

    tr_ref.attention(&q, &ctx, &lse, &qkv, NULL,
                     (struct tr_attention_how){.first_head = 0, .scale = c.scale},
                     (struct tr_dropout){.p = 0.0});
    tr_ref.attention_bwd(&q, &dqkv, &dctx, &ctx, &lse, &qkv, NULL,
                         (struct tr_attention_how){.first_head = 0, .scale = c.scale},
                         (struct tr_dropout){.p = 0.0});
    c.ctx = nans(n);
    c.lse = nans(queries);
    by_graphs(&c, room, false);
    assert_close("ctx", c.ctx, want.ctx, n, 1e-11);
    assert_close("lse", c.lse, want.lse, queries, 1e-11);
    for (int i = 0; i < 2; i++) {
        c.s.any_order = i == 1;
        c.dqkv = nans(3 * n);
        c.rowsum = nans(queries);
        c.dq_sum = nans(n);
        by_graphs(&c, room, true);
        assert_close("dqkv", c.dqkv, want.dqkv, 3 * n, 1e-10);
        free(c.dqkv), free(c.rowsum), free(c.dq_sum);
    }
    free(c.qkv), free(c.dctx), free(c.ctx), free(c.lse);
    free(want.ctx), free(want.lse), free(want.dqkv);
}

static void graphs_are_attention(void **state)
{
    (void)state;
    against_ref(1, 1, 1, 8, SIZE_MAX);
    against_ref(1, 1, 5, 8, SIZE_MAX);
    against_ref(2, 3, 17, 8, SIZE_MAX);
    against_ref(1, 2, 9, 40, SIZE_MAX);
    against_ref(3, 1, 33, 16, SIZE_MAX);
}

/* Room for `heads` heads of one sample of up to 128 tokens. */
static size_t room_for(int64_t heads)
{
    return tr_sdpa_backward_bytes(
        (struct tr_sdpa_sizes){.b = 1, .heads = heads, .t = 128, .d = 8, .row_heads = heads});
}

static void parts_make_the_whole(void **state)
{
    (void)state;
    against_ref(3, 5, 11, 8, room_for(10));
    against_ref(2, 5, 11, 8, room_for(5));
    against_ref(2, 5, 11, 8, room_for(2));
    against_ref(2, 5, 11, 8, room_for(1));
}

static void check_parts(struct tr_sdpa_sizes s, size_t room, int64_t count)
{
    struct tr_sdpa_parts p = tr_sdpa_share(s, room);
    const int64_t b = s.b, heads = s.heads;
    int64_t done = 0;

    assert_int_equal(p.count, count);
    for (int64_t i = 0; i < p.count; i++) {
        struct tr_sdpa_part part = tr_sdpa_part(p, i);

        assert_true(part.heads == heads || part.b == 1);
        assert_int_equal(part.first_b * heads + part.first_head, done);
        done += part.b * part.heads;
    }
    assert_int_equal(done, count ? b * heads : 0);
}

static struct tr_sdpa_sizes sizes_of(int64_t b, int64_t heads, int64_t t, bool any_order)
{
    return (struct tr_sdpa_sizes){
        .b = b, .heads = heads, .t = t, .d = 64, .row_heads = heads, .any_order = any_order};
}

/* A matrix [t,t] in half precision per head: 8 MiB for 2048 tokens.  In any order two sums [t,d] in fp32: 1 MiB. */
static void parts_are_few(void **state)
{
    const size_t room = (size_t)257 << 20, little = (size_t)64 << 20;

    (void)state;
    check_parts(sizes_of(8, 25, 2048, false), room, 8);
    check_parts(sizes_of(4, 32, 2048, false), room, 4);
    check_parts(sizes_of(4, 12, 1024, false), room, 1);
    check_parts(sizes_of(8, 12, 1024, false), (size_t)64 << 20, 4);
    check_parts(sizes_of(1, 16, 4096, false), room, 2);
    check_parts(sizes_of(2, 16, 8192, false), room, 16);
    check_parts(sizes_of(1, 16, 16384, false), room, 0);

    check_parts(sizes_of(8, 25, 2048, true), room, 1);
    check_parts(sizes_of(8, 25, 2048, true), little, 4);
    check_parts(sizes_of(4, 32, 2048, true), little, 4);
    check_parts(sizes_of(1, 16, 16384, true), little, 3);
    check_parts(sizes_of(1, 4, 262144, true), little, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_attention),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(parts_are_few),
    };

    return run_tap(tests);
}
