/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "util/rng.h"

/*
 * Each gradient against differences of its own forward operation, on every backend whose memory the host
 * can change; the others are held to ref by t_ops.
 *
 * The derivative of f is taken from four points, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, whose
 * error is h^4 f''''' / 30.  With h = 1/32 that is 3e-8 f'''''; results are stored as floats, which
 * adds about 6e-8 / h = 2e-6 times the size of f.  Inputs are multiples of 2^-10, so that x + h is
 * exact.  Both errors stay well below TOLERANCE times the largest gradient.
 */
static const double h = 1.0 / 32.0;
static const double TOLERANCE = 1e-4;

enum { MAX_TENSORS = 16, MAX_ELEMENTS = 4096 };

/* A problem: some tensors, and a loss that is the sum of weight * output. */
struct problem {
    struct tr_queue q;
    int tensors;
    struct tr_tensor t[MAX_TENSORS];
    struct tr_dropout drop;
    int64_t sample[4];
    enum tr_act act;
    struct tr_norm_how norm;
    struct tr_attention_how attention;
    struct tr_rotary_how rotary;
    double (*loss)(struct problem *p);
};

static void open_problem(struct problem *p, const struct tr_backend *b)
{
    struct tr_device *d;

    *p = (struct problem){.act = TR_ACT_NONE, .sample = {5, 1000003, 2, 77}};
    assert_ok(b->open(&(struct tr_device_how){.threads = 1}, &d));
    p->q = (struct tr_queue){b, d};
}

static void close_problem(struct problem *p)
{
    for (int i = 0; i < p->tensors; i++)
        free(p->t[i].data);
    p->q.on->close(p->q.device);
}

/* A [rows,columns] of multiples of 2^-10 with standard deviation 1. */
static struct tr_tensor *numbers(struct problem *p, int64_t rows, int64_t columns)
{
    struct tr_tensor *t = &p->t[p->tensors];
    int64_t n = rows * columns;

    assert_true(p->tensors < MAX_TENSORS && n <= MAX_ELEMENTS);
    *t = tr_f32_2(malloc((size_t)n * sizeof(float)), rows, columns);
    assert_non_null(t->data);
    tr_rng_normal(tr_rng_key(9, TR_STREAM_INIT, 0, p->tensors), 0, n, tr_f32(t));
    for (int64_t i = 0; i < n; i++)
        tr_f32(t)[i] = rintf(tr_f32(t)[i] * 1024.0f) / 1024.0f;
    p->tensors++;
    return t;
}

static struct tr_tensor *indices(struct problem *p, int64_t n, const int32_t *from)
{
    struct tr_tensor *t = numbers(p, 1, n);

    *t = tr_i32_1(t->data, n);
    memcpy(t->data, from, (size_t)n * sizeof *from);
    return t;
}

static double dot(const struct tr_tensor *x, const struct tr_tensor *y)
{
    double sum = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(x); i++)
        sum += (double)tr_f32(x)[i] * (double)tr_f32(y)[i];
    return sum;
}

static double loss_at(struct problem *p, float *x, double step)
{
    float was = *x;
    double loss;

    *x = (float)((double)was + step);
    loss = p->loss(p);
    *x = was;
    return loss;
}

/* `got` must be `start` + the derivative of the loss with respect to each element of x. */
static void check(struct problem *p, const char *what, const struct tr_tensor *x,
                  const struct tr_tensor *got, double start)
{
    double largest = 0.0, worst = 0.0;

    for (int64_t i = 0; i < tr_tensor_elems(x); i++) {
        float *at = tr_f32(x) + i;
        double d = (8.0 * (loss_at(p, at, h) - loss_at(p, at, -h)) -
                    (loss_at(p, at, 2.0 * h) - loss_at(p, at, -2.0 * h))) /
                   (12.0 * h);

        largest = fmax(largest, fabs(d));
        worst = fmax(worst, fabs((double)tr_f32(got)[i] - start - d));
        assert_true(isfinite(tr_f32(got)[i]));
    }
    if (!(largest > 0.01 && worst <= TOLERANCE * fmax(largest, 1.0)))
        fail_msg("%s: gradient to %s is off by %.3g where the largest is %.3g", p->q.on->name, what,
                 worst, largest);
}

static void set(const struct tr_tensor *t, float value)
{
    for (int64_t i = 0; i < tr_tensor_elems(t); i++)
        tr_f32(t)[i] = value;
}

/* ---- linear ---- */

/* y, weight, x, w, bias, pre */
static double linear_loss(struct problem *p)
{
    p->q.on->linear(&p->q, &p->t[0], &p->t[5], &p->t[2], &p->t[3], &p->t[4], p->act);
    return dot(&p->t[0], &p->t[1]);
}

/* z = act(x w^T + b) v^T: the gradient of the activation belongs to the dgrad of what follows. */
static double two_linear_loss(struct problem *p)
{
    linear_loss(p);
    p->q.on->linear(&p->q, &p->t[6], NULL, &p->t[0], &p->t[8], NULL, TR_ACT_NONE);
    return dot(&p->t[6], &p->t[7]);
}

/* Activations with a kink, beside which differences say nothing. */
static bool has_kink(enum tr_act act)
{
    return act == TR_ACT_RELU || act == TR_ACT_RELU2 || act == TR_ACT_REGLU;
}

/*
 * Pairs of columns far below and far above the kink in turns.  Weights and biases become small, so that
 * "far" is 2 and not 16: the square of an activation is rounded as a number of its size, and a difference
 * over h shows that rounding 32 times as large.
 */
static void leave_kink(const struct tr_tensor *w, const struct tr_tensor *bias)
{
    for (int64_t i = 0; i < tr_tensor_elems(w); i++)
        tr_f32(w)[i] *= 0.125f;
    for (int64_t i = 0; i < tr_tensor_elems(bias); i++)
        tr_f32(bias)[i] = 0.125f * tr_f32(bias)[i] + (i / 2 % 2 == 0 ? 2.0f : -2.0f);
}

static void linear_with(const struct tr_backend *b, enum tr_act act)
{
    enum { N = 5, O = 8, I = 6, O2 = 3 };
    const int64_t columns = tr_act_gated(act) ? 2 * O : O;
    struct problem p;
    struct tr_tensor *y, *x, *w, *bias, *pre, *weight2, *v, *dpre, *dx, *dw, *dbias, *dv;

    open_problem(&p, b);
    y = numbers(&p, N, O);
    numbers(&p, N, O);
    x = numbers(&p, N, I);
    w = numbers(&p, columns, I);
    bias = numbers(&p, 1, columns);
    pre = numbers(&p, N, columns);
    numbers(&p, N, O2);
    weight2 = numbers(&p, N, O2);
    v = numbers(&p, O2, O);
    dpre = numbers(&p, N, columns);
    dx = numbers(&p, N, I);
    dw = numbers(&p, columns, I);
    dbias = numbers(&p, 1, columns);
    dv = numbers(&p, O2, O);
    p.loss = two_linear_loss;
    p.act = act;
    if (has_kink(act))
        leave_kink(w, bias);
    set(dw, 1.0f);
    set(dbias, -1.0f);
    set(dv, 2.0f);
    p.loss(&p);
    b->linear_dgrad(&p.q, dpre, weight2, v, act == TR_ACT_NONE ? NULL : pre, act);
    b->linear_wgrad(&p.q, dv, NULL, weight2, y, true);
    b->linear_dgrad(&p.q, dx, dpre, w, NULL, TR_ACT_NONE);
    b->linear_wgrad(&p.q, dw, dbias, dpre, x, true);
    check(&p, "x of linear", x, dx, 0.0);
    check(&p, "w of linear", w, dw, 1.0);
    check(&p, "bias of linear", bias, dbias, -1.0);
    check(&p, "w of the second linear", v, dv, 2.0);
    close_problem(&p);
}

static void linear(const struct tr_backend *b)
{
    for (int act = 0; act < TR_ACTS; act++)
        linear_with(b, (enum tr_act)act);
}

/* ---- norm ---- */

/* An operand that the norm has, or not. */
static struct tr_tensor *unless(bool not, struct tr_tensor *t)
{
    return not ? NULL : t;
}

/* y, weight, x, gain, bias, mean, rstd, skip */
static double norm_loss(struct problem *p)
{
    const bool rms = p->norm.rms;

    p->q.on->norm(&p->q, &p->t[0], unless(rms, &p->t[5]), &p->t[6], &p->t[2], &p->t[3],
                  unless(rms, &p->t[4]), p->norm);
    return dot(&p->t[0], &p->t[1]) + dot(&p->t[2], &p->t[7]);
}

static void norm_with(const struct tr_backend *b, struct tr_norm_how how)
{
    enum { N = 4, H = 9 };
    struct problem p;
    struct tr_tensor *weight, *x, *gain, *bias, *mean, *rstd, *skip, *dx, *dgain, *dbias;

    open_problem(&p, b);
    p.norm = how;
    numbers(&p, N, H);
    weight = numbers(&p, N, H);
    x = numbers(&p, N, H);
    gain = numbers(&p, 1, H);
    bias = numbers(&p, 1, H);
    mean = unless(how.rms, numbers(&p, 1, N));
    rstd = numbers(&p, 1, N);
    skip = numbers(&p, N, H);
    dx = numbers(&p, N, H);
    dgain = numbers(&p, 1, H);
    dbias = unless(how.rms, numbers(&p, 1, H));
    p.loss = norm_loss;
    p.loss(&p);
    set(dgain, 1.0f);
    if (dbias)
        set(dbias, -1.0f);
    b->norm_bwd(&p.q, dx, dgain, dbias, weight, skip, x, gain, mean, rstd, how);
    check(&p, "x of norm", x, dx, 0.0);
    check(&p, "gain", gain, dgain, 1.0);
    if (dbias)
        check(&p, "bias of norm", bias, dbias, -1.0);
    memcpy(dx->data, skip->data, (size_t)tr_tensor_bytes(dx));
    p.loss(&p);
    b->norm_bwd(&p.q, dx, dgain, dbias, weight, dx, x, gain, mean, rstd, how);
    check(&p, "x of norm in place", x, dx, 0.0);
    set(skip, 0.0f);
    p.loss(&p);
    b->norm_bwd(&p.q, dx, dgain, dbias, weight, NULL, x, gain, mean, rstd, how);
    check(&p, "x of norm without skip", x, dx, 0.0);
    close_problem(&p);
}

/* eps is large here, so that a gradient that forgets it is seen. */
static void norm(const struct tr_backend *b)
{
    for (int i = 0; i < 4; i++)
        norm_with(b, (struct tr_norm_how){.eps = 0.5f, .rms = i % 2 == 1, .one = i >= 2});
}

/* ---- residual, dropout ---- */

/* y, weight, x, a, bias */
static double residual_loss(struct problem *p)
{
    p->q.on->residual(&p->q, &p->t[0], &p->t[2], &p->t[3], &p->t[4], p->drop);
    return dot(&p->t[0], &p->t[1]);
}

static void set_dropout(struct problem *p, double rate, enum tr_stream stream, int64_t tokens)
{
    p->drop = (struct tr_dropout){
        .p = rate, .seed = 42, .stream = stream, .site = 3, .sample = p->sample, .tokens = tokens};
}

static void residual(const struct tr_backend *b)
{
    enum { SAMPLES = 3, T = 2, N = SAMPLES * T, H = 11 };
    struct problem p;
    struct tr_tensor *weight, *a, *bias, *da, *dbias;

    open_problem(&p, b);
    numbers(&p, N, H);
    weight = numbers(&p, N, H);
    numbers(&p, N, H);
    a = numbers(&p, N, H);
    bias = numbers(&p, 1, H);
    da = numbers(&p, N, H);
    dbias = numbers(&p, 1, H);
    p.loss = residual_loss;
    for (int i = 0; i < 2; i++) {
        set_dropout(&p, i * 0.5, TR_STREAM_ATTN_OUT_DROPOUT, T);
        set(dbias, 1.0f);
        b->residual_bwd(&p.q, da, dbias, weight, p.drop);
        check(&p, "a of residual", a, da, 0.0);
        check(&p, "bias of residual", bias, dbias, 1.0);
    }
    close_problem(&p);
}

/* y, weight, x */
static double dropout_loss(struct problem *p)
{
    memcpy(p->t[0].data, p->t[2].data, (size_t)tr_tensor_bytes(&p->t[0]));
    p->q.on->dropout(&p->q, &p->t[0], p->drop);
    return dot(&p->t[0], &p->t[1]);
}

static void dropout(const struct tr_backend *b)
{
    enum { T = 3, N = 6, H = 7 };
    struct problem p;
    struct tr_tensor *weight, *x;

    open_problem(&p, b);
    numbers(&p, N, H);
    weight = numbers(&p, N, H);
    x = numbers(&p, N, H);
    p.loss = dropout_loss;
    set_dropout(&p, 0.25, TR_STREAM_EMBED_DROPOUT, T);
    struct tr_tensor *dx = numbers(&p, N, H);
    memcpy(dx->data, weight->data, (size_t)tr_tensor_bytes(dx));
    b->dropout(&p.q, dx, p.drop);
    check(&p, "y of dropout", x, dx, 0.0);
    close_problem(&p);
}

/* ---- embedding ---- */

/* y, weight, table, ids */
static double embed_loss(struct problem *p)
{
    p->q.on->embed(&p->q, &p->t[0], &p->t[3], &p->t[2], 10);
    return dot(&p->t[0], &p->t[1]);
}

/* The slice holds rows 10 .. 13; row 12 is asked for twice, row 13 never, two ids lie outside. */
static void embed(const struct tr_backend *b)
{
    enum { N = 6, H = 5, R = 4 };
    static const int32_t wanted[N] = {12, 3, 10, 12, 11, 14};
    struct problem p;
    struct tr_tensor *weight, *table, *ids, *dtable;

    open_problem(&p, b);
    numbers(&p, N, H);
    weight = numbers(&p, N, H);
    table = numbers(&p, R, H);
    ids = indices(&p, N, wanted);
    dtable = numbers(&p, R, H);
    p.loss = embed_loss;
    set(dtable, 1.0f);
    b->embed_bwd(&p.q, dtable, weight, ids, 10);
    check(&p, "table", table, dtable, 1.0);
    close_problem(&p);
}

/* ---- attention ---- */

/* ctx, weight, qkv, lse */
static double attention_loss(struct problem *p)
{
    p->q.on->attention(&p->q, &p->t[0], &p->t[3], &p->t[2], NULL, p->attention, p->drop);
    return dot(&p->t[0], &p->t[1]);
}

static void attention_with(const struct tr_backend *b, int groups, int64_t window, bool slopes)
{
    enum { B = 2, HEADS = 4, T = 7, D = 3, N = B * T };
    struct problem p;
    struct tr_tensor *ctx, *weight, *qkv, *lse, *dqkv;

    open_problem(&p, b);
    ctx = numbers(&p, N, HEADS * D);
    weight = numbers(&p, N, HEADS * D);
    qkv = numbers(&p, N, (HEADS + 2 * groups) * D);
    lse = numbers(&p, B * HEADS, T);
    *lse = tr_f32_3(lse->data, B, HEADS, T);
    dqkv = numbers(&p, N, (HEADS + 2 * groups) * D);
    p.loss = attention_loss;
    p.attention = (struct tr_attention_how){.first_head = 4, .scale = 0.5f, .window = window};
    if (slopes)
        p.attention.slopes = numbers(&p, 1, HEADS);
    for (int i = 0; i < 2; i++) {
        set_dropout(&p, i * 0.4, TR_STREAM_ATTN_DROPOUT, T);
        p.loss(&p);
        b->attention_bwd(&p.q, dqkv, weight, ctx, lse, qkv, NULL, p.attention, p.drop);
        check(&p, "qkv", qkv, dqkv, 0.0);
    }
    close_problem(&p);
}

static void attention(const struct tr_backend *b)
{
    attention_with(b, 4, 0, false);
    attention_with(b, 2, 3, false);
    attention_with(b, 4, 0, true);
    attention_with(b, 1, 4, true);
}

/* ---- rotary positions and norms of heads ---- */

/* y, weight, x, table, position */
static double rotary_loss(struct problem *p)
{
    p->q.on->rotary(&p->q, &p->t[0], &p->t[2], &p->t[3], &p->t[4], p->rotary);
    return dot(&p->t[0], &p->t[1]);
}

/* The gradient turns back, whether or not the table has cosines and sines. */
static void rotary(const struct tr_backend *b)
{
    enum { N = 5, HEADS = 4, GROUPS = 2, WIDTH = 7, ROTARY = 4, ROWS = 4 };
    static const int32_t wanted[N] = {0, 3, 1, 1, 2};
    const int columns = (HEADS + 2 * GROUPS) * WIDTH;
    struct problem p;
    struct tr_tensor *weight, *x, *table, *position, *dx;

    open_problem(&p, b);
    p.rotary = (struct tr_rotary_how){.heads = {HEADS, GROUPS, WIDTH}, .rotary = ROTARY};
    numbers(&p, N, columns);
    weight = numbers(&p, N, columns);
    x = numbers(&p, N, columns);
    table = numbers(&p, ROWS, ROTARY);
    position = indices(&p, N, wanted);
    dx = numbers(&p, N, columns);
    p.loss = rotary_loss;
    for (int i = 0; i < 2; i++) {
        struct tr_rotary_how back = p.rotary;

        p.rotary.pairs = back.pairs = i == 1;
        back.back = true;
        b->rotary(&p.q, dx, weight, table, position, back);
        check(&p, "x of rotary", x, dx, 0.0);
        memcpy(dx->data, weight->data, (size_t)tr_tensor_bytes(dx));
        b->rotary(&p.q, dx, dx, table, position, back);
        check(&p, "x of rotary in place", x, dx, 0.0);
    }
    close_problem(&p);
}

/* y, weight, x, q_gain, k_gain, rstd */
static double head_norm_loss(struct problem *p)
{
    p->q.on->head_norm(&p->q, &p->t[0], &p->t[5], &p->t[2], &p->t[3], &p->t[4], p->rotary.heads,
                       p->norm);
    return dot(&p->t[0], &p->t[1]);
}

static void head_norm(const struct tr_backend *b)
{
    enum { N = 5, HEADS = 4, GROUPS = 2, WIDTH = 6 };
    const int columns = (HEADS + 2 * GROUPS) * WIDTH;
    struct problem p;
    struct tr_tensor *weight, *x, *q_gain, *k_gain, *rstd, *dx, *dq_gain, *dk_gain;

    open_problem(&p, b);
    p.rotary.heads = (struct tr_heads_how){HEADS, GROUPS, WIDTH};
    numbers(&p, N, columns);
    weight = numbers(&p, N, columns);
    x = numbers(&p, N, columns);
    q_gain = numbers(&p, 1, WIDTH);
    k_gain = numbers(&p, 1, WIDTH);
    rstd = numbers(&p, N, HEADS + GROUPS);
    dx = numbers(&p, N, columns);
    dq_gain = numbers(&p, 1, WIDTH);
    dk_gain = numbers(&p, 1, WIDTH);
    p.loss = head_norm_loss;
    for (int i = 0; i < 2; i++) {
        p.norm = (struct tr_norm_how){.eps = 0.5f, .rms = true, .one = i == 1};
        set(dq_gain, 1.0f);
        set(dk_gain, -1.0f);
        p.loss(&p);
        b->head_norm_bwd(&p.q, dx, dq_gain, dk_gain, weight, x, q_gain, k_gain, rstd,
                         p.rotary.heads, p.norm);
        check(&p, "x of head_norm", x, dx, 0.0);
        check(&p, "gain of queries", q_gain, dq_gain, 1.0);
        check(&p, "gain of keys", k_gain, dk_gain, -1.0);
        memcpy(dx->data, weight->data, (size_t)tr_tensor_bytes(dx));
        p.loss(&p);
        b->head_norm_bwd(&p.q, dx, dq_gain, dk_gain, dx, x, q_gain, k_gain, rstd, p.rotary.heads,
                         p.norm);
        check(&p, "x of head_norm in place", x, dx, 0.0);
    }
    close_problem(&p);
}

/* ---- loss ---- */

/* loss, weight, logits, max, stats, labels */
static double xent_loss(struct problem *p)
{
    p->q.on->xent_max(&p->q, &p->t[3], &p->t[2], 8);
    p->q.on->xent_sum(&p->q, &p->t[4], &p->t[2], &p->t[3], &p->t[5], 100, 8);
    p->q.on->xent_loss(&p->q, &p->t[0], &p->t[4]);
    return dot(&p->t[0], &p->t[1]);
}

static void cross_entropy(const struct tr_backend *b)
{
    enum { N = 5, R = 10, VALID = 8 };
    static const int32_t wanted[N] = {100, 107, 103, 103, 105};
    struct problem p;
    struct tr_tensor *weight, *logits, *max, *stats, *labels, *dlogits;

    open_problem(&p, b);
    numbers(&p, 1, N);
    weight = numbers(&p, 1, N);
    logits = numbers(&p, N, R);
    max = numbers(&p, 1, N);
    stats = numbers(&p, 2, N);
    labels = indices(&p, N, wanted);
    dlogits = numbers(&p, N, R);
    p.loss = xent_loss;
    p.loss(&p);
    memcpy(dlogits->data, logits->data, (size_t)tr_tensor_bytes(logits));
    b->xent_bwd(&p.q, dlogits, max, stats, labels, weight, 100, VALID);
    check(&p, "logits", logits, dlogits, 0.0);
    for (int n = 0; n < N; n++)
        for (int r = VALID; r < R; r++)
            assert_true(tr_f32(dlogits)[n * R + r] == 0.0f);
    close_problem(&p);
}

static void on_every_backend(void (*test)(const struct tr_backend *b))
{
    for (int i = 0; tr_backends()[i]; i++)
        if (!tr_backends()[i]->apart)
            test(tr_backends()[i]);
}

#define TEST(name)                        \
    static void name##_test(void **state) \
    {                                     \
        (void)state;                      \
        on_every_backend(name);           \
    }
TEST(linear)
TEST(norm)
TEST(residual)
TEST(dropout)
TEST(embed)
TEST(attention)
TEST(rotary)
TEST(head_norm)
TEST(cross_entropy)
#undef TEST

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_test),        cmocka_unit_test(norm_test),
        cmocka_unit_test(rotary_test),        cmocka_unit_test(head_norm_test),
        cmocka_unit_test(residual_test),      cmocka_unit_test(dropout_test),
        cmocka_unit_test(embed_test),         cmocka_unit_test(attention_test),
        cmocka_unit_test(cross_entropy_test),
    };
    return run_tap(tests);
}
